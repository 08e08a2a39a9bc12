"""All answers of a broker about its store, and the same read by ours.

A view is taken of a running Java broker through its own protocol (`StoreView.of_broker`) and
compared with what OrbitMQ's `Store` says about the same files (`assert_same`). Records are compared
as the bytes in which they were answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from compat.java_cluster import StoreSizes
from compat.java_peer import JavaPeer, Question
from compat.records import Record, decode_list
from orbitmq._native import Store, StoreOptions

Queue = tuple[str, int]
FAR_FUTURE_MS = 2**62
QUERY_MAX = 64


@dataclass(frozen=True)
class KeyQuestion:
    topic: str
    key: str
    begin_ms: int = 0
    end_ms: int = FAR_FUTURE_MS


@dataclass(frozen=True)
class TimeQuestion:
    topic: str
    queue_id: int
    timestamp_ms: int


@dataclass
class StoreView:
    ranges: dict[Queue, tuple[int, int]] = field(default_factory=dict)
    records: dict[Queue, bytes] = field(default_factory=dict)
    units: dict[Queue, list[tuple[int, int, int]]] = field(default_factory=dict)
    keys: dict[KeyQuestion, bytes] = field(default_factory=dict)
    times: dict[TimeQuestion, int] = field(default_factory=dict)

    @staticmethod
    def of_broker(peer: JavaPeer, broker: str, queues: Iterable[Queue]) -> StoreView:
        """Ranges, records and queue units of these queues, leaving out the empty ones."""
        view = StoreView()
        asked: list[Question] = [
            {"topic": topic, "queue_id": queue_id} for topic, queue_id in queues
        ]
        ranges = peer.ask(broker, [{"ask": "range", **queue} for queue in asked])
        present = []
        for queue, answer in zip(asked, ranges, strict=True):
            if answer["max"] > 0:
                present.append(queue)
                name = queue["topic"], queue["queue_id"]
                view.ranges[name] = answer["min"], answer["max"]
        for name, records, units in zip(
            list(view.ranges),
            peer.ask(broker, [{"ask": "records", **queue} for queue in present]),
            peer.ask(broker, [{"ask": "units", **queue} for queue in present]),
            strict=True,
        ):
            view.records[name] = records["bytes"]
            view.units[name] = [(offset, size, code) for offset, size, code in units]
        return view

    def decoded(self) -> dict[Queue, list[Record]]:
        return {queue: list(decode_list(data)) for queue, data in self.records.items()}

    def ask_keys(self, peer: JavaPeer, broker: str, questions: Sequence[KeyQuestion]) -> None:
        answers = peer.ask(
            broker,
            [
                {
                    "ask": "key",
                    "topic": question.topic,
                    "key": question.key,
                    "max": QUERY_MAX,
                    "begin": question.begin_ms,
                    "end": question.end_ms,
                }
                for question in questions
            ],
        )
        self.keys.update(
            (question, answer["bytes"]) for question, answer in zip(questions, answers, strict=True)
        )

    def ask_times(self, peer: JavaPeer, broker: str, questions: Sequence[TimeQuestion]) -> None:
        answers = peer.ask(
            broker,
            [
                {
                    "ask": "time",
                    "topic": question.topic,
                    "queue_id": question.queue_id,
                    "timestamp": question.timestamp_ms,
                }
                for question in questions
            ],
        )
        self.times.update(zip(questions, answers, strict=True))


def our_options(sizes: StoreSizes) -> StoreOptions:
    return StoreOptions(
        commit_log_file_size=sizes.commit_log_file_size,
        consume_queue_file_size=sizes.consume_queue_file_size,
        index_slots=sizes.index_slots,
        index_entries=sizes.index_entries,
    )


def read_queue(store: Store, queue: Queue) -> bytes:
    """Return all records of a queue, as the store returns them."""
    topic, queue_id = queue
    offset, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    parts = []
    while offset < end:
        result = store.read(topic, queue_id, offset, max_messages=1000, max_bytes=8 << 20)
        assert result.next_offset > offset, f"no way on from {queue} at {offset}: {result.status}"
        parts.append(result.data)
        offset = result.next_offset
    return b"".join(parts)


def query(store: Store, question: KeyQuestion) -> bytes:
    found = store.query(
        question.topic,
        question.key,
        max_messages=QUERY_MAX,
        begin_ms=question.begin_ms,
        end_ms=question.end_ms,
    )
    return b"".join(found)


def assert_same(store: Store, view: StoreView) -> None:
    """Assert that our store gives exactly Java's answers."""
    assert sorted(store.queues()) == sorted(view.ranges)
    for queue, (minimum, maximum) in view.ranges.items():
        assert (store.min_offset(*queue), store.max_offset(*queue)) == (minimum, maximum), queue
        assert read_queue(store, queue) == view.records[queue], f"the records of {queue} differ"
        units = [store.unit_at(*queue, offset) for offset in range(minimum, maximum)]
        assert units == view.units[queue], f"the units of {queue} differ"
    for question, java in view.keys.items():
        ours = query(store, question)
        assert _names(ours) == _names(java), question
        assert ours == java, question


def assert_same_times(store: Store, view: StoreView) -> None:
    """Assert that both find the same offset for every time."""
    ours = {
        question: store.offset_by_time(question.topic, question.queue_id, question.timestamp_ms)
        for question in view.times
    }
    assert ours == view.times


def _names(data: bytes) -> list[tuple[int, str | None]]:
    return [(record.physical_offset, record.unique_key) for record in decode_list(data)]
