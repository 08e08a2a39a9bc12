"""Avro bodies → columns, without a jar.

Spark's own ``from_avro`` lives in a package that must be fetched for each version of Spark. Its
types, though, are in every Spark: they say what an Avro schema is as a Spark schema. The bytes are
decoded by `fastavro` in the Python worker, a batch of bodies at a time, and go back as Arrow.

A body is one record in Avro's binary encoding, without the header of a container file. A body in
the single-object encoding (``C3 01`` and the schema's fingerprint), or with Confluent's five bytes
before it, is told by its `framing`, because none of them can be told from plain bytes for certain.
"""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

__all__ = ["Framing", "avro_columns", "spark_schema"]

Framing = Literal["none", "single-object", "confluent"]

HEADER_BYTES: Final = {"none": 0, "single-object": 10, "confluent": 5}
"""How many bytes stand before the record."""

_NOT_NULL = re.compile(r'"(nullable|containsNull|valueContainsNull)":false')


def avro_columns(
    spark: SparkSession, body: Column, schema: str, framing: Framing = "none"
) -> Column:
    """Return the record in each body as a struct; null where there is none."""
    struct = spark_schema(spark, schema)
    skipped = HEADER_BYTES[framing]

    def decoded(bodies: pa.Array) -> pa.Array:
        # Here, as this runs in the workers.
        import fastavro
        from pyspark.sql.pandas.types import to_arrow_type

        parsed = fastavro.parse_schema(json.loads(schema))
        rows = [_record(fastavro, parsed, body.as_py(), skipped) for body in bodies]
        return pa.array(rows, to_arrow_type(struct, timezone="UTC"))

    make: Any = arrow_udf  # whose stub does not know that a function's type can be left out
    column: Column = make(decoded, struct)(body)
    return column


def _record(fastavro: Any, schema: Any, body: bytes | None, skipped: int) -> Any:
    """Return a body's record; None if it is none, or if there is more in it than one."""
    if body is None:
        return None
    stream = io.BytesIO(body)
    stream.seek(skipped)
    try:
        record = fastavro.schemaless_reader(stream, schema, None)
    except (EOFError, ValueError, IndexError, OverflowError, UnicodeDecodeError, MemoryError):
        return None
    return record if stream.tell() == len(body) else None


def spark_schema(spark: SparkSession, schema: str) -> StructType:
    """Return an Avro schema as Spark's; every field may be null, as a body may be no record."""
    jvm: Any = spark._jvm
    try:
        parsed = jvm.org.apache.avro.Schema.Parser().parse(schema)
        text = jvm.org.apache.spark.sql.avro.SchemaConverters.toSqlType(parsed).dataType().json()
    except Exception as error:  # py4j hands on whatever the parser throws
        reason = str(error).partition("SchemaParseException: ")[2] or str(error)
        raise ValueError(f"not an Avro schema: {reason.splitlines()[0]}") from error
    struct = json.loads(_NOT_NULL.sub(r'"\1":true', text))
    if not isinstance(struct, dict) or struct.get("type") != "struct":
        raise ValueError("the Avro schema must be a record")
    return StructType.fromJson(struct)
