"""Java writes and stops; we read and go on; Java reads it all."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from compat.java_cluster import JavaCluster
from compat.java_peer import JavaPeer
from compat.java_traffic import (
    LONG_LEVELS,
    SHORT_LEVELS,
    TOPICS,
    Sent,
    all_queues,
    await_deliveries,
    java_consumes,
    java_writes,
    topic_queues,
)
from compat.records import SCHEDULE_TOPIC, Record, decode_list
from compat.store_view import (
    KeyQuestion,
    Queue,
    StoreView,
    TimeQuestion,
    assert_same,
    assert_same_times,
    our_options,
    read_queue,
)
from crash.messages import Content, MessageMaker
from orbitmq._native import NewMessage, Store

MESSAGES_EACH = 20_000
OUR_SEED = 4711


def sha1(body: bytes) -> str:
    return hashlib.sha1(body).hexdigest()


def test_a_store_is_read_and_continued_by_either_side(
    java_cluster: JavaCluster, java_peer: JavaPeer
) -> None:
    cluster, peer = java_cluster, java_peer
    cluster.start_broker()
    sent = java_writes(peer, cluster, seed=1, count=MESSAGES_EACH, create_topics=True)
    assert len(sent) >= MESSAGES_EACH
    await_deliveries(peer, cluster)
    cluster.stop_broker()

    # Queried after a restart: the files are stopped, as we will find them.
    cluster.start_broker()
    view = StoreView.of_broker(peer, cluster.broker, all_queues())
    records = view.decoded()
    assert_manifest_holds(sent, records)
    view.ask_keys(peer, cluster.broker, key_questions(sent, records))
    view.ask_times(peer, cluster.broker, time_questions(records))
    cluster.stop_broker()
    assert_several_files(cluster.store_root)
    assert not (cluster.store_root / "abort").exists()

    with Store.open(cluster.store_root, our_options(cluster.settings.sizes), create=True) as store:
        assert_same(store, view)
        assert_same_times(store, view)
        contents, delayed = append_ours(store)
        before_close = {queue: read_queue(store, queue) for queue in store.queues()}
    assert not (cluster.store_root / "abort").exists()

    cluster.start_broker()
    await_deliveries(peer, cluster)
    final = StoreView.of_broker(peer, cluster.broker, all_queues())
    for queue, ours in before_close.items():
        assert final.records[queue].startswith(ours), f"Java reads {queue} differently"
    expected = sum(final.ranges[queue][1] for queue in topic_queues())
    consumed = java_consumes(peer, cluster, group="reader", expected=expected)
    assert_all_consumed(consumed, sent, contents, delayed)
    assert_keys_work(peer, cluster.broker, final, sent, contents)
    cluster.stop_broker()


def assert_manifest_holds(sent: list[Sent], records: dict[Queue, list[Record]]) -> None:
    """Assert that the producers' answers equal the stored messages: Java agrees with itself."""
    for message in sent:
        record = records[message.stored_queue][message.queue_offset]
        assert record.unique_key == message.unique_key
        assert record.physical_offset == message.physical_offset
        assert record.flag == message.flag
        assert sha1(record.original_body) == message.body_sha1
    kinds = Counter(message.delay_level for message in sent)
    assert all(kinds[level] > 50 for level in (0, *SHORT_LEVELS, *LONG_LEVELS)), kinds


def assert_several_files(root: Path) -> None:
    assert len(list((root / "commitlog").iterdir())) > 2
    assert len(list((root / "consumequeue" / "Audit" / "0").iterdir())) > 1
    assert len(list((root / "index").iterdir())) > 1


def key_questions(sent: list[Sent], records: dict[Queue, list[Record]]) -> list[KeyQuestion]:
    chooser = random.Random(2)
    questions = []
    for message in chooser.sample(sent, 150):
        topic = message.stored_queue[0]
        questions += [KeyQuestion(topic, key) for key in (message.unique_key, *message.keys)]
        # The original topic; a waiting message is stored elsewhere.
        questions.append(KeyQuestion(message.topic, message.unique_key))
    questions += [KeyQuestion("Orders", f"shared-{n}") for n in range(40)]
    questions += [KeyQuestion("Payments", f"客户-{n}") for n in range(40)]
    questions += [KeyQuestion("Orders", f"unknown-{n}") for n in range(10)]
    times = sorted(record.store_timestamp for record in records["Audit", 0])
    for n in range(40):
        begin, end = sorted(chooser.sample(times, 2))
        questions.append(KeyQuestion("Audit", f"shared-{n}", begin, end))
    assert len(set(questions)) >= 300
    return questions


