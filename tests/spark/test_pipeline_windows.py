"""Windows over a topic: each is written once after its end; late rows are left out."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from orbitmq.spark.pipelines import Exit, load, run
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.recording import Recorder
from tests.spark.topics import bodies_in, produce

PER_MINUTE = """
kind = "sql"
checkpoint = "state"
[source.orders]
topic = "{orders}"
decode = "json"
schema = "product STRING, amount INT, at TIMESTAMP"
watermark = {{ column = "at", delay = "1 minute" }}
options = {{ startingOffsets = "earliest" }}
[[step]]
name = "per_minute"
sql = '''
SELECT date_format(window.start, 'HH:mm') AS minute, product, sum(amount) AS amount
FROM orders GROUP BY window(at, '1 minute'), product'''
[[sink]]
topic = "{sums}"
[[sink]]
format = "parquet"
path = "out"
"""

Sum = tuple[str, str, int]


def order(product: str, amount: int, time: str) -> bytes:
    return json.dumps({"product": product, "amount": amount, "at": f"2026-01-05T{time}Z"}).encode()


def test_a_window_is_written_once_after_its_end(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    orders, sums = new_topic(cluster), new_topic(cluster)
    file = tmp_path / "per_minute.toml"
    file.write_text(PER_MINUTE.format(orders=orders, sums=sums))

    def sums_after(*bodies: bytes) -> tuple[list[Sum], str | None]:
        """Send orders and catch up; return the sums in the topic, and the last watermark."""
        produce(cluster, orders, bodies)
        recorder = Recorder()
        code = run(load(file, {"NAMESRV_ADDR": cluster.address}), spark, recorder, once=True)
        assert (code, recorder.failures) == (Exit.DONE, [])
        told = [json.loads(body) for body in bodies_in(cluster, sums).elements()]
        in_topic = sorted((one["minute"], one["product"], one["amount"]) for one in told)
        in_parquet = spark.read.parquet(str(tmp_path / "out"))
        assert sorted(map(tuple, in_parquet.collect())) == in_topic
        return in_topic, recorder.batches[-1].watermark

    nine = [order("tea", 1, "09:00:10"), order("tea", 2, "09:00:50"), order("tea", 4, "09:01:10")]
    assert sums_after(*nine) == ([], "2026-01-05T09:00:10.000Z")
    # One comes out of order, but in time; the other ends the first minute.
    found = sums_after(order("tea", 8, "09:00:20"), order("milk", 16, "09:02:30"))
    first = ("09:00", "tea", 11)
    assert found == ([first], "2026-01-05T09:01:30.000Z")
    # The first minute has been written, so rows for it are too late now.
    found = sums_after(order("tea", 32, "09:00:55"), order("tea", 64, "09:04:00"))
    assert found == (
        [first, ("09:01", "tea", 4), ("09:02", "milk", 16)],
        "2026-01-05T09:03:00.000Z",
    )
