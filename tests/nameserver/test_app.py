"""A running nameserver: removal of brokers, and the addresses that clients get."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from orbitmq._native import loads_lenient
from orbitmq.config import NameserverConfig
from orbitmq.nameserver import Nameserver
from orbitmq.nameserver.answers import seen_from
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Router
from tests.nameserver.calling import Caller, broker, run, running, until


def addresses(route: dict[str, list[dict[str, dict[str, str]]]]) -> dict[str, str]:
    return route["brokerDatas"][0]["brokerAddrs"]


async def until_gone(caller: Caller, topic: str) -> None:
    async def gone() -> bool:
        return bool(await caller.route(topic) == 17)

    await until(gone, f"{topic} gone")


def test_a_broker_is_removed_when_its_connection_closes(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as cluster:
            client, master, slave = [await cluster.caller() for _ in range(3)]
            await master.register()
            await slave.register(address="10.0.0.2:10911", broker_id=1)
            await master.close()

            async def slave_only() -> bool:
                return addresses(await client.route("T1")) == {"1": "10.0.0.2:10911"}

            await until(slave_only, "the master gone")
            await slave.close()
            await until_gone(client, "T1")

    run(test)


def test_closing_an_older_connection_keeps_the_broker(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as cluster:
            client, old, new = [await cluster.caller() for _ in range(3)]
            await old.register()
            await new.register()
            await old.close()
            # The close has been noticed when the server has two connections left.
            server = cluster.nameserver._server
            assert server is not None

            async def seen() -> bool:
                return len(server.connections) == 2

            await until(seen, "the old connection's end")
            assert addresses(await client.route("T1")) == {"0": "10.0.0.1:10911"}

    run(test)


def test_a_silent_broker_expires_and_its_connection_is_closed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as cluster:
            client, silent, asking = [await cluster.caller() for _ in range(3)]
            await silent.register()
            await asking.register("broker-b", address="10.0.0.3:10911")
            cluster.clock.now_ms += 100_000
            same = b'{"counter":1,"timestamp":7}'
            await asking.ask(322, same, **broker("broker-b", address="10.0.0.3:10911"))
            cluster.clock.now_ms += 20_001
            cluster.nameserver.expire_brokers()
            assert addresses(await client.route("T1")) == {"0": "10.0.0.3:10911"}
            assert await silent.at_end()

    run(test)


def test_the_expiry_scan_runs_periodically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.nameserver.app.FIRST_SCAN_S", 0.01)
    monkeypatch.setattr("orbitmq.nameserver.app.SCAN_INTERVAL_S", 0.01)

    async def test() -> None:
        async with running(tmp_path) as cluster:
            client, silent = await cluster.caller(), await cluster.caller()
            await silent.register()
            cluster.clock.now_ms += 120_001
            await until_gone(client, "T1")

    run(test)


def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, server_channel_max_idle_time_seconds=1) as cluster:
            idle, busy = await cluster.caller(), await cluster.caller()
            await idle.register()
            ended = asyncio.create_task(idle.at_end())

            async def forgotten() -> bool:
                return bool(await busy.route("T1") == 17)

            await until(forgotten, "the idle broker is gone", pause_s=0.1)
            assert await ended

    run(test)


def test_each_client_gets_the_host_it_connected_to(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, hosts=("127.0.0.1", "127.0.0.2")) as cluster:
            one, two = await cluster.caller(), await cluster.caller("127.0.0.2")
            await one.register(address="172.17.0.2:10911", orbitAnyHost="true")
            await two.register("broker-b", address="172.17.0.2:20911", topics={})
            assert addresses(await one.route("T1")) == {"0": "127.0.0.1:10911"}
            assert addresses(await two.route("T1")) == {"0": "127.0.0.2:10911"}
            table = loads_lenient((await two.ask(106)).body)["brokerAddrTable"]
            assert table["broker-a"]["brokerAddrs"] == {0: "127.0.0.2:10911"}
            assert table["broker-b"]["brokerAddrs"] == {0: "172.17.0.2:20911"}
            assert loads_lenient((await two.ask(304)).body)["brokerAddr"] == "127.0.0.2:10911"
            # A slave on another host gets the address of its master the same way.
            slave = await two.register(address="10.0.0.9:10911", broker_id=1)
            assert slave.ext == {"masterAddr": "127.0.0.2:10911", "haServerAddr": "127.0.0.2:10912"}
            # The registered address stays the internal key.
            await one.ask(104, **broker(address="172.17.0.2:10911"))
            assert addresses(await one.route("T1")) == {"1": "10.0.0.9:10911"}

    run(test)


class _Peer(Connection):
    def __init__(self, remote: str, local: str) -> None:
        super().__init__(Router())
        self.remote, self.local = (remote, 1), (local, 2)


@pytest.mark.parametrize(
    ("local", "given"),
    [
        ("10.1.1.1", "10.1.1.1:5"),
        ("::ffff:10.1.1.1", "10.1.1.1:5"),
        ("fd00::1", "[fd00::1]:5"),
        ("", "172.17.0.2:5"),
    ],
)
def test_addresses_are_translated_to_hosts_clients_can_reach(local: str, given: str) -> None:
    async def test() -> None:
        translate = seen_from(_Peer("10.9.9.9", local), lambda _: True)
        assert translate("172.17.0.2:5") == given

    run(test)


def test_the_address_of_a_remote_broker_is_that_of_its_connection(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as cluster:
            caller = await cluster.caller()
            # As if the registration had come from another machine.
            server = cluster.nameserver._server
            assert server is not None
            await caller.ask(206)
            (connection,) = server.connections
            connection.remote = ("10.0.0.1", 40_000)
            await caller.register(orbitAnyHost="true")
            assert addresses(await caller.route("T1")) == {"0": "10.0.0.1:10911"}

    run(test)


def test_a_nameserver_without_hosts_only_provides_handlers(tmp_path: Path) -> None:
    async def test() -> None:
        nameserver = Nameserver(
            NameserverConfig(kv_config_path=str(tmp_path / "kv.json")), hosts=()
        )
        await nameserver.start()
        router = Router()
        router.merge(nameserver.router)
        assert router.find(105) == nameserver.router.find(105)
        await nameserver.stop()

    run(test)


def test_a_port_in_use_is_an_error_that_leaves_no_socket_open(tmp_path: Path) -> None:
    async def test() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.2", 0))
            taken.listen()
            port = taken.getsockname()[1]
            config = NameserverConfig(listen_port=port, kv_config_path=str(tmp_path / "kv.json"))
            nameserver = Nameserver(config, hosts=("127.0.0.1", "127.0.0.2"))
            with pytest.raises(OSError, match="in use"):
                await nameserver.start()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            await nameserver.stop()

    run(test)


def test_the_address_of_a_nameserver_can_be_used_by_clients() -> None:
    def address(*hosts: str) -> str:
        return Nameserver(NameserverConfig(listen_port=9), hosts=hosts).address

    assert address("127.0.0.1") == "127.0.0.1:9"
    assert address("::1") == "[::1]:9"
    assert not address("0.0.0.0").startswith("0.0.0.0")
