"""Bodies of messages → columns.

==========  ==========================================================================
``raw``     the body as it is: ``body`` binary
``text``    ``text``, the body read as UTF-8
``json``    the fields of the JSON object; with a schema, or one inferred from messages
``avro``    the fields of the Avro record; needs its schema, as JSON (``.avsc``)
==========  ==========================================================================

The message's own columns stay beside, under their names with ``_`` before them (``_topic``,
``_keys``, ``_storeTimestamp`` …), so that fields of the body can be called anything. A body that
cannot be decoded gives a row whose fields are null and whose ``_malformed`` is true: one bad
message must not stop a stream, and must not vanish either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from orbitmq.spark.pipelines.avro import Framing, avro_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Decoding", "decode", "infer_json_schema"]

Decoding = Literal["raw", "text", "json", "avro"]

_CORRUPT: Final = "_corrupt_record"


def decode(
    messages: DataFrame,
    decoding: Decoding,
    schema: StructType | str | None = None,
    framing: Framing = "none",
) -> DataFrame:
    """Return messages with their bodies as columns; for ``df.transform(decode, "json", "a INT")``.

    `schema` is a DDL text or a StructType for ``json``, the text of the Avro schema for ``avro``,
    whose `framing` says what stands before the record.
    """
    own = [name for name in messages.columns if name != "body"]
    kept = [F.col(name).alias(f"_{name}") for name in own]
    if decoding == "raw":
        return messages.select("body", *kept)
    if decoding == "text":
        return messages.select(F.col("body").cast("string").alias("text"), *kept)
    if schema is None:
        raise ValueError(f"bodies in {decoding} need a schema")
    if decoding == "json":
        fields = _from_json(schema)
    elif isinstance(schema, str):
        fields = avro_columns(messages.sparkSession, F.col("body"), schema, framing)
    else:
        raise TypeError("an Avro schema is given as its JSON text")
    rows = messages.select(fields.alias("_fields"), *kept)
    struct = rows.schema["_fields"].dataType
    assert isinstance(struct, StructType)
    names = [name for name in struct.fieldNames() if name != _CORRUPT]
    malformed = F.col("_fields").isNull()
    if decoding == "json":
        malformed = malformed | F.col(f"_fields.{_CORRUPT}").isNotNull()
    return rows.select(
        *(F.col("_fields").getField(name).alias(name) for name in names),
        *(f"_{name}" for name in own),
        malformed.alias("_malformed"),
    )


def _from_json(schema: StructType | str) -> Column:
    wanted = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(wanted, StructType):
        raise TypeError(f"a schema lists fields, such as 'id INT, name STRING', not {schema!r}")
    schema = StructType([*wanted.fields, StructField(_CORRUPT, StringType())])
    return F.from_json(
        F.col("body").cast("string"), schema, {"columnNameOfCorruptRecord": _CORRUPT}
    )


def infer_json_schema(spark: SparkSession, bodies: list[str]) -> StructType:
    """Return the schema that fits these bodies; without any field if they are not JSON objects."""
    sample = spark.createDataFrame([(body,) for body in bodies], "body STRING")
    inferred = spark.read.json(sample.rdd.map(lambda row: str(row.body)))
    fields = [field for field in inferred.schema.fields if field.name != _CORRUPT]
    return StructType(fields)
