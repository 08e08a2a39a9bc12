"""An archive holds each message once when its process is killed with ``kill -9`` at random."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orbitmq.spark.pipelines import Exit
from orbitmq.spark.pipelines.archive import read_archive
from orbitmq.spark.pipelines.archive.files import ArchiveFiles
from orbitmq.spark.pipelines.archive.manifest import Manifest
from orbitmq.testing import LocalCluster
from tests.spark.archive_driver import Archiving
from tests.spark.conftest import NewTopic
from tests.spark.drivers import Driver
from tests.spark.topics import produce

pytestmark = [pytest.mark.counted, pytest.mark.kills, pytest.mark.newest_spark]

KILLS = 4
MESSAGES_PER_LIFE = 200
PIPELINE = """
kind = "archive"
name_server = "{address}"
path = "archive"
trigger = "0 seconds"
compact_files = 2
[source]
topic = "{topic}"
options = {{ maxOffsetsPerTrigger = 50 }}
"""


def written(root: Path) -> int:
    """Return the number of files: staged, moved, named in the manifest, committed."""
    return sum(len(files) for _, _, files in os.walk(root))


@pytest.mark.timeout(900)
def test_nothing_is_lost_or_repeated_when_archive_writers_are_killed(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, root = new_topic(cluster, queues=2), tmp_path / "archive"
    file, log = tmp_path / "archive.toml", tmp_path / "drivers.log"
    file.write_text(PIPELINE.format(address=cluster.address, topic=topic))
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    dice = random.Random(seed)
    sent = 0

    def is_as_it_was(before: int) -> bool:
        return written(root) == before

    with contextlib.ExitStack() as whatever_happens:

        def standby(*, once: bool = False) -> Driver:
            work = Archiving(file=str(file), once=once)
            return whatever_happens.enter_context(Driver(work, log))

        following = standby()
        for number in range(KILLS):
            driver, following = following, standby(once=number == KILLS - 1)
            driver.wait_for("stands_by")
            bodies = (b"%d" % number for number in range(sent, sent + MESSAGES_PER_LIFE))
            produce(cluster, topic, bodies, batch=50)
            sent += MESSAGES_PER_LIFE
            driver.go()
            # A few steps into its work, or a moment after one of them.
            for _ in range(dice.randint(1, 6)):
                driver.wait_while(functools.partial(is_as_it_was, written(root)))
            time.sleep(dice.choice([0, dice.uniform(0, 0.05), dice.uniform(0, 0.5)]))
            driver.kill(only_jvm=dice.random() < 0.3)
        following.wait_for("stands_by")
        following.go()
        assert following.wait_for("ended") == Exit.DONE, log.read_text()[-4000:]
    rows = read_archive(spark, str(root)).select("body").collect()
    expected = Counter(b"%d" % number for number in range(sent))
    assert Counter(bytes(row.body) for row in rows) == expected
    manifest = Manifest.load(ArchiveFiles(spark, str(root)))
    there = {str(path.relative_to(root)) for path in root.glob("topic=*/**/*.parquet")}
    assert set(manifest.current) <= there <= {*manifest.current, *manifest.garbage}
