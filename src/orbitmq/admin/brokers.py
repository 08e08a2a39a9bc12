"""Brokers: their state, settings, counters and clean-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from orbitmq.admin.offsets import QueueLag
from orbitmq.admin.requests import TIMEOUT_MS, ask, read
from orbitmq.config import decode, format_properties, parse_properties
from orbitmq.errors import BrokerRefused
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.rpc.flow import Flow
from orbitmq.rpc.refusals import access_hint

__all__ = [
    "BrokerLag",
    "CleanKind",
    "Counter",
    "broker_config",
    "broker_lag",
    "broker_runtime_info",
    "clean_broker",
    "counter",
    "update_broker_config",
]

CleanKind = Literal["queues", "topics", "log"]

CLEANING: Final[Mapping[CleanKind, tuple[int, float]]] = {
    "queues": (RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, 60_000),
    "topics": (RequestCode.CLEAN_UNUSED_TOPIC, 60_000),
    "log": (RequestCode.DELETE_EXPIRED_COMMITLOG, TIMEOUT_MS),
}
"""Request code and timeout in milliseconds of each kind of clean-up."""


@dataclass(frozen=True, slots=True)
class BrokerLag:
    """Offsets and lags of every group in one broker's queues."""

    total: int
    groups: Mapping[str, Mapping[MessageQueue, QueueLag]]


@dataclass(frozen=True, slots=True)
class Counter:
    """Recent values of a counter: rate per second, and sums of a minute, an hour and a day."""

    per_second: float
    last_minute: int
    last_hour: int
    last_day: int


def broker_runtime_info(address: str) -> Flow[dict[str, str]]:
    """Return the state that a broker reports, under RocketMQ's keys."""
    table = read((yield from ask(address, RequestCode.GET_BROKER_RUNTIME_INFO))).get("table") or {}
    return {str(key): str(value) for key, value in table.items()}


def broker_config(address: str) -> Flow[dict[str, str]]:
    """Return all settings of a broker, under RocketMQ's keys."""
    response = yield from ask(address, RequestCode.GET_BROKER_CONFIG)
    return parse_properties(decode(response.body))


def update_broker_config(address: str, settings: Mapping[str, str]) -> Flow[None]:
    """Change settings of a running broker."""
    body = format_properties(settings).encode()
    yield from ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)


def clean_broker(address: str, what: CleanKind) -> Flow[None]:
    """Make a broker delete queues without messages, unused topics, or expired log files."""
    code, timeout_ms = CLEANING[what]
    yield from ask(address, code, timeout_ms=timeout_ms)


def broker_lag(address: str, *, only_ordered: bool = False) -> Flow[BrokerLag]:
    """Return the offsets and lags of every group in the queues of one broker."""
    ext = {"isOrder": "true" if only_ordered else "false"}
    value = read((yield from ask(address, RequestCode.GET_BROKER_CONSUME_STATS, ext)))
    groups: dict[str, dict[MessageQueue, QueueLag]] = {}
    for by_group in value.get("consumeStatsList") or ():
        for group, stats in by_group.items():
            for one in stats:
                for key, offsets in (one.get("offsetTable") or {}).items():
                    queues = groups.setdefault(str(group), {})
                    queues[MessageQueue.from_json(key)] = QueueLag.from_json(offsets)
    return BrokerLag(int(value.get("totalDiff") or 0), dict(sorted(groups.items())))


def counter(address: str, name: str, key: str) -> Flow[Counter | None]:
    """Return recent values of a broker's counter; None if it has not counted yet."""
    try:
        response = yield from ask(
            address, RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key}
        )
    except BrokerRefused as error:
        if error.code != ResponseCode.SYSTEM_ERROR or access_hint(error.remark) is not None:
            raise
        return None
    value = read(response)
    windows = [value.get(window) or {} for window in ("statsMinute", "statsHour", "statsDay")]
    return Counter(
        float(windows[0].get("tps") or 0),
        *(int(float(window.get("sum") or 0)) for window in windows),
    )
