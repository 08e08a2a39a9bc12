"""Keys of a ``sql`` pipeline file.

::

    kind = "sql"
    checkpoint = "state/orders-per-minute"
    trigger = "5 seconds"                     # or "available-now", or "batch"

    [source.orders]                           # a table called `orders` for the steps
    topic = "orders"
    decode = "json"
    schema = "id STRING, amount DOUBLE, product STRING, at TIMESTAMP"
    watermark = { column = "at", delay = "1 minute" }

    [source.products]                         # any format of Spark
    format = "parquet"
    path = "products.parquet"

    [[step]]                                  # can use all sources and the steps before it
    name = "totals"
    sql = "SELECT window(at, '1 minute').start AS minute, sum(amount) FROM orders GROUP BY 1"

    [[sink]]                                  # any number; by default of the last step
    topic = "orders-per-minute"

    [[sink]]
    format = "parquet"
    path = "out/orders-per-minute"
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from orbitmq.spark.pipelines.avro import Framing
from orbitmq.spark.pipelines.decoding import Decoding
from orbitmq.spark.pipelines.plan import Trigger
from orbitmq.spark.pipelines.spec import Interval, PipelineSpec, check_local
from orbitmq.spark.pipelines.tables import Mistakes, suggestion
from orbitmq.spark.pipelines.topics import (
    TopicSpec,
    check_reading,
    check_writing,
    names_server,
    topic_options,
)

__all__ = ["SinkSpec", "SourceSpec", "SqlSpec", "StepSpec", "WatermarkSpec"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATH_FORMATS = frozenset({"parquet", "json", "csv", "orc", "text", "avro", "rocketmq-store"})


@dataclass(frozen=True, kw_only=True)
class WatermarkSpec:
    """Watermark: the time column and the longest delay of its rows."""

    column: str
    delay: Interval


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """Table to read: topics, or any other format of Spark."""

    format: str = "rocketmq"
    topic: tuple[str, ...] = ()
    pattern: str | None = None
    name_server: str | None = None
    path: str | None = None
    stream: bool | None = None
    """True to read the source as a stream; by default true for topics only."""
    decode: Decoding = "raw"
    schema: str | None = None
    schema_file: str | None = None
    framing: Framing = "none"
    """Header before an Avro record: none, single-object or confluent."""
    infer_from: int = 1000
    """Number of messages from which the schema of JSON bodies is inferred, if none is given."""
    watermark: WatermarkSpec | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def is_topic(self) -> bool:
        """True if the source reads topics."""
        return self.format == "rocketmq"

    @property
    def is_stream(self) -> bool:
        """True if the source is read as a stream, unless the whole pipeline is a batch."""
        return self.is_topic if self.stream is None else self.stream

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check that the keys fit the format and that the decoding has its schema."""
        if self.is_topic:
            self._topics.check(mistakes, key)
            if self.path is not None:
                mistakes.add(f"{key}.path", "is for files; a topic has none")
        else:
            for name in ("topic", "pattern", "name_server"):
                if getattr(self, name):
                    mistakes.add(f"{key}.{name}", f"is for topics; the format is '{self.format}'")
            if self.path is None and self.format in _PATH_FORMATS:
                mistakes.add(f"{key}.path", f"is needed by the format '{self.format}'")
            if self.decode != "raw" and self.format != "rocketmq-store":
                mistakes.add(f"{key}.decode", "is for bodies of messages")
            if self.stream and self.format == "rocketmq-store":
                mistakes.add(f"{key}.stream", "a store is read once; follow the topic instead")
        if self.schema is not None and self.schema_file is not None:
            mistakes.add(f"{key}.schema_file", "there is schema already; say one of them")
        check_local(mistakes, f"{key}.schema_file", self.schema_file)
        given = self.schema is not None or self.schema_file is not None
        if self.decode == "avro" and not given:
            mistakes.add(f"{key}.schema_file", "is needed to decode Avro (a .avsc file), or schema")
        if self.decode in ("raw", "text") and given and self.is_topic:
            mistakes.add(f"{key}.schema", f"means nothing with decode = '{self.decode}'")
        if self.framing != "none" and self.decode != "avro":
            mistakes.add(f"{key}.framing", "is for decode = 'avro'")
        if self.infer_from <= 0:
            mistakes.add(f"{key}.infer_from", "must be a number above 0")

    def reader_options(self, name_server: str | None) -> dict[str, str]:
        """Return the options for Spark's reader, without the path."""
        if not self.is_topic:
            return self.options
        return self._topics.connector_options(name_server)

    @property
    def _topics(self) -> TopicSpec:
        return TopicSpec(
            topic=self.topic,
            pattern=self.pattern,
            name_server=self.name_server,
            options=self.options,
        )


