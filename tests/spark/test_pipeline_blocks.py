"""Building blocks of pipelines as plain PySpark: DataFrames in, DataFrames out."""

from __future__ import annotations

import io
import json
import re
import sys
import types
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from orbitmq import Message
from orbitmq.client.trace import consumed, consuming, produced
from orbitmq.spark.pipelines import Table, plots
from orbitmq.spark.pipelines.avro import Framing
from orbitmq.spark.pipelines.dead_letters import SelectSpec, chosen, explained, summary
from orbitmq.spark.pipelines.dead_letters.redrive import (
    back_to,
    can_be_sent,
    not_yet_redriven,
    remember,
)
from orbitmq.spark.pipelines.decoding import as_ddl, decode, infer_json_schema
from orbitmq.spark.pipelines.spec import Interval
from orbitmq.spark.pipelines.topics import as_messages
from orbitmq.spark.pipelines.trace import _plots, failures, percentiles_of, slowest
from orbitmq.spark.pipelines.trace_events import consumptions, events, sends

T0_MS = 1_767_225_600_000


def bodies(spark: SparkSession, *texts: str | bytes | None) -> DataFrame:
    rows = [
        (bytearray(text.encode() if isinstance(text, str) else text or b""), "orders")
        for text in texts
    ]
    return spark.createDataFrame(rows, "body BINARY, topic STRING")


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def test_json_bodies_become_columns_and_bad_ones_are_marked(spark: SparkSession) -> None:
    frame = bodies(spark, '{"id": 1, "topic": "x"}', "{broken", "", b"\xff\xfe", '{"id": "text"}')
    decoded = frame.transform(decode, "json", "id INT, topic STRING")
    assert decoded.columns == ["id", "topic", "_topic", "_malformed"]
    assert rows_of(decoded.select("id", "topic", "_topic"))[0] == {
        "id": 1,
        "topic": "x",
        "_topic": "orders",
    }
    assert [row["_malformed"] for row in rows_of(decoded)] == [False, True, True, True, True]


def test_text_and_raw_bodies_are_decoded(spark: SparkSession) -> None:
    frame = bodies(spark, "Grüße")
    assert rows_of(decode(frame, "text")) == [{"text": "Grüße", "_topic": "orders"}]
    assert rows_of(decode(frame, "raw"))[0]["body"] == bytearray("Grüße".encode())
    with pytest.raises(ValueError, match="need a schema"):
        decode(frame, "json")


AVRO = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "product", "type": ["null", "string"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "lines", "type": {"type": "array", "items": "double"}}]}"""


@pytest.mark.parametrize("framing", ["none", "confluent"])
def test_avro_bodies_become_columns_without_a_jar(spark: SparkSession, framing: Framing) -> None:
    def written(record: dict[str, Any]) -> bytes:
        stream = io.BytesIO()
        stream.write(b"\0\0\0\0\7" if framing == "confluent" else b"")
        fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(AVRO)), record)
        return stream.getvalue()

    at = datetime(2026, 1, 5, 9, tzinfo=UTC)
    good = written({"id": 2**40, "product": "Tee", "at": at, "lines": [1.5, 2.0]})
    empty = written({"id": 1, "product": None, "at": at, "lines": []})
    frame = bodies(spark, good, empty, b"", good[:-3], good + b"x")
    decoded = frame.transform(decode, "avro", AVRO, framing)
    first, second, *bad = rows_of(decoded)
    assert (first["id"], first["product"], first["lines"]) == (2**40, "Tee", [1.5, 2.0])
    assert decoded.schema["at"].dataType.typeName() == "timestamp"
    assert (second["product"], second["lines"], second["_malformed"]) == (None, [], False)
    assert [row["_malformed"] for row in bad] == [True, True, True]
    with pytest.raises(ValueError, match="not an Avro schema"):
        decode(frame, "avro", '{"type": "rekord"}')
    with pytest.raises(ValueError, match="must be a record"):
        decode(frame, "avro", '"string"')


def test_a_schema_is_inferred_over_all_bodies(spark: SparkSession) -> None:
    schema = infer_json_schema(spark, ['{"a": 1}', '{"a": 2.5, "b": {"c": "x"}}', "nonsense"])
    assert schema.simpleString() == "struct<a:double,b:struct<c:string>>"
    assert infer_json_schema(spark, ["1"]).fields == []
    odd = infer_json_schema(spark, ['{"a-b": 1, "c d": {"e.f": "x"}}'])
    assert StructType.fromDDL(as_ddl(spark, odd)) == odd
    with pytest.raises(ValueError, match=r"keys 'a\.id' and 'a\.ID' differ only in case"):
        infer_json_schema(spark, ['{"a": {"id": 1}}', '{"a": [{"ID": 2}]}'])
    assert infer_json_schema(spark, []).fields == []


def test_rows_without_a_body_become_json_beside_the_sinks_columns(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", 1, None)], "tags STRING, n INT, `odd name` STRING")
    assert rows_of(as_messages(rows)) == [{"tags": "a", "body": '{"n":1}'}]
    ready = spark.createDataFrame([("x",)], "body STRING")
    assert as_messages(ready) is ready


def trace(spark: SparkSession, *records: str) -> DataFrame:
    """Return events of trace messages as written by OrbitMQ's own client."""
    return events(bodies(spark, "".join(records)))


