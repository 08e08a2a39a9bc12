"""``audit``: a parallel check of every record and every entry of a store directory.

::

    kind = "audit"
    path = "/var/lib/rocketmq/store"        # of OrbitMQ or Java; the broker may be running
    findings = "report/findings.parquet"    # optional: each finding as a row
    ignore = ["missing-index-entry"]        # reported, but not counted as a fault

The audit checks the checksum and the structure of every record. It checks that each message has its
unit in its queue and its keys in the index. It also checks that each unit and each index entry
leads to its message.

Kinds of findings: ``log-gap``, ``damaged-record``, ``no-queues``, ``missing-unit``, ``wrong-unit``,
``stray-unit``, ``queue-gap``, ``no-index``, ``missing-index-entry``, ``wrong-index-entry``,
``broken-index-chain`` and ``unreadable-index``. If a finding is not ignored, the command ends with
exit code 3.

A torn tail is reported but is not a fault: a crash leaves it, and the next start cuts it off. Parts
that cannot be checked are reported in the same way: queues and index of a bare ``commitlog``
directory, and the index of a store that never had an index.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from orbitmq._native import AuditPart, StoreAudit
from orbitmq.spark.pipelines.plan import Job, Report, Table, moment
from orbitmq.spark.pipelines.spec import Kind, PipelineSpec, check_local
from orbitmq.spark.pipelines.tables import Mistakes
from orbitmq.storelog import StoreLog
from orbitmq.storelog.plan import cut

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from orbitmq.spark.pipelines.plan import Workspace

__all__ = [
    "FINDING_COLUMNS",
    "FINDING_KINDS",
    "KIND",
    "AuditPlan",
    "AuditSpec",
    "MissingParts",
    "build",
    "find_absences",
    "run_tasks",
]

# ---- Tasks of an audit
#
# Spark runs the tasks on any machine. A piece is one call of `StoreAudit`: a range of the log, of a
# queue or of an index file. Pieces are dealt out to tasks by their weight, so that tasks take about
# the same time. Each task checks the directory up to the log end of the plan. It returns rows of
# four sections: ``finding``, ``count`` (of a kind), ``checked`` and ``size`` (of a topic).
#
# If all queues or the whole index are missing, messages are not compared with them. `find_absences`
# adds a finding or a note about that once, after all tasks.

FINDING_COLUMNS: Final = {
    "kind": "string",
    "topic": "string",
    "queueId": "int",
    "queueOffset": "long",
    "physicalOffset": "long",
    "detail": "string",
}
"""Columns of a finding with their SQL types; a value that does not apply is -1 or empty."""
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
"""Bytes of log whose check takes about as long as the check of one unit or entry, which also reads
a record."""

Piece = tuple[Any, ...]


@dataclass(frozen=True)
class AuditPlan:
    """Common parameters of all tasks, and the pieces of each task."""

    path: str
    commit_log_paths: tuple[str, ...]
    log_end: int
    dispatched_end: int | None
    tasks: tuple[tuple[Piece, ...], ...]

    @classmethod
    def of(
        cls, log: StoreLog, audit: StoreAudit, commit_log_paths: tuple[str, ...], tasks: int
    ) -> AuditPlan:
        """Cut the check of a directory into at most `tasks` tasks."""
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
        """Do the work of one task and yield the rows of its result."""
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
    """Deal out pieces, the heaviest first, each to the task with the smallest load."""
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
class MissingParts:
    """Findings and notes about queues or an index that are missing as a whole."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """Rows of the findings, in the form of a task's result."""
    unchecked: list[str] = field(default_factory=list)
    """Parts that were not checked because they may be missing, each with the reason."""

    def find(self, kind: str, detail: str) -> None:
        """Add a finding about all messages."""
        finding = dict(zip(FINDING_COLUMNS, (kind, "", -1, -1, -1, detail), strict=True))
        counted = {"section": "count", "kind": kind, "count": 1}
        self.rows += [{"section": "finding"} | finding, counted]


def find_absences(log: StoreLog, rows: list[dict[str, Any]]) -> MissingParts:
    """Find queues and an index that are missing as a whole, from the rows of all tasks."""
    found = MissingParts()
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
        # A broker that indexes creates the directory, and retention keeps its last file.
        if index.is_dir():
            found.find("no-index", f"no key leads to its message: {index} has no entries")
        else:
            found.unchecked.append(
                f"the index: messages have keys and none of them is indexed, as {index} is not "
                "there; so a broker leaves it that has messageIndexEnable=false"
            )
    return found


def _has_keys(log: StoreLog) -> bool:
    """Return True if any message has keys or the unique id of its producer."""
    import pyarrow as pa

    columns = ("keys", "msgId", "offsetMsgId")
    for batch in log.scan(columns=columns, verify_crc=False, fail_on_damage=False):
        keys, ids, places = pa.record_batch(batch).columns
        # Without a unique id, the message id is the offset message id.
        if len(keys.flatten()) or not ids.equals(places):
            return True
    return False


FINDING_KINDS: Final = (
    *("log-gap", "damaged-record", "no-queues", "missing-unit", "wrong-unit", "stray-unit"),
    *("queue-gap", "no-index", "missing-index-entry", "wrong-index-entry", "broken-index-chain"),
    "unreadable-index",
)
SHOWN = 50


