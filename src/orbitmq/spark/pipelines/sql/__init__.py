"""``sql``: Spark SQL over topics and tables, to topics, Parquet or the console.

Each source and each step becomes a temporary view. A sink is one query over its view. Every sink
has its own checkpoint, and therefore the same guarantees as in a pipeline with one sink. With the
trigger ``batch``, or without a streaming source, all rows are read and written once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Observation
from pyspark.sql import functions as F

from orbitmq.spark.pipelines.decoding import as_ddl, decode, infer_json_schema
from orbitmq.spark.pipelines.plan import Job, Report, Stream, Streams
from orbitmq.spark.pipelines.spec import Kind
from orbitmq.spark.pipelines.sql.spec import SinkSpec, SourceSpec, SqlSpec, WatermarkSpec
from orbitmq.spark.pipelines.topics import as_messages
from orbitmq.spark.pipelines.undecoded import count_undecoded, observed, undecoded_note
from orbitmq.spark.sink.writer import Sink
from orbitmq.spark.source.batch_reader import cluster_of
from orbitmq.spark.source.options import SourceOptions
from orbitmq.spark.source.start_offsets import find_queues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from orbitmq.spark.pipelines.plan import Workspace

__all__ = [
    "KIND",
    "build",
    "checkpoint_of_unnamed",
    "has_begun",
    "read_source",
    "refuse_files_of_another",
    "tables",
]

# ---- Checkpoints of sinks
#
# In a stream, each format can have one sink without a name. Its checkpoint is ``parquet-0``, at any
# position of the sink in the file. Older versions named sinks by their position (``parquet-1`` was
# the second sink); such a checkpoint stays in use.
#
# Spark's file sink stores the numbers of its batches with its files and skips batches with these
# numbers. With a new checkpoint, batches are counted from 0 again. Their rows would be lost without
# an error.


def checkpoint_of_unnamed(
    spark: SparkSession, base: str, format_name: str, names: Iterable[str]
) -> str:
    """Return the checkpoint of a sink without a name, a directory below `base`.

    `names` are the names of all sinks. Several possible directories raise ValueError.
    """
    own = f"{format_name}-0"
    by_place = re.compile(rf"{re.escape(format_name)}-\d+")
    others = set(names) - {own}
    found = [
        name for name in _names(spark, base) if by_place.fullmatch(name) and name not in others
    ]
    if len(found) > 1:
        raise ValueError(f"needs a name: its checkpoint may be any of {', '.join(found)}")
    return f"{base}/{found[0] if found else own}"


def has_begun(spark: SparkSession, base: str) -> bool:
    """Return True if any checkpoint below `base` has a batch."""
    return any(not _is_new(spark, f"{base}/{name}") for name in _names(spark, base))


def _is_new(spark: SparkSession, checkpoint: str) -> bool:
    return not _names(spark, f"{checkpoint}/offsets")


def refuse_files_of_another(spark: SparkSession, checkpoint: str, path: str) -> None:
    """Raise ValueError if `path` has files of a stream with another checkpoint.

    A checkpoint with batches continues its own stream and is accepted.
    """
    if _is_new(spark, checkpoint) and _names(spark, f"{path.rstrip('/')}/_spark_metadata"):
        raise ValueError(
            f"{path} has files of a stream with another checkpoint than {checkpoint}, and Spark "
            "would leave out the batches that it seems to have: go on with that checkpoint, or "
            "write to another path"
        )


def _names(spark: SparkSession, base: str) -> list[str]:
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(base)
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    if not files.exists(path):
        return []
    return sorted(status.getPath().getName() for status in files.listStatus(path))


_OF_THE_WRITER: Final = frozenset({"console", "memory"})
"""Formats that Spark's writers handle without a data source."""


