"""``trace``: latencies of messages and failures of consumers, from the message trace.

::

    kind = "trace"
    plot = "trace.html"                     # or .svg, or .png if cairosvg is installed
    slowest = 20
    # by default all records that are still in the trace topic; options can limit the time:
    source = { options = { startingTimestamp = "1767225600000" } }
    tables = "out/trace"                    # every send and every try, as Parquet

Clients write the trace if it is switched on (`trace=True`, Java's ``enableMsgTrace``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from orbitmq.protocol.names import TRACE_TOPIC
from orbitmq.spark.pipelines import plots
from orbitmq.spark.pipelines.plan import Job, Report, Table
from orbitmq.spark.pipelines.spec import Kind, PipelineSpec, check_local
from orbitmq.spark.pipelines.tables import Mistakes
from orbitmq.spark.pipelines.topics import TopicSpec
from orbitmq.spark.pipelines.trace_events import consumptions, events, sends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from orbitmq.spark.pipelines.plan import Workspace

__all__ = ["KIND", "TraceSpec", "build", "failures", "percentiles_of", "slowest"]


@dataclass(frozen=True, kw_only=True)
class TraceSource(TopicSpec):
    """Topic of the trace, by default RocketMQ's own trace topic."""

    topic: tuple[str, ...] = (TRACE_TOPIC,)