def time_questions(records: dict[Queue, list[Record]]) -> list[TimeQuestion]:
    chooser = random.Random(3)
    questions = []
    for (topic, queue_id), found in records.items():
        times = [record.store_timestamp for record in found]
        asked = [0, times[0] - 1, times[0], times[-1], times[-1] + 1, times[-1] + 86_400_000]
        for time in chooser.sample(times, min(len(times), 15)):
            asked += [time, time + chooser.randrange(1, 40)]
        questions += [TimeQuestion(topic, queue_id, time) for time in asked]
    assert len(set(questions)) >= 200
    return questions


def append_ours(store: Store) -> tuple[list[Content], list[Content]]:
    """Append 20 000 messages for the topics, after some with a delay."""
    maker = MessageMaker(OUR_SEED, tuple(TOPICS.items()), largest_body=6_000)
    contents: list[Content] = []
    next_offset = {queue: store.max_offset(*queue) for queue in topic_queues()}
    while len(contents) < MESSAGES_EACH:
        number = len(contents)
        chunk = [maker.make(number + i) for i in range(maker.batch_size(number))]
        messages = [content.new_message() for content in chunk]
        places = store.append_many(messages, atomic=maker.is_atomic(number))
        for content, place in zip(chunk, places, strict=True):
            queue = content.topic, content.queue_id
            assert place.queue_offset == next_offset[queue]
            next_offset[queue] += 1
        contents += chunk
    delayed = [maker.make(1_000_000 + i) for i in range(300)]
    store.append_many([waiting(content, level=1 + i % 2) for i, content in enumerate(delayed)])
    store.append_many([waiting(maker.make(2_000_000 + i), level=18) for i in range(100)])
    return contents, delayed


def waiting(content: Content, level: int) -> NewMessage:
    """Return the form in which a broker stores a message for later delivery."""
    message = content.new_message()
    return NewMessage(
        SCHEDULE_TOPIC,
        message.body,
        queue_id=level - 1,
        flag=message.flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_host=message.store_host,
        properties={
            **message.properties,
            "DELAY": str(level),
            "REAL_TOPIC": content.topic,
            "REAL_QID": str(content.queue_id),
        },
    )


def assert_all_consumed(
    consumed: list[dict[str, Any]],
    sent: list[Sent],
    contents: list[Content],
    delayed: list[Content],
) -> None:
    offsets: dict[Queue, list[int]] = defaultdict(list)
    bodies: dict[str, str] = {}
    for line in consumed:
        offsets[str(line["topic"]), int(str(line["queue_id"]))].append(
            int(str(line["queue_offset"]))
        )
        assert str(line["unique_key"]) not in bodies, "a message came twice"
        bodies[str(line["unique_key"])] = str(line["body_sha1"])
    for queue, found in offsets.items():
        assert sorted(found) == list(range(len(found))), f"holes or repeats in {queue}"
    expected = {m.unique_key: m.body_sha1 for m in sent if m.delay_level not in LONG_LEVELS}
    expected |= {content.unique_key: sha1(content.body) for content in contents + delayed}
    assert bodies == expected


def assert_keys_work(
    peer: JavaPeer, broker: str, final: StoreView, sent: list[Sent], contents: list[Content]
) -> None:
    chooser = random.Random(6)
    wanted: dict[KeyQuestion, str] = {}
    for message in chooser.sample(sent, 150):
        wanted[KeyQuestion(message.stored_queue[0], message.unique_key)] = message.unique_key
    for content in chooser.sample(contents, 200):
        for key in (content.unique_key, *content.keys[:1]):
            wanted[KeyQuestion(content.topic, key)] = content.unique_key
    final.ask_keys(peer, broker, list(wanted))
    for question, unique_key in wanted.items():
        found = {record.unique_key for record in decode_list(final.keys[question])}
        assert unique_key in found, question