@dataclass(frozen=True, kw_only=True)
class StepSpec:
    """Query of a step; later steps use the result as a table with the name of the step."""

    name: str
    sql: str
    watermark: WatermarkSpec | None = None

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check that there is a query."""
        if not self.sql.strip():
            mistakes.add(f"{key}.sql", "is empty")


@dataclass(frozen=True, kw_only=True)
class SinkSpec:
    """Destination of a step's rows."""

    format: str = "rocketmq"
    name: str = ""
    of: str = ""
    topic: str | None = None
    name_server: str | None = None
    path: str | None = None
    mode: Literal["append", "update", "complete", "overwrite", ""] = ""
    partition_by: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    @property
    def is_topic(self) -> bool:
        """True if the sink writes messages."""
        return self.format == "rocketmq"

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check the name and that the keys fit the format."""
        if "/" in self.name or self.name in (".", ".."):
            mistakes.add(f"{key}.name", f"{self.name!r} is no name for a checkpoint's directory")
        if self.is_topic:
            if self.path is not None:
                mistakes.add(f"{key}.path", "is for files; a topic has none")
            return
        for name in ("topic", "name_server"):
            if getattr(self, name):
                mistakes.add(f"{key}.{name}", f"is for topics; the format is '{self.format}'")
        if self.path is None and self.format in _PATH_FORMATS:
            mistakes.add(f"{key}.path", f"is needed by the format '{self.format}'")

    def writer_options(self, name_server: str | None) -> dict[str, str]:
        """Return the options for Spark's writer, without path and checkpoint."""
        if not self.is_topic:
            return self.options
        topic = {} if self.topic is None else {"topic": self.topic}
        server = self.name_server or name_server
        return topic | topic_options(name_server=server, options=self.options)


@dataclass(frozen=True, kw_only=True)
class SqlSpec(PipelineSpec):
    """Keys of a ``sql`` pipeline file."""

    source: dict[str, SourceSpec]
    sink: tuple[SinkSpec, ...]
    step: tuple[StepSpec, ...] = ()
    trigger: Trigger = field(default=Trigger("interval"))
    checkpoint: str | None = None

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check that names are unique and known, and that a stream has a checkpoint."""
        if not self.source:
            mistakes.add("source", "there must be at least one")
        if not self.sink:
            mistakes.add("sink", "there must be at least one")
        known: list[str] = []
        named = [(f"source.{name}", name) for name in self.source]
        named += [(f"step[{at}].name", step.name) for at, step in enumerate(self.step)]
        for place, name in named:
            if not _NAME.fullmatch(name):
                mistakes.add(place, f"{name!r} is no table's name: letters, digits and _ only")
            # Spark ignores the case of view names.
            taken = [other for other in known if other.lower() == name.lower()]
            if taken:
                mistakes.add(place, f"there is a source or step called {taken[0]!r} already")
            known.append(name)
        if not self.step and len(self.source) > 1:
            mistakes.add("step", "with several sources there must be a step that joins them")
        names = set()
        for at, sink in enumerate(self.sink):
            if sink.of and sink.of not in known:
                mistakes.add(f"sink[{at}].of", f"no step {sink.of!r}{suggestion(sink.of, known)}")
            name = self.sink_names[at]
            if name in names:
                why = "" if sink.name else "; name all but the one whose checkpoint that is"
                mistakes.add(f"sink[{at}].name", f"there is a sink called {name!r} already{why}")
            names.add(name)
            if self._check_server(mistakes, f"sink[{at}]", sink) and sink.is_topic:
                options = sink.writer_options(self.name_server)
                check_writing(mistakes, f"sink[{at}].options", options)
        batch = self.trigger.mode == "batch"
        for name, source in self.source.items():
            if self._check_server(mistakes, f"source.{name}", source) and source.is_topic:
                options = source.reader_options(self.name_server)
                streaming = source.is_stream and not batch
                check_reading(mistakes, f"source.{name}.options", options, streaming=streaming)
        if self.is_streaming and not self.checkpoint:
            mistakes.add(
                "checkpoint",
                "is needed, but not there: the directory where a stream keeps how far it is",
            )

    def _check_server(self, mistakes: Mistakes, key: str, part: SourceSpec | SinkSpec) -> bool:
        named = self.name_server or part.name_server or names_server(part.options)
        if not part.is_topic or named:
            return True
        mistakes.add(
            f"{key}.name_server", "is needed, but not there, nor at the top, nor NAMESRV_ADDR"
        )
        return False

    @property
    def is_streaming(self) -> bool:
        """True if the pipeline reads at least one source as a stream."""
        return self.trigger.mode != "batch" and any(
            source.is_stream for source in self.source.values()
        )

    @property
    def sink_names(self) -> list[str]:
        """Name of each sink.

        In a stream the name is also that of the checkpoint. The name must stay the same when sinks
        are added or change their order. Otherwise a checkpoint would continue with the files of
        another sink.
        """
        streaming = self.is_streaming
        return [
            sink.name
            or (sink.topic if sink.is_topic and sink.topic else None)
            or f"{sink.format}-{0 if streaming else at}"
            for at, sink in enumerate(self.sink)
        ]
