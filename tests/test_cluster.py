"""Several nameservers and brokers in one cluster: any of them may go and come back."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator

import pytest

from orbitmq._native import loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Encoding, Wire

Connect = Callable[[str], Wire]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, nameservers=3) as running:
        yield running


@pytest.fixture(params=["json", "binary"])
def connect(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Connect to an address; connections end with the test."""
    encoding: Encoding = request.param
    made: list[Wire] = []

    def make(address: str) -> Wire:
        made.append(Wire(address, encoding))
        return made[-1]

    yield make
    for wire in made:
        wire.close()


def nameserver(cluster: LocalCluster, index: int) -> str:
    return cluster.address.split(";")[index]


def brokers_of(wire: Wire, topic: str) -> dict[str, str]:
    """Who serves a topic, by the word of one nameserver: master addresses by broker name."""
    answer = wire.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return {}
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    route = loads_lenient(answer.body)
    return {data["brokerName"]: data["brokerAddrs"]["0"] for data in route["brokerDatas"]}


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, what
        select.select([], [], [], 0.005)  # the other side of a socket gives no sign


def until_known(wire: Wire, topic: str) -> None:
    until(lambda: bool(brokers_of(wire, topic)), f"{topic} is not known")


def test_brokers_register_with_all(cluster: LocalCluster, connect: Connect) -> None:
    names = {name: broker.config.address for name, broker in cluster.brokers.items()}
    for index in range(3):
        assert brokers_of(connect(nameserver(cluster, index)), "TBW102") == names


def test_a_new_topic_is_known_everywhere(cluster: LocalCluster, connect: Connect) -> None:
    broker = cluster.brokers["broker-a"]
    assert connect(broker.config.address).send("made").code == ResponseCode.SUCCESS
    for index in range(3):
        wire = connect(nameserver(cluster, index))
        until_known(wire, "made")
        assert brokers_of(wire, "made") == {"broker-a": broker.config.address}


def test_one_nameserver_goes_and_comes_back(cluster: LocalCluster, connect: Connect) -> None:
    names = {name: broker.config.address for name, broker in cluster.brokers.items()}
    cluster.stop_nameserver(0)
    with pytest.raises(ConnectionRefusedError):
        connect(nameserver(cluster, 0))
    producer = connect(names["broker-a"])
    assert producer.send("during").code == ResponseCode.SUCCESS
    for index in (1, 2):
        wire = connect(nameserver(cluster, index))
        until_known(wire, "during")
        assert brokers_of(wire, "TBW102") == names
    cluster.start_nameserver(0)
    back = connect(nameserver(cluster, 0))
    # Each broker registers again when a topic changes, or its period is over.
    for address in names.values():
        assert connect(address).send("after").code == ResponseCode.SUCCESS
    until(lambda: brokers_of(back, "after") == names, "the brokers have not come back to it")
    assert brokers_of(back, "during") == {"broker-a": names["broker-a"]}


def test_brokers_come_back_by_themselves(cluster: LocalCluster, connect: Connect) -> None:
    cluster.stop_nameserver(1)
    cluster.start_nameserver(1)
    back = connect(nameserver(cluster, 1))
    assert brokers_of(back, "TBW102") == {}
    for broker in cluster.brokers.values():  # what comes around every half a minute
        cluster.run(broker.registration.register())
    assert brokers_of(back, "TBW102").keys() == cluster.brokers.keys()


def test_a_broker_joins_while_a_nameserver_is_away(cluster: LocalCluster, connect: Connect) -> None:
    cluster.stop_nameserver(2)
    cluster.start_broker("broker-c")
    address = cluster.brokers["broker-c"].config.address
    for index in (0, 1):
        assert brokers_of(connect(nameserver(cluster, index)), "TBW102")["broker-c"] == address
    cluster.stop_broker("broker-c")
    for index in (0, 1):
        assert "broker-c" not in brokers_of(connect(nameserver(cluster, index)), "TBW102")


def test_a_broker_comes_back_with_its_address_and_its_messages(
    cluster: LocalCluster, connect: Connect
) -> None:
    address = cluster.brokers["broker-b"].config.address
    assert connect(address).send("kept", b"kept").code == ResponseCode.SUCCESS
    cluster.stop_broker("broker-b")
    one = connect(nameserver(cluster, 0))
    assert brokers_of(one, "kept") == {}, "it has said good-bye"
    assert brokers_of(one, "TBW102").keys() == {"broker-a"}
    cluster.start_broker("broker-b")
    assert brokers_of(one, "kept") == {"broker-b": address}
    pulled = connect(address).pull("kept")
    assert (pulled.code, pulled.get_ext("maxOffset")) == (ResponseCode.SUCCESS, "1")


def test_a_cluster_without_nameservers_goes_on_serving(
    cluster: LocalCluster, connect: Connect
) -> None:
    address = cluster.brokers["broker-a"].config.address
    wire = connect(address)
    wire.send("t")
    for index in range(3):
        cluster.stop_nameserver(index)
    assert wire.send("t").code == ResponseCode.SUCCESS
    assert wire.send("new").code == ResponseCode.SUCCESS
    assert wire.pull("t").get_ext("maxOffset") == "2"
