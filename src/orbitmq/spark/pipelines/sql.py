"""``sql``: Spark SQL over topics and tables, to topics, Parquet, the console or several of them.

Each source and each step becomes a temporary view; a sink is one query over the view it is of,
with a checkpoint of its own, so that every sink has the guarantees it would have alone. With
the trigger ``batch``, or without a source that is followed, everything is read and written once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from orbitmq.spark.pipelines.checkpoints import checkpoint_of_unnamed
from orbitmq.spark.pipelines.decoding import decode, infer_json_schema
from orbitmq.spark.pipelines.kinds import Kind
from orbitmq.spark.pipelines.plan import Job, Report, Stream, Streams
from orbitmq.spark.pipelines.sql_spec import SinkSpec, SourceSpec, SqlSpec, WatermarkSpec
from orbitmq.spark.pipelines.topics import as_messages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from orbitmq.spark.pipelines.workspace import Workspace

__all__ = ["KIND", "build", "read_source", "tables"]


def build(spec: SqlSpec, workspace: Workspace) -> Streams | Job:
    """Plan all of it."""
    made = tables(spec, workspace)
    last = spec.step[-1].name if spec.step else next(iter(spec.source))
    outputs = [
        (name, sink, made[sink.of or last])
        for name, sink in zip(spec.sink_names, spec.sink, strict=True)
    ]
    for at, (name, sink, rows) in enumerate(outputs):
        with workspace.planning(f"sink[{at}]"):
            if sink.is_topic:
                rows = as_messages(rows)
                if "topic" not in rows.columns and sink.topic is None:
                    raise ValueError("needs topic, or rows with a column called topic")
            outputs[at] = name, sink, rows
    if not spec.is_streaming:
        writes = [partial(_write, spec, sink, rows, workspace) for _, sink, rows in outputs]

        def work() -> Report:
            for write in writes:
                write()
            return Report(notes=tuple(f"{name} written" for name, _, _ in outputs))

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


def tables(spec: SqlSpec, workspace: Workspace) -> dict[str, DataFrame]:
    """Make the view of every source and step; returns them by name."""
    made: dict[str, DataFrame] = {}
    batch = spec.trigger.mode == "batch"
    for name, source in spec.source.items():
        with workspace.planning(f"source.{name}"):
            made[name] = read_source(
                source, workspace, name_server=spec.name_server, batch=batch, label=name
            )
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
    """Look at messages that are there; a stream that finds none cannot know what will come."""
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
    ddl = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
    workspace.log.info("source.%s: inferred schema = %r; pin it to keep it", label, ddl)
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
        writer = writer.option("path", workspace.locate(sink.path))
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
