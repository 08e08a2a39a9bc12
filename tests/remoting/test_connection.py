"""Requests and responses over real sockets on loopback."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from orbitmq._native import Command
from orbitmq.errors import ConnectionLost, RequestTimeout
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.flags import CommandFlag
from orbitmq.remoting.address import split_address
from orbitmq.remoting.client import RemotingClient
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.fair_turns import FairTurns
from orbitmq.remoting.limits import ServerLimits
from orbitmq.remoting.rare_log import RareLog
from orbitmq.remoting.router import Answer, Refused, Router, awaits_peer, respond
from orbitmq.remoting.server import Server

ECHO, LATER, NEVER, REFUSE, BREAK, CALL_BACK, FLOOD, SLOW = range(1, 9)


class Peer:
    """A server with one handler of each kind."""

    def __init__(self) -> None:
        self.router = Router()
        self.seen: list[Command] = []
        self.gate = asyncio.Event()
        for code, handler in {
            ECHO: self.echo,
            LATER: self.later,
            NEVER: self.never,
            REFUSE: self.refuse,
            BREAK: self.broken,
            CALL_BACK: self.call_back,
            FLOOD: self.flood,
        }.items():
            self.router.add(handler, [code])

    def echo(self, request: Command, _connection: Connection) -> Answer:
        self.seen.append(request)
        return respond(request, ext=request.ext, body=request.body)

    async def later(self, request: Command, _connection: Connection) -> Command:
        await self.gate.wait()
        return respond(request, body=b"later")

    def never(self, request: Command, _connection: Connection) -> None:
        self.seen.append(request)

    def refuse(self, _request: Command, _connection: Connection) -> Answer:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, "no such topic", {"MSG_REGION": "r"})

    def broken(self, _request: Command, _connection: Connection) -> Answer:
        raise ZeroDivisionError("boom")

    async def call_back(self, request: Command, connection: Connection) -> Command:
        answer = await connection.invoke(ECHO, body=b"are you there?")
        return respond(request, body=answer.body)

    def flood(self, request: Command, _connection: Connection) -> Answer:
        return respond(request, body=bytes(1 << 20))


@asynccontextmanager
async def serving(max_idle_s: float = 120) -> AsyncIterator[tuple[Peer, Server, str]]:
    peer = Peer()
    server = Server(peer.router, max_idle_s=max_idle_s)
    port = await server.listen("127.0.0.1", 0)
    try:
        yield peer, server, f"127.0.0.1:{port}"
    finally:
        await server.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test on asyncio's standard loop and on the loop the programs use."""
    for new_loop in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(asyncio.wait_for(test(), 20))


async def until(true: Callable[[], bool]) -> None:
    """Let the loop run until a condition is true; `run` sets the deadline."""
    while not true():  # noqa: ASYNC110 - there is no event for the state of a connection
        await asyncio.sleep(0.001)


def test_many_requests_in_flight_get_their_own_answers() -> None:
    async def test() -> None:
        async with serving() as (peer, _, address):
            client = RemotingClient()
            slow = asyncio.create_task(client.invoke(address, LATER))
            answers = await asyncio.gather(
                *(client.invoke(address, ECHO, body=str(i).encode()) for i in range(500))
            )
            assert [answer.body for answer in answers] == [str(i).encode() for i in range(500)]
            assert not slow.done()
            peer.gate.set()
            assert (await slow).body == b"later"
            await client.close()

    run(test)


def test_refusals_failures_and_unknown_codes_are_answered() -> None:
    async def test() -> None:
        async with serving() as (_, _, address):
            client = RemotingClient()
            refused = await client.invoke(address, REFUSE)
            assert (refused.code, refused.remark) == (17, "no such topic")
            assert refused.ext == {"MSG_REGION": "r"}
            broken = await client.invoke(address, BREAK)
            assert (broken.code, broken.remark) == (1, "ZeroDivisionError: boom")
            unknown = await client.invoke(address, 9999)
            assert (unknown.code, unknown.remark) == (3, " request type 9999 not supported")
            await client.close()

    run(test)


