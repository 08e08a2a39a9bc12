"""``format("rocketmq")``: the data source that Spark asks for readers and writers.

Spark makes this object in a Python process of its own that knows the options and nothing else of
the session; how many tasks a session runs at once travels with the class (see `register`).
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
    """How many tasks the session runs at once, as far as `register` knew."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # Made once per `load` and copied to all who plan and read for it.
        self._default_group = f"{DEFAULT_GROUP}-{uuid.uuid4().hex}"

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Return the columns; option ``columns`` chooses among them."""
        tune_worker()
        # Whether it is for a batch or a stream is not known yet, so the reader judges the rest.
        return message_schema(SourceOptions.of(self.options, streaming=None).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of all that is there now."""
        from orbitmq.spark.source.batch_reader import batch_reader

        options = self._source_options(streaming=False)
        return batch_reader(options, _columns(options, schema), self._tasks())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of all that is to come."""
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
    """Return the columns to read; the schema is the user's own, or what the options have made."""
    names = column_names(schema)
    if options.columns is not None and set(options.columns) != set(names):
        raise ConfigError(
            f"option columns asks for {', '.join(options.columns)} and the schema for "
            f"{', '.join(names)}: give one of them"
        )
    return names


# ---- Options that are given where they do nothing
#
# Programs share their options between batches and streams, and Spark's own connectors pass over
# what does not apply. So these are no error; but whoever expects something of them is told. What
# cannot be meant at all is refused (see `source_options`).

_FOR_STREAMS = (
    *("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("maxBrokerAbsence", "brokerAbsenceStrategy", "commitOffsets"),
)
_FOR_BATCHES = ("pushFilters",)
_DEFAULTS = {"commitOffsets": "none", "pushFilters": "false"}
"""Who says what holds anyway expects nothing."""


def without_effect(given: Mapping[str, str], *, streaming: bool) -> str | None:
    """Return a line about the options that have no effect, None if all have.

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
