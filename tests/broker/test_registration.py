"""Registration at nameservers, also after failed attempts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from orbitmq._native import Command, dumps_lenient, loads_lenient
from orbitmq.broker import registration as nameserver_look_up
from orbitmq.broker.app import Broker
from orbitmq.broker.queue_notices import QueueNotices
from orbitmq.broker.registration import Registrar, compressed_body, plain_body
from orbitmq.broker.state.clients import ConsumerClients
from orbitmq.broker.state.topics import TopicTable
from orbitmq.config import BrokerConfig, NameserverConfig
from orbitmq.nameserver import Nameserver
from orbitmq.nameserver.registration import decode_registration
from orbitmq.nameserver.routes import Routes
from orbitmq.protocol.bodies import DataVersion, TopicConfig
from orbitmq.protocol.codes import RequestCode
from orbitmq.testing import LocalCluster
from tests.address_server import AddressServer
from tests.broker.conftest import Wire
from tests.nameserver.calling import until

ATTEMPTS = 4


class OnAFullDisk(Registrar):
    """A registration whose results cannot be saved because the disk is full."""

    def __init__(self) -> None:
        config = BrokerConfig(namesrv_addr=None)
        notices = QueueNotices(ConsumerClients(), lambda _group, _topic: None)
        topics = TopicTable(config, lambda: 0)
        super().__init__(config, topics, lambda: "a:1", notices, any_host=False)
        self.attempts = 0
        self.went_on = asyncio.Event()

    async def register(self) -> None:
        self.attempts += 1
        if self.attempts == ATTEMPTS:
            self.went_on.set()
        raise OSError("no space left on device")


def test_registration_goes_on_after_a_failed_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    real_sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: real_sleep(0))

    async def go_on() -> None:
        registration = OnAFullDisk()
        await registration.start()
        registration.soon()
        await asyncio.wait_for(registration.went_on.wait(), 20)
        await registration.stop()

    asyncio.run(go_on())


class Answering:
    """Stands for the connections to nameservers: records requests and returns prepared answers."""

    def __init__(self, *, changed: str = "false", version: DataVersion | None = None) -> None:
        self.changed = changed
        self.version = version
        self.asked: list[int] = []
        self.asked_often = asyncio.Event()

    async def invoke(self, _address: str, code: int, **_more: Any) -> Command:
        self.asked.append(code)
        if len(self.asked) == ATTEMPTS:
            self.asked_often.set()
        if code != RequestCode.QUERY_DATA_VERSION:
            return Command(0, flag=1)
        body = None if self.version is None else dumps_lenient(self.version.as_json())
        return Command(0, flag=1, ext={"changed": self.changed}, body=body)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("answering", "registers_again"),
    [
        (Answering(version=DataVersion()), False),
        (Answering(version=DataVersion(5, 5)), True),
        (Answering(changed="true", version=DataVersion()), True),
        (Answering(changed="true"), True),
    ],
)
def test_unforced_registration_sends_only_what_changed(
    monkeypatch: pytest.MonkeyPatch, answering: Answering, registers_again: bool
) -> None:
    real_sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: real_sleep(0))
    config = BrokerConfig(namesrv_addr="127.0.0.1:1", force_register=False)
    notices = QueueNotices(ConsumerClients(), lambda _group, _topic: None)
    topics = TopicTable(config, lambda: 0)

    async def go_on() -> None:
        registration = Registrar(config, topics, lambda: "a:1", notices, any_host=False)
        monkeypatch.setattr(registration, "_client", answering)
        await registration.start()
        await asyncio.wait_for(answering.asked_often.wait(), 20)
        await registration.stop()

    asyncio.run(go_on())
    first, *later = answering.asked[:ATTEMPTS]
    assert first == RequestCode.REGISTER_BROKER
    assert RequestCode.QUERY_DATA_VERSION in later
    assert (RequestCode.REGISTER_BROKER in later) is registers_again


def test_a_compressed_registration_has_the_same_content() -> None:
    config = BrokerConfig()
    topics = TopicTable(config, lambda: 7)
    topics.put(TopicConfig("orders", 3, 5, perm=4))
    table = topics.as_json()
    plain = decode_registration(plain_body(table), version=407, compressed=False)
    small = decode_registration(compressed_body(table), version=407, compressed=True)
    assert small.version == plain.version == topics.version
    assert small.topics == plain.topics
    assert small.filter_servers == []
    assert len(compressed_body(table)) < len(plain_body(table)) / 2


def test_a_broker_registers_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []

    def recorded(table: dict[str, Any]) -> bytes:
        made.append(compressed_body(table))
        return made[-1]

    monkeypatch.setattr("orbitmq.broker.registration.compressed_body", recorded)
    with LocalCluster(settings={"compressedRegister": "true"}) as cluster:
        assert made
        wire = Wire(cluster.address)
        answer = wire.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})
        wire.close()
        (queues,) = loads_lenient(answer.body)["queueDatas"]
        assert queues["brokerName"] == "broker-a"


def test_an_address_server_names_the_nameservers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(nameserver_look_up, "LOOK_AGAIN_S", 0.02)
    monkeypatch.setattr(nameserver_look_up, "LOOK_AGAIN_SOON_S", 0.02)
    address_server = AddressServer()
    address_server.status = 404
    config = BrokerConfig(namesrv_addr=None, store_path_root_dir=str(tmp_path / "store"))
    config.take(
        {
            "fetchNamesrvAddrByAddressServer": "true",
            "rmqAddressServerDomain": address_server.domain,
            "rmqAddressServerSubGroup": "mine",
            "mappedFileSizeCommitLog": str(1 << 20),
            "brokerIP1": "127.0.0.1",
            "listenPort": "0",
        }
    )

    async def run() -> None:
        found = []
        for name in ("one", "two"):
            files = tmp_path / name
            own = NameserverConfig(
                listen_port=0,
                kv_config_path=str(files / "kv"),
                config_store_path=str(files / "conf"),
            )
            found.append(Nameserver(own, hosts=("127.0.0.1",)))
            await found[-1].start()
        broker = Broker(config, hosts=("127.0.0.1",))
        await broker.start()
        assert "it answers 404" in caplog.text
        assert "Check rmqAddressServerDomain" in caplog.text
        try:
            address_server.status = 200
            for nameserver in found:  # The list changes, and the broker uses the new one.
                address_server.text = nameserver.address

                async def registered(routes: Routes = nameserver.routes) -> bool:
                    return routes.route("TBW102") is not None

                await until(registered, "the registration")
        finally:
            await broker.stop()
            for nameserver in found:
                await nameserver.stop()

    try:
        asyncio.run(run())
    finally:
        address_server.close()
    assert set(address_server.paths) == {"/rocketmq/mine"}
