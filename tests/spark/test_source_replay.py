"""A repeated batch is divided among tasks as before, whatever driver runs it.

Spark runs a batch again whose offsets are in the checkpoint and whose commit is not. The sink tells
rows that it has sent before by their partition, so the division must not depend on the cores that
the next driver has.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from orbitmq.spark.offsets import QueueRange, parse_offsets
from orbitmq.spark.pipelines.progress import lag_of
from orbitmq.spark.source.batch_reader import QueuePartition
from orbitmq.spark.source.data_source import RocketMQSource
from orbitmq.spark.source.stream_reader import RocketMQStreamReader
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.topics import produce

QUEUES = 4


@pytest.fixture
def topic(cluster: LocalCluster, new_topic: NewTopic) -> str:
    """A topic whose batches are large enough for several tasks."""
    name = new_topic(cluster, queues=QUEUES)
    produce(cluster, name, (b"%d" % number for number in range(200)), batch=50)
    return name


def driver(cluster: LocalCluster, topic: str, cores: int, **options: str) -> RocketMQStreamReader:
    """Return the planner's reader in a driver with a number of cores."""
    given = {"nameServer": cluster.address, "subscribe": topic, "startingOffsets": "earliest"}
    source = RocketMQSource(given | options)
    source.parallelism = cores  # type: ignore[misc]
    made = source.streamReader(source.schema())
    assert isinstance(made, RocketMQStreamReader)
    return made


def division(reader: RocketMQStreamReader, start: Any, end: Any) -> list[list[QueueRange]]:
    """Return the ranges of each task, for offsets as in the checkpoint."""
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    parts = reader.partitions(start, end)
    return [part.ranges for part in parts if isinstance(part, QueuePartition)]


@pytest.mark.parametrize("limit", [ReadAllAvailable(), ReadMaxRows(120)])
@pytest.mark.parametrize("later_cores", [1, 2, 8])
def test_a_driver_with_other_cores_keeps_the_division_of_a_batch(
    cluster: LocalCluster, topic: str, limit: Any, later_cores: int
) -> None:
    options = {"maxOffsetsPerTrigger": "120"}
    first = driver(cluster, topic, 3, **options)
    start = first.initialOffset()
    end = first.latestOffset(start, limit)
    planned = division(first, start, end)
    first.stop()
    assert len(planned) == 3
    later = driver(cluster, topic, later_cores, **options)
    try:
        assert division(later, start, end) == planned
        # The batches after it are divided for the present cores.
        produce(cluster, topic, [b"more"] * 120, batch=30)
        after = later.latestOffset(end, limit)
        assert len(division(later, end, after)) == min(later_cores, QUEUES)
    finally:
        later.stop()


@pytest.mark.parametrize("later_cores", [1, 3])
def test_a_batch_of_an_earlier_version_keeps_its_division(
    cluster: LocalCluster, topic: str, later_cores: int
) -> None:
    """Less than 10 000 offsets were one task then, whatever the cores."""
    later = driver(cluster, topic, later_cores)
    try:
        start = later.initialOffset()
        end = later.latestOffset(start, ReadAllAvailable())
        for said in ({"#tasks": 3}, {}):
            (task,) = division(later, start, {**said, topic: end[topic]})
            assert [(each.queue.queue_id, each.count) for each in task] == [
                (queue_id, 50) for queue_id in range(QUEUES)
            ]
        # Later batches are divided as in this version.
        produce(cluster, topic, [b"more"] * 120, batch=30)
        after = later.latestOffset({"#tasks": 3, topic: end[topic]}, ReadAllAvailable())
        assert len(division(later, end, after)) == later_cores
    finally:
        later.stop()


def test_changed_cores_alone_start_no_batch(cluster: LocalCluster, topic: str) -> None:
    first = driver(cluster, topic, 3)
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    first.stop()
    of_an_earlier_version = {name: value for name, value in end.items() if name != "#least"}
    of_the_first_version = {name: value for name, value in end.items() if name == topic}
    later = driver(cluster, topic, 5)
    try:
        for known in (end, of_an_earlier_version, of_the_first_version):
            for limit in (ReadAllAvailable(), ReadMaxRows(10)):
                again = later.latestOffset(json.loads(json.dumps(known)), limit)
                assert json.dumps(again) == json.dumps(known), "Spark compares the text"
    finally:
        later.stop()


def test_a_checkpoint_without_tasks_is_divided_for_the_current_cores(
    cluster: LocalCluster, topic: str
) -> None:
    reader = driver(cluster, topic, 2)
    try:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert len(division(reader, start, {"#least": 32, topic: end[topic]})) == 2
    finally:
        reader.stop()


def test_offsets_of_a_checkpoint_are_valid_starting_offsets(
    cluster: LocalCluster, topic: str
) -> None:
    first = driver(cluster, topic, 3)
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    first.stop()
    assert end["#tasks"] == 3
    again = driver(cluster, topic, 2, startingOffsets=json.dumps(end))
    begins = again.initialOffset()
    again.stop()
    assert begins[topic] == end[topic]
    assert {queue.topic for queue in parse_offsets("startingOffsets", json.dumps(end))} == {topic}
    noted = {"#tasks": 9, "#least": 99, **begins}
    assert lag_of(noted, {"#tasks": 2, "#least": 2, **begins}) == 0