def sent(message_id: str, *, at_ms: int = T0_MS, cost_ms: int = 2, topic: str = "orders") -> str:
    return produced(
        timestamp_ms=at_ms,
        region="r",
        group="shop",
        message=Message(topic, b"x", keys=["k"]),
        message_id=message_id,
        store_host="h",
        body_length=1,
        cost_ms=cost_ms,
        offset_id="o",
        success=True,
    )


def tried(
    message_id: str, *, after_ms: int, cost_ms: int, code: int = 0, retry: int = 0
) -> tuple[str, str]:
    request = f"{message_id}-{retry}"
    before = consuming(
        timestamp_ms=T0_MS + after_ms,
        region="r",
        group="billing",
        request_id=request,
        message_id=message_id,
        retry_times=retry,
        keys="k",
    )
    after = consumed(
        request_id=request,
        message_id=message_id,
        cost_ms=cost_ms,
        success=code == 0,
        keys="k",
        context_code=code,
        timestamp_ms=T0_MS + after_ms + cost_ms,
        group="billing",
    )
    return before, after


def test_latencies_and_failures_are_computed_from_the_trace(spark: SparkSession) -> None:
    records = [sent("A,B", cost_ms=4), sent("C", cost_ms=8)]
    records += tried("A", after_ms=10, cost_ms=1)
    records += tried("B", after_ms=500, cost_ms=30, code=2)
    records += tried("B", after_ms=9000, cost_ms=20, code=4, retry=1)
    records += [tried("C", after_ms=20, cost_ms=5)[0]]  # Still running.
    traced = trace(spark, *records)
    assert sorted(row["msgId"] for row in rows_of(sends(traced))) == ["A", "B", "C"]
    tries = consumptions(traced).cache()
    (delivery,) = rows_of(percentiles_of(tries, "deliveryMs", ["topic", "group"], (50.0, 100.0)))
    assert delivery == {
        "topic": "orders",
        "group": "billing",
        "messages": 4,
        "p50": 20,
        "p100": 9000,
        "max": 9000,
    }
    (worst, *_) = rows_of(slowest(tries, 2))
    assert (worst["msgId"], worst["totalMs"], worst["outcome"]) == ("B", 9020, "asked for retry")
    (failed,) = rows_of(failures(tries))
    assert (failed["group"], failed["tries"], failed["failed"]) == ("billing", 4, 2)
    assert (failed["messages"], failed["retries"]) == (1, 1)
    assert failed["how"] == "asked for retry, exception"


def test_a_trace_of_older_clients_is_read(spark: SparkSession) -> None:
    """Clients before 4.9 wrote SubAfter without time and group; the send is missing here."""
    before, after = tried("Z", after_ms=7, cost_ms=3)
    short = "\1".join(after.rstrip("\2").split("\1")[:7]) + "\2"
    (row,) = rows_of(consumptions(trace(spark, before, short)))
    assert (row["group"], row["handlingMs"], row["succeeded"]) == ("billing", 3, True)
    assert row["topic"] is None
    assert row["deliveryMs"] is None