def build(spec: SqlSpec, workspace: Workspace) -> Streams | Job:
    """Plan the queries of all sinks, without starting one."""
    made = tables(spec, workspace)
    last = spec.step[-1].name if spec.step else next(iter(spec.source))
    outputs = [
        (name, sink, made[sink.of or last])
        for name, sink in zip(spec.sink_names, spec.sink, strict=True)
    ]
    for at, (name, sink, rows) in enumerate(outputs):
        with workspace.planning(f"sink[{at}]"):
            messages = as_messages(rows) if sink.is_topic else rows
            _check_sink(spec, sink, messages, workspace)
            outputs[at] = name, sink, messages
    _check_topics(spec, workspace)
    if not spec.is_streaming:
        writes = [partial(_write, spec, sink, rows, workspace) for _, sink, rows in outputs]

        def work() -> Report:
            for write in writes:
                write()
            counts = observed(workspace.spark, workspace.undecoded)
            written = (f"{name} written" for name, _, _ in outputs)
            bad = (undecoded_note(name, count) for name, count in counts.items() if count)
            facts = {"undecoded": counts} if counts else {}
            return Report(notes=(*written, *bad), facts=facts)

        return Job(work)
    streams = []
    for at, (name, sink, rows) in enumerate(outputs):
        with workspace.planning(f"sink[{at}]"):
            if not rows.isStreaming:
                raise ValueError(f"no source of {sink.of or last!r} is followed")
            writer = _stream_writer(spec, name, sink, rows, workspace)
        streams.append(Stream(name, partial(writer.start)))
    endless = workspace.trigger(spec.trigger).mode == "interval"
    return Streams(tuple(streams), endless=endless)


def _check_sink(spec: SqlSpec, sink: SinkSpec, rows: DataFrame, workspace: Workspace) -> None:
    """Raise errors of this sink now that would otherwise occur after other sinks have written."""
    if sink.is_topic:
        if "topic" not in rows.columns and sink.topic is None:
            raise ValueError("needs topic, or rows with a column called topic")
        options = sink.writer_options(spec.name_server)
        Sink.of(options, rows.schema, is_query=rows.isStreaming)
        return
    if sink.format not in _OF_THE_WRITER:
        session = workspace.spark._jsparkSession
        jvm: Any = workspace.spark._jvm
        sources = jvm.org.apache.spark.sql.execution.datasources.DataSource
        sources.lookupDataSource(sink.format, session.sessionState().conf())
    if sink.path is not None:
        names = Counter(map(str.lower, rows.columns))
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"a file cannot have two columns called {twice[0]!r}")


def _check_topics(spec: SqlSpec, workspace: Workspace) -> None:
    """Check that topics exist, except those that a stream has begun to read: they may be gone."""
    goes_on = False
    if spec.checkpoint is not None:
        goes_on = has_begun(workspace.spark, workspace.locate(spec.checkpoint).rstrip("/"))
    for name, source in spec.source.items():
        streaming = spec.is_streaming and source.is_stream
        if not source.is_topic or (streaming and goes_on):
            continue
        options = SourceOptions.of(source.reader_options(spec.name_server), streaming=streaming)
        with workspace.planning(f"source.{name}"), options.connection.hiding_secrets():
            cluster = cluster_of(options)
            cluster.patiently(partial(find_queues, cluster, options.topics))


def tables(spec: SqlSpec, workspace: Workspace) -> dict[str, DataFrame]:
    """Create the view of every source and step; return the rows by name."""
    made: dict[str, DataFrame] = {}
    batch = spec.trigger.mode == "batch"
    for name, source in spec.source.items():
        with workspace.planning(f"source.{name}"):
            made[name] = read_source(
                source, workspace, name_server=spec.name_server, batch=batch, label=name
            )
            # A stream reads a static table again for every batch and would count its rows again.
            if made[name].isStreaming == spec.is_streaming:
                made[name] = _counted(made[name], name, source, workspace)
        made[name].createOrReplaceTempView(name)
    for at, step in enumerate(spec.step):
        with workspace.planning(f"step[{at}] ({step.name})"):
            made[step.name] = _late(workspace.spark.sql(step.sql), step.watermark)
        made[step.name].createOrReplaceTempView(step.name)
    return made


def read_source(
    source: SourceSpec,
    workspace: Workspace,
    *,
    name_server: str | None = None,
    batch: bool = False,
    label: str = "source",
) -> DataFrame:
    """Return the rows of a source, decoded and with its watermark."""
    spark = workspace.spark
    streaming = source.is_stream and not batch
    reader = spark.readStream if streaming else spark.read
    options = source.reader_options(name_server)
    schema: str | StructType | None = _given_schema(source, workspace)
    if source.is_topic or source.format == "rocketmq-store":
        if source.path is not None:
            options = options | {"path": workspace.locate(source.path)}
        messages = reader.format(source.format).options(**options).load()
        if source.is_topic and streaming:
            workspace.sources.append(options)
        if source.decode == "json" and schema is None:
            schema = _inferred_schema(source, options, workspace, label)
        return _late(decode(messages, source.decode, schema, source.framing), source.watermark)
    if schema is not None:
        reader = reader.schema(schema)
    path = None if source.path is None else workspace.locate(source.path)
    rows = reader.format(source.format).options(**options).load(path)
    return _late(rows, source.watermark)


