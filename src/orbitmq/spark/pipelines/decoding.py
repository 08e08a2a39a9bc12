"""Decoding of message bodies into columns.

==========  ==========================================================================
``raw``     the unchanged body: ``body`` binary
``text``    ``text``, the body read as UTF-8
``json``    the fields of the JSON object; the schema is given or inferred from messages
``avro``    the fields of the Avro record; needs its schema, as JSON (``.avsc``)
==========  ==========================================================================

The message's own columns get the prefix ``_`` (``_topic``, ``_keys``, ``_storeTimestamp`` …), so
that fields of the body can have almost any name. With ``json`` and ``avro``, a body that cannot be
decoded becomes a row whose fields are null and whose ``_malformed`` is true: a bad message must not
stop a stream, and must not vanish either.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from orbitmq.spark.pipelines.avro import Framing, avro_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Decoding", "as_ddl", "decode", "infer_json_schema"]

Decoding = Literal["raw", "text", "json", "avro"]

_CORRUPT: Final = "_corrupt_record"


def decode(
    messages: DataFrame,
    decoding: Decoding,
    schema: StructType | str | None = None,
    framing: Framing = "none",
) -> DataFrame:
    """Return messages with their bodies as columns; for ``df.transform(decode, "json", "a INT")``.

    For ``json``, `schema` is a DDL text or a StructType. For ``avro``, `schema` is the JSON text of
    the Avro schema, and `framing` is the kind of header before the record.
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
    taken = {f"_{name}".lower() for name in own} | {"_malformed"}
    if clash := [name for name in names if name.lower() in taken]:
        raise ValueError(f"a field cannot be called {clash[0]!r}, as a column of every message is")
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
    """Return the schema that fits these bodies; it has no fields if none is a JSON object.

    Keys that differ only in case raise ValueError: Spark would make one column of them, and most of
    the keys would not fill it.
    """
    spelt: dict[str, str] = {}
    for key in _keys(bodies):
        other = spelt.setdefault(key.lower(), key)
        if other != key:
            raise ValueError(
                f"no schema can be inferred: keys {other!r} and {key!r} differ only in case; say "
                'schema = "name TYPE, …"'
            )
    sample = spark.createDataFrame([(body,) for body in bodies], "body STRING")
    inferred = spark.read.json(sample.rdd.map(lambda row: str(row.body)))
    fields = [field for field in inferred.schema.fields if field.name != _CORRUPT]
    return StructType(fields)


def as_ddl(spark: SparkSession, schema: StructType) -> str:
    """Return a schema as DDL text for a pipeline's file, with any names of fields."""
    jvm: Any = spark._jvm
    return str(jvm.org.apache.spark.sql.types.StructType.fromJson(schema.json()).toDDL())


def _keys(bodies: Iterable[str]) -> Iterator[str]:
    """Yield the keys of JSON objects; keys of nested objects as paths with dots."""

    def walk(value: object, path: str) -> Iterator[str]:
        if isinstance(value, dict):
            for name, inner in value.items():
                yield f"{path}{name}"
                yield from walk(inner, f"{path}{name}.")
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner, path)

    for body in bodies:
        try:
            value = json.loads(body)
        except ValueError:
            continue  # reported as malformed, row by row
        yield from walk(value, "")
