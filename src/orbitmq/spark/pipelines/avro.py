"""Decoding of Avro bodies into columns, without a jar.

Spark's own ``from_avro`` is in a package that must be fetched for each version of Spark. The type
conversion, however, is in every Spark: it turns an Avro schema into a Spark schema. `fastavro`
decodes the bytes in the Python worker, a batch of bodies at a time, and the records return as
Arrow.

A body is one record in Avro's binary encoding, without the header of a container file. The option
`framing` names a header before the record: that of the single-object encoding (``C3 01`` and the
schema's fingerprint) or Confluent's five bytes. The option is needed because neither header can be
distinguished from plain bytes with certainty.
"""

from __future__ import annotations

import copy
import io
import itertools
import json
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StructType

from orbitmq.spark.early_ends import end_quietly
from orbitmq.spark.pipelines.failures import one_line

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

__all__ = ["TIMES", "Framing", "as_spark_reads", "avro_columns", "spark_schema"]

Framing = Literal["none", "single-object", "confluent"]

HEADER_BYTES: Final = {"none": 0, "single-object": 10, "confluent": 5}
"""Number of bytes before the record, by framing."""

_NOT_NULL = re.compile(r'"(nullable|containsNull|valueContainsNull)":false')


def avro_columns(
    spark: SparkSession, body: Column, schema: str, framing: Framing = "none"
) -> Column:
    """Return the record in each body as a struct, or null for a body without a valid record."""
    struct = spark_schema(spark, schema)
    read_by = _read_by(spark, schema)
    skipped = HEADER_BYTES[framing]

    def decoded(bodies: pa.Array) -> pa.Array:
        # Imported here, because this function runs in the workers.
        import fastavro
        from pyspark.sql.pandas.types import to_arrow_type

        end_quietly()
        parsed = fastavro.parse_schema(read_by)
        rows = [_record(fastavro, parsed, body.as_py(), skipped) for body in bodies]
        return _array(rows, to_arrow_type(struct, timezone="UTC"))

    make: Any = arrow_udf  # the stub requires a function type, which is optional
    column: Column = make(decoded, struct)(body)
    return column


def _record(fastavro: Any, schema: Any, body: bytes | None, skipped: int) -> Any:
    """Return a body's record; None if the body is no record or has more bytes after it."""
    if body is None:
        return None
    stream = io.BytesIO(body)
    stream.seek(skipped)
    try:
        record = fastavro.schemaless_reader(stream, schema, None)
    except Exception:  # invalid bytes can fail in any part of the decoder
        return None
    return record if stream.tell() == len(body) else None


def _array(rows: list[Any], kind: pa.DataType) -> pa.Array:
    """Return records as Arrow; null for a record that does not fit its schema (some decimals)."""
    try:
        return pa.array(rows, kind)
    except (pa.ArrowException, OverflowError):
        return pa.array([row if _fits(row, kind) else None for row in rows], kind)


