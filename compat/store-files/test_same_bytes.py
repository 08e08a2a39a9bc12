"""The same 10 000 messages appended by Java's store and by ours make the same files.

Java goes first, in its own process and by its own clock. Ours is given each message in the form in
which Java stored it (a delayed message has by then moved to its schedule topic, a batch has become
single messages) and Java's store time for the clock. So not even the times may differ: commit log,
consume queues and index files are compared byte for byte.
"""

from __future__ import annotations

import base64
import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from compat.java_cluster import StoreSizes, free_port
from compat.java_peer import JavaPeer
from compat.records import (
    BORN_HOST_V6,
    SCHEDULE_TOPIC,
    STORE_HOST_V6,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    Record,
    log_records,
)
from compat.store_view import our_options
from orbitmq._native import NewMessage, Store

SIZES = StoreSizes(
    commit_log_file_size=1 << 20,
    consume_queue_file_size=20 * 500,
    index_slots=1_000,
    index_entries=6_000,
)
MESSAGES = 10_000
TOPICS = (("Orders", 4), ("Payments", 2), ("T" * 127, 1), ("%RETRY%group", 1))
TAGS = (None, "TagA", "TagB", "Aa", "BB", "标签", "a || b", "étiquette-😀")
HOSTS = (("127.0.0.1", 50001), ("10.1.2.3", 65535), ("2001:db8::7", 50003))
TRANSACTION_COMMIT = 0x8

Given = dict[str, Any]


def given_messages(seed: int) -> list[Given]:
    """Single messages and batches, of every shape a broker may hand to its store."""
    chooser = random.Random(seed)
    given: list[Given] = []
    count = 0
    while count < MESSAGES:
        topic, queues = chooser.choice(TOPICS)
        born, stored = chooser.choice(HOSTS), chooser.choice(HOSTS)
        line: Given = {
            "topic": topic,
            "queue_id": chooser.randrange(queues),
            "sys_flag": 0,
            "born_timestamp": 1_700_000_000_000 + count,
            "born_ip": born[0],
            "born_port": born[1],
            "store_ip": stored[0],
            "store_port": stored[1],
            "reconsume_times": chooser.choice((0, 0, 0, 1, 16)),
        }
        if chooser.random() < 0.05:
            line["batch"] = [content(chooser, count + i) for i in range(chooser.randrange(2, 20))]
            line["properties"] = text({"CLUSTER": "compat", "WAIT": "true"})
            count += len(line["batch"])
        else:
            line |= content(chooser, count)
            line["properties"] += "\x02" + text({"CLUSTER": "compat"})
            kind = chooser.random()
            if kind < 0.08:
                # Far levels only: Java's store delivers what falls due. Its last level is 18.
                level = chooser.choice((16, 18, 25))
                line["properties"] += "\x02" + text({"DELAY": str(level)})
            elif kind < 0.10:
                line["sys_flag"] = TRANSACTION_PREPARED
            elif kind < 0.12:
                line["sys_flag"] = TRANSACTION_ROLLBACK
            elif kind < 0.16:
                line["sys_flag"] = TRANSACTION_COMMIT
                line["prepared_transaction_offset"] = chooser.randrange(1 << 40)
            count += 1
        given.append(line)
    return given


def content(chooser: random.Random, number: int) -> Given:
    size = chooser.randrange(0, 200) if chooser.random() < 0.9 else chooser.randrange(200, 20_000)
    properties = {"UNIQ_KEY": f"7F00000100002A9F{number:016X}"}
    if tag := chooser.choice(TAGS):
        properties["TAGS"] = tag
    if chooser.random() < 0.7:
        # Java splits at single spaces and drops empty parts.
        keys = [f"order-{number}", f"客户-{number % 50}", "", "shared"]
        properties["KEYS"] = " ".join(chooser.sample(keys, chooser.randrange(1, 5))) or "only"
    if chooser.random() < 0.3:
        properties["región"] = "Köln-😀"
    return {
        "flag": chooser.randrange(-(1 << 31), 1 << 31),
        "body": base64.b64encode(chooser.randbytes(size)).decode(),
        "properties": text(properties),
    }


def text(properties: dict[str, str]) -> str:
    return "\x02".join(f"{name}\x01{value}" for name, value in properties.items())


def as_new_message(record: Record) -> NewMessage:
    return NewMessage(
        record.topic,
        record.body,
        queue_id=record.queue_id,
        flag=record.flag,
        sys_flag=record.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6),
        born_timestamp=record.born_timestamp,
        born_host=(record.born_ip, record.born_port),
        store_host=(record.store_ip, record.store_port),
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        properties=record.properties_text,
    )


def append_like_java(root: Path, given: list[Given], java: list[Record]) -> None:
    stored = iter(java)
    with Store.open(root, our_options(SIZES), create=True) as store:
        for line in given:
            together = list(itertools.islice(stored, len(line.get("batch", "1"))))
            places = store.append_many(
                [as_new_message(record) for record in together],
                now_ms=together[0].store_timestamp,
                atomic="batch" in line,
            )
            for place, record in zip(places, together, strict=True):
                assert place.physical_offset == record.physical_offset
                assert place.queue_offset == record.queue_offset
                assert place.size == record.size


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def assert_same_content(ours: dict[str, bytes], java: dict[str, bytes]) -> None:
    assert sorted(ours) == sorted(java)
    for name, data in java.items():
        if ours[name] != data:
            at = next(i for i, (a, b) in enumerate(zip(ours[name], data, strict=True)) if a != b)
            around = slice(max(0, at - 40), at + 40)
            pytest.fail(
                f"{name} differs at byte {at}:\n"
                f"ours {ours[name][around].hex(' ', 4)}\njava {data[around].hex(' ', 4)}"
            )


def test_equal_messages_make_equal_files(java_peer: JavaPeer, tmp_path: Path) -> None:
    given = given_messages(seed=11)
    lines = tmp_path / "given.jsonl"
    lines.write_text("".join(json.dumps(line) + "\n" for line in given))
    java_root, our_root = tmp_path / "java", tmp_path / "ours"
    result = java_peer.do(
        "put",
        root=str(java_root),
        given=str(lines),
        ha_port=free_port(),
        commit_log_file_size=SIZES.commit_log_file_size,
        consume_queue_file_size=SIZES.consume_queue_file_size,
        index_slots=SIZES.index_slots,
        index_entries=SIZES.index_entries,
    )
    java = list(log_records(java_root))
    assert len(java) == result["stored"] >= MESSAGES
    assert any(record.topic == SCHEDULE_TOPIC for record, _ in java)

    append_like_java(our_root, given, [record for record, _ in java])

    ours = list(log_records(our_root))
    for (our_record, our_bytes), (java_record, java_bytes) in zip(ours, java, strict=True):
        assert our_record == java_record
        assert our_bytes == java_bytes
    log_files = sorted(path.name for path in (java_root / "commitlog").iterdir())
    assert sorted(path.name for path in (our_root / "commitlog").iterdir()) == log_files
    assert len(log_files) > 3
    queues = contents(java_root / "consumequeue")
    assert len(queues) > 20
    assert_same_content(contents(our_root / "consumequeue"), queues)
    # An index file is named after the moment of its creation: compared in order, not by name.
    java_index = [data for _, data in sorted(contents(java_root / "index").items())]
    our_index = [data for _, data in sorted(contents(our_root / "index").items())]
    assert len(java_index) > 1
    assert_same_content(
        {str(i): data for i, data in enumerate(our_index)},
        {str(i): data for i, data in enumerate(java_index)},
    )
