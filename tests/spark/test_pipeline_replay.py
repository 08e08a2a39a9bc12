"""Replays from an archive, a store directory and a topic; filtered, counted, paced."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orbitmq.errors import BadPipeline
from orbitmq.spark.pipelines import Exit, parse
from orbitmq.spark.pipelines import replay as replaying
from orbitmq.spark.pipelines.replay import sender as replay_sending
from orbitmq.spark.pipelines.replay.sender import SLICE_S, ReplayPace, due_slices
from orbitmq.testing import LocalCluster
from tests.spark.archiving import Archive, Replay, texts
from tests.spark.conftest import NewTopic
from tests.spark.small_stores import STEP_MS, T0, body, fill
from tests.spark.topics import bodies_in, produce, records_in


def test_a_store_directory_is_replayed_to_a_topic(
    replay: Replay, cluster: LocalCluster, tmp_path: Path, new_topic: NewTopic
) -> None:
    fill(tmp_path / "store", 200)
    target = new_topic(cluster, queues=2)
    keys: dict[str, Any] = {
        "name_server": cluster.address,
        "source": {"store": "store"},
        "topics": ["odd"],
        "start": str(T0 + 10 * STEP_MS),
        "end": "2023-11-14T22:38:20Z",
        "where": "tags = 'tag0'",
        "sink": {"topic": target, "keep_queues": True, "mark": "replayed-from"},
    }
    expected = [number for number in range(11, 150, 2) if number % 3 == 0]
    code, dry = replay(**keys, dry_run=True)
    assert (code, dry.facts["messages"]) == (Exit.DONE, len(expected))
    assert dry.facts["bytes"] == sum(len(body(number)) for number in expected)
    assert "would be sent" in dry.notes[0]
    assert records_in(cluster, target) == []

    code, report = replay(**keys)
    assert (code, report.facts["messages"]) == (Exit.DONE, len(expected))
    assert bodies_in(cluster, target) == Counter(body(number) for number in expected)
    for _, record in records_in(cluster, target):
        number = int(record.body.split()[1])
        assert record.queue_id == number // 2 % 2
        assert (record.tags, record.keys) == ("tag0", (f"k{number}", f"ten{number % 10}"))
        assert record.properties["replayed-from"] == f"U{number}"
        assert record.properties["shop"] == "Zürich ☕"


def stored_later(cluster: LocalCluster, topic: str) -> int:
    """Wait until new messages are stored later than all in a topic; return that time."""
    newest = max(record.store_timestamp for _, record in records_in(cluster, topic))
    while (now_ms := time.time_ns() // 1_000_000) <= newest:
        time.sleep(0.001)
    return now_ms


def test_an_archive_is_replayed_to_its_own_topic(
    replay: Replay, archive: Archive, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=2)
    produce(cluster, topic, texts(0, 50))
    noon = stored_later(cluster, topic)
    produce(cluster, topic, texts(50, 60))
    archive.fill(topic)
    source = {"archive": "archive"}
    wished = {"source": source, "topics": [topic], "end": str(noon)}
    _, planned = replay(dry_run=True, **wished)
    code, report = replay(name_server=cluster.address, **wished)
    assert (code, report.facts["messages"]) == (Exit.DONE, 50)
    assert report.tables[0].rows == planned.tables[0].rows
    assert bodies_in(cluster, topic) == Counter(texts(0, 50) + texts(0, 60))
    code, report = replay(source=source, dry_run=True, topics=[topic], end="2020-01-01")
    assert (code, report.facts["messages"]) == (Exit.DONE, 0)


def test_a_time_range_is_replayed_to_another_cluster_at_a_rate(
    replay: Replay,
    cluster: LocalCluster,
    two_brokers: LocalCluster,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay_sending, "START_AFTER_S", 0.2)
    topic, target = new_topic(cluster, queues=2), new_topic(two_brokers, queues=2)
    produce(cluster, topic, texts(0, 20))
    start = stored_later(cluster, topic)
    produce(cluster, topic, texts(20, 60))
    end = stored_later(cluster, topic)
    produce(cluster, topic, texts(60, 70))
    keys: dict[str, Any] = {
        "source": {"topic": topic, "name_server": cluster.address},
        "sink": {"topic": target, "name_server": two_brokers.address},
        "start": str(start),
        "end": str(end),
    }
    _, planned = replay(**keys, dry_run=True)
    code, report = replay(**keys, rate=40.0)
    assert (code, report.facts["messages"]) == (Exit.DONE, 40)
    assert report.tables[0].rows == planned.tables[0].rows
    assert bodies_in(two_brokers, target) == Counter(texts(20, 60))
    times = [record.store_timestamp for _, record in records_in(two_brokers, target)]
    assert max(times) - min(times) >= 800, "forty at forty a second, both tasks at once"


def test_only_the_time_range_of_a_topic_is_read() -> None:
    def options(**source: Any) -> dict[str, str]:
        keys = {"name_server": "127.0.0.1:1", "start": "2000", "end": "3000"}
        tree = {"kind": "replay", **keys, "source": {"topic": "t", **source}}
        spec = parse(tree, file=Path("replay.toml"), environment={}).spec
        assert isinstance(spec, replaying.ReplaySpec)
        return replaying._time_range(spec)

    assert options() == {
        "startingTimestamp": "2000",
        "startingOffsetsByTimestampStrategy": "latest",
        "endingTimestamp": "3000",
        "endingOffsets": "latest",
    }
    # Explicit start options take precedence.
    named = options(options={"startingOffsets": "earliest"})
    assert named == {"endingTimestamp": "3000", "endingOffsets": "latest"}


def test_original_gaps_are_kept_at_a_speed(
    replay: Replay,
    cluster: LocalCluster,
    tmp_path: Path,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paces: list[ReplayPace] = []

    def noted(**keys: Any) -> ReplayPace:
        paces.append(ReplayPace(**keys))
        return paces[-1]

    monkeypatch.setattr(replay_sending, "START_AFTER_S", 0.2)
    monkeypatch.setattr(replaying, "ReplayPace", noted)
    fill(tmp_path / "store", 10)
    target = new_topic(cluster, queues=1)
    code, report = replay(
        name_server=cluster.address,
        source={"store": "store"},
        sink={"topic": target},
        speed=100.0,
    )
    assert (code, report.facts["messages"]) == (Exit.DONE, 10)
    (pace,) = paces
    for _, record in records_in(cluster, target):
        due_ms = pace.start_s * 1000 + int(record.body.split()[1]) * STEP_MS / 100
        assert record.store_timestamp >= due_ms - 1000 * SLICE_S - 1, "nothing comes too early"


def test_equal_messages_are_not_deduplicated_against_each_other(
    replay: Replay,
    cluster: LocalCluster,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay_sending, "START_AFTER_S", 0.2)
    topic, target = new_topic(cluster, queues=1), new_topic(cluster, queues=1)
    for _ in range(4):
        produce(cluster, topic, [b"tick"])
    code, report = replay(
        name_server=cluster.address,
        source={"topic": topic},
        sink={"topic": target, "options": {"deduplicate": "true"}},
        rate=10.0,  # Each message has its own time slice.
    )
    assert (code, report.facts["messages"]) == (Exit.DONE, 4)
    assert bodies_in(cluster, target) == Counter({b"tick": 4})


def test_a_named_replay_with_other_partitions_is_refused(
    replay: Replay, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic, target = new_topic(cluster, queues=1), new_topic(cluster, queues=1)
    bodies = [b"%d" % number for number in range(100)]
    produce(cluster, topic, bodies)
    sink = {"topic": target, "options": {"deduplicate": "true", "deduplicateId": target}}
    for _ in range(2):
        code, _report = replay(name_server=cluster.address, source={"topic": topic}, sink=sink)
        assert code is Exit.DONE
    divided = {"topic": topic, "options": {"minPartitions": "4"}}
    told = replay.failed(name_server=cluster.address, source=divided, sink=sink)
    assert "the run before had 1 partition " in told
    assert bodies_in(cluster, target) == Counter(bodies)


def test_gaps_and_rates_decide_when_a_row_is_due() -> None:
    clock = 100.0

    def sleep(seconds: float) -> None:
        nonlocal clock
        clock += seconds

    stored = [0, 10, 1000, 1010, 5000]
    kind = pa.timestamp("us", "UTC")
    times = pa.array([T0 * 1000 + ms * 1000 for ms in stored], pa.int64()).cast(kind)
    batch = pa.record_batch({"storeTimestamp": times})

    def slices(pace: ReplayPace, *, task: int = 0, stall_s: float = 0.0) -> list[tuple[int, float]]:
        nonlocal clock
        sent = due_slices(iter([batch]), pace, task=task, now=lambda: clock, sleep=sleep)
        begun = clock
        found = []
        for rows in sent:
            found.append((rows.num_rows, round(clock - begun, 3)))
            clock += stall_s
            stall_s = 0.0
        return found

    assert slices(ReplayPace(clock, T0, speed=1.0)) == [(2, 0.0), (2, 1.0), (1, 5.0)]
    assert slices(ReplayPace(clock, T0, speed=10.0)) == [(2, 0.0), (2, 0.1), (1, 0.5)]
    assert slices(ReplayPace(clock, rate=2.0)) == [(1, 0.0), (1, 0.5), (1, 1.0), (1, 1.5), (1, 2.0)]
    assert slices(ReplayPace(clock - 60, T0, speed=1.0)) == [(5, 0.0)], "late rows do not wait"
    late = slices(ReplayPace(clock - 60, rate=2.0))
    assert [when for _, when in late] == [0.0, 0.5, 1.0, 1.5, 2.0], "but never break the rate"
    stalled = slices(ReplayPace(clock, rate=2.0), stall_s=60)
    assert [when for _, when in stalled] == [0.0, 60.0, 60.5, 61.0, 61.5], "nor after a stall"
    gap = slices(ReplayPace(clock, T0, speed=0.1, rate=2.0))
    assert [when for _, when in gap] == [0.0, 0.5, 10.0, 10.5, 50.0], "nor after a gap"
    assert slices(ReplayPace(clock, T0, speed=1.0, rate=100.0)) == [(2, 0.0), (2, 1.0), (1, 5.0)]
    of_three = [
        [when for _, when in slices(ReplayPace(clock, rate=1.0, tasks=3), task=task)]
        for task in range(3)
    ]
    assert of_three == [[0, 3, 6, 9, 12], [1, 4, 7, 10, 13], [2, 5, 8, 11, 14]]


def test_mistakes_in_a_replay_file_are_reported(tmp_path: Path) -> None:
    tree: dict[str, Any] = {
        "kind": "replay",
        "start": "soon",
        "speed": 0.0,
        "topics": ["a"],
        "source": {"topic": "t", "store": "s"},
    }
    with pytest.raises(BadPipeline, match="needs exactly one of archive, store and topic"):
        parse(tree, file=tmp_path / "replay.toml", environment={})
    tree["source"] = {"topic": "t"}
    with pytest.raises(BadPipeline) as raised:
        parse(tree, file=tmp_path / "replay.toml", environment={})
    told = "\n".join(raised.value.mistakes)
    for key in ("start", "speed", "topics", "source.name_server", "sink.name_server"):
        assert f"replay.toml: {key}: " in told
