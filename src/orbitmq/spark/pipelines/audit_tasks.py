"""The work of an audit, cut into tasks that Spark runs wherever it likes.

A piece is one call of `StoreAudit`: a range of the log, of a queue, of an index file. Pieces are
dealt out to tasks by their weight, so that tasks take about equally long. Each task looks at the
directory as the plan found it and answers with rows of four sections: ``finding``, ``count`` (of a
kind), ``checked`` and ``size`` (of a topic).

Messages are not compared with queues or an index that are not there at all; `find_absences` says
once, behind all tasks, what that means.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from orbitmq._native import AuditPart, StoreAudit
from orbitmq.storelog import StoreLog
from orbitmq.storelog.plan import cut

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["FINDING_COLUMNS", "Absences", "AuditPlan", "find_absences", "run_tasks"]

FINDING_COLUMNS: Final = {
    "kind": "string",
    "topic": "string",
    "queueId": "int",
    "queueOffset": "long",
    "physicalOffset": "long",
    "detail": "string",
}
"""What a finding says, and the types of that in SQL; what does not apply is -1 or empty."""
_SIZE_COLUMNS = {
    "count": "long",
    "bytes": "long",
    "bodyBytes": "long",
    "firstMs": "long",
    "lastMs": "long",
}
_COLUMNS = {"section": "string"} | FINDING_COLUMNS | _SIZE_COLUMNS

UNITS_PER_PIECE = 500_000
ENTRIES_PER_PIECE = 500_000
RECORD_WEIGHT = 500
"""Bytes of log that take about as long to check as one unit or entry, which needs a record, too."""

Piece = tuple[Any, ...]


@dataclass(frozen=True)
class AuditPlan:
    """What every task needs to know, and the pieces of each."""

    path: str
    commit_log_paths: tuple[str, ...]
    log_end: int
    dispatched_end: int | None
    tasks: tuple[tuple[Piece, ...], ...]

    @classmethod
    def of(
        cls, log: StoreLog, audit: StoreAudit, commit_log_paths: tuple[str, ...], tasks: int
    ) -> AuditPlan:
        """Cut the work of checking a directory into at most so many tasks."""
        weighed: list[tuple[int, Piece]] = [(1, ("directory",))]
        for split in cut(log.snapshot.whole(), tasks):
            weighed.append((split.size, ("log", split.ranges)))
        for topic, queue_id, first, end in log.snapshot.queues():
            for begin in range(first, end, UNITS_PER_PIECE):
                stop = min(end, begin + UNITS_PER_PIECE)
                piece = ("queue", topic, queue_id, begin, stop)
                weighed.append(((stop - begin) * RECORD_WEIGHT, piece))
        for path, entries in audit.index_files:
            weighed.append((entries * RECORD_WEIGHT // 4, ("chains", path)))
            for begin in range(1, entries + 1, ENTRIES_PER_PIECE):
                stop = min(entries + 1, begin + ENTRIES_PER_PIECE)
                weighed.append(((stop - begin) * RECORD_WEIGHT, ("index", path, begin, stop)))
        snapshot = log.snapshot
        dealt = _deal(weighed, tasks)
        return cls(
            str(log.path), commit_log_paths, snapshot.log_end, snapshot.dispatched_end, dealt
        )

    def check(self, number: int) -> Iterator[dict[str, Any]]:
        """Do the work of one task; the rows of its answer."""
        audit = StoreAudit(
            self.path,
            commit_log_paths=self.commit_log_paths,
            log_end=self.log_end,
            dispatched_end=self.dispatched_end,
        )
        checks: dict[str, tuple[str, Callable[..., AuditPart]]] = {
            "directory": ("", audit.check_directory),
            "log": ("records", audit.check_log),
            "queue": ("units", audit.check_queue),
            "index": ("index entries", audit.check_index),
            "chains": ("", audit.check_chains),
        }
        for name, *arguments in self.tasks[number]:
            counted_as, check = checks[name]
            yield from _rows(check(*arguments), counted_as)


def _deal(weighed: list[tuple[int, Piece]], tasks: int) -> tuple[tuple[Piece, ...], ...]:
    """Give the heaviest piece to the task with the least, and so on."""
    hands: list[tuple[int, int, list[Piece]]] = [(0, number, []) for number in range(tasks)]
    for weight, piece in sorted(weighed, key=lambda each: -each[0]):
        load, number, pieces = heapq.heappop(hands)
        pieces.append(piece)
        heapq.heappush(hands, (load + weight, number, pieces))
    return tuple(tuple(pieces) for _, _, pieces in hands if pieces)


def _rows(part: AuditPart, counted_as: str) -> Iterator[dict[str, Any]]:
    for finding in part.findings:
        yield {"section": "finding"} | dict(zip(FINDING_COLUMNS, finding, strict=True))
    for kind, count in part.counts.items():
        yield {"section": "count", "kind": kind, "count": count}
    for topic, size in part.topics.items():
        sizes = dict(zip(_SIZE_COLUMNS, size, strict=True))
        yield {"section": "size", "topic": topic} | sizes
    if counted_as:
        yield {"section": "checked", "kind": counted_as, "count": part.checked}


def run_tasks(spark: SparkSession, plan: AuditPlan) -> list[dict[str, Any]]:
    """Run all tasks on Spark and return their rows."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        types = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}
        schema = pa.schema([pa.field(name, types[kind]) for name, kind in _COLUMNS.items()])
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = [dict.fromkeys(_COLUMNS) | row for row in plan.check(number)]
                yield pa.RecordBatch.from_pylist(rows, schema=schema)

    count = len(plan.tasks)
    numbers = spark.range(0, count, 1, count)
    schema = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
    return [row.asDict() for row in numbers.mapInArrow(work, schema).collect()]


