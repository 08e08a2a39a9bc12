"""Each command of the real mqadmin prints the same of a real broker and of ours.

The commands run in this order, for some change what later ones look at. What they print is compared
line by line once it is neutral (see `normalise.py`), and must have a word in it that says it did
what it was asked to: a command that fails prints nothing on standard output.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from compat.mqadmin.conftest import Both
from compat.mqadmin.endless import endless
from compat.mqadmin.normalise import OF_THE_MOMENT, OF_THE_SUITE, table
from compat.mqadmin.sides import TRACED
from orbitmq.cli.mqadmin.table import ALIASES

HERE = ("-c", "DefaultCluster")
AT = ("-b", "{broker}")
ORDERS = ("-t", "Orders")


NEWCOMER = ("-a", "newcomer", "-s", "newcomer1")
PERMISSIONS = ("-t", "Orders=PUB,Made=SUB", "-g", "watched=SUB", "-m", "true", "-i", "DENY")
PLAIN_ACL = "{home}/conf/plain_acl.yml"


class Case(NamedTuple):
    command: tuple[str, ...]
    names: str
    """Texts that the output must contain."""
    in_any_order: bool = False


CASES = [
    Case(("clusterList",), "broker-a"),
    Case(("clusterList", "-m"), "21"),
    Case(("topicList",), "Orders", in_any_order=True),
    Case(("topicList", "-c"), "Orders", in_any_order=True),
    Case(("topicRoute", *ORDERS), '"readQueueNums":4'),
    Case(("topicRoute", "-l", *ORDERS), "{0=BROKER}"),
    Case(("topicStatus", *ORDERS), "TIME"),
    Case(("topicClusterList", *ORDERS), "DefaultCluster"),
    Case(("allocateMQ", *ORDERS, "-i", "10.0.0.1,10.0.0.2"), "10.0.0.2"),
    # Topics and groups.
    Case(("updateTopic", *HERE, "-t", "Made", "-r", "2", "-w", "3"), "success"),
    Case(("updateTopicPerm", *HERE, "-t", "Made", "-p", "4"), "from 6 to 4"),
    Case(("updateTopicPerm", *AT, "-t", "Made", "-p", "6"), "from 4 to 6"),
    Case(("topicRoute", "-t", "Made"), '"writeQueueNums":3'),
    Case(("updateSubGroup", *HERE, "-g", "newgroup", "-r", "5", "-q", "2"), "retryMaxTimes=5"),
    Case(("getConsumerConfig", "-g", "newgroup"), "retryMaxTimes"),
    Case(("updateOrderConf", *ORDERS, "-m", "put", "-v", "broker-a:4"), "success"),
    Case(("updateOrderConf", *ORDERS, "-m", "get"), "broker-a:4"),
    Case(("updateOrderConf", *ORDERS, "-m", "delete"), "success"),
    Case(("updateKvConfig", "-s", "N", "-k", "k", "-v", "v"), "success"),
    Case(("deleteKvConfig", "-s", "N", "-k", "k"), "success"),
    Case(("wipeWritePerm", "-b", "broker-a"), "OK"),
    Case(("addWritePerm", "-b", "broker-a"), "OK"),
    # Clients and their progress.
    Case(("consumerProgress", "-g", "watched"), "Diff Total: 14"),
    Case(("consumerProgress",), "watched"),
    Case(("consumerConnection", "-g", "watched"), "127.0.0.1@1"),
    Case(("consumerStatus", "-g", "watched"), "127.0.0.1@1"),
    Case(("producerConnection", "-g", "makers", *ORDERS), "127.0.0.1@2"),
    Case(("producer", *AT), "makers"),
    Case(("brokerConsumeStats", *AT), "Diff Total: 14"),
    Case(("brokerConsumeStats", *AT, "-o", "true"), "Diff Total: 0"),
    Case(("statsAll", *ORDERS), "watched"),
    # Messages.
    Case(("queryMsgByKey", *ORDERS, "-k", "key3"), "0003"),
    Case(("queryMsgById", "-i", "{id}"), "key3"),
    Case(("queryMsgByOffset", *ORDERS, "-b", "broker-a", "-i", "3", "-o", "0"), "key3"),
    Case(("queryMsgByUniqueKey", *ORDERS, "-i", "7F000001000000000000000000000003"), "CONSUMED"),
    Case(("queryCq", *ORDERS, "-q", "0", "-i", "0", "-c", "3", *AT), "physicOffset=748"),
    Case(("printMsg", *ORDERS, "-d", "true"), "body 19"),
    Case(("printMsgByQueue", *ORDERS, "-a", "broker-a", "-i", "1", "-p", "true"), "key1"),
    Case(("consumeMessage", *ORDERS, "-b", "broker-a", "-i", "0", "-o", "0", "-c", "2"), "key4"),
    Case(("sendMessage", *ORDERS, "-p", "hello", "-b", "broker-a", "-i", "2"), "SEND_OK"),
    Case(("sendMsgStatus", "-b", "broker-a", "-s", "64", "-c", "2"), "SEND_OK"),
    Case(("checkMsgSendRT", *ORDERS, "-a", "3", "-s", "32"), "true"),
    Case(("queryMsgTraceById", "-i", TRACED), "makers"),
    # Offsets.
    Case(("cloneGroupOffset", "-s", "watched", "-d", "clone", *ORDERS), "success"),
    Case(("resetOffsetByTime", "-g", "clone", *ORDERS, "-s", "now"), "broker-a"),
    Case(("skipAccumulatedMessage", "-g", "clone", *ORDERS), "broker-a"),
    # Accounts.
    Case(("clusterAclConfigVersion", *HERE), "HOME/conf/plain_acl.yml"),
    Case(("updateAclConfig", *NEWCOMER, *PERMISSIONS, *AT), "success"),
    Case(("getAclConfig", *HERE), "topicPerms        : [Orders=PUB, Made=SUB]"),
    Case(("updateAclConfig", *NEWCOMER, "-t", "Orders=SUB", "-m", "false", *HERE), "success"),
    Case(("getAclConfig", *AT), "topicPerms        : [Orders=SUB]"),
    Case(("updateGlobalWhiteAddr", "-g", "127.0.0.1,10.1.2.*", *HERE), "success"),
    Case(("updateGlobalWhiteAddr", "-g", "127.0.0.1", *AT, "-p", PLAIN_ACL), "success"),
    Case(("deleteAclConfig", "-a", "newcomer", *HERE), "newcomer"),
    Case(("getAclConfig", *HERE), "[127.0.0.1]"),
    Case(("clusterAclConfigVersion", *AT), "5  "),
    # Housekeeping.
    Case(("updateBrokerConfig", *AT, "-k", "traceOn", "-v", "false"), "success"),
    Case(("cleanExpiredCQ", *AT), "success"),
    Case(("cleanUnusedTopic", *AT), "success"),
    Case(("deleteExpiredCommitLog", *AT), "success"),
    Case(("deleteSubGroup", *HERE, "-g", "newgroup"), "success"),
    Case(("deleteTopic", *HERE, "-t", "Made"), "success"),
]

IN_VAIN = [
    ("topicRoute", "-t", "NoSuchTopic"),
    ("topicStatus", "-t", "NoSuchTopic"),
    ("queryMsgByKey", *ORDERS, "-k", "nokey"),
    ("queryMsgById", "-i", "7F000001000000000000000000FFFFFF"),
    ("consumerProgress", "-g", "nosuch"),
    ("consumerConnection", "-g", "nosuch"),
    ("queryMsgTraceById", "-i", "7F000001000000000000000000FFFFFF"),
    ("deleteAclConfig", "-a", "nobody1", *AT),
    ("updateAclConfig", "-a", "short", "-s", "12345678", *AT),
    ("updateAclConfig", *NEWCOMER, "-t", "Orders=ALL", *AT),
    ("updateGlobalWhiteAddr", "-g", "127.0.0.1", *AT, "-p", "/etc/passwd"),
]
"""Commands that find nothing: both print nothing, or the same message."""


ELSEWHERE = {
    *("brokerStatus", "getBrokerConfig", "getNamesrvConfig"),  # Tested below.
    *("exportMetadata", "exportConfigs", "exportMetrics"),
    "updateNamesrvConfig",  # Tested in compat/nameserver.
}
OF_ALL = {("h", "help", False), ("n", "namesrvAddr", True)}
"""Options that every command has."""
ENDLESS = {"clusterRT", "startMonitoring"}
"""Commands that never end; they come last."""


def test_every_command_of_mqadmin_is_tested(both: Both) -> None:
    listed = both.tools.mqadmin().splitlines()
    known = {line.split()[0] for line in listed if line.startswith("   ") and line.split()}
    run = {case.command[0] for case in CASES}
    assert len(known) > 50, listed
    assert known == run | ELSEWHERE | ENDLESS
    assert known == set(ALIASES), "each has its name among the commands of ours, too"


def test_every_option_has_the_letter_of_mqadmin(both: Both) -> None:
    """The options in mqadmin's help are those that our commands accept under the same name."""
    line = re.compile(r"^ -(\w+),--(\S.*?)(?: +(<arg>)|  |$)", re.MULTILINE)
    for name, alias in ALIASES.items():
        said = both.tools.mqadmin("help", name)
        theirs = {(letter, long, bool(value)) for letter, long, value in line.findall(said)}
        ours = {(one.letter, one.name, one.takes_value) for one in alias.options}
        assert ours | OF_ALL == theirs, name


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case.command))
def test_a_command_prints_the_same_of_both_brokers(both: Both, case: Case) -> None:
    java, ours = (printed.splitlines() for printed in both.run(*case.command))
    if case.in_any_order:
        java, ours = sorted(java), sorted(ours)
    assert ours == java
    assert case.names in "\n".join(ours)


