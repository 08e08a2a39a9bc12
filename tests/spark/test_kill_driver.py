"""Exactly once, whatever moment the driver is killed at.

One driver relays a topic to Parquet files and to another topic, in many small batches. It is killed
with ``kill -9`` again and again, at random moments: while it plans, in the middle of sends, between
a batch's last send and its commit. Sometimes only its JVM is killed and the Python workers go on
sending until they notice. In the end a driver runs to the end, and every message must be there
once.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orbitmq.testing import LocalCluster
from tests.spark.drivers import Driver
from tests.spark.relay_driver import Relay
from tests.spark.topics import bodies_in, produce, records_in

KILLS = int(os.environ.get("ORBITMQ_KILLS", "8"))
"""More of them take minutes; what CI has time for is less than what a release should be given."""
MESSAGES_PER_LIFE = 500
LONGEST_LIFE_S = 3.0
AT_ANY_TIME = 0.25
"""How many of the kills may hit a driver that has not sent anything yet."""


@pytest.mark.timeout(1500)
def test_a_driver_that_is_killed_again_and_again_loses_nothing_and_repeats_nothing(
    spark: SparkSession,
    cluster: LocalCluster,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    source, target = new_topic(cluster, queues=4), new_topic(cluster, queues=4)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    dice = random.Random(seed)
    relay = Relay(
        name_server=cluster.address,
        source=source,
        target=target,
        parquet=str(tmp_path / "rows"),
        checkpoints=str(tmp_path / "checkpoints"),
        rows_per_batch=100,
        stands_by=True,
    )
    log = tmp_path / "drivers.log"
    (broker,) = cluster.brokers.values()
    before = broker.deduplication.suppressed
    sent = 0
    with contextlib.ExitStack() as whatever_happens:

        def has_only(count: int) -> bool:
            return len(records_in(cluster, target)) == count

        def standby() -> Driver:
            return whatever_happens.enter_context(Driver(relay, log))

        following = standby()
        for _ in range(KILLS):
            driver, following = following, standby()
            driver.wait_for("stands_by")
            bodies = (b"%d" % number for number in range(sent, sent + MESSAGES_PER_LIFE))
            produce(cluster, source, bodies, batch=50)
            sent += MESSAGES_PER_LIFE
            stored = len(records_in(cluster, target))
            driver.go()
            if dice.random() < AT_ANY_TIME:
                time.sleep(dice.uniform(0, LONGEST_LIFE_S))
            else:  # not before it has sent something, and not long after
                driver.wait_while(functools.partial(has_only, stored))
                time.sleep(dice.choice([0, dice.uniform(0, 0.2), dice.uniform(0, 1)]))
            driver.kill(only_jvm=dice.random() < 0.5)
    relay.stands_by, relay.to_the_end = False, True
    with Driver(relay, log) as last:
        last.wait_for("ended", 240)
        last.process.wait(60)
    assert broker.deduplication.suppressed > before, "no kill has hit a batch: nothing is proved"
    expected = Counter(b"%d" % number for number in range(sent))
    assert bodies_in(cluster, target) == expected
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert Counter(bytes(row.body) for row in rows) == expected
