"""Options of ``format("rocketmq-store")``, and the plan made of them.

| Option | Meaning |
| --- | --- |
| ``path`` (``load(path)``) | the store directory, or a bare ``commitlog`` directory |
| ``commitLogPath`` | directories of a commit log elsewhere, separated by commas |
| ``topics``, ``subscribe`` | names, separated by commas |
| ``topicPattern``, ``subscribePattern`` | regular expression instead; no internal topics |
| ``queues``, ``assign`` | only these queues, such as ``{"orders":[0,1]}`` |
| ``startTime``, ``endTime`` | store time, the end exclusive: epoch milliseconds or ISO 8601 |
| ``startingOffsets``, ``endingOffsets`` | such as ``{"orders":{"0":12}}``, the end exclusive |
| ``keys`` | only messages with one of these keys, separated by commas |
| ``columns`` | columns to read; the others are not copied |
| ``brokerName`` | value of that column, because no file contains it |
| ``splits``, ``minPartitions`` | number of tasks |
| ``failOnCorruption`` (true) | a message that cannot be read fails the query |
| ``verifyCrc`` (true) | bodies are compared with their checksums |
| ``prune`` (true) | consume queues, index and times may limit the reading |
| ``pushFilters`` (false) | Spark's filters may limit it, too (Spark's own setting is off) |
| ``table`` (``messages``) | ``damages`` lists data that cannot be read, instead of messages |

Directories may be ``file:`` URLs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from orbitmq.errors import ConfigError
from orbitmq.spark.options import Options, path_of
from orbitmq.storelog import ScanPlan, Selection, StoreLog
from orbitmq.storelog.plan import check_columns

__all__ = ["STORE_OPTIONS", "StoreOptions"]

STORE_OPTIONS: Final = (
    *("path", "commitLogPath", "topics", "subscribe", "topic", "topicPattern", "subscribePattern"),
    *("queues", "assign", "startTime", "startingTimestamp", "endTime", "endingTimestamp"),
    *("startingOffsets", "endingOffsets", "keys", "columns", "brokerName", "splits"),
    *("minPartitions", "failOnCorruption", "verifyCrc", "prune", "table", "pushFilters"),
)

_URL = re.compile(r"([a-z][a-z0-9+.-]*):(?=/)", re.IGNORECASE)
_WHOLE = {"startingOffsets": "earliest", "endingOffsets": "latest"}


@dataclass(frozen=True)
class StoreOptions:
    """All options of a scan; `open` inspects the directory."""

    path: str
    commit_log_paths: tuple[str, ...]
    wishes: dict[str, Any]
    """Selection of messages, as arguments of `StoreLog.select`."""
    manner: dict[str, Any]
    """Manner of reading, as arguments of `StoreLog.plan`."""
    table: Literal["messages", "damages"]
    columns: tuple[str, ...]
    push_filters: bool = False

    @classmethod
    def of(cls, given: Mapping[str, str]) -> StoreOptions:
        """Parse the options, without opening the directory."""
        options = Options(given, STORE_OPTIONS, "format rocketmq-store")
        path = options.text("path")
        if path is None:
            raise ConfigError(
                "option path is missing: give the store directory, as in load('/var/lib/store')"
            )
        topics = _names(options.text("topics", "subscribe", "topic"))
        pattern = options.text("topicPattern", "subscribePattern")
        queues = _queues(options.text("queues", "assign"))
        if sum(way is not None for way in (topics, pattern, queues)) > 1:
            raise ConfigError("give one of the options topics, topicPattern and queues")
        columns = _names(options.text("columns"))
        tables: dict[str, Literal["messages", "damages"]] = {
            "messages": "messages",
            "damages": "damages",
        }
        table: Literal["messages", "damages"] = options.choice("table", tables, "messages")
        wishes = {
            "topics": topics if queues is None else queues,
            "topic_pattern": pattern,
            "start": options.text("startTime", "startingTimestamp"),
            "end": options.text("endTime", "endingTimestamp"),
            "starting_offsets": _offsets(options, "startingOffsets"),
            "ending_offsets": _offsets(options, "endingOffsets"),
            "keys": _names(options.text("keys")),
        }
        manner = {
            "broker_name": options.text("brokerName"),
            "splits": options.number_if_given("splits") or options.number_if_given("minPartitions"),
            "prune": options.flag("prune", True),
            "verify_crc": options.flag("verifyCrc", True),
            "fail_on_damage": options.flag("failOnCorruption", True) and table == "messages",
        }
        log_paths = tuple(map(_local, _names(options.text("commitLogPath")) or ()))
        try:
            chosen = check_columns(columns)
        except ValueError as error:
            raise ConfigError(f"option columns: {error}") from None
        push_filters = options.flag("pushFilters", False)
        return cls(_local(path), log_paths, wishes, manner, table, chosen, push_filters)

    def open(self) -> StoreLog:
        """Inspect the directory and return its log."""
        return StoreLog(self.path, commit_log_paths=self.commit_log_paths)

    def select(self, log: StoreLog) -> Selection:
        """Return the selection of messages that the options describe."""
        try:
            return log.select(**self.wishes)
        except ValueError as error:
            raise ConfigError(f"format rocketmq-store: {error}") from None

    def plan(
        self, log: StoreLog, selection: Selection, columns: tuple[str, ...], tasks: int | None
    ) -> ScanPlan:
        """Plan the scan; `tasks` is the number of tasks that can run at once."""
        return log.plan(selection, columns=columns, at_once=tasks, **self.manner)


def _local(path: str) -> str:
    """Return the path of a ``file:`` URL; return any other path unchanged."""
    url = _URL.match(path)
    if url is None:
        return path
    if url[1].lower() != "file":
        raise ConfigError(
            f"format rocketmq-store reads directories of this machine, not {path!r}; "
            "give a path or a file: URL"
        )
    return path_of(path)


def _names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def _json(text: str, name: str, shape: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ConfigError(f"option {name} is JSON such as {shape}, not {text!r}")
    return value


def _without_broker(value: object) -> object:
    """Return the queues of a topic, without a broker level as in format rocketmq.

    The broker's name is ignored, because no file of a store contains it.
    """
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if not str(name).isdigit() and isinstance(inner, (dict, list)):
            return inner
    return value


def _queues(text: str | None) -> dict[str, list[int]] | None:
    if text is None:
        return None
    shape = '{"orders":[0,1]}'
    made: dict[str, list[int]] = {}
    for topic, value in _json(text, "queues", shape).items():
        numbers = _without_broker(value)
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            raise ConfigError(f"option queues is JSON such as {shape}, not {text!r}")
        made[topic] = numbers
    return made


def _offsets(options: Options, name: str) -> dict[str, dict[int, int]] | None:
    text = options.text(name)
    if text is None or text.lower() == _WHOLE[name]:
        return None
    shape = '{"orders":{"0":12}}'
    made: dict[str, dict[int, int]] = {}
    for topic, value in _json(text, name, shape).items():
        try:
            by_queue: Any = _without_broker(value)
            offsets = {int(queue): int(offset) for queue, offset in by_queue.items()}
        except (AttributeError, TypeError, ValueError):
            raise ConfigError(f"option {name} is JSON such as {shape}, not {text!r}") from None
        # As in format rocketmq: -2 is the earliest, -1 the latest.
        dull = {"startingOffsets": -2, "endingOffsets": -1}[name]
        made[topic] = {queue: offset for queue, offset in offsets.items() if offset != dull}
        if any(offset < 0 for offset in made[topic].values()):
            raise ConfigError(f"option {name}: offsets are 0 or more, in {text!r}")
    return made