def _fits(row: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([row], kind)
    except (pa.ArrowException, OverflowError):
        return False
    return True


def _read_by(spark: SparkSession, schema: str) -> Any:
    """Return the schema for decoding; raise ValueError if only `fastavro` rejects the schema."""
    import fastavro

    made = as_spark_reads(json.loads(schema), _times(spark))
    try:
        fastavro.parse_schema(copy.deepcopy(made))
    except Exception as error:  # fastavro has no common exception class
        raise ValueError(f"not an Avro schema: {' '.join(str(error).split())}") from error
    return made


def _times(spark: SparkSession) -> list[str]:
    """Return the logical types of `TIMES` that this Spark version reads as times, not numbers."""
    fields = [
        {"name": name.replace("-", "_"), "type": {"type": kind, "logicalType": name}}
        for name, kind in TIMES.items()
    ]
    known = spark_schema(spark, json.dumps({"type": "record", "name": "Times", "fields": fields}))
    found = (field.dataType.typeName() for field in known.fields)
    return [name for name, kind in zip(TIMES, found, strict=True) if kind.startswith("time")]


def spark_schema(spark: SparkSession, schema: str) -> StructType:
    """Return an Avro schema as a Spark schema; every field is nullable for invalid bodies."""
    jvm: Any = spark._jvm
    try:
        parsed = jvm.org.apache.avro.Schema.Parser().parse(schema)
        text = jvm.org.apache.spark.sql.avro.SchemaConverters.toSqlType(parsed).dataType().json()
    except Exception as error:  # py4j passes on any exception of the parser
        raise ValueError(f"not an Avro schema: {one_line(error)}") from error
    struct = json.loads(_NOT_NULL.sub(r'"\1":true', text))
    if not isinstance(struct, dict) or struct.get("type") != "struct":
        raise ValueError("the Avro schema must be a record")
    return StructType.fromJson(struct)


# ---- Avro schema for fastavro
#
# The schema is rewritten so that fastavro returns the values that Spark's types for the original
# schema hold. fastavro and Spark differ in the cases below. Both schemas have the same encoding, so
# records of the original schema can be read with the rewritten one:
#
# ===================================  ==========================================================
# ``uuid``, ``time-millis`` etc.       without their logical type: Spark has a text or a number,
#                                      except for times of the day that its version supports
# ``["null", "int", "string"]``        Spark has a struct of ``member0`` and ``member1``. A record
#                                      of one field has the encoding of the field alone, so each
#                                      branch becomes a record whose field has the member's name
# ``["int", "long"]``                  without logical types: Spark has a number
# ===================================  ==========================================================

TIMES: Final = {"time-millis": "int", "time-micros": "long"}
"""Logical types for times of the day, with the types of their encoding."""

_SHARED: Final = frozenset(
    {
        *("date", "decimal", "timestamp-millis", "timestamp-micros"),
        *("local-timestamp-millis", "local-timestamp-micros"),
    }
)
"""Logical types that Spark and fastavro read as the same values."""

_NUMBERS: Final = ({"int", "long"}, {"float", "double"})


def as_spark_reads(schema: Any, times: Collection[str] = ()) -> Any:
    """Return the rewritten schema for reading the same bytes; both schemas are parsed JSON.

    `times` are the logical types of `TIMES` that this Spark version reads as times.

    >>> as_spark_reads({"type": "string", "logicalType": "uuid"})
    {'type': 'string'}
    """
    return _Rewriting(_SHARED.union(times)).of(schema)


class _Rewriting:
    def __init__(self, shared: frozenset[str]) -> None:
        self.shared = shared
        self.numbers = itertools.count()

    def of(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return self.union(schema)
        if not isinstance(schema, dict):
            return schema
        # A default fits the original first branch, and only readers of another schema need it.
        made = {key: value for key, value in schema.items() if key != "default"}
        if made.get("logicalType") not in self.shared:
            made.pop("logicalType", None)
        for key in ("type", "items", "values"):
            if key in made:
                made[key] = self.of(made[key])
        if "fields" in made:
            made["fields"] = [self.of(field) for field in made["fields"]]
        return made

    def union(self, branches: list[Any]) -> list[Any]:
        kinds = [_kind(branch) for branch in branches]
        others = [kind for kind in kinds if kind != "null"]
        if len(others) == 2 and set(others) in _NUMBERS:
            return kinds
        if len(others) == 1:
            return [self.of(branch) for branch in branches]
        members = itertools.count()
        return [
            "null" if kind == "null" else self.branch(f"member{next(members)}", branch)
            for kind, branch in zip(kinds, branches, strict=True)
        ]

    def branch(self, name: str, schema: Any) -> dict[str, Any]:
        return {
            "type": "record",
            "name": f"orbitmq_branch_{next(self.numbers)}",
            "fields": [{"name": name, "type": self.of(schema)}],
        }


def _kind(schema: Any) -> Any:
    return _kind(schema["type"]) if isinstance(schema, dict) else schema
