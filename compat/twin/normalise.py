"""Parts of answers that the twin test does not compare, each with its reason.

An answer becomes a plain value (`Seen`); the functions of `NORMALISATIONS` then take out of it, in
order, what cannot or need not be equal on the two sides. Nothing else is left out. Where the reason
is that OrbitMQ answers otherwise on purpose, `compat/FINDINGS.md` says more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from orbitmq._native import Command, Record, decode_properties, decode_records, loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.features import FEATURES_KEY
from orbitmq.protocol.names import OFFSET_MOVED_EVENT

RECORDS = {
    RequestCode.PULL_MESSAGE,
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
}
SETTINGS = {RequestCode.GET_BROKER_CONFIG}


@dataclass
class Side:
    """The ports of a side, which occur in its answers."""

    broker_port: int
    client_ports: list[int]
    is_java: bool


@dataclass
class Seen:
    """An answer, or a request of the broker, as a value."""

    request_code: int
    code: int
    remark: str | None
    ext: dict[str, str] = field(default_factory=dict)
    body: Any = None
    header: dict[str, Any] = field(default_factory=dict)


def seen(request_code: int, command: Command) -> Seen:
    body: Any = command.body
    is_record_pushed = command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY
    is_pushed = not command.is_response
    has_records = request_code in RECORDS and command.code == ResponseCode.SUCCESS
    if body and (is_record_pushed if is_pushed else has_records):
        body = [_record(record) for record in decode_records(body)]
    elif body and request_code in SETTINGS:
        body = dict(line.split("=", 1) for line in body.decode().splitlines())
    elif body[:1] in (b"{", b"["):
        body = _plain(loads_lenient(body))
    return Seen(
        request_code,
        command.code,
        command.remark,
        dict(command.ext or {}),
        body,
        {"version": command.version, "flag": command.flag},
    )


def _plain(value: Any) -> Any:
    """Make keys of the objects in the place of keys."""
    if isinstance(value, dict):
        return {
            str(dict(key)) if isinstance(key, tuple) else key: _plain(member)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [_plain(member) for member in value]
    return value


def canonical(value: Any) -> str:
    """Return a text that is the same for equal values, whatever the order of their maps."""
    if isinstance(value, Seen):
        value = asdict(value)
    if isinstance(value, Mapping):
        members = sorted(f"{key}: {canonical(member)}" for key, member in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(canonical(member) for member in value) + "]"
    return repr(value)


def _record(record: Record) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "physicalOffset": record.physical_offset,
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "bornTimestamp": record.born_timestamp,
        "bornHost": f"{record.born_host[0]}:{record.born_host[1]}",
        "storeTimestamp": record.store_timestamp,
        "storeHost": f"{record.store_host[0]}:{record.store_host[1]}",
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "body": record.stored_body,
        "properties": record.properties,
        "length": len(record.encoded),
    }


def _each(value: Any, change: Callable[[str, Any], Any], name: str = "") -> Any:
    """Rebuild a value, passing every member through `change(name, value)` from inside out."""
    if isinstance(value, Mapping):
        value = {key: _each(member, change, str(key)) for key, member in value.items()}
    elif isinstance(value, list):
        value = [_each(member, change, "") for member in value]
    return change(name, value)


# ---- the normalisations --------------------------------------------------------------------------


def ports(answer: Seen, side: Side) -> None:
    """Two brokers on one machine have two ports, and so have two connections to them."""
    names = {side.broker_port: "broker"} | {
        port: f"client{number}" for number, port in enumerate(side.client_ports)
    }

    def rename(text: str) -> str:
        for port, name in names.items():
            text = re.sub(rf"127\.0\.0\.1:{port}\b", f"127.0.0.1:{name}", text)
            text = text.replace(f"7F000001{port:08X}", f"7F000001<{name}>")
        return text

    def change(_name: str, value: Any) -> Any:
        return rename(value) if isinstance(value, str) else value

    answer.remark = change("", answer.remark)
    answer.ext = _each(answer.ext, change)
    answer.body = _each(answer.body, change)


TIME_MEMBERS = {
    *("storeTimestamp", "lastTimestamp", "lastUpdateTimestamp", "indexLastUpdateTimestamp"),
    *("minTimeStamp", "maxTimeStamp", "consumeTimeStamp"),
    *("minTimeStampStr", "maxTimeStampStr", "consumeTimeStampStr"),
}


def times(answer: Seen, _side: Side) -> None:
    """Two brokers store at two times. That there is a time, and that there is none, is compared."""

    def change(name: str, value: Any) -> Any:
        if name in TIME_MEMBERS:
            if isinstance(value, str) and not value.lstrip("-").isdigit():
                return "<time>"
            return "<time>" if int(value) > 0 else int(value)
        if name == "dataVersion":
            return {**value, "timestamp": "<time>"}
        if isinstance(value, dict) and value.get("topic") == OFFSET_MOVED_EVENT:
            return value | {"bornTimestamp": "<time>"}  # The brokers' own messages.
        return value

    answer.body = _each(answer.body, change)
    answer.ext = _each(answer.ext, change)
    if answer.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
        pushed = decode_properties(answer.ext["properties"])
        pushed["PUSH_REPLY_TIME"] = "<time>" if pushed["PUSH_REPLY_TIME"].isdigit() else "none"
        answer.ext["properties"] = canonical(pushed)
    if answer.request_code == RequestCode.GET_EARLIEST_MSG_STORETIME and "timestamp" in answer.ext:
        stored = int(answer.ext["timestamp"])
        answer.ext["timestamp"] = "<time>" if stored > 0 else str(stored)
    if answer.request_code == RequestCode.GET_BROKER_CONFIG:
        answer.ext["version"] = re.sub(r'(?<="timestamp":)\d+', "<time>", answer.ext["version"])


def due_times(answer: Seen, _side: Side) -> None:
    """In the place of the tags code, a queue of delayed messages has the time they are due."""
    if answer.request_code == RequestCode.QUERY_CONSUME_QUEUE and isinstance(answer.body, dict):
        for unit in answer.body.get("queueData", ()):
            if unit["tagsCode"] > 10**12:
                unit["tagsCode"] = "<time>"


def rates(answer: Seen, _side: Side) -> None:
    """Rates depend on when their counters were sampled."""

    def change(name: str, value: Any) -> Any:
        if name == "consumeTps":
            return "<rate>"
        if name in ("statsDay", "statsHour", "statsMinute"):
            return sorted(value)
        return value

    answer.body = _each(answer.body, change)


def runtime_values(answer: Seen, _side: Side) -> None:
    """Runtime info is about the process: its keys are compared, and the values that are facts."""
    if answer.request_code != RequestCode.GET_BROKER_RUNTIME_INFO:
        return
    facts = {
        *("brokerVersion", "brokerVersionDesc", "commitLogMinOffset", "commitLogMaxOffset"),
        *("sendThreadPoolQueueCapacity", "startAcceptSendRequestTimeStamp"),
        "remainTransientStoreBufferNumbs",
    }
    answer.body["table"].pop(FEATURES_KEY, None)
    answer.body["table"] = {
        re.sub(r"^commitLogDiskRatio_.*", "commitLogDiskRatio_<path>", key): value
        if key in facts or key.startswith("scheduleMessageOffset")
        else "<value>"
        for key, value in answer.body["table"].items()
    }


def place_settings(answer: Seen, _side: Side) -> None:
    """Where a broker is and keeps its files differs; the other settings are compared."""
    if answer.request_code == RequestCode.GET_BROKER_CONFIG:
        for name in (
            *("listenPort", "haListenPort", "namesrvAddr", "rocketmqHome"),
            *("storePathRootDir", "storePathCommitLog"),
            # Java sets it when it starts, from what it expects of its SQL filters.
            "bitMapLengthConsumeQueueExt",
            # OrbitMQ's own
            *("timerMaxDelaySec", "aclStrict", "deduplicationWindowMs", "deduplicationMaxIds"),
            "deduplicationSnapshotInterval",
            *("lostMemberGraceMillis", "startMemberGraceMillis"),
        ):
            answer.body.pop(name, None)


def order(answer: Seen, _side: Side) -> None:
    """Sets and maps have no order; Java's come in the order of their hashes."""
    sets = {
        *("groupList", "topicList", "consumerIdList", "connectionSet", "lockOKMQSet"),
        *("tagsSet", "codeSet", "consumeStatsList", "consumeTimeSpanSet"),
        "offsetTable",  # a list where a C++ client has asked for it
    }

    def change(name: str, value: Any) -> Any:
        if name in sets and isinstance(value, list):
            return sorted(value, key=canonical)
        return value

    answer.body = _each(answer.body, change)
    lists: list[list[Any]] = []
    if answer.request_code == RequestCode.GET_ALL_PRODUCER_INFO:
        lists = list(answer.body["data"].values())
    elif answer.request_code == RequestCode.GET_BROKER_CONSUME_STATS:
        lists = [stats for group in answer.body["consumeStatsList"] for stats in group.values()]
    for members in lists:
        members.sort(key=canonical)


