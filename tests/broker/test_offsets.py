"""Offsets of groups stay within their queues, and those of unknown names are limited."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from orbitmq._native import dumps_lenient, loads_lenient
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.broker.state.queue_locks import MAX_UNFOUNDED, QueueLocks
from orbitmq.broker.state.stats import IDLE_MS, BrokerStats
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire, broker_address

GROUP = {"consumerGroup": "g", "topic": "t", "queueId": "0"}


def commit(wire: Wire, offset: int, **changes: str) -> None:
    ext = GROUP | {"commitOffset": str(offset)} | changes
    assert wire.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext).code == ResponseCode.SUCCESS


def committed(wire: Wire, **changes: str) -> str | None:
    return wire.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP | changes).get_ext("offset")


def test_a_recreated_topic_is_consumed_from_its_beginning(wire: Wire) -> None:
    for _ in range(5):
        wire.send("t")
    wire.heartbeat("g", "t")
    commit(wire, 5)
    wire.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    # A consumer that has not noticed the deletion yet.
    commit(wire, 5)
    for _ in range(3):
        wire.send("t")
    assert committed(wire) == "0"


def test_deleting_a_topic_drops_the_offsets_of_all_groups(wire: Wire) -> None:
    wire.send("t")
    wire.send("other")
    for group in ("g", "h"):
        commit(wire, 1, consumerGroup=group)
        commit(wire, 1, consumerGroup=group, topic="other")
    wire.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    table = loads_lenient(wire.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body)["offsetTable"]
    assert table == {"other@g": {0: 1}, "other@h": {0: 1}}


def test_offsets_beyond_the_end_of_a_queue_are_corrected_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalCluster(data=tmp_path) as cluster:
        wire = Wire(broker_address(cluster))
        (broker,) = cluster.brokers.values()
        path = broker.tables.directory / "consumerOffset.json"
        wire.heartbeat("g", "t")
        for _ in range(4):
            wire.send("t")
        commit(wire, 2)
        wire.close()
    # As after a power cut that lost the end of the log.
    table = {"t@g": {"0": 9, "1": 3}, "gone@g": {"0": 7}, "t@h": {"0": 1}}
    path.write_bytes(dumps_lenient({"offsetTable": table}))
    with LocalCluster(data=tmp_path) as cluster:
        wire = Wire(broker_address(cluster))
        assert committed(wire) == "4"
        found = loads_lenient(wire.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body)["offsetTable"]
        assert found == {"t@g": {0: 4, 1: 0}, "t@h": {0: 1}}
        assert "group g had consumed queue 0 of topic t up to 9, which ends at 4" in caplog.text
        wire.close()


def test_only_the_newest_offsets_of_unknown_names_are_kept() -> None:
    known = {"t"}
    offsets = ConsumerOffsets(lambda topic, _group, _queue: topic in known, max_unfounded=3)
    offsets.commit("t", "g", 0, 1)
    for number in range(5):
        offsets.commit(f"u{number}", "g", 0, number)
    assert offsets.topics_of("g") == ["t", "u2", "u3", "u4"]
    known.add("u2")  # Created since.
    offsets.commit("u5", "g", 0, 5)
    offsets.commit("u6", "g", 0, 6)
    assert offsets.topics_of("g") == ["t", "u2", "u4", "u5", "u6"]
    offsets.commit("u4", "g", 1, 1)
    offsets.forget_topic("u4")
    offsets.forget_group("g")
    assert offsets.as_json() == {"offsetTable": {}}


def test_a_commit_that_drops_the_oldest_of_its_own_group_is_kept() -> None:
    offsets = ConsumerOffsets(lambda _topic, _group, _queue: False, max_unfounded=1)
    offsets.commit("u", "g", 0, 1)
    offsets.commit("u", "g", 1, 2)
    assert offsets.of_group("u", "g") == {1: 2}


def test_locks_that_are_not_renewed_are_dropped() -> None:
    locks = QueueLocks(is_founded=lambda group, _queue: group == "known")
    queues = [MessageQueue("t", "b", number) for number in range(MAX_UNFOUNDED + 5)]
    assert len(locks.lock("made-up", "c", queues, now_ms=0)) == MAX_UNFOUNDED
    assert len(locks.lock("known", "c", queues[:5], now_ms=50_000)) == 5
    locks.drop_expired(60_001)
    assert len(locks) == 5
    assert locks.lock("known", "other", queues[:5], now_ms=60_001) == []


def test_counters_that_stand_still_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    now = 0
    stats = BrokerStats("c", lambda: now, max_items=10)
    stats.put("once", 1, 10)
    while now <= IDLE_MS + 1_200_000:
        now += 600_000
        stats.put("always", 1, 10)
        stats.sample()
    assert stats.rate("TOPIC_PUT_NUMS", "once", "day") is None
    assert stats.rate("TOPIC_PUT_NUMS", "always", "day") is not None
    assert stats.rate("BROKER_PUT_NUMS", "c", "day") is not None
    caplog.set_level(logging.WARNING)
    for number in range(100):
        stats.put(f"made-up-{number}", 1, 10)
    now += 10_000
    stats.sample()
    assert len(stats._items) <= 11
    assert "counters of the longest idle topics" in caplog.text
    stats.put("always", 1, 10)
    assert stats.rate("BROKER_PUT_NUMS", "c", "minute") is not None
