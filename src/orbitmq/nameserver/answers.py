"""Bodies of the nameserver's answers, with members in Java's order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from orbitmq._native import Command, dumps_lenient
from orbitmq.nameserver.routes import BrokerData, QueueData
from orbitmq.remoting.handling import respond

__all__ = ["broker_json", "queue_json", "standard_json", "topic_list"]


def topic_list(request: Command, topics: Iterable[str], broker: str | None = None) -> Command:
    """Build an answer with topic names, and a broker address for further requests if known."""
    value: dict[str, Any] = {} if broker is None else {"brokerAddr": broker}
    return respond(request, body=dumps_lenient({**value, "topicList": list(topics)}))


def broker_json(broker: BrokerData, given: Callable[[str], str]) -> dict[str, Any]:
    """Describe a broker with the addresses for one client."""
    return {
        "brokerAddrs": {
            broker_id: given(address) for broker_id, address in sorted(broker.addresses.items())
        },
        "brokerName": broker.broker_name,
        "cluster": broker.cluster,
    }


def queue_json(queues: QueueData) -> dict[str, Any]:
    """Describe a broker's queues of a topic."""
    return {
        "brokerName": queues.broker_name,
        "perm": queues.perm,
        "readQueueNums": queues.read_queue_nums,
        "topicSysFlag": queues.topic_sys_flag,
        "writeQueueNums": queues.write_queue_nums,
    }


def standard_json(value: dict[str, Any]) -> bytes:
    """Write JSON that any reader accepts: quoted, sorted, ASCII, with Java's capital digits."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"[^ -~]", _escaped, text).encode()


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