@dataclass(frozen=True, kw_only=True)
class AuditSpec(PipelineSpec):
    """Keys of an ``audit`` pipeline file."""

    path: str
    commit_log_path: tuple[str, ...] = ()
    findings: str | None = None
    ignore: tuple[str, ...] = ()
    tasks: int | None = None
    """Number of tasks; by default four per core."""

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check that ignored kinds exist and that the store is on this machine."""
        check_local(mistakes, "path", self.path)
        for at, path in enumerate(self.commit_log_path):
            check_local(mistakes, f"commit_log_path[{at}]", path)
        for at, kind in enumerate(self.ignore):
            if kind not in FINDING_KINDS:
                names = ", ".join(FINDING_KINDS)
                mistakes.add(f"ignore[{at}]", f"{kind!r} is no kind of finding; there are {names}")
        if self.tasks is not None and self.tasks < 1:
            mistakes.add("tasks", "is 1 or more")


def build(spec: AuditSpec, workspace: Workspace) -> Job:
    """Open the directory and plan the tasks."""
    spark = workspace.spark
    log_paths = tuple(str(workspace.locate_here(path)) for path in spec.commit_log_path)
    with workspace.planning("path"):
        log = StoreLog(str(workspace.locate_here(spec.path)), commit_log_paths=log_paths)
        audit = StoreAudit(log.path, commit_log_paths=log_paths)
    tasks = spec.tasks or spark.sparkContext.defaultParallelism * 4
    plan = AuditPlan.of(log, audit, log_paths, tasks)

    def run() -> Report:
        rows = run_tasks(spark, plan)
        absences = find_absences(log, rows)
        rows += absences.rows
        found = [row for row in rows if row["section"] == "finding"]
        if spec.findings is not None:
            values = [tuple(row[name] for name in FINDING_COLUMNS) for row in found]
            frame = spark.createDataFrame(values, ", ".join(map(" ".join, FINDING_COLUMNS.items())))
            frame.write.mode("overwrite").parquet(workspace.locate(spec.findings))
        return report(log, rows, absences.unchecked, spec)

    return Job(run)


def report(
    log: StoreLog, rows: list[dict[str, Any]], unchecked: list[str], spec: AuditSpec
) -> Report:
    """Return the report on the rows of all tasks."""
    counts: Counter[str] = Counter()
    checked: Counter[str] = Counter()
    sizes: dict[str, list[int]] = {}
    for row in rows:
        if row["section"] == "count":
            counts[row["kind"]] += row["count"]
        elif row["section"] == "checked":
            checked[row["kind"]] += row["count"]
        elif row["section"] == "size":
            _add_size(sizes, row)
    faults = sum(count for kind, count in counts.items() if kind not in spec.ignore)
    found = sorted(
        (row for row in rows if row["section"] == "finding"),
        key=lambda row: (FINDING_KINDS.index(row["kind"]), row["physicalOffset"]),
    )
    tables = [
        Table(
            "topics",
            ("topic", "messages", "bytes", "body bytes", "first stored", "last stored"),
            tuple(
                (topic, messages, size, bodies, moment(first), moment(last))
                for topic, (messages, size, bodies, first, last) in sorted(sizes.items())
            ),
        )
    ]
    if counts:
        kinds = tuple(
            (kind, counts[kind], "ignored" if kind in spec.ignore else "fault")
            for kind in FINDING_KINDS
            if counts[kind]
        )
        tables.append(Table("findings by kind", ("kind", "count", "counts as"), kinds))
        shown = tuple(tuple(row[name] for name in FINDING_COLUMNS) for row in found[:SHOWN])
        tables.append(Table(f"the first {len(shown)}", tuple(FINDING_COLUMNS), shown))
    return Report(
        tables=tuple(tables),
        notes=_notes(log, checked, unchecked, sum(counts.values()), faults),
        files=(spec.findings,) if spec.findings is not None else (),
        facts={
            "log_start": log.snapshot.log_start,
            "log_end": log.snapshot.log_end,
            "torn_bytes": log.torn_bytes,
            "checked": dict(checked),
            "unchecked": unchecked,
            "findings": dict(counts),
        },
        faults=faults,
    )


def _notes(
    log: StoreLog, checked: Counter[str], unchecked: list[str], found: int, faults: int
) -> tuple[str, ...]:
    looked_at = ", ".join(f"{count} {what}" for what, count in sorted(checked.items()))
    notes = [f"{log.path}: {log.size} bytes of log; checked {looked_at or 'nothing'}"]
    if log.torn_bytes:
        notes.append(
            f"{log.torn_bytes} bytes of an unfinished message follow the log's end at "
            f"{log.snapshot.log_end}; the next start of a broker cuts them off"
        )
    notes += [f"NOT CHECKED: {what}" for what in unchecked]
    agreed = "everything that was checked agrees" if unchecked else "everything agrees"
    notes.append(f"{found} findings, {faults} of them faults" if found else agreed)
    return tuple(notes)


def _add_size(sizes: dict[str, list[int]], row: dict[str, Any]) -> None:
    size = sizes.setdefault(row["topic"], [0, 0, 0, row["firstMs"], row["lastMs"]])
    for at, name in enumerate(("count", "bytes", "bodyBytes")):
        size[at] += row[name]
    size[3], size[4] = min(size[3], row["firstMs"]), max(size[4], row["lastMs"])


KIND = Kind("audit", AuditSpec, build)