def delays(answer: Seen, _side: Side) -> None:
    """Java says of a group that has committed nothing that it is late since 1970."""

    def change(name: str, value: Any) -> Any:
        return "<delay>" if name == "delayTime" else value

    answer.body = _each(answer.body, change)


def forgotten_remarks(answer: Seen, side: Side) -> None:
    """Some of Java's handlers leave in the remark of a success that no code has been set."""
    is_forgotten = answer.remark == "not set any response code"
    if side.is_java and answer.code == ResponseCode.SUCCESS and is_forgotten:
        answer.remark = None


def queues_asked_for(answer: Seen, _side: Side) -> None:
    """A queue exists for Java as soon as anybody has asked for it, for us when it has a message."""
    if answer.request_code == RequestCode.QUERY_CONSUME_QUEUE:
        match = re.fullmatch(r"(?:Index -?\d+ of )?(.*@.*) is not exist!", answer.remark or "")
        if match is not None:
            answer.code, answer.remark = -1, f"{match[1]} is not exist!"


def account_files(answer: Seen, _side: Side) -> None:
    """Files of accounts are in two places, changed at two times; names and counters are compared.

    The version of the first file is left out: Java tells the one it loaded last, half a second
    after every change. It is one of all versions, too, and right there.
    """
    if answer.request_code == RequestCode.GET_BROKER_CLUSTER_ACL_INFO and answer.ext:
        del answer.ext["version"]
        versions = loads_lenient(answer.ext["allAclFileVersion"].encode())
        answer.ext["allAclFileVersion"] = canonical(
            {Path(path).name: version["counter"] for path, version in versions.items()}
        )


