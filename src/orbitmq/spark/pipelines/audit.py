"""``audit``: a store directory, every record and every entry of it checked, side by side.

::

    kind = "audit"
    path = "/var/lib/rocketmq/store"        # a Java broker's is as good; it may be running
    findings = "report/findings.parquet"    # each finding as a row, if wished
    ignore = ["missing-index-entry"]        # told, but no fault

Checked are the checksum and the structure of every record, that each message has its unit in its
queue and its keys in the index, and that each unit and each index entry leads to its message. Kinds
of findings: ``log-gap``, ``damaged-record``, ``no-queues``, ``missing-unit``, ``wrong-unit``,
``stray-unit``, ``queue-gap``, ``no-index``, ``missing-index-entry``, ``wrong-index-entry``,
``broken-index-chain`` and ``unreadable-index``. Any of them that is not ignored ends the command
with code 3. A torn tail is what a crash leaves and the next start cuts off: it is told, and no
fault. So is what cannot be checked: queues and index of a bare ``commitlog`` directory, and the
index of a store that never had one.
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

# ---- The work of an audit, cut into tasks that Spark runs wherever it likes
#
# A piece is one call of `StoreAudit`: a range of the log, of a queue, of an index file. Pieces are
# dealt out to tasks by their weight, so that tasks take about equally long. Each task looks at the
# directory as the plan found it and answers with rows of four sections: ``finding``, ``count`` (of
# a kind), ``checked`` and ``size`` (of a topic).
#
# Messages are not compared with queues or an index that are not there at all; `find_absences` says
# once, behind all tasks, what that means.

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
class MissingParts:
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


def find_absences(log: StoreLog, rows: list[dict[str, Any]]) -> MissingParts:
    """Look for what the tasks, whose rows these are, had nothing to compare the messages with."""
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


FINDING_KINDS: Final = (
    *("log-gap", "damaged-record", "no-queues", "missing-unit", "wrong-unit", "stray-unit"),
    *("queue-gap", "no-index", "missing-index-entry", "wrong-index-entry", "broken-index-chain"),
    "unreadable-index",
)
SHOWN = 50


@dataclass(frozen=True, kw_only=True)
class AuditSpec(PipelineSpec):
    """A whole ``audit`` pipeline."""

    path: str
    commit_log_path: tuple[str, ...] = ()
    findings: str | None = None
    ignore: tuple[str, ...] = ()
    tasks: int | None = None
    """How many tasks the work is cut into; four per core unless given."""

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Kinds that are ignored must exist; a store is on this machine."""
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
    """Look at the directory and plan the work."""
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
    """Return what people and programs are told about the rows of all tasks."""
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