def test_malformed_trace_records_do_not_hide_the_others(spark: SparkSession) -> None:
    """Fields that are not numbers, too large, empty or missing, in every position."""
    odd = ["", "soon", str(2**63), str(2**63 - 1), "null", "-1"]
    records = [sent("A"), *tried("A", after_ms=10, cost_ms=1)]
    for number, text in enumerate(odd):
        records.append("\1".join(["Pub", text, "r", "g", "t", f"P{number}", *[text] * 8]) + "\2")
        name, request = f"C{number}", f"R{number}"
        records.append("\1".join(["SubBefore", text, "r", "g", request, name, text]) + "\2")
        records.append("\1".join(["SubAfter", request, name, *[text] * 5]) + "\2")
    records += ["Pub\2", "SubBefore\2", "SubAfter\2", "\1\2", "Pub\1" + "\1" * 12 + "\2"]
    records += ["SubBefore\1" + "\1" * 6 + "\2"]
    traced = trace(spark, *records)
    names = [f"P{number}" for number in range(len(odd))]
    assert sorted(row["msgId"] for row in rows_of(sends(traced))) == ["A", *names]
    tries = consumptions(traced).cache()
    assert len(rows_of(tries)) == 1 + len(odd)
    (delivery,) = rows_of(percentiles_of(tries, "deliveryMs", ["topic", "group"], (50.0,)))
    assert (delivery["messages"], delivery["p50"]) == (1, 10)
    assert rows_of(slowest(tries, 1))[0]["msgId"] == "A"
    (failed,) = rows_of(failures(tries))
    assert failed["failed"] == len(odd) - 1, "of 'null' nobody knows whether it succeeded"


DEAD = (
    "topic STRING, brokerName STRING, queueId INT, queueOffset LONG, msgId STRING, tags STRING, "
    "keys ARRAY<STRING>, body BINARY, properties MAP<STRING, STRING>, storeTimestamp TIMESTAMP, "
    "reconsumeTimes INT"
)


def dead(spark: SparkSession, *letters: tuple[str, int, float, dict[str, str]]) -> DataFrame:
    """Return dead letters: group, attempts, age in hours, properties."""
    now = datetime.now(UTC)
    rows = []
    for offset, (group, tries, hours, properties) in enumerate(letters):
        stored = now - timedelta(hours=hours)
        known = {"RETRY_TOPIC": "orders", "UNIQ_KEY": f"U{offset}", "WAIT": "false", **properties}
        place = (f"%DLQ%{group}", "broker-a", 0, offset, f"M{offset}", "t", [f"k{offset}"])
        rows.append((*place, bytearray(b"x"), known, stored, tries))
    return spark.createDataFrame(rows, DEAD)


def test_dead_letters_are_grouped_by_cause_topic_consumer_and_age(spark: SparkSession) -> None:
    letters = dead(
        spark,
        ("billing", 17, 0.5, {}),
        ("billing", 17, 0.6, {}),
        ("billing", 1, 30, {}),
        ("mail", 17, 500, {"error": "no such address", "RETRY_TOPIC": "letters"}),
    )
    rows = explained(letters, cause_property="error").cache()
    found = [
        (row["cause"], row["originTopic"], row["group"], row["age"], row["messages"])
        for row in rows_of(summary(rows))
    ]
    assert found == [
        ("gave up after 17 tries", "orders", "billing", "under 1 hour", 2),
        ("refused by its consumer at the first try", "orders", "billing", "under 1 week", 1),
        ("no such address", "letters", "mail", "older", 1),
    ]


def test_the_cause_of_a_dead_letter_includes_its_traced_outcome(spark: SparkSession) -> None:
    records = [
        *tried("U0", after_ms=5, cost_ms=1, code=4),
        *tried("U0", after_ms=9, cost_ms=1, code=2, retry=1),
    ]
    tries = consumptions(trace(spark, *records))
    (row,) = rows_of(explained(dead(spark, ("billing", 2, 1, {})), tries=tries))
    assert row["cause"] == "gave up after 2 tries, the last: exception"


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (SelectSpec(topic=("letters",)), ["U1"]),
        (SelectSpec(message_id=("M0",)), ["U0"]),
        (SelectSpec(key=("k1", "k9")), ["U1"]),
        (SelectSpec(older_than=Interval(3_600_000)), ["U1"]),
        (SelectSpec(newer_than=Interval(3_600_000)), ["U0"]),
        (SelectSpec(where="reconsumeTimes > 5 AND group = 'mail'"), ["U1"]),
        (SelectSpec(), ["U0", "U1"]),
    ],
)
def test_dead_letters_are_selected_by_condition(
    spark: SparkSession, select: SelectSpec, expected: list[str]
) -> None:
    letters = dead(spark, ("billing", 1, 0.1, {}), ("mail", 17, 9, {"RETRY_TOPIC": "letters"}))
    rows = rows_of(chosen(explained(letters), select))
    assert sorted(row["originMsgId"] for row in rows) == expected


