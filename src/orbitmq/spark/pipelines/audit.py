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

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from orbitmq._native import StoreAudit
from orbitmq.spark.pipelines.audit_tasks import (
    FINDING_COLUMNS,
    AuditPlan,
    find_absences,
    run_tasks,
)
from orbitmq.spark.pipelines.kinds import Kind
from orbitmq.spark.pipelines.plan import Job, Report, Table, moment
from orbitmq.spark.pipelines.spec import PipelineSpec, check_local
from orbitmq.spark.pipelines.tables import Mistakes
from orbitmq.storelog import StoreLog

if TYPE_CHECKING:
    from orbitmq.spark.pipelines.workspace import Workspace

__all__ = ["FINDING_KINDS", "KIND", "AuditSpec", "build"]

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
