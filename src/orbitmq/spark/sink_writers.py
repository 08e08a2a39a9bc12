"""The sink as Spark asks for it: a writer for a batch job, and one for the batches of a query."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from orbitmq.errors import ConfigError, OrbitError
from orbitmq.spark.sink import Sink, SinkCommit
from orbitmq.spark.sink_sending import Counts

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["batch_writer", "stream_writer"]

_log = logging.getLogger(__name__)


class RocketMQWriter(DataSourceArrowWriter):
    """Writes the rows of a batch job."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Send the rows of one task."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Note what was sent, and how it was divided."""
        topics = _pinned_topics(messages)
        if _committed(messages, "job").rows:
            self._sink.note_run(topics, len(messages), range(len(messages)))
        self._sink.end(topics)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say that rows of the tasks that ended well are in their topics."""
        _committed(messages, "aborted job, already sent")
        topics = _pinned_topics(messages)
        done = [number for number, one in enumerate(messages) if isinstance(one, SinkCommit)]
        try:
            self._sink.note_run(topics, len(messages), done)
        except OrbitError as error:
            _log.warning("%s", error)  # the job has failed for a reason of its own
        self._sink.end(topics)


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of each micro-batch."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Send the rows of one task."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Note what was sent."""
        _committed(messages, f"batch {batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Say that rows of the tasks that ended well are in their topics."""
        _committed(messages, f"aborted batch {batchId}, already sent")


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """Return what writes a batch job's rows; raises for what cannot be written."""
    if overwrite:
        raise ConfigError("a topic cannot be overwritten: use mode('append')")
    return RocketMQWriter(Sink.of(options, schema, is_query=False))


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Return what writes a query's micro-batches; raises for what cannot be written.

    In complete mode (`overwrite`) the whole result is sent anew with each batch, as Kafka's sink
    does: a topic has no rows to replace.
    """
    return RocketMQStreamWriter(Sink.of(options, schema, is_query=True))


def _committed(messages: list[WriterCommitMessage | None], what: str) -> Counts:
    parts = [message.counts for message in messages if isinstance(message, SinkCommit)]
    total = sum(parts, Counts())
    _log.info("%s: %s", what, total)
    return total


def _pinned_topics(messages: list[WriterCommitMessage | None]) -> set[str]:
    return {topic for one in messages if isinstance(one, SinkCommit) for topic in one.topics}