def test_dead_letters_that_cannot_be_sent_are_separated(spark: SparkSession) -> None:
    letters = dead(
        spark,
        ("good", 17, 1, {"odd": "a\1b"}),
        ("long", 17, 1, {"p": "v" * 32_500}),
        ("homeless", 17, 1, {"RETRY_TOPIC": "no topic !"}),
        ("empty", 17, 1, {}),
    )
    emptied = F.when(F.col("topic") == "%DLQ%empty", F.lit(b"")).otherwise(F.col("body"))
    rows = explained(letters.withColumn("body", emptied))

    def groups(target: str) -> list[str]:
        return sorted(row["group"] for row in rows_of(rows.where(can_be_sent(target))))

    assert groups("group") == groups("topic") == ["good"]
    assert groups("elsewhere") == ["good", "homeless"]


def test_redriven_messages_keep_their_content_and_are_sent_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    ledger = str(tmp_path / "ledger")
    rows = explained(dead(spark, ("billing", 17, 1, {"shop": "7"}), ("mail", 17, 2, {}))).cache()
    to_group = {row["topic"]: row for row in rows_of(back_to("group", rows))}
    assert to_group.keys() == {"%RETRY%billing", "%RETRY%mail"}
    assert to_group["%RETRY%billing"]["properties"] == {
        "shop": "7",
        "RETRY_TOPIC": "orders",
        "REDRIVEN_FROM": "%DLQ%billing/broker-a/0/0",
    }
    assert {row["topic"] for row in rows_of(back_to("topic", rows))} == {"orders"}
    assert {row["topic"] for row in rows_of(back_to("elsewhere", rows))} == {"elsewhere"}
    assert not_yet_redriven(rows, ledger).count() == 2
    (tmp_path / "ledger" / "_temporary").mkdir(parents=True)  # The run before was killed early.
    assert not_yet_redriven(rows, ledger).count() == 2
    remember(rows.where("group = 'mail'"), ledger, datetime.now(UTC))
    assert [row["group"] for row in rows_of(not_yet_redriven(rows, ledger))] == ["billing"]


def test_a_plot_labels_topics_missing_from_the_trace() -> None:
    """The topic of a consumption comes from the trace of the send, which may be missing."""
    columns = ("topic", "group", "messages", "p50", "max")
    tables = tuple(
        Table(title, columns, ((topic, "billing", 3, 1.0, 2.0),))
        for title, topic in (("sending", "orders"), ("delivery", "orders"), ("handling", None))
    )
    spec: Any = types.SimpleNamespace(percentiles=(50.0,))
    drawn = _plots(spec, tables, Table("by minute", ("minute", "p50"), ()))
    assert "orders · billing" in drawn[0]
    assert "(topic not traced) · billing" in drawn[2]


def test_plots_are_well_formed_and_labelled(tmp_path: Path) -> None:
    bars = plots.bars("latency <ms>", [("orders & more", {"p50": 2, "p99": 40.5})], unit="ms")
    lines = plots.lines("by minute", ["09:00", "09:01"], {"p50": [1.0, None], "p99": [2.0, 8.0]})
    for drawn in (bars, lines):
        ET.fromstring(drawn)
    widths = [float(width) for width in re.findall(r'<rect x="260"[^>]*width="([\d.]+)"', bars)]
    assert widths[1] / widths[0] == pytest.approx(40.5 / 2, rel=0.02)
    assert "40.5 ms" in bars
    page = tmp_path / "a" / "trace.html"
    plots.write_page(page, "t", [bars, lines], [Table("T", ("x",), (("<b>",), (1200,)))])
    assert "&lt;b&gt;" in page.read_text()
    assert "1,200" in page.read_text()
    both = tmp_path / "both.svg"
    plots.write_page(both, "t", [bars, lines])
    ET.fromstring(both.read_text())


def test_a_png_needs_cairosvg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    assert plots.format_fault("t.png") == (
        "a .png needs cairosvg: pip install cairosvg, or say .html or .svg"
    )
    stand_in = types.ModuleType("cairosvg")
    given: list[dict[str, Any]] = []

    def svg2png(**keys: Any) -> bytes:
        given.append(keys)
        return b"PNG"

    stand_in.svg2png = svg2png  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cairosvg", stand_in)
    assert plots.format_fault("t.png") is None
    drawn = [plots.bars(title, [("orders", {"p50": 2.0})]) for title in ("first", "second")]
    plots.write_page(tmp_path / "t.png", "t", drawn)
    assert (tmp_path / "t.png").read_bytes() == b"PNG"
    texts = {element.text for element in ET.fromstring(given[0]["bytestring"]).iter()}
    assert {"first", "second"} <= texts
