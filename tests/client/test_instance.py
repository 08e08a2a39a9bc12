"""A client instance: heartbeats, timers, requests from brokers, and both drivers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from orbitmq._native import Command
from orbitmq.client import background
from orbitmq.client.instance import ClientInstance
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import ClientError, ConnectionLost
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.remoting.client import RemotingClient
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Router, respond
from orbitmq.remoting.server import Server
from orbitmq.rpc.drivers import run_async as awaiting
from orbitmq.rpc.drivers import run_sync as blocking
from orbitmq.rpc.flow import Call, Flow, Notify, Pause
from orbitmq.testing import LocalCluster
from tests.client.test_routes import route_body


class Broker:
    """Answers every request and records it."""

    def __init__(self) -> None:
        self.seen: list[Command] = []
        self.came = asyncio.Condition()
        self.connections: list[Connection] = []
        self.address = ""

    async def answer(self, request: Command, connection: Connection) -> Command:
        self.connections.append(connection)
        async with self.came:
            self.seen.append(request)
            self.came.notify_all()
        return respond(request)

    async def wait_for(self, code: int, count: int = 1) -> list[Command]:
        def enough() -> bool:
            return len(self.of(code)) >= count

        async with asyncio.timeout(30), self.came:
            await self.came.wait_for(enough)
        return self.of(code)

    def of(self, code: int) -> list[Command]:
        return [request for request in self.seen if request.code == code]


@contextlib.asynccontextmanager
async def broker() -> AsyncIterator[Broker]:
    broker = Broker()
    server = Server(Router(fallback=broker.answer))
    broker.address = f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"
    yield broker
    await server.close()


def route_to(address: str) -> bytes:
    return route_body("a").replace(b"a0:10911", address.encode())


def instance(**settings: Any) -> ClientInstance:
    return ClientInstance(ClientSettings.of("127.0.0.1:1", **settings))


def test_a_heartbeat_is_sent_when_a_new_broker_appears() -> None:
    async def run() -> None:
        async with broker() as peer:
            client = instance()
            client.add_producer("p")
            client.add_consumer("c", lambda: {"groupName": "c", "messageModel": "CLUSTERING"})
            await client.start()
            client.routes.apply("T", route_to(peer.address))
            [beat] = await peer.wait_for(RequestCode.HEART_BEAT)
            assert json.loads(beat.body) == {
                "clientID": client.client_id,
                "consumerDataSet": [{"groupName": "c", "messageModel": "CLUSTERING"}],
                "producerDataSet": [{"groupName": "p"}],
            }
            await client.heartbeat()
            assert client.broker_versions == {peer.address: 407}
            await client.stop()
            goodbyes = [request.ext for request in peer.of(RequestCode.UNREGISTER_CLIENT)]
            assert goodbyes == [
                {"clientID": client.client_id, "producerGroup": "p"},
                {"clientID": client.client_id, "consumerGroup": "c"},
            ]
            assert not client.is_running

    asyncio.run(run())


def test_a_group_can_join_a_client_only_once() -> None:
    async def run() -> None:
        client = instance()
        client.add_producer("g")
        client.add_consumer("g", dict)
        with pytest.raises(ClientError, match="already"):
            client.add_producer("g")
        with pytest.raises(ClientError, match="already"):
            client.add_consumer("g", dict)
        client.remove_producer("g")
        client.remove_consumer("g")
        client.add_producer("g")
        await client.network.close()

    asyncio.run(run())


def test_two_clients_with_one_id_cannot_share_a_group() -> None:
    async def run() -> None:
        first, second = instance(instance_name="one"), instance(instance_name="one")
        assert first.client_id == second.client_id
        first.add_consumer("g", dict)
        first.add_producer("g")
        with pytest.raises(ClientError, match="another instance_name"):
            second.add_consumer("g", dict)
        with pytest.raises(ClientError, match="another instance_name"):
            second.add_producer("g")
        second.add_consumer("h", dict)
        instance(instance_name="other").add_consumer("g", dict)
        await first.stop()
        second.add_consumer("g", dict)
        await second.stop()
        # A client that was never stopped blocks none once it is collected.
        lost = instance(instance_name="one")
        lost.add_consumer("g", dict)
        await lost.network.close()
        del lost
        gc.collect()
        third = instance(instance_name="one")
        third.add_consumer("g", dict)
        await third.stop()

    asyncio.run(run())


def test_changed_members_trigger_a_rebalance() -> None:
    async def run() -> None:
        async with broker() as peer:
            woken = asyncio.Event()
            client = instance()
            client.add_consumer("c", dict, woken.set)
            await client.start()
            client.routes.apply("T", route_to(peer.address))
            await peer.wait_for(RequestCode.HEART_BEAT)
            ext = {"consumerGroup": "c"}
            peer.connections[0].notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext=ext)
            async with asyncio.timeout(30):
                await woken.wait()
            await client.stop()

    asyncio.run(run())


def test_an_unreachable_broker_does_not_delay_the_stop() -> None:
    async def run() -> None:
        client = instance()
        client.add_producer("p")
        await client.start()
        client.routes.apply("T", route_to("127.0.0.1:1"))
        await client.heartbeat()
        assert client.broker_versions == {}
        async with asyncio.timeout(10):
            await client.stop()

    asyncio.run(run())


def test_timers_survive_errors_and_can_run_early() -> None:
    async def run() -> None:
        client = instance()
        await client.start()
        turns: asyncio.Queue[int] = asyncio.Queue()

        async def work() -> None:
            turns.put_nowait(1)
            raise ZeroDivisionError("the first time and every other")

        timer = client.every(3600, work, first_s=0)
        async with asyncio.timeout(30):
            await turns.get()
            timer.soon()
            await turns.get()
        timer.cancel()
        await client.stop()

    asyncio.run(run())


def test_routes_are_refreshed_while_they_are_watched() -> None:
    with LocalCluster() as cluster:

        async def run() -> None:
            client = ClientInstance(ClientSettings.of(cluster.address, route_refresh_s=0.01))
            found = asyncio.Event()
            await client.start()
            client.routes.on_new_brokers = found.set
            client.routes.watch("TBW102")
            async with asyncio.timeout(30):
                await found.wait()
            assert client.routes.publish_queues("TBW102")
            await client.stop()

        asyncio.run(run())


def test_early_route_refreshes_are_limited_to_one_a_second() -> None:
    async def run() -> None:
        async with broker() as peer:
            client = ClientInstance(ClientSettings.of(peer.address))
            client.routes.watch("T")
            client.refresh_routes_soon()  # Not running yet.
            await client.start()
            began = time.monotonic()
            for _ in range(100):
                await asyncio.to_thread(client.refresh_routes_soon)
            await peer.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC)
            seconds = int(time.monotonic() - began)
            assert len(peer.of(RequestCode.GET_ROUTEINFO_BY_TOPIC)) <= 1 + seconds
            await client.stop()

    asyncio.run(run())


# ---- The two drivers


def conversation(address: str, log: list[object]) -> Flow[str]:
    """Make one request of each kind and record the results."""
    try:
        log.append((yield Notify(address, 8, remark="by the way")))
        response = yield Call(address, 7, {"a": "b"}, b"body", 2000)
        log.append((response.code, response.ext, response.body))
        log.append((yield Pause(1)))
        try:
            yield Call("127.0.0.1:1", 9, timeout_ms=500)
        except ConnectionLost:
            log.append("lost")
        return "done"
    finally:
        log.append("closed")


def test_both_drivers_perform_a_flow_alike() -> None:
    logs: list[list[object]] = [[], []]
    remarks: list[str | None] = []

    async def run() -> None:
        def answer(request: Command, _connection: Connection) -> Command:
            remarks.append(request.remark)
            return respond(request, 3, body=request.body)

        server = Server(Router(fallback=answer))
        address = f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"
        network = RemotingClient()
        assert await awaiting.perform(conversation(address, logs[0]), network) == "done"
        await network.close()
        sync = BlockingNetwork()
        done = await asyncio.to_thread(blocking.perform, conversation(address, logs[1]), sync)
        assert done == "done"
        sync.close()
        await server.close()

    asyncio.run(run())
    assert logs[0] == logs[1] == [None, (3, None, b"body"), None, "lost", "closed"]
    assert remarks == ["by the way", None] * 2


def test_a_cancelled_caller_closes_the_flow() -> None:
    log: list[object] = []

    def wait() -> Flow[None]:
        try:
            yield Pause(60_000)
        finally:
            log.append("closed")

    async def run() -> None:
        task = asyncio.create_task(awaiting.perform(wait(), RemotingClient()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert log == ["closed"]


# ---- The background thread


def test_a_blocking_call_on_the_background_thread_is_refused() -> None:
    async def nothing() -> int:
        return 1

    async def wait_for_oneself() -> None:
        background.run(nothing())

    assert background.run(nothing()) == 1
    with pytest.raises(ClientError, match="would wait for itself"):
        background.run(wait_for_oneself())