def _counted(rows: DataFrame, name: str, source: SourceSpec, workspace: Workspace) -> DataFrame:
    """Return rows for which Spark counts the rows that could not be decoded."""
    if source.decode not in ("json", "avro") or "_malformed" not in rows.columns:
        return rows
    if rows.isStreaming:
        return count_undecoded(rows, name)
    pushed = {key.lower(): text.lower() for key, text in source.options.items()}
    if pushed.get("pushfilters") == "true":
        return rows  # a count would prevent the pushdown of filters
    workspace.undecoded[name] = Observation(f"undecoded-{name}")
    return count_undecoded(rows, workspace.undecoded[name])


def _given_schema(source: SourceSpec, workspace: Workspace) -> str | None:
    if source.schema_file is None:
        return source.schema
    file = workspace.locate_here(source.schema_file)
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ValueError(f"schema_file {file} cannot be read: {reason}") from error


def _inferred_schema(
    source: SourceSpec, options: dict[str, str], workspace: Workspace, label: str
) -> StructType:
    """Infer a schema from stored messages; raise ValueError if no message is a JSON object."""
    kept = {
        key: value
        for key, value in options.items()
        if not key.lower().startswith(("starting", "ending", "max", "min"))
    }
    sample = workspace.spark.read.format(source.format).options(**kept).load()
    some = sample.select(F.col("body").cast("string").alias("body")).limit(source.infer_from)
    bodies = [row.body for row in some.collect()]
    schema = infer_json_schema(workspace.spark, bodies)
    if not schema.fields:
        raise ValueError(
            f"no schema can be inferred: none of {len(bodies)} messages is a JSON object; "
            'say schema = "name TYPE, …"'
        )
    workspace.log.info(
        "source.%s: schema inferred from messages: %r; the next start infers it again, "
        "set the key 'schema' to keep it",
        label,
        as_ddl(workspace.spark, schema),
    )
    return schema


def _late(rows: DataFrame, watermark: WatermarkSpec | None) -> DataFrame:
    if watermark is None:
        return rows
    return rows.withWatermark(watermark.column, str(watermark.delay))


def _stream_writer(
    spec: SqlSpec, name: str, sink: SinkSpec, rows: DataFrame, workspace: Workspace
) -> DataStreamWriter:
    assert spec.checkpoint is not None
    base = workspace.locate(spec.checkpoint).rstrip("/")
    checkpoint = f"{base}/{name}"
    if not sink.name and name == f"{sink.format}-0":
        checkpoint = checkpoint_of_unnamed(workspace.spark, base, sink.format, spec.sink_names)
    writer = rows.writeStream.queryName(name).format(sink.format)
    writer = writer.options(**sink.writer_options(spec.name_server))
    writer = writer.option("checkpointLocation", checkpoint)
    if sink.mode == "overwrite":
        raise ValueError("mode 'overwrite' is for batches; a stream appends, updates or completes")
    if sink.mode:
        writer = writer.outputMode(sink.mode)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if sink.path is not None:
        path = workspace.locate(sink.path)
        refuse_files_of_another(workspace.spark, checkpoint, path)
        writer = writer.option("path", path)
    return workspace.with_trigger(writer, spec.trigger)


def _write(spec: SqlSpec, sink: SinkSpec, rows: DataFrame, workspace: Workspace) -> None:
    if sink.format == "console":
        rows.show(int(sink.options.get("numRows", 20)), truncate=False)
        return
    writer = rows.write.format(sink.format).options(**sink.writer_options(spec.name_server))
    writer = writer.mode(sink.mode if sink.mode in ("append", "overwrite") else "append")
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer.save(None if sink.path is None else workspace.locate(sink.path))


KIND = Kind("sql", SqlSpec, build)
