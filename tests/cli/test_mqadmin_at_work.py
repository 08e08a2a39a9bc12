"""Every command of mqadmin 4.9.7 under its own name, run against a cluster of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.admin.admin import Admin
from orbitmq.cli.mqadmin.table import ALIASES
from orbitmq.client.consumer.push import PushConsumer
from orbitmq.client.producer.producer import Producer
from orbitmq.message import Message, MessageQueue
from orbitmq.testing import LocalCluster
from tests.cli.conftest import Run, await_true, run_command

ACCOUNTS = """
globalWhiteRemoteAddresses: [127.0.0.1]
accounts:
- {accessKey: manager1, secretKey: s3cret-s3cret, admin: true}
"""
HERE = ("-c", "DefaultCluster")
TOPIC = ("-t", "Orders")

EVERY: dict[str, tuple[str, ...]] = {
    # looking
    "clusterList": (),
    "topicList": (),
    "topicRoute": TOPIC,
    "topicStatus": TOPIC,
    "topicClusterList": TOPIC,
    "statsAll": ("-t", "Orders"),
    "allocateMQ": (*TOPIC, "-i", "10.0.0.1,10.0.0.2"),
    "brokerStatus": HERE,
    "brokerConsumeStats": ("-b", "{broker}"),
    "getBrokerConfig": HERE,
    "getNamesrvConfig": (),
    "consumerProgress": ("-g", "watched"),
    "consumerConnection": ("-g", "watched"),
    "consumerStatus": ("-g", "watched"),
    "producerConnection": ("-g", "tests", *TOPIC),
    "producer": ("-b", "{broker}"),
    "queryMsgById": ("-i", "{offset_id}"),
    "queryMsgByKey": (*TOPIC, "-k", "key1"),
    "queryMsgByUniqueKey": (*TOPIC, "-i", "{id}"),
    "queryMsgByOffset": (*TOPIC, "-b", "broker-a", "-i", "0", "-o", "0"),
    "queryMsgTraceById": ("-i", "{traced}"),
    "queryCq": (*TOPIC, "-q", "0", "-i", "0", "-c", "2", "-b", "{broker}"),
    "printMsg": TOPIC,
    "printMsgByQueue": (*TOPIC, "-a", "broker-a", "-i", "0", "-p", "true"),
    "consumeMessage": (*TOPIC, "-b", "broker-a", "-i", "0", "-o", "0", "-c", "2"),
    # sending
    "sendMessage": (*TOPIC, "-p", "hello", "-b", "broker-a", "-i", "0"),
    "sendMsgStatus": ("-b", "broker-a", "-s", "16", "-c", "2"),
    "checkMsgSendRT": (*TOPIC, "-a", "2", "-s", "16"),
    "clusterRT": ("-a", "2", "-s", "16", "--times", "1"),
    # topics, groups, offsets
    "updateTopic": (*HERE, "-t", "Made", "-r", "2", "-w", "2"),
    "updateTopicPerm": (*HERE, "-t", "Made", "-p", "4"),
    "updateOrderConf": ("-t", "Made", "-m", "put", "-v", "broker-a:2"),
    "updateSubGroup": (*HERE, "-g", "made"),
    "getConsumerConfig": ("-g", "made"),
    "cloneGroupOffset": ("-s", "watched", "-d", "made", *TOPIC),
    "resetOffsetByTime": ("-g", "made", *TOPIC, "-s", "now"),
    "skipAccumulatedMessage": ("-g", "made", *TOPIC),
    "deleteSubGroup": (*HERE, "-g", "made"),
    "deleteTopic": (*HERE, "-t", "Made"),
    # brokers, nameservers
    "updateBrokerConfig": (*HERE, "-k", "fileReservedTime", "-v", "24"),
    "updateNamesrvConfig": ("-k", "orderMessageEnable", "-v", "true"),
    "updateKvConfig": ("-s", "N", "-k", "k", "-v", "v"),
    "deleteKvConfig": ("-s", "N", "-k", "k"),
    "wipeWritePerm": ("-b", "broker-a"),
    "addWritePerm": ("-b", "broker-a"),
    "cleanExpiredCQ": HERE,
    "cleanUnusedTopic": HERE,
    "deleteExpiredCommitLog": HERE,
    "exportMetadata": (*HERE, "-f", "{directory}"),
    "exportConfigs": (*HERE, "-f", "{directory}"),
    "exportMetrics": (*HERE, "-f", "{directory}"),
    # accounts
    "updateAclConfig": (*HERE, "-a", "newcomer", "-s", "newcomer1", "-t", "Orders=PUB"),
    "getAclConfig": HERE,
    "clusterAclConfigVersion": HERE,
    "updateGlobalWhiteAddr": (*HERE, "-g", "127.0.0.1,10.1.2.3"),
    "deleteAclConfig": (*HERE, "-a", "newcomer"),
    # all groups, once
    "startMonitoring": ("--times", "1"),
}
"""In this order: some commands change what others read."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("home")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    settings = {"aclEnable": "true", "rocketmqHome": str(home), "traceTopicEnable": "true"}
    with LocalCluster(settings=settings) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def words(
    cluster: LocalCluster,
    admin: Admin,
    producer: Producer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, str]]:
    """A topic with messages, a group that consumes them, a producer; with their names and ids."""
    admin.create_topic("Orders", queues=1)
    queue = MessageQueue("Orders", "broker-a", 0)
    sent = [producer.send(Message("Orders", b"%d" % n, keys=[f"key{n}"])) for n in range(3)]
    with Producer(cluster.address, group="tracers", trace=True) as tracer:
        traced = tracer.send(Message("Orders", b"traced"))
    consumer = PushConsumer(cluster.address, group="watched", consume_from="first")
    consumer.on("Orders")(lambda message: None)
    with consumer:
        await_true("it has consumed", lambda: _is_done(admin, queue))
        await_true("the producer is known", lambda: admin.producer_members("tests", "Orders"))
        await_true("the trace is stored", lambda: admin.message_trace(traced.message_id))
        admin.set_offsets("watched", {queue: 1})
        yield {
            "broker": next(iter(cluster.brokers.values())).config.address,
            "id": sent[1].message_id,
            "offset_id": sent[1].offset_id,
            "traced": traced.message_id,
            "directory": str(tmp_path_factory.mktemp("exported")),
        }


def _is_done(admin: Admin, queue: MessageQueue) -> bool:
    members = admin.group_members("watched")
    if members is None:
        return False
    queues = admin.running_info("watched", members.members[0].client_id).queues
    return queue in queues and queues[queue].commit_offset == 4


def test_every_mqadmin_command_is_tested() -> None:
    assert EVERY.keys() == ALIASES.keys()


@pytest.mark.parametrize("name", EVERY)
def test_every_mqadmin_command_succeeds(run: Run, words: dict[str, str], name: str) -> None:
    given = [word.format_map(words) for word in EVERY[name]]
    ran = run("mqadmin", name, *given, "--output", "json")
    answer: Any = json.loads(ran.out)
    if isinstance(answer, dict) and "done" in answer:
        assert answer["done"] is True
    elif name == "startMonitoring":
        assert all(one["verdict"] != "nobody-online" for one in answer)
    else:
        assert answer, "it has found something"
    # The table output must work as well; a repeated change may fail with code 5.
    assert run_command("mqadmin", name, *given).code in (0, 5)


def test_exported_files_have_mqadmins_names(words: dict[str, str]) -> None:
    names = {path.name for path in Path(words["directory"]).iterdir()}
    assert {"metadata.json", "configs.json", "metrics.json"} <= names