@pytest.mark.parametrize("command", IN_VAIN, ids=" ".join)
def test_a_failing_command_prints_the_same_of_both_brokers(
    both: Both, command: tuple[str, ...]
) -> None:
    java, ours = both.run(*command)
    assert ours == java


def test_broker_status_is_the_same_for_both_brokers(both: Both) -> None:
    java, ours = (table(printed, ":") for printed in both.run("brokerStatus", *AT))
    assert "timers" in ours.pop("orbitFeatures"), "what is OrbitMQ's own has one entry"
    assert _but(ours, OF_THE_MOMENT) == _but(java, OF_THE_MOMENT)
    assert _keys(ours) == _keys(java)
    assert ours["commitLogMaxOffset"] != "0"


def _keys(status: dict[str, str]) -> set[str]:
    return {key for key in status if not key.startswith("commitLogDiskRatio_")}


def _but(values: dict[str, str], left_out: set[str]) -> dict[str, str]:
    return {
        key: value
        for key, value in values.items()
        if key not in left_out and not key.startswith("commitLogDiskRatio_")
    }


@pytest.mark.parametrize("command", [("getBrokerConfig", *AT), ("getNamesrvConfig",)])
def test_settings_are_the_same_for_both_brokers(both: Both, command: tuple[str, ...]) -> None:
    java, ours = (table(printed, "=") for printed in both.run(*command))
    assert _but(ours, OF_THE_SUITE) == _but(java, OF_THE_SUITE)
    assert len(_but(ours, OF_THE_SUITE)) > 10


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (("exportMetadata", *HERE, "-t"), "topic.json"),
        (("exportMetadata", *HERE, "-g"), "subscriptionGroup.json"),
        (("exportConfigs", *HERE), "configs.json"),
        (("exportMetrics", *HERE), "metrics.json"),
    ],
)
def test_exports_have_the_same_structure_for_both_brokers(
    both: Both, command: tuple[str, ...], file: str
) -> None:
    java, ours = both.run(*command, "-f", "{dir}/export")
    assert ours == java == f"export DIR/export/{file} success"
    written = [json.loads((side.directory / "export" / file).read_text()) for side in both.sides]
    assert _shape(written[1]) == _shape(written[0])


