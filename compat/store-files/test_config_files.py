"""Files under ``config/``: each broker reads topics, groups and offsets written by the other.

Ours makes a state and stops, a real broker starts on the directory and must tell the same; it
changes something and stops, and ours must tell that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compat.java_cluster import BrokerSettings, JavaCluster, StoreSizes
from compat.mqadmin.sides import SIZES
from orbitmq._native import dumps_lenient, loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire

LEVELS = "1s 5s 10s"
ALL_OF_IT = {
    RequestCode.GET_ALL_TOPIC_CONFIG: "topicConfigTable",
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "subscriptionGroupTable",
    RequestCode.GET_ALL_CONSUMER_OFFSET: "offsetTable",
    RequestCode.GET_ALL_DELAY_OFFSET: "offsetTable",
}
MADE_BY_JAVA_IN_ITS_OWN_TIME = "RMQ_SYS_TRANS_HALF_TOPIC"
Known = dict[int, dict[str, Any]]


class OnTheSameDirectory(JavaCluster):
    """A real broker on the store directory of another one."""

    def __init__(self, directory: Path, store_root: Path, sizes: StoreSizes) -> None:
        extra = {"messageDelayLevel": LEVELS}
        settings = BrokerSettings("broker-a", "DefaultCluster", sizes, extra=extra)
        super().__init__(directory, settings)
        self.store_root = store_root


def known(wire: Wire) -> Known:
    """Return all tables of a broker."""
    tables = {}
    for code, table in ALL_OF_IT.items():
        answer = wire.ask(code)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        tables[int(code)] = loads_lenient(answer.body)[table]
        tables[int(code)].pop(MADE_BY_JAVA_IN_ITS_OWN_TIME, None)
    return tables


def make_topic(wire: Wire, name: str, **changes: str) -> None:
    ext = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": "3",
        "writeQueueNums": "5",
        "perm": "4",
        "topicFilterType": "MULTI_TAG",
        "topicSysFlag": "1",
        "order": "true",
    }
    answer = wire.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext | changes)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


def make_group(wire: Wire, name: str) -> None:
    group = {
        "groupName": name,
        "consumeEnable": False,
        "consumeBroadcastEnable": False,
        "consumeFromMinEnable": False,
        "retryQueueNums": 7,
        "retryMaxTimes": 3,
        "brokerId": 1,
        "whichBrokerWhenConsumeSlowly": 2,
        "notifyConsumerIdsChangedEnable": False,
    }
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    assert wire.ask(code, body=dumps_lenient(group)).code == ResponseCode.SUCCESS


def commit(wire: Wire, group: str, queue_id: int, offset: int) -> None:
    ext = {"consumerGroup": group, "topic": "Auto", "queueId": str(queue_id)}
    wire.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext | {"commitOffset": str(offset)})


def deliver_a_delayed_message(wire: Wire) -> None:
    """Wait for it, so that the delay offset has moved."""
    assert wire.send("Auto", b"later", properties="DELAY\x011").code == ResponseCode.SUCCESS
    held = {"queueId": "0", "sysFlag": "6", "suspendTimeoutMillis": "15000"}
    at = int(wire.pull("Auto").get_ext("maxOffset") or 0)
    assert wire.pull("Auto", at, **held).code == ResponseCode.SUCCESS


def test_each_side_reads_the_config_files_of_the_other(
    java_peer_jars: Path, tmp_path: Path
) -> None:
    settings = {"messageDelayLevel": LEVELS}
    with LocalCluster(data=tmp_path / "data", settings=settings) as ours:
        wire = Wire(ours.brokers["broker-a"].config.address)
        make_topic(wire, "Odd")
        make_group(wire, "odd-group")
        wire.send("Auto")
        deliver_a_delayed_message(wire)
        commit(wire, "g", 0, 1)
        commit(wire, "g", 3, 0)  # Our broker corrects offsets beyond the end of a queue.
        told = known(wire)
        wire.close()
    root = tmp_path / "data" / "broker-a"
    assert_files(root)

    java = OnTheSameDirectory(tmp_path / "java", root, SIZES)
    try:
        java.start_broker()
        wire = Wire(java.broker)
        assert_same(known(wire), told)
        make_topic(wire, "FromJava", order="false", topicSysFlag="0")
        make_group(wire, "java-group")
        commit(wire, "g", 0, 2)
        told = known(wire)
        wire.close()
        java.stop_broker()
    finally:
        java.close()
    assert_files(root)

    with LocalCluster(data=tmp_path / "data", settings=settings) as ours:
        wire = Wire(ours.brokers["broker-a"].config.address)
        assert_same(known(wire), told)
        assert "FromJava" in told[RequestCode.GET_ALL_TOPIC_CONFIG]
        assert wire.pull("Auto").get_ext("maxOffset") == "2"
        wire.close()


def assert_same(found: Known, told: Known) -> None:
    for code in ALL_OF_IT:
        assert found[code] == told[code], code.name


def assert_files(root: Path) -> None:
    names = {path.name for path in (root / "config").iterdir()}
    wanted = {"topics", "subscriptionGroup", "consumerOffset", "delayOffset"}
    assert names >= {f"{name}.json" for name in wanted}, names
    assert names >= {"topics.json.bak", "subscriptionGroup.json.bak"}, names