def test_the_server_can_send_requests_to_the_client() -> None:
    async def test() -> None:
        async with serving() as (_, _, address):
            client = RemotingClient(Peer().router)
            assert (await client.invoke(address, CALL_BACK)).body == b"are you there?"
            await client.close()

    run(test)


def test_a_oneway_request_is_handled_and_not_answered() -> None:
    async def test() -> None:
        async with serving() as (peer, _, address):
            client = RemotingClient()
            await client.notify(address, ECHO, body=b"one way")
            await client.invoke(address, ECHO)
            assert [request.is_oneway for request in peer.seen] == [True, False]
            await client.close()

    run(test)


def test_a_request_times_out_and_fails_at_once_when_the_connection_is_lost() -> None:
    async def test() -> None:
        async with serving() as (_, server, address):
            client = RemotingClient()
            with pytest.raises(RequestTimeout, match="did not answer request 3 within 50 ms"):
                await client.invoke(address, NEVER, timeout_ms=50)
            waiting = asyncio.create_task(client.invoke(address, NEVER, timeout_ms=15_000))
            await client.invoke(address, ECHO)
            for connection in list(server.connections):
                connection.abort()
            with pytest.raises(ConnectionLost):
                await waiting
            assert (await client.invoke(address, ECHO, body=b"again")).body == b"again"
            await client.close()

    run(test)


def test_a_refused_connection_is_an_error_with_the_address() -> None:
    async def test() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            with pytest.raises(ConnectionLost, match=f"cannot connect to 127.0.0.1:{port}"):
                await RemotingClient().invoke(f"127.0.0.1:{port}", ECHO)

    run(test)


def test_garbage_closes_only_its_own_connection() -> None:
    async def test() -> None:
        async with serving() as (_, _, address):
            client = RemotingClient()
            await client.invoke(address, ECHO)
            reader, writer = await asyncio.open_connection(*split_address(address))
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await reader.read() == b""
            writer.close()
            assert (await client.invoke(address, ECHO, body=b"fine")).body == b"fine"
            await client.close()

    run(test)


def test_a_frame_may_arrive_byte_by_byte() -> None:
    async def test() -> None:
        async with serving() as (_, _, address):
            frame = Command(ECHO, opaque=7, body=b"slowly").encode()
            reader, writer = await asyncio.open_connection(*split_address(address))
            for byte in frame:
                writer.write(bytes([byte]))
                await writer.drain()
            head = await reader.readexactly(4)
            assert b"slowly" in await reader.readexactly(int.from_bytes(head, "big"))
            writer.close()

    run(test)


def test_a_peer_that_does_not_read_is_not_served_until_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        paused = asyncio.Event()
        pause = Connection.pause_writing

        def pause_and_tell(connection: Connection) -> None:
            pause(connection)
            paused.set()

        monkeypatch.setattr(Connection, "pause_writing", pause_and_tell)
        async with serving() as (_, server, address):
            reader, writer = await asyncio.open_connection(*split_address(address), limit=1 << 14)
            writer.write(Command(FLOOD).encode() * 200)
            await paused.wait()
            (connection,) = server.connections
            transport = connection._transport
            assert transport is not None
            # 200 MiB were requested in one read.
            assert transport.get_write_buffer_size() < 4 << 20
            received = 0
            while received < 200 << 20:
                received += len(await reader.read(1 << 20))
            writer.close()

    run(test)


def test_an_idle_connection_is_closed() -> None:
    async def test() -> None:
        async with serving(max_idle_s=0.1) as (_, _, address):
            reader, writer = await asyncio.open_connection(*split_address(address))
            assert await reader.read() == b""
            writer.close()

    run(test)


def test_an_idle_connection_is_closed_when_its_peer_does_not_read() -> None:
    async def test() -> None:
        async with serving(max_idle_s=0.1) as (_, server, address):
            _, writer = await asyncio.open_connection(*split_address(address), limit=1 << 14)
            writer.write(Command(FLOOD).encode() * 50)
            await until(lambda: bool(server.connections))
            await until(lambda: not server.connections)
            writer.close()

    run(test)


