"""Columns of a message as Spark types.

Every column and every element of keys and properties may be null, as in a schema that users write
themselves: Spark compares the schemas of batches exactly. The Arrow types of the same table are in
``crates/columns/src/column.rs``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from orbitmq.errors import ConfigError

__all__ = ["COLUMNS", "column_names", "message_schema"]

COLUMNS: dict[str, DataType] = {
    "topic": StringType(),
    "brokerName": StringType(),
    "queueId": IntegerType(),
    "queueOffset": LongType(),
    "msgId": StringType(),
    "offsetMsgId": StringType(),
    "tags": StringType(),
    "keys": ArrayType(StringType()),
    "body": BinaryType(),
    "properties": MapType(StringType(), StringType()),
    "bornTimestamp": TimestampType(),
    "storeTimestamp": TimestampType(),
    "bornHost": StringType(),
    "flag": IntegerType(),
    "sysFlag": IntegerType(),
    "reconsumeTimes": IntegerType(),
    "physicalOffset": LongType(),
}


def message_schema(columns: Sequence[str] | None = None) -> StructType:
    """Return the schema of these columns; without `columns`, of all columns."""
    names = COLUMNS if columns is None else columns
    return StructType([StructField(name, COLUMNS[name], True) for name in names])


def column_names(schema: StructType) -> tuple[str, ...]:
    """Return the column names of a user's schema; raise for columns that messages do not have."""
    for field in schema.fields:
        if field.name not in COLUMNS:
            raise ConfigError(
                f"schema: messages have no column {field.name!r}; they have, spelt so, "
                + ", ".join(COLUMNS)
            )
        wanted = COLUMNS[field.name]
        if field.dataType != wanted or not field.nullable:
            raise ConfigError(
                f"schema: column {field.name} is {wanted.simpleString()} and may be null; leave "
                "the conversion to the query"
            )
    return tuple(schema.names)