@dataclass(frozen=True, kw_only=True)
class TraceSpec(PipelineSpec):
    """Keys of a ``trace`` pipeline file."""

    source: TraceSource = field(default_factory=TraceSource)
    percentiles: tuple[float, ...] = (50.0, 95.0, 99.0)
    slowest: int = 20
    plot: str | None = None
    tables: str | None = None

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check that percentiles are between 0 and 100 and that the plot can be written."""
        for at, percentile in enumerate(self.percentiles):
            if not 0 < percentile <= 100:
                mistakes.add(f"percentiles[{at}]", f"{percentile} is not above 0 and at most 100")
        if self.plot is not None and (fault := plots.format_fault(self.plot)):
            mistakes.add("plot", fault)
        check_local(mistakes, "plot", self.plot)
        if self.slowest < 0:
            mistakes.add("slowest", "must not be negative")
        self.source.check_options(mistakes, "source", self.name_server, streaming=False)


def percentiles_of(
    rows: DataFrame, column: str, by: list[str], percentiles: tuple[float, ...]
) -> DataFrame:
    """Return count, percentiles and maximum of a column, grouped by `by`, the slowest first."""
    found = F.percentile_approx(column, [share / 100 for share in percentiles], F.lit(10_000))
    grouped = rows.where(F.col(column).isNotNull()).groupBy(*by)
    counted = grouped.agg(
        F.count("*").alias("messages"), found.alias("p"), F.max(column).alias("max")
    )
    shares = [F.col("p")[at].alias(_name(share)) for at, share in enumerate(percentiles)]
    return counted.select(*by, "messages", *shares, "max").orderBy(F.desc("max"), *by)


def slowest(tries: DataFrame, count: int) -> DataFrame:
    """Return the `count` slowest messages, from the call of send to the end of the handler."""
    total = F.coalesce("deliveryMs", F.lit(0)) + F.coalesce("handlingMs", F.lit(0))
    columns = ["msgId", "keys", "topic", "group", "retryTimes", "deliveryMs", "handlingMs"]
    rows = tries.select(*columns, "outcome", total.alias("totalMs"))
    return rows.orderBy(F.desc("totalMs"), "msgId").limit(count)


def failures(tries: DataFrame) -> DataFrame:
    """Return the failed consumers with number of failures, kinds and number of messages."""
    failed = ~F.coalesce("succeeded", F.lit(True))
    grouped = tries.groupBy("group", "topic").agg(
        F.count("*").alias("tries"),
        F.count_if(failed).alias("failed"),
        F.count_distinct(F.when(failed, F.col("msgId"))).alias("messages"),
        F.max(F.when(failed, F.col("retryTimes"))).alias("retries"),
        F.array_join(
            F.array_sort(F.collect_set(F.when(failed, F.coalesce("outcome", F.lit("unknown"))))),
            ", ",
        ).alias("how"),
        F.max(F.when(failed, F.col("deliveredAt"))).alias("last"),
    )
    return grouped.where("failed > 0").orderBy(F.desc("failed"), "group", "topic")


def build(spec: TraceSpec, workspace: Workspace) -> Job:
    """Plan the report."""
    with workspace.planning("source"):
        options = spec.source.connector_options(spec.name_server)
        traced = events(workspace.spark.read.format("rocketmq").options(**options).load())
        sent, tries = sends(traced), consumptions(traced)
    return Job(lambda: _report(spec, workspace, sent, tries))


def _report(spec: TraceSpec, workspace: Workspace, sent: DataFrame, tries: DataFrame) -> Report:
    sent, tries = sent.persist(), tries.persist()
    try:
        by_topic = percentiles_of(sent, "sendMs", ["topic", "producerGroup"], spec.percentiles)
        by_group = ["topic", "group"]
        tables = (
            Table.of("sending, ms", by_topic),
            Table.of(
                "delivery, ms", percentiles_of(tries, "deliveryMs", by_group, spec.percentiles)
            ),
            Table.of(
                "handling, ms", percentiles_of(tries, "handlingMs", by_group, spec.percentiles)
            ),
            Table.of("slowest messages", slowest(tries, spec.slowest)),
            Table.of("consumers that failed", failures(tries)),
        )
        files = []
        if spec.tables is not None:
            where = workspace.locate(spec.tables).rstrip("/")
            sent.write.mode("overwrite").parquet(f"{where}/sends")
            tries.write.mode("overwrite").parquet(f"{where}/consumptions")
            files += [f"{where}/sends", f"{where}/consumptions"]
        if spec.plot is not None:
            file = workspace.locate_here(spec.plot)
            drawn = _plots(spec, tables, _over_time(tries, spec.percentiles))
            plots.write_page(file, f"Message trace: {spec.name}", drawn, tables)
            files.append(str(file))
        facts = {"sends": sent.count(), "tries": tries.count()}
    finally:
        sent.unpersist()
        tries.unpersist()
    return Report(tables=tables, files=tuple(files), facts=facts)


def _plots(spec: TraceSpec, tables: tuple[Table, ...], over_time: Table) -> list[str]:
    drawn = []
    for table in tables[:3]:
        groups = [
            (
                f"{row[0] or '(topic not traced)'} · {row[1]}",
                _shares(table.columns, row, spec.percentiles),
            )
            for row in table.rows[:12]
        ]
        if groups:
            drawn.append(plots.bars(table.title, groups, unit="ms"))
    if len(over_time.rows) > 1:
        series = {
            name: [row[at + 1] for row in over_time.rows]
            for at, name in enumerate(over_time.columns[1:])
        }
        labels = [str(row[0]) for row in over_time.rows]
        drawn.append(plots.lines(over_time.title, labels, series, unit="ms"))
    return drawn or [plots.bars("no records in the trace", [])]


def _over_time(tries: DataFrame, percentiles: tuple[float, ...]) -> Table:
    """Return the percentiles of delivery by minute, for the last 360 minutes with deliveries."""
    minutes = tries.withColumn("minute", F.date_format("deliveredAt", "HH:mm"))
    minutes = minutes.withColumn("at", F.date_trunc("minute", "deliveredAt"))
    rows = percentiles_of(minutes, "deliveryMs", ["at", "minute"], percentiles)
    rows = rows.orderBy(F.desc("at")).limit(360).orderBy("at")
    return Table.of("delivery by minute (UTC), ms", rows.drop("at", "messages"))


def _shares(
    columns: tuple[str, ...], row: tuple[Any, ...], percentiles: tuple[float, ...]
) -> dict[str, float]:
    return {
        name: float(row[columns.index(name)]) for share in percentiles if (name := _name(share))
    }


def _name(percentile: float) -> str:
    return f"p{percentile:g}"


KIND = Kind("trace", TraceSpec, build)
