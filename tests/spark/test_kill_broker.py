"""Exactly once while the broker is killed: its ids are restored from snapshot and log."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from orbitmq import Admin, Store, StoreOptions
from tests.spark.broker_process import BrokerProcess
from tests.spark.topics import bodies_of_store, produce

pytestmark = [pytest.mark.counted, pytest.mark.kills]

KILLS = 4
MESSAGES = 8000


class Killer(threading.Thread):
    """Kills a broker at random moments and starts it again at once."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._dice = random.Random()
        self.kills = 0

    def run(self) -> None:
        while self.kills < KILLS:
            time.sleep(self._dice.uniform(0.3, 1.5))
            self._broker.kill()
            self._broker.start()
            self.kills += 1


@pytest.mark.timeout(600)
def test_nothing_is_lost_or_repeated_when_brokers_are_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Snapshots are frequent: some kills come between two of them, some during one.
    interval = "deduplicationSnapshotInterval=300"
    with BrokerProcess(tmp_path / "store", interval) as broker:
        with Admin(broker.address) as admin:
            for topic in ("source", "target"):
                admin.create_topic(topic, queues=4)
        bodies = (b"%d" % number for number in range(MESSAGES))
        produce(broker.address, "source", bodies, batch=100)
        killer = Killer(broker)
        killer.start()
        while killer.is_alive() or not _relayed(spark, broker, tmp_path):
            _relayed(spark, broker, tmp_path)
        killer.join()
    sizes = StoreOptions(commit_log_file_size=64 << 20, index_slots=50_000, index_entries=200_000)
    with Store.open(tmp_path / "store", sizes, create=True) as store:
        found = bodies_of_store(store, "target")
    assert found == Counter(b"%d" % number for number in range(MESSAGES))


def _relayed(spark: SparkSession, broker: BrokerProcess, path: Path) -> bool:
    """Relay all messages; return True if the query ended, as it may fail with its broker."""
    try:
        stream = spark.readStream.format("rocketmq").options(
            nameServer=broker.address,
            subscribe="source",
            startingOffsets="earliest",
            maxOffsetsPerTrigger="200",
        )
        query = (
            stream.load()
            .select("body")
            .writeStream.format("rocketmq")
            .options(nameServer=broker.address, topic="target", deduplicate="true")
            .option("checkpointLocation", str(path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        return bool(query.awaitTermination(180))
    except PySparkException:
        return False
