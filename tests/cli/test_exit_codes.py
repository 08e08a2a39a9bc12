"""The exit code of every command for each cause of failure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.admin.admin import Admin
from orbitmq.cli.core.exits import ExitCode
from orbitmq.testing import LocalCluster
from tests.cli.conftest import Ran, run_command
from tests.cli.test_shape import ALL, SERVERS, TEXTS

ID = "7F000001000062C5" + "0" * 16
"""A producer's message id: it has a process number where a broker's id has a port."""

CALLS = {
    "nameserver config": "nameserver config",
    "nameserver kv-delete": "nameserver kv-delete space key",
    "nameserver kv-get": "nameserver kv-get space key",
    "nameserver kv-list": "nameserver kv-list space",
    "nameserver kv-set": "nameserver kv-set space key value",
    "broker allow-writes": "broker allow-writes BROKER",
    "broker clean-log": "broker clean-log -b BROKER",
    "broker clean-queues": "broker clean-queues -b BROKER",
    "broker clean-topics": "broker clean-topics -b BROKER",
    "broker config": "broker config -b BROKER",
    "broker deny-writes": "broker deny-writes BROKER",
    "broker lag": "broker lag -b BROKER",
    "broker send-check": "broker send-check BROKER --amount 1",
    "broker status": "broker status -b BROKER",
    "cluster export metadata": f"cluster export metadata --to {os.devnull}",
    "cluster list": "cluster list",
    "cluster monitor": "cluster monitor --times 1 --every 0.01",
    "cluster send-check": "cluster send-check --amount 1",
    "cluster status": "cluster status",
    "acl delete": "acl delete shopkeeper -b BROKER",
    "acl list": "acl list -b BROKER",
    "acl set": "acl set shopkeeper -b BROKER -s 012345678",
    "acl versions": "acl versions -b BROKER",
    "acl white-addresses": "acl white-addresses 10.9.8.7 -b BROKER",
    "topic groups": "topic groups TOPIC",
    "offset at": "offset at TOPIC earliest",
    "produce": "produce TOPIC",
    "consume": "consume TOPIC -g GROUP --idle 0.2",
    "tail": "tail TOPIC --no-follow",
    "bench": "bench -t TOPIC --seconds 0.1",
    "message get": f"message get {ID} -t TOPIC",
    "message print": "message print TOPIC",
    "message trace": f"message trace {ID}",
    "message send": "message send TOPIC --body x",
    "message consume-directly": f"message consume-directly {ID} -t TOPIC -g GROUP",
    "message resend": "message resend -g GROUP --all",
    "explain group": "explain group GROUP --watch-s 0",
    "explain message": f"explain message {ID} -t TOPIC --watch-s 0",
    "explain key": "explain key TOPIC k --watch-s 0",
    "topic create": "topic create TOPIC",
    "topic update": "topic update TOPIC --queues 4",
    "topic put": "topic put TOPIC",
    "topic delete": "topic delete TOPIC",
    "topic perm": "topic perm TOPIC rw",
    "topic order": "topic order TOPIC",
    "topic allocate": "topic allocate TOPIC -i a",
    "topic list": "topic list",
    "topic route": "topic route TOPIC",
    "topic status": "topic status TOPIC",
    "topic clusters": "topic clusters TOPIC",
    "topic config": "topic config TOPIC",
    "topic entries": "topic entries TOPIC -b broker-a -q 0",
    "topic stats": "topic stats TOPIC",
    "topic send-check": "topic send-check TOPIC --amount 1",
    "group create": "group create GROUP",
    "group update": "group update GROUP --retry-times 3",
    "group put": "group put GROUP",
    "group delete": "group delete GROUP",
    "group config": "group config GROUP",
    "group list": "group list",
    "group lag": "group lag GROUP",
    "group members": "group members GROUP",
    "group running-info": "group running-info GROUP",
    "offset get": "offset get GROUP TOPIC",
    "offset set": "offset set GROUP TOPIC -b broker-a -q 0 0",
    "offset reset": "offset reset GROUP TOPIC --to earliest",
    "offset skip": "offset skip GROUP TOPIC",
    "offset clone": "offset clone GROUP other TOPIC",
    "producer list": "producer list",
    "producer members": "producer members GROUP TOPIC",
}


"""Every command that contacts a cluster, with its arguments."""

ALONE = {"stop", "message decode-id", "pipeline check", "pipeline init", "pipeline run"}
"""Commands that contact no cluster, or are tested with files."""

NEW_GROUP = {"consume", "group create", "group put"}
"""Commands that create their group."""
NEW_TOPIC = {"topic create", "topic put", "bench", "consume"}
"""Commands that create their topic, or wait for its creation."""

NAMESERVERS_ONLY = {
    *("nameserver config", "nameserver kv-delete", "nameserver kv-get", "nameserver kv-list"),
    *("nameserver kv-set", "broker allow-writes", "broker deny-writes", "topic list"),
    *("topic order", "topic route", "topic clusters", "topic allocate", "cluster list"),
}
"""Commands that contact no broker, so that no signature is required."""
LOOKS_AT_ALL = {
    *("cluster status", "cluster send-check", "broker send-check"),
    *("topic send-check", "explain group", "explain message"),
}
"""Commands whose answer lists the refusal of each broker."""
NOT_THERE = {"message trace"}
"""Commands that fail earlier for another missing object: the topic of traces."""


def words_of(call: str, *, topic: str = "there", group: str = "known", broker: str = "a") -> str:
    broker = f"broker-{broker}" if len(broker) == 1 else broker
    return call.replace("TOPIC", topic).replace("GROUP", group).replace("BROKER", broker)


def run(words: str, nameserver: str) -> Ran:
    return run_command(*words.split(), "-n", nameserver, stdin="x\n")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(settings={"autoCreateTopicEnable": "false"}) as cluster:
        with Admin(cluster.address) as admin:
            admin.create_topic("there", queues=1)
            admin.create_group("known")
        yield cluster


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home: Path = tmp_path_factory.mktemp("home")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(
        "accounts:\n- accessKey: manager1\n  secretKey: s3cret-s3cret\n  admin: true\n"
    )
    with LocalCluster(settings={"aclEnable": "true", "rocketmqHome": str(home)}) as cluster:
        keys = ("manager1", "s3cret-s3cret")
        with Admin(cluster.address, access_key=keys[0], secret_key=keys[1]) as admin:
            admin.create_topic("there", queues=1)
            admin.create_group("known")
        yield cluster


def test_every_command_that_contacts_a_cluster_is_tested() -> None:
    known = {" ".join(words) for words in ALL if words not in SERVERS | TEXTS} - ALONE
    assert {name.removesuffix(" metadata") for name in CALLS} == known


@pytest.mark.parametrize("name", CALLS)
def test_the_code_is_6_when_no_nameserver_answers(name: str) -> None:
    ran = run(words_of(CALLS[name]), "127.0.0.1:1")
    assert ran.code == ExitCode.NOBODY_ANSWERS, ran
    assert "Error: " in ran.err


@pytest.mark.parametrize("name", [name for name in CALLS if "TOPIC" in CALLS[name]])
def test_the_code_is_5_when_the_topic_does_not_exist(cluster: LocalCluster, name: str) -> None:
    if name not in NEW_TOPIC:
        ran = run(words_of(CALLS[name], topic="nowhere"), cluster.address)
        assert ran.code == ExitCode.NOT_FOUND, ran


@pytest.mark.parametrize("name", [name for name in CALLS if "GROUP" in CALLS[name]])
def test_the_code_is_5_when_the_group_does_not_exist(cluster: LocalCluster, name: str) -> None:
    if name not in NEW_GROUP:
        ran = run(words_of(CALLS[name], group="nobody"), cluster.address)
        assert ran.code == ExitCode.NOT_FOUND, ran
        with Admin(cluster.address) as admin:
            assert "nobody" not in admin.group_configs()


@pytest.mark.parametrize("name", [name for name in CALLS if "BROKER" in CALLS[name]])
def test_the_code_is_5_when_the_broker_is_not_registered(cluster: LocalCluster, name: str) -> None:
    ran = run(words_of(CALLS[name], broker="broker-z"), cluster.address)
    assert ran.code == ExitCode.NOT_FOUND, ran


@pytest.mark.parametrize("name", sorted(CALLS.keys() - NAMESERVERS_ONLY - LOOKS_AT_ALL - NOT_THERE))
def test_the_code_is_1_when_brokers_require_a_signature(guarded: LocalCluster, name: str) -> None:
    ran = run(words_of(CALLS[name]), guarded.address)
    assert ran.code == ExitCode.FAILED, ran


@pytest.mark.parametrize("name", sorted(LOOKS_AT_ALL - {"cluster status"}))
def test_the_code_is_3_when_the_command_reports_that_brokers_refuse(
    guarded: LocalCluster, name: str
) -> None:
    ran = run(words_of(CALLS[name]), guarded.address)
    assert ran.code == ExitCode.NOT_IN_ORDER, ran


@pytest.mark.parametrize("name", CALLS)
def test_the_code_is_2_when_the_command_line_is_wrong(cluster: LocalCluster, name: str) -> None:
    ran = run(f"{words_of(CALLS[name])} --no-such-option", cluster.address)
    assert ran.code == ExitCode.NOT_STARTED, ran
