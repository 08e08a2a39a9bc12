"""The real broker registered with our nameserver; real clients and mqadmin find it through it.

The same broker is registered with a real nameserver, too, and every command is run through either:
what it prints must be equal, once each nameserver's own address and directory are written as NS and
the lines of lists are sorted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from compat.java_peer import JavaPeer
from compat.nameserver.asking import Asker
from compat.nameserver.conftest import Pair
from compat.nameserver.tools import JavaTools, pause, within

CLUSTER, BROKER = "compat", "java-a"
AGREE_TIMEOUT_S = 30
AT_ONCE_S = 20
"""Much less than the 120 s after which a silent broker is removed."""
OF_THE_PROCESS = re.compile(r"^(rocketmqHome|kvConfigPath|configStorePath|listenPort)\b.*\n", re.M)

Through = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def with_broker(pair: Pair) -> Pair:
    pair.start_broker()
    return pair


@pytest.fixture
def through(with_broker: Pair, java_tools_peer: JavaTools) -> Through:
    """Run a command through both nameservers; return the outputs, Java's first."""

    def run(*command: str) -> tuple[str, str]:
        java, orbit = (
            _neutral(java_tools_peer.mqadmin(*command, "-n", address), address)
            for address in with_broker.addresses
        )
        return java, orbit

    return run


def _neutral(printed: str, address: str) -> str:
    return OF_THE_PROCESS.sub("", printed.replace(address, "NS"))


def _lines(printed: str) -> list[str]:
    return sorted(line.rstrip() for line in printed.splitlines())


OUR_OWN_SETTINGS = ("aclEnable",)


def _same(outputs: tuple[str, str], *, names: str) -> str:
    """Assert that both outputs are equal, successful, and contain an expected text."""
    java, orbit = outputs
    ours = [line for line in _lines(orbit) if not line.startswith(OUR_OWN_SETTINGS)]
    assert ours == _lines(java)
    assert "Exception" not in orbit, orbit
    assert names in orbit, orbit
    return orbit


def _agree(through: Through, *command: str, names: str) -> str:
    """Assert the same of a reading command, once both nameservers have the news.

    A broker tells each of them in its own time; and what it says of itself, such as its rates,
    changes from look to look.
    """
    deadline = within(AGREE_TIMEOUT_S)
    while True:
        try:
            return _same(through(*command), names=names)
        except AssertionError:
            if within(0) > deadline:
                raise
            pause(0.1)


def test_lists_are_the_same_from_both_nameservers(through: Through) -> None:
    _same(through("updateTopic", "-c", CLUSTER, "-t", "Made", "-r", "3", "-w", "5"), names="Made")
    _agree(through, "topicList", names="Made")
    _agree(through, "topicList", "-c", names="Made")
    _agree(through, "clusterList", names=BROKER)
    _agree(through, "clusterList", "-m", names=CLUSTER)
    _agree(through, "topicClusterList", "-t", "Made", names=CLUSTER)


def test_routes_are_the_same_from_both_nameservers(through: Through) -> None:
    route = _agree(through, "topicRoute", "-t", "TBW102", names='"brokerName":')
    assert f'"{BROKER}"' in route.replace(" ", "")
    java, orbit = through("topicRoute", "-t", "NoSuchTopic")
    assert java == orbit


def test_kv_values_are_changed_alike_by_both_nameservers(through: Through) -> None:
    where = ("-s", "N", "-k", "colour")
    _same(through("updateKvConfig", *where, "-v", "green"), names="success")
    _same(through("deleteKvConfig", *where), names="success")


def test_ordered_topics_are_changed_alike_by_both_nameservers(through: Through) -> None:
    where = ("-t", "Ordered", "-m")
    _same(through("updateOrderConf", *where, "put", "-v", f"{BROKER}:4"), names="Ordered")
    _same(through("updateOrderConf", *where, "get"), names=f"{BROKER}:4")
    _same(through("updateOrderConf", *where, "delete"), names="Ordered")


def test_write_permission_is_changed_alike_by_both_nameservers(
    through: Through, with_broker: Pair
) -> None:
    _same(through("wipeWritePerm", "-b", BROKER), names="OK")
    assert _perms(with_broker, "TBW102") == [[5], [5]]
    _same(through("addWritePerm", "-b", BROKER), names="OK")
    assert _perms(with_broker, "TBW102") == [[6], [6]]


def _perms(pair: Pair, topic: str) -> list[list[int]]:
    found = []
    for address in pair.addresses:
        asker = Asker(address)
        route = json.loads(asker.ask(105, {"topic": topic}).body)
        found.append([queues["perm"] for queues in route["queueDatas"]])
        asker.close()
    return found


def test_settings_are_changed_alike_by_both_nameservers(through: Through) -> None:
    _same(through("getNamesrvConfig"), names="serverChannelMaxIdleTimeSeconds")
    _same(through("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true"), names="success")
    shown = _same(through("getNamesrvConfig"), names="orderMessageEnable")
    assert re.search(r"orderMessageEnable\s*=\s*true", shown)
    java, orbit = through("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/x")
    assert orbit == java
    assert "success" not in orbit, "the refusal itself is told on stderr"


def test_topics_are_deleted_alike_by_both_nameservers(through: Through) -> None:
    _same(through("updateTopic", "-c", CLUSTER, "-t", "Gone"), names="Gone")
    _same(through("deleteTopic", "-c", CLUSTER, "-t", "Gone"), names="Gone")
    deadline = within(AGREE_TIMEOUT_S)
    while "Gone" in "".join(through("topicList")):
        assert within(0) < deadline, "still listed"
        pause(0.1)


def test_clients_find_brokers_through_our_nameserver(
    with_broker: Pair, java_peer: JavaPeer, tmp_path: Path
) -> None:
    nameserver = with_broker.orbit.address
    java_peer.do(
        "write",
        nameserver=nameserver,
        broker_name=BROKER,
        topics={"Found": 4},
        create_topics=True,
        delay_levels=[1],
        seed=1,
        first=0,
        count=200,
        threads=2,
        manifest=str(tmp_path / "written"),
    )
    consumed = java_peer.do(
        "consume",
        nameserver=nameserver,
        group="finders",
        topics=["Found"],
        expected=200,
        quiet_ms=30_000,
        out=str(tmp_path / "consumed"),
    )
    assert consumed == {"consumed": 200}


def test_a_killed_broker_is_removed_at_once_and_registers_again(with_broker: Pair) -> None:
    with_broker.java.kill_broker()
    deadline = within(AT_ONCE_S)
    while with_broker.orbit_knows_the_broker():
        assert within(0) < deadline, "still listed"
        pause(0.01)
    with_broker.start_broker()
    with_broker.java.stop_broker()
    assert not with_broker.orbit_knows_the_broker(), "it has said good-bye"