def _shape(value: object) -> object:
    """Return the keys at all depths; numbers and times are compared elsewhere."""
    if isinstance(value, dict):
        return {key: _shape(member) for key, member in value.items()}
    return [_shape(member) for member in value] if isinstance(value, list) else None


def test_endless_commands_print_the_same_of_both_brokers(both: Both, tmp_path: Path) -> None:
    trips = ("clusterRT", *HERE, "-a", "3", "-s", "16", "-i", "3600")
    with endless(both.sides, tmp_path / "watching", "startMonitoring") as watching:
        with endless(both.sides, tmp_path / "sending", *trips) as sending:
            java, ours = (side.lines(_is_round_trip, "broker-a  ") for side in sending)
            assert ours == java
            assert len(ours) == 1
        java, ours = (sorted(side.lines(_is_report, "endRound")) for side in watching)
        assert [_no_age(line) for line in ours] == [_no_age(line) for line in java]
        assert any("watched" in line for line in ours)


def _is_round_trip(line: str) -> bool:
    return line.startswith("DefaultCluster ")


def _is_report(line: str) -> bool:
    # The monitor's lines about its own group depend on its last fetch of the retry topic's route.
    return line.startswith("[MONITOR]") and "__MONITOR_CONSUMER" not in line


def _no_age(report: str) -> str:
    return re.sub(r"DelayTimeMills=\d+", "DelayTimeMills=N", report)