@dataclass
class Absences:
    """What is to be said of queues and an index that are missing as a whole."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """The findings, as a task has them."""
    unchecked: list[str] = field(default_factory=list)
    """What may be missing, and was not checked therefore."""

    def find(self, kind: str, detail: str) -> None:
        """Add a finding that is about all messages."""
        finding = dict(zip(FINDING_COLUMNS, (kind, "", -1, -1, -1, detail), strict=True))
        counted = {"section": "count", "kind": kind, "count": 1}
        self.rows += [{"section": "finding"} | finding, counted]


def find_absences(log: StoreLog, rows: list[dict[str, Any]]) -> Absences:
    """Look for what the tasks, whose rows these are, had nothing to compare the messages with."""
    found = Absences()
    records = sum(row["count"] for row in rows if row["kind"] == "records")
    has_index = any(row["kind"] in ("index entries", "unreadable-index") for row in rows)
    if not records:
        return found
    if any(file.parent == log.path for file, *_ in log.snapshot.log_files):
        found.unchecked.append(
            f"queues and index, as {log.path} is a log alone; give the store directory to check all"
        )
        return found
    if log.snapshot.dispatched_end is None:
        queues = log.path / "consumequeue"
        found.find(
            "no-queues",
            f"none of {records} messages has a queue unit: {queues} "
            + ("has no queue of theirs" if queues.is_dir() else "is not there"),
        )
    if not has_index and _has_keys(log):
        index = log.path / "index"
        # Brokers that index make the directory, and retention leaves the last file in it.
        if index.is_dir():
            found.find("no-index", f"no key leads to its message: {index} has no entries")
        else:
            found.unchecked.append(
                f"the index: messages have keys and none of them is indexed, as {index} is not "
                "there; so a broker leaves it that has messageIndexEnable=false"
            )
    return found


def _has_keys(log: StoreLog) -> bool:
    """Whether any message has keys or the unique id of its producer."""
    import pyarrow as pa

    columns = ("keys", "msgId", "offsetMsgId")
    for batch in log.scan(columns=columns, verify_crc=False, fail_on_damage=False):
        keys, ids, places = pa.record_batch(batch).columns
        # Without an id of its own a message is called by its place.
        if len(keys.flatten()) or not ids.equals(places):
            return True
    return False