EXCEPTION = re.compile(r"^[a-z]+(\.[A-Za-z_$]+)+(Exception|Error)\b")


def exceptions(answer: Seen, side: Side) -> None:
    """Java answers what it did not think of with an exception and where it was thrown.

    OrbitMQ gives a reason in words of its own, so only the code is compared. `compare` leaves
    OrbitMQ's remark out where Java's is of this kind.
    """
    remark = answer.remark or ""
    if remark.startswith(REFUSED_ACCESS):
        # Of several resources that are refused, Java names the first in the order of a hash map.
        answer.remark = re.sub(
            r"(?<=for )(group|topic):.*", "<resource>", remark.split(", org.")[0]
        )
    elif answer.code == ResponseCode.SYSTEM_ERROR and EXCEPTION.match(remark):
        answer.remark = EXCEPTION_TEXT if side.is_java else answer.remark


EXCEPTION_TEXT = "<exception>"
REFUSED_ACCESS = "org.apache.rocketmq.acl.common.AclException: "
"""The only exception whose name clients use."""
MISSING_FIELD = "HeaderFault: field "
"""How we begin to refuse a request that lacks a field, before anything else is looked at. Java
misses a field when it needs it, and may have refused the request for another reason by then."""

NORMALISATIONS: tuple[Callable[[Seen, Side], None], ...] = (
    ports,
    times,
    due_times,
    rates,
    runtime_values,
    place_settings,
    delays,
    order,
    forgotten_remarks,
    queues_asked_for,
    account_files,
    exceptions,
)
"""All of them. Besides, `seen` does not look at an answer's opaque (it has been matched), language
(each broker tells its own) and header encoding (Java answers refusals in JSON whatever it was asked
in), nor at the order of a record's properties (Java's is that of a hash map), nor at whether a map
of ext fields is empty or absent (the binary header knows no difference)."""


def compare(java: Seen, ours: Seen) -> str | None:
    """Say how two normalised answers differ, None if they do not."""
    if java.remark == EXCEPTION_TEXT and ours.code == java.code:
        ours.remark = EXCEPTION_TEXT
    if java.code != ResponseCode.SUCCESS and (ours.remark or "").startswith(MISSING_FIELD):
        return None
    for name in ("code", "remark", "ext", "body", "header"):
        theirs, own = getattr(java, name), getattr(ours, name)
        if theirs != own:
            return f"{name}: {_first_difference(theirs, own)}"
    return None


def _first_difference(theirs: Any, own: Any, path: str = "") -> str:
    if isinstance(theirs, dict) and isinstance(own, dict):
        for key in [*theirs, *(key for key in own if key not in theirs)]:
            if key not in own or key not in theirs or theirs[key] != own[key]:
                missing = "<absent>"
                return _first_difference(
                    theirs.get(key, missing), own.get(key, missing), f"{path}.{key}"
                )
    if isinstance(theirs, list) and isinstance(own, list) and len(theirs) == len(own):
        for number, (one, other) in enumerate(zip(theirs, own, strict=True)):
            if one != other:
                return _first_difference(one, other, f"{path}[{number}]")
    return f"{path} java={theirs!r:.600} ours={own!r:.600}"
