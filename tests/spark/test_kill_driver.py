"""Exactly once, at whatever moment the driver is killed.

One driver relays a topic to Parquet files and to another topic, in many small batches. It is killed
with ``kill -9`` again and again, at moments drawn over its whole life:

| moment | the driver is |
| --- | --- |
| start | starting its JVM, or its session |
| planning | starting its queries, reading the checkpoint, planning the batch that was under way |
| sending | in the middle of a batch |
| commit | between a batch's last send and its commit, or in the next batch |

Sometimes only its JVM is killed and the Python workers go on sending until they notice. Batches
have several partitions, and the next driver has another number of cores. In the end a driver runs
to the end, and every message must be there once, in the files and in the topic.

Cores only decide how batches are divided that are too large to be made again and again. So there is
one such batch, whose driver is killed once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
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
from tests.spark.topics import bodies_in, count_in, produce

pytestmark = [pytest.mark.counted, pytest.mark.kills]

KILLS = int(os.environ.get("ORBITMQ_KILLS", "30"))
MOMENTS = {"start": 2, "planning": 3, "sending": 5, "commit": 3}
"""The moments, with their shares of the kills: failures matter most while rows are sent."""
MESSAGES_PER_LIFE = 300
ROWS_PER_BATCH = 100
MASTERS = ("local[2]", "local[3]", "local[1]")
LONGEST_START_S = 5.0
LONGEST_PLANNING_S = 2.0


@pytest.mark.timeout(1500)
def test_nothing_is_lost_or_repeated_when_drivers_are_killed(
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
        rows_per_batch=ROWS_PER_BATCH,
        min_partitions=3,
        stands_by=True,
    )
    masters = itertools.cycle(MASTERS)
    log = tmp_path / "drivers.log"
    (broker,) = cluster.brokers.values()
    suppressed_before = broker.deduplication.suppressed
    sent = 0
    hits: Counter[str] = Counter()

    def has_fewer_than(count: int) -> bool:
        return count_in(cluster, target) < count

    with contextlib.ExitStack() as whatever_happens:

        def standby() -> Driver:
            following = dataclasses.replace(relay, master=next(masters))
            return whatever_happens.enter_context(Driver(following, log))

        impatient = dataclasses.replace(relay, stands_by=False)

        following = standby()
        for moment in _moments(dice):
            hits[moment] += 1
            if moment == "start":
                # The waiting driver has already started, so another one is used here.
                with Driver(impatient, log):
                    time.sleep(dice.uniform(0, LONGEST_START_S))
                continue
            driver, following = following, standby()
            driver.wait_for("stands_by")
            bodies = (b"%d" % number for number in range(sent, sent + MESSAGES_PER_LIFE))
            produce(cluster, source, bodies, batch=50)
            sent += MESSAGES_PER_LIFE
            stored = count_in(cluster, target)
            driver.go()
            if moment == "planning":
                time.sleep(dice.uniform(0, LONGEST_PLANNING_S))
            else:
                wanted = stored + (1 if moment == "sending" else ROWS_PER_BATCH)
                driver.wait_while(functools.partial(has_fewer_than, wanted))
                time.sleep(dice.choice([0, dice.uniform(0, 0.1), dice.uniform(0, 0.5)]))
            driver.kill(only_jvm=dice.random() < 0.5)
    relay.stands_by, relay.to_the_end = False, True
    with Driver(relay, log) as last:
        last.wait_for("ended", 240)
        last.process.wait(60)
    assert hits.total() == KILLS
    suppressed = broker.deduplication.suppressed - suppressed_before
    print(f"kills {dict(hits)}, rows sent again and suppressed: {suppressed}")
    assert suppressed, "no kill has hit a batch: nothing is proved"
    expected = Counter(b"%d" % number for number in range(sent))
    assert bodies_in(cluster, target) == expected
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert Counter(bytes(row.body) for row in rows) == expected


@pytest.mark.timeout(600)
def test_a_driver_with_other_cores_completes_a_begun_batch(
    cluster: LocalCluster, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = new_topic(cluster, queues=6), new_topic(cluster, queues=4)
    count = 30_000
    produce(cluster, source, (b"%d" % number for number in range(count)))
    relay = Relay(
        name_server=cluster.address,
        source=source,
        target=target,
        checkpoints=str(tmp_path / "checkpoints"),
        rows_per_batch=count,
    )
    log = tmp_path / "drivers.log"
    (broker,) = cluster.brokers.values()
    suppressed_before = broker.deduplication.suppressed
    with Driver(dataclasses.replace(relay, master="local[3]"), log) as first:
        first.wait_for("jvm")
        first.wait_while(lambda: count_in(cluster, target) == 0)
    with Driver(dataclasses.replace(relay, master="local[1]", to_the_end=True), log) as last:
        last.wait_for("ended")
    assert bodies_in(cluster, target) == Counter(b"%d" % number for number in range(count))
    assert broker.deduplication.suppressed > suppressed_before, "nothing was sent again"


def _moments(dice: random.Random) -> list[str]:
    """Return the moment to hit in each round: each kind in its share, in random order."""
    total = sum(MOMENTS.values())
    names = [name for name, share in MOMENTS.items() for _ in range(-(-KILLS * share // total))]
    dice.shuffle(names)
    return names[:KILLS]
