"""Choice of the next queue, and avoidance of slow or failed brokers."""

from __future__ import annotations

from orbitmq._native import java_hash
from orbitmq.client.producer.selection import (
    FAILURE_LATENCY_MS,
    LatencyFaults,
    QueueChooser,
    by_hash,
)
from orbitmq.message import MessageQueue
from orbitmq.rpc.namespace import unwrap, wrap
from tests.client.playing import Clock

QUEUES = [MessageQueue("T", name, number) for name in "ab" for number in range(3)]


def test_queues_of_each_topic_take_turns() -> None:
    chooser = QueueChooser()
    seen = {"T": [], "U": []}  # type: dict[str, list[MessageQueue]]
    for _ in range(6):
        for topic in seen:
            seen[topic].append(chooser.choose(topic, QUEUES))
    assert all(len(set(queues)) == 6 for queues in seen.values())


def test_a_retry_goes_to_another_broker_if_there_is_one() -> None:
    chooser = QueueChooser()
    for _ in range(10):
        assert chooser.choose("T", QUEUES, {"a"}).broker_name == "b"
    assert chooser.choose("T", QUEUES[:3], {"a"}).broker_name == "a"
    of_three = [*QUEUES, MessageQueue("T", "c", 0)]
    assert {chooser.choose("T", of_three, {"a", "b"}).broker_name for _ in range(6)} == {"c"}


def test_a_retry_goes_to_a_slow_broker_before_one_that_has_just_failed() -> None:
    faults = LatencyFaults(Clock())
    for name in "ab":
        faults.note(name, FAILURE_LATENCY_MS)
    chooser = QueueChooser(faults)
    assert {chooser.choose("T", QUEUES, {"a"}).broker_name for _ in range(6)} == {"b"}
    assert {chooser.choose("T", QUEUES, {"b"}).broker_name for _ in range(6)} == {"a"}


def test_a_key_has_one_queue_even_when_its_hash_is_negative() -> None:
    negative = next(f"customer-{n}" for n in range(1000) if java_hash(f"customer-{n}") < 0)
    for key in ("customer-7", "", negative, "polygenelubricants"):
        assert by_hash(QUEUES, key) == QUEUES[abs(java_hash(key)) % 6]


def test_the_time_a_slow_broker_is_avoided_follows_its_latency() -> None:
    for latency_ms, seconds in [
        (49, 0),
        (100, 0),
        (549, 0),
        (550, 30),
        (1000, 60),
        (2000, 120),
        (3000, 180),
        (14_999, 180),
        (15_000, 600),
        (FAILURE_LATENCY_MS, 600),
    ]:
        clock = Clock()
        faults = LatencyFaults(clock)
        faults.note("a", latency_ms)
        if seconds:
            clock.now += seconds - 0.1
            assert not faults.is_available("a"), latency_ms
            clock.now += 0.2
        assert faults.is_available("a"), latency_ms


def test_a_success_clears_a_fault() -> None:
    faults = LatencyFaults(Clock())
    faults.note("a", FAILURE_LATENCY_MS)
    faults.note("a", 3)
    assert faults.is_available("a")


def test_the_better_half_takes_turns_when_all_brokers_are_slow() -> None:
    faults = LatencyFaults(Clock())
    for name, latency_ms in (("a", 3000), ("b", 600), ("c", 30_000), ("d", 700)):
        faults.note(name, latency_ms)
    assert {faults.least_bad() for _ in range(6)} == {"b", "d"}
    chooser = QueueChooser(faults)
    queues = [MessageQueue("T", name, 0) for name in "abcd"]
    assert {chooser.choose("T", queues).broker_name for _ in range(6)} == {"b", "d"}


def test_a_slow_broker_without_queues_is_forgotten() -> None:
    faults = LatencyFaults(Clock())
    faults.note("gone", 600)
    faults.note("a", 700)
    chooser = QueueChooser(faults)
    assert chooser.choose("T", QUEUES[:3]).broker_name == "a"
    assert faults.is_available("gone")


def test_names_are_wrapped_and_unwrapped_by_namespace() -> None:
    for bare, wrapped in [
        ("T", "ns%T"),
        ("%RETRY%g", "%RETRY%ns%g"),
        ("%DLQ%g", "%DLQ%ns%g"),
        ("TBW102", "TBW102"),
        ("rmq_sys_x", "rmq_sys_x"),
        ("CID_RMQ_SYS_x", "CID_RMQ_SYS_x"),
        ("", ""),
    ]:
        assert wrap("ns", bare) == wrapped
        assert wrap("ns", wrapped) == wrapped
        assert unwrap("ns", wrapped) == bare
        assert wrap(None, bare) == bare
        assert unwrap(None, wrapped) == wrapped