def test_notifications_to_a_peer_that_does_not_read_are_dropped() -> None:
    async def test() -> None:
        async with serving() as (_, server, address):
            _, writer = await asyncio.open_connection(*split_address(address), limit=1 << 14)
            writer.write(Command(FLOOD).encode() * 50)
            await until(lambda: any(one._write_paused for one in server.connections))
            (connection,) = server.connections
            transport = connection._transport
            assert transport is not None
            before = transport.get_write_buffer_size()
            for _ in range(1000):
                connection.notify(ECHO, body=bytes(1000))
            await asyncio.sleep(0)
            assert transport.get_write_buffer_size() <= before
            writer.close()

    run(test)


def test_requests_beyond_the_limit_in_work_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orbitmq.remoting.in_work.MAX_REQUESTS", 3)

    async def test() -> None:
        async with serving() as (peer, server, address):
            client = RemotingClient()
            later = [asyncio.create_task(client.invoke(address, LATER)) for _ in range(10)]
            echo = asyncio.create_task(client.invoke(address, ECHO))
            await until(lambda: any(one._inbox for one in server.connections))
            (connection,) = server.connections
            assert len(connection._in_work.requests) == 3
            assert peer.seen == []
            peer.gate.set()
            assert {(await task).body for task in later} == {b"later"}
            await echo
            # The connection is read again.
            assert (await client.invoke(address, ECHO, body=b"again")).body == b"again"
            await client.close()

    run(test)


@pytest.mark.parametrize("text", ["", "host", "host:", ":80", "host:x"])
def test_addresses_without_host_or_port_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        split_address(text)


def test_addresses_are_split_into_host_and_port() -> None:
    assert split_address("localhost:9876") == ("localhost", 9876)
    assert split_address("[::1]:9876") == ("::1", 9876)


def test_peers_that_both_send_much_do_not_block_each_other() -> None:
    async def test() -> None:
        async with serving() as (_, _, address):
            client = RemotingClient()
            connection = await client.connection(address)
            body = bytes(64 << 10)
            answers = []
            for _ in range(1000):
                opaque = connection.next_opaque()
                frame = Command(ECHO, opaque=opaque, body=body).encode()
                answers.append(connection.request(frame, opaque, 20_000))
            for answer in await asyncio.gather(*answers):
                assert len(answer.body) == len(body)
            await client.close()

    run(test)


def test_a_peer_that_sent_many_requests_does_not_delay_others() -> None:
    async def test() -> None:
        async with serving() as (peer, _, address):
            order: list[str] = []

            def slow(request: Command, _connection: Connection) -> Answer:
                time.sleep(0.001)
                order.append(request.body.decode())
                return respond(request)

            peer.router.add(slow, [SLOW])
            client = RemotingClient()
            await client.invoke(address, ECHO)
            _, writer = await asyncio.open_connection(*split_address(address))
            writer.write(Command(SLOW, body=b"flood").encode() * 300)
            await until(lambda: bool(order))
            await client.invoke(address, SLOW, body=b"polite")
            assert len(order) < 200
            await until(lambda: len(order) == 301)
            assert order.count("flood") == 300
            writer.close()
            await client.close()

    run(test)


def test_requests_sent_before_the_close_are_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.remoting.in_work.MAX_REQUESTS", 1)

    async def test() -> None:
        closed: list[Connection] = []
        peer = Peer()
        server = Server(peer.router, on_close=closed.append)
        port = await server.listen("127.0.0.1", 0)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        oneway = Command(NEVER, flag=CommandFlag.ONEWAY).encode()
        writer.write(Command(LATER).encode() + oneway * 1000)
        await until(lambda: any(one._inbox for one in server.connections))
        (connection,) = server.connections
        connection.abort()  # As after an answer that cannot be written.
        await until(lambda: bool(closed))
        assert len(peer.seen) == 1000, "handled before the connection counts as closed"
        assert not server.connections
        writer.close()
        await server.close()

    run(test)


