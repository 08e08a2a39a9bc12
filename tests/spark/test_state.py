"""Every kind of state survives a restart with the settings of the session helper.

The session of the suite has all of those settings. A stream counts ids over two runs: what the
second one says is right only if the state of the first was written, and is read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from orbitmq.spark.session import TUNED

pytestmark = pytest.mark.newest_spark

PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
ROCKS_DB = f"{PROVIDERS}.RocksDBStateStoreProvider"
FILES = f"{PROVIDERS}.HDFSBackedStateStoreProvider"
COUNTS = "id LONG, n LONG"
LIMIT_S = 120

Query = tuple[DataFrame, str]
"""A query, and its output mode."""


def aggregation(rows: DataFrame) -> Query:
    return rows.groupBy("id").count(), "update"


def deduplication(rows: DataFrame) -> Query:
    return rows.dropDuplicates(["id"]).selectExpr("id", "1"), "append"


def deduplication_within_watermark(rows: DataFrame) -> Query:
    timed = rows.withWatermark("at", "1 hour")
    return timed.dropDuplicatesWithinWatermark(["id"]).selectExpr("id", "1"), "append"


def join(rows: DataFrame) -> Query:
    return rows.alias("a").join(rows.alias("b"), "id").selectExpr("id", "1"), "append"


def apply_in_pandas_with_state(rows: DataFrame) -> Query:
    def count(key: tuple[Any, ...], frames: Iterable[Any], state: GroupState) -> Iterator[Any]:
        import pandas as pd

        number = (state.get[0] if state.exists else 0) + sum(map(len, frames))
        state.update((number,))
        yield pd.DataFrame({"id": [key[0]], "n": [number]})

    timeout = GroupStateTimeout.NoTimeout
    counted = rows.groupBy("id").applyInPandasWithState(count, COUNTS, "n LONG", "update", timeout)
    return counted, "update"


def transform_with_state_in_pandas(rows: DataFrame) -> Query:
    class Count(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.number = handle.getValueState("n", "n LONG")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            import pandas as pd

            before = self.number.get()
            number = (before[0] if before else 0) + sum(map(len, rows))
            self.number.update((number,))
            yield pd.DataFrame({"id": [key[0]], "n": [number]})

        def close(self) -> None:
            pass

    groups = rows.groupBy("id")
    return groups.transformWithStateInPandas(Count(), COUNTS, "update", "none"), "update"


def transform_with_state(rows: DataFrame) -> Query:
    class Count(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.number = handle.getValueState("n", "n LONG")

        def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
            before = self.number.get()
            number = (before[0] if before else 0) + sum(1 for _ in rows)
            self.number.update((number,))
            yield Row(id=key[0], n=number)

        def close(self) -> None:
            pass

    return rows.groupBy("id").transformWithState(Count(), COUNTS, "update", "none"), "update"


# Each run has ids 1, 1 and 2; the first has 3 as well, the second 4.
COUNTED = [(1, 2), (2, 1), (3, 1)], [(1, 4), (2, 2), (4, 1)]
DIFFERENT = [(1, 1), (2, 1), (3, 1)], [(4, 1)]
# Pairs of an id: 2 by 2 at first, then 4 by 4 in all, of which 2 by 2 were there.
PAIRS = [*[(1, 1)] * 4, (2, 1), (3, 1)], [*[(1, 1)] * 12, *[(2, 1)] * 3, (4, 1)]


@pytest.mark.parametrize(
    ("kind", "provider", "wanted"),
    [
        pytest.param(kind, provider, wanted, id=f"{kind.__name__}-{provider.rpartition('.')[2]}")
        for kind, wanted in (
            (aggregation, COUNTED),
            (deduplication, DIFFERENT),
            (deduplication_within_watermark, DIFFERENT),
            (join, PAIRS),
            (apply_in_pandas_with_state, COUNTED),
            (transform_with_state_in_pandas, COUNTED),
            (transform_with_state, COUNTED),
        )
        for provider in (ROCKS_DB, FILES)
        # The last two are there with RocksDB only.
        if provider is ROCKS_DB or "transform" not in kind.__name__
    ],
)
def test_state_is_kept_with_every_tuned_setting(
    spark: SparkSession,
    tmp_path: Path,
    kind: Callable[[DataFrame], Query],
    provider: str,
    wanted: tuple[list[tuple[int, int]], ...],
) -> None:
    assert {each.key: spark.conf.get(each.key) for each in TUNED} == {
        each.key: each.value for each in TUNED
    }
    key = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(key)
    assert before is not None
    spark.conf.set(key, provider)
    try:
        found = tuple(run(spark, tmp_path, kind, last) for last in (3, 4))
    finally:
        spark.conf.set(key, before)
    assert found == wanted


def run(
    spark: SparkSession, place: Path, kind: Callable[[DataFrame], Query], last: int
) -> list[tuple[int, int]]:
    """Add a file with ids 1, 1, 2 and `last`, and run a query over its new files."""
    (place / "in").mkdir(exist_ok=True)
    lines = [json.dumps({"id": id, "at": "2026-01-01T00:00:00"}) for id in (1, 1, 2, last)]
    (place / "in" / f"{last}.json").write_text("\n".join(lines))
    rows, mode = kind(spark.readStream.schema("id LONG, at TIMESTAMP").json(str(place / "in")))
    found: list[tuple[int, int]] = []

    def collect(batch: DataFrame, _number: int) -> None:
        found.extend((row[0], row[1]) for row in batch.collect())

    writer = rows.writeStream.outputMode(mode).foreachBatch(collect)
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(LIMIT_S), "the stream did not end"
    return sorted(found)
