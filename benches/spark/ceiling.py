"""What no source written in Python can beat: the columns of messages, made once, given many times.

It yields batches as large as the source's, of the same schema and the same bytes, and does nothing
else; what it reaches is what Spark takes in from a Python data source.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from orbitmq.spark.schema import column_names, message_schema
from orbitmq.spark.source.range_reader import BATCH_BYTES, BATCH_ROWS

__all__ = ["Ceiling"]

ROW_OVERHEAD_BYTES = 256


class Ceiling(DataSource):
    """``rows`` messages of ``bytes`` bytes by ``tasks`` tasks, of the wished ``columns``."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> StructType:
        names = self.options.get("columns")
        return message_schema(names.split(",") if names else None)

    def reader(self, schema: StructType) -> DataSourceReader:
        options, columns = self.options, column_names(schema)
        sizes = (int(options[name]) for name in ("rows", "bytes", "tasks"))
        return CeilingReader(columns, *sizes)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return OneRowStream(column_names(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return ForgettingWriter()


def made_batch(columns: tuple[str, ...], size: int, rows: int) -> Any:
    import pyarrow as pa

    from orbitmq._native import RecordColumns, encode_record

    made = RecordColumns(list(columns))
    record = encode_record(
        "bench",
        b"x" * size,
        properties={"UNIQ_KEY": "7F000001FEDC18B4AAC200000001FFFF", "TAGS": "tag"},
    )
    made.append(record * rows, broker_name="broker-a")
    return pa.record_batch(made.finish())


class CeilingReader(DataSourceReader):
    """The same batch, again and again."""

    def __init__(self, columns: tuple[str, ...], rows: int, size: int, tasks: int) -> None:
        self.columns, self.rows, self.size, self.tasks = columns, rows, size, tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        row_bytes = ROW_OVERHEAD_BYTES + (self.size if "body" in self.columns else 0)
        per_batch = min(BATCH_BYTES // row_bytes, BATCH_ROWS)
        batch, left = made_batch(self.columns, self.size, per_batch), self.rows // self.tasks
        while left > 0:
            part = batch if left >= per_batch else batch.slice(0, left)
            yield part
            left -= part.num_rows


class OneRowStream(DataSourceStreamReader):
    """One row each time Spark asks: what a trigger costs that reads and writes in Python."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"at": start["at"] + 1}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield made_batch(self.columns, 1024, 1)


class ForgettingWriter(DataSourceStreamArrowWriter):
    """Takes rows and forgets them."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