def test_answers_are_read_when_many_requests_are_in_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orbitmq.remoting.in_work.MAX_REQUESTS", 2)

    async def test() -> None:
        async with serving() as (_, _, address):
            client = RemotingClient(Peer().router)
            answers = await asyncio.gather(
                *(client.invoke(address, CALL_BACK, timeout_ms=15_000) for _ in range(20))
            )
            assert {answer.body for answer in answers} == {b"are you there?"}
            await client.close()

    run(test)


def test_requests_that_wait_for_other_peers_do_not_block_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orbitmq.remoting.in_work.MAX_REQUESTS", 1)

    async def test() -> None:
        async with serving() as (peer, server, address):
            peer.router.add(awaits_peer(peer.later), [SLOW])
            client = RemotingClient()
            waiting = [asyncio.create_task(client.invoke(address, SLOW)) for _ in range(100)]
            await until(lambda: any(one._in_work.waits_for_peers for one in server.connections))
            assert (await client.invoke(address, ECHO, body=b"next")).body == b"next"
            assert not any(task.done() for task in waiting)
            peer.gate.set()
            await asyncio.gather(*waiting)
            await client.close()

    run(test)


def test_requests_are_refused_when_too_many_bytes_are_in_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orbitmq.remoting.limits.IN_WORK_BYTES", 600_000)

    async def test() -> None:
        async with serving() as (peer, _, address):
            client = RemotingClient()
            kept = asyncio.create_task(client.invoke(address, LATER, body=bytes(500_000)))
            await client.invoke(address, ECHO)
            refused = await client.invoke(address, LATER, body=bytes(500_000))
            assert refused.code == ResponseCode.SYSTEM_BUSY
            assert "in work" in str(refused.remark)
            peer.gate.set()
            assert (await kept).body == b"later"
            assert (await client.invoke(address, LATER, body=bytes(500_000))).body == b"later"
            await client.close()

    run(test)


def test_reading_pauses_while_too_many_bytes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.remoting.limits.UNCUT_BYTES", 100_000)
    # A connection handles one request per read here, so most of what it read waits.
    monkeypatch.setattr(FairTurns, "share", lambda _turns: 0.0)

    async def test() -> None:
        async with serving() as (peer, server, address):
            client = RemotingClient()
            await client.invoke(address, ECHO)
            was_full = False
            note_uncut = ServerLimits.note_uncut

            def noted(limits: ServerLimits, grown_bytes: int) -> None:
                nonlocal was_full
                note_uncut(limits, grown_bytes)
                was_full = was_full or limits.is_full

            monkeypatch.setattr(ServerLimits, "note_uncut", noted)
            request = Command(ECHO, flag=CommandFlag.ONEWAY, body=bytes(500)).encode()
            writers = []
            for _ in range(4):
                _, writer = await asyncio.open_connection(*split_address(address))
                writer.write(request * 2000)
                writers.append(writer)
            await until(lambda: len(peer.seen) == 8001)
            assert was_full
            assert server._limits.uncut_bytes == 0
            assert not server._limits.is_full
            assert (await client.invoke(address, ECHO, body=b"fine")).body == b"fine"
            for writer in writers:
                writer.close()
            await client.close()

    run(test)


def test_a_failed_oneway_request_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        monkeypatch.setattr("orbitmq.remoting.connection._unheard", RareLog(logging.getLogger()))
        caplog.clear()
        async with serving() as (_, _, address):
            client = RemotingClient()
            await client.notify(address, REFUSE)
            await client.invoke(address, ECHO)
            assert "one-way request 4 of 127.0.0.1" in caplog.text
            assert "no such topic" in caplog.text
            await client.close()

    run(test)


def test_oneway_requests_wait_for_a_slow_peer() -> None:
    async def test() -> None:
        async with serving() as (peer, _, address):
            client = RemotingClient()
            body = bytes(100_000)
            for _ in range(200):  # 20 MB, faster than they are read.
                await client.notify(address, NEVER, body=body)
            await until(lambda: len(peer.seen) == 200)
            await client.close()

    run(test)
