"""``format("rocketmq")``: the data source from which Spark gets readers and writers.

Spark creates this object in a separate Python process that has the options and nothing else of the
session. So the class carries the number of tasks that the session runs at once (see `register`).
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from orbitmq.errors import ConfigError
from orbitmq.spark.early_ends import end_quietly
from orbitmq.spark.schema import column_names, message_schema
from orbitmq.spark.source.options import DEFAULT_GROUP, SourceOptions
from orbitmq.spark.worker import tune_worker

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )

__all__ = ["RocketMQSource", "without_effect"]

_log = logging.getLogger(__name__)


class RocketMQSource(DataSource):
    """Topics of a RocketMQ cluster, to read and to write, in batches and as a stream."""

    parallelism: ClassVar[int | None] = None
    """Number of tasks the session runs at once, set by `register`; None if unknown."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # Created once per `load` and copied to every planner and task of that load.
        self._default_group = f"{DEFAULT_GROUP}-{uuid.uuid4().hex}"

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Return the columns, or those that option ``columns`` names."""
        tune_worker()
        # Batch or stream is not known yet, so the reader checks the rest of the options.
        return message_schema(SourceOptions.of(self.options, streaming=None).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the messages that are stored now."""
        from orbitmq.spark.source.batch_reader import batch_reader

        options = self._source_options(streaming=False)
        return batch_reader(options, _columns(options, schema), self._tasks())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of messages as a stream."""
        from orbitmq.spark.source.stream_reader import RocketMQStreamReader

        end_quietly()
        options = self._source_options(streaming=True)
        return RocketMQStreamReader(options, _columns(options, schema), self._tasks())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of one batch."""
        from orbitmq.spark.sink.writer import batch_writer

        end_quietly()
        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer of micro-batches."""
        from orbitmq.spark.sink.writer import stream_writer

        end_quietly()
        return stream_writer(self.options, schema, overwrite)

    def _source_options(self, *, streaming: bool) -> SourceOptions:
        group = self._default_group
        options = SourceOptions.of(self.options, streaming=streaming, default_group=group)
        idle = without_effect(self.options, streaming=streaming)
        if idle is not None:
            _log.warning("%s", idle)
        return options

    def _tasks(self) -> int:
        return self.parallelism or os.cpu_count() or 1


def _columns(options: SourceOptions, schema: StructType) -> tuple[str, ...]:
    """Return the columns to read, from the user's schema or from the one made of the options."""
    names = column_names(schema)
    if options.columns is not None and set(options.columns) != set(names):
        raise ConfigError(
            f"option columns asks for {', '.join(options.columns)} and the schema for "
            f"{', '.join(names)}: give one of them"
        )
    return names


# ---- Options without effect
#
# Programs share their options between batches and streams, and Spark's own connectors ignore
# options that do not apply. So these options are no error, but a warning names them. Options that
# can never be meant are rejected (see `source.options`).

_FOR_STREAMS = (
    *("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("maxBrokerAbsence", "brokerAbsenceStrategy", "commitOffsets"),
)
_FOR_BATCHES = ("pushFilters",)
_DEFAULTS = {"commitOffsets": "none", "pushFilters": "false"}
"""Default values; giving one of them needs no warning."""


def without_effect(given: Mapping[str, str], *, streaming: bool) -> str | None:
    """Return a line about the options that have no effect, None if all have one.

    >>> without_effect({"maxOffsetsPerTrigger": "10"}, streaming=False)
    'option maxOffsetsPerTrigger has no effect on a batch: it is for streams'
    """
    texts = {name.lower(): text.strip() for name, text in given.items()}
    idle = [
        name
        for name in (_FOR_BATCHES if streaming else _FOR_STREAMS)
        if texts.get(name.lower(), "").lower() not in ("", _DEFAULTS.get(name))
    ]
    if not idle:
        return None
    here, there = ("a stream", "batches") if streaming else ("a batch", "streams")
    if len(idle) == 1:
        return f"option {idle[0]} has no effect on {here}: it is for {there}"
    return f"options {', '.join(idle)} have no effect on {here}: they are for {there}"
