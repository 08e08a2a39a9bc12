"""A Java broker's store directory as a table: while it runs, after a kill, and stopped."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from compat.java_cluster import JavaCluster
from compat.java_peer import JavaPeer
from compat.java_traffic import LONG_LEVELS, Sent, java_writes
from orbitmq._native import StoreAudit
from orbitmq.spark import read_store
from orbitmq.storelog import StoreLog

COUNT = 3000
COLUMNS = ["topic", "queueId", "queueOffset", "msgId", "tags", "keys", "body", "physicalOffset"]


def assert_all_there(table: pa.Table, sent: list[Sent]) -> None:
    rows = {row["physicalOffset"]: row for row in table.to_pylist()}
    for message in sent:
        row = rows[message.physical_offset]
        assert (row["topic"], row["queueId"]) == message.stored_queue
        assert row["queueOffset"] == message.queue_offset
        assert row["msgId"] == message.unique_key
        assert (row["tags"], tuple(row["keys"])) == (message.tags, message.keys)
        assert hashlib.sha1(row["body"]).hexdigest() == message.body_sha1


def audit(path: Path) -> dict[str, int]:
    """Return every finding of every part, by kind."""
    log, check = StoreLog(path), StoreAudit(path)
    parts = [check.check_directory(), check.check_log(log.snapshot.whole())]
    parts += [check.check_queue(*queue) for queue in log.snapshot.queues()]
    for file, entries in check.index_files:
        parts += [check.check_index(file, 1, entries + 1), check.check_chains(file)]
    found: dict[str, int] = {}
    for part in parts:
        for kind, count in part.counts.items():
            found[kind] = found.get(kind, 0) + count
    return found


def test_a_java_store_is_read_while_running_killed_and_stopped(
    spark: SparkSession, java_cluster: JavaCluster, java_peer: JavaPeer
) -> None:
    cluster, root = java_cluster, java_cluster.store_root
    cluster.start_broker()
    while_writing: list[int] = []

    def scan(_acknowledged: int) -> None:
        """Each acknowledged message is in the log by now; all records read must be whole."""
        if len(while_writing) < 20:
            table = pa.table(StoreLog(root).scan(columns=["physicalOffset"]))
            while_writing.append(table.num_rows)
            assert table.num_rows >= _acknowledged

    sent = java_writes(
        java_peer,
        cluster,
        seed=61,
        count=COUNT,
        create_topics=True,
        delay_levels=LONG_LEVELS,
        on_progress=scan,
    )
    assert while_writing, "the producers were never looked at"
    assert while_writing == sorted(while_writing)
    log = StoreLog(root)
    assert_all_there(pa.table(log.scan(columns=COLUMNS, splits=7)), sent)
    orders = [message for message in sent if message.stored_queue == ("Orders", 2)]
    table = pa.table(log.scan(topics={"Orders": [2]}, columns=COLUMNS))
    assert table.num_rows == len(orders)
    assert_all_there(table, orders)
    by_key = pa.table(log.scan(topics=["Orders"], keys=[orders[0].unique_key], columns=COLUMNS))
    assert_all_there(by_key, orders[:1])
    assert by_key.num_rows == 1

    cluster.kill_broker()
    assert pa.table(StoreLog(root).scan(columns=["topic"])).num_rows >= COUNT
    cluster.start_broker()
    cluster.stop_broker()
    log = StoreLog(root)
    assert_all_there(pa.table(log.scan(columns=COLUMNS)), sent)
    found = audit(root)
    # After a kill Java drops index files it does not trust and does not fill them again.
    found.pop("missing-index-entry", None)
    assert found == {}
    assert_spark_reads_the_same(spark, root, log)


def assert_spark_reads_the_same(spark: SparkSession, root: Path, log: StoreLog) -> None:
    expected = pa.table(log.scan(columns=["topic"])).column("topic").value_counts().to_pylist()
    by_format = spark.read.format("rocketmq-store").option("splits", 5).load(str(root))
    for rows in (by_format, read_store(spark, root, splits=5)):
        counts = {row.topic: row["count"] for row in rows.groupBy("topic").count().collect()}
        assert counts == {each["values"]: each["counts"] for each in expected}
