"""Avro records of every type become columns; values that do not fit are marked."""

from __future__ import annotations

import io
import json
import uuid
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from orbitmq.spark.pipelines.decoding import decode

ID = uuid.UUID(int=7)
POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "at", "type": {"type": "int", "logicalType": "time-millis"}}],
}
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
CASES: dict[str, tuple[Any, Any, Any]] = {
    "uuid": ({"type": "string", "logicalType": "uuid"}, ID, str(ID)),
    "time-millis": ({"type": "int", "logicalType": "time-millis"}, time(0, 0, 1), 1000),
    "time-micros": ({"type": "long", "logicalType": "time-micros"}, time(0, 0, 1), 1_000_000),
    "date": ({"type": "int", "logicalType": "date"}, date(2026, 1, 5), date(2026, 1, 5)),
    "local": (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        datetime(2026, 1, 5),  # noqa: DTZ001 - that is what it is for
        datetime(2026, 1, 5),  # noqa: DTZ001
    ),
    "text-of-two": (["null", "int", "string"], "x", {"member0": None, "member1": "x"}),
    "number-of-two": (["int", "null", "string"], 5, {"member0": 5, "member1": None}),
    "none-of-two": (["null", "int", "string"], None, None),
    "wide-number": (["null", "int", "long"], 2**40, 2**40),
    "float": (["float", "double"], 1.5, 1.5),
    "optional-uuid": (["null", {"type": "string", "logicalType": "uuid"}], ID, str(ID)),
    "named": (
        [POINT, COLOUR],
        {"at": time(0, 0, 1)},
        {"member0": {"at": 1000}, "member1": None},
    ),
    "inner": (
        {"type": "array", "items": {"type": "map", "values": ["null", "string", POINT]}},
        [{"a": "x", "b": {"at": time(0, 0, 1)}, "c": None}],
        [
            {
                "a": {"member0": "x", "member1": None},
                "b": {"member0": None, "member1": {"at": 1000}},
                "c": None,
            }
        ],
    ),
}


def record(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}


def encoded(schema: dict[str, Any], value: Any) -> bytearray:
    stream = io.BytesIO()
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    fastavro.schemaless_writer(stream, parsed, {"f": value})
    return bytearray(stream.getvalue())


def decoded(spark: SparkSession, schema: dict[str, Any], *bodies: bytearray) -> DataFrame:
    frame = spark.createDataFrame([(body,) for body in bodies], "body BINARY")
    return decode(frame, "avro", json.dumps(schema))


def test_every_avro_type_is_decoded(spark: SparkSession) -> None:
    fields = [
        {"name": name.replace("-", "_"), "type": json.loads(json.dumps(kind).replace("Point", at))}
        for number, (name, (kind, _, _)) in enumerate(CASES.items())
        if (at := f"Point{number}")
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    stream = io.BytesIO()
    values = {name.replace("-", "_"): value for name, (_, value, _) in CASES.items()}
    fastavro.schemaless_writer(
        stream, fastavro.parse_schema(json.loads(json.dumps(schema))), values
    )
    frame = decoded(spark, schema, bytearray(stream.getvalue())).drop("_malformed")
    if frame.schema["time_micros"].dataType.typeName().startswith("time"):
        # Some versions of Spark have a type for times of day, others use numbers.
        whole = F.col("time_micros").cast("decimal(20, 6)") * 1_000_000
        frame = frame.withColumn("time_micros", whole.cast("long"))
    (row,) = frame.collect()
    found = row.asDict(recursive=True)
    assert found == {name.replace("-", "_"): wanted for name, (_, _, wanted) in CASES.items()}


def test_a_value_out_of_range_is_marked_and_the_others_are_kept(spark: SparkSession) -> None:
    def money(precision: int) -> dict[str, Any]:
        kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 1}
        return record(kind)

    bodies = [encoded(money(30), Decimal(text)) for text in ("1.5", "99999999.5", "2.5")]
    rows = decoded(spark, money(4), *bodies).collect()
    assert [(row.f, row._malformed) for row in rows] == [
        (Decimal("1.5"), False),
        (None, True),
        (Decimal("2.5"), False),
    ]


def test_an_unsupported_schema_is_refused_in_one_line(spark: SparkSession) -> None:
    endless = record(["null", "R"])
    with pytest.raises(ValueError, match=r"not an Avro schema: .*[Rr]ecursive") as caught:
        decoded(spark, endless, bytearray(b"x"))
    assert "\n" not in str(caught.value)
