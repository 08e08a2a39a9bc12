"""Five writers in turn on one directory, Java's and ours, each ended by `kill -9` while it writes.

A Java producer's acknowledgement means "in the log's mapped file": the pages are the kernel's and
outlive the process. Ours means flushed. Whoever comes next must find all of it, each queue without
holes or repeats, and go on from there.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat.conftest import MakeCluster
from compat.jars import REPOSITORY_ROOT
from compat.java_cluster import BrokerSettings, JavaCluster, StoreSizes
from compat.java_peer import JavaPeer
from compat.java_traffic import LONG_LEVELS, TOPICS, all_queues, java_writes
from compat.records import Record, decode_list
from compat.store_view import KeyQuestion, Queue, StoreView, our_options, query, read_queue
from crash.writer import WriterSettings, parse_report
from orbitmq._native import Store

pytestmark = pytest.mark.counted

SEED = 20
KEYS_ASKED = 100


@dataclass(frozen=True)
class Acknowledged:
    """A message acknowledged to its writer, with its position in the answer."""

    queue: Queue
    queue_offset: int
    unique_key: str
    body_sha1: str


@dataclass(frozen=True)
class Clock:
    """Steps of the message times, see `WriterSettings`, and the interval of checkpoints."""

    epoch_ms: int = 0
    tick_ms: int = 0
    checkpoint_interval_ms: int = 60_000


WALL_CLOCK = Clock()


def java_writes_until_killed(
    peer: JavaPeer, cluster: JavaCluster, seed: int, kill_after: int
) -> list[Acknowledged]:
    killed = False

    def kill_in_time(acknowledged: int) -> None:
        nonlocal killed
        if acknowledged >= kill_after and not killed:
            killed = True
            cluster.kill_broker()

    sent = java_writes(
        peer,
        cluster,
        seed=seed,
        create_topics=True,
        delay_levels=LONG_LEVELS,
        until_failure=True,
        on_progress=kill_in_time,
    )
    assert killed, "the producers gave up before the broker was killed"
    return [Acknowledged(m.stored_queue, m.queue_offset, m.unique_key, m.body_sha1) for m in sent]


def we_write_until_killed(
    root: Path, sizes: StoreSizes, seed: int, kill_after: int, clock: Clock = WALL_CLOCK
) -> list[Acknowledged]:
    settings = WriterSettings(
        root=str(root),
        seed=seed,
        first=0,
        topics=tuple(TOPICS.items()),
        largest_body=6_000,
        options={
            "commit_log_file_size": sizes.commit_log_file_size,
            "consume_queue_file_size": sizes.consume_queue_file_size,
            "index_slots": sizes.index_slots,
            "index_entries": sizes.index_entries,
            "checkpoint_interval_ms": clock.checkpoint_interval_ms,
        },
        epoch_ms=clock.epoch_ms,
        tick_ms=clock.tick_ms,
    )
    acknowledged: list[Acknowledged] = []
    with subprocess.Popen(
        [sys.executable, "-m", "crash.writer", settings.to_json()],
        stdout=subprocess.PIPE,
        cwd=REPOSITORY_ROOT,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:  # Continues after the kill, to the data still in the pipe.
            for place in parse_report(line):
                content = settings.maker.make(place.number)
                acknowledged.append(
                    Acknowledged(
                        (content.topic, content.queue_id),
                        place.queue_offset,
                        content.unique_key,
                        hashlib.sha1(content.body).hexdigest(),
                    )
                )
            if len(acknowledged) >= kill_after:
                process.kill()
    assert process.returncode == -9, "the writer ended by itself"
    return acknowledged


def assert_whole(records: dict[Queue, Iterable[Record]], acknowledged: list[Acknowledged]) -> None:
    """Offsets run from 0 without holes, nothing is there twice, all that was acknowledged is."""
    found: dict[tuple[Queue, int], Record] = {}
    seen: set[str | None] = set()
    for queue, in_queue in records.items():
        for expected_offset, record in enumerate(in_queue):
            assert (record.topic, record.queue_id) == queue
            assert record.queue_offset == expected_offset
            assert record.crc_holds
            assert record.unique_key not in seen, f"{record.unique_key} is there twice"
            seen.add(record.unique_key)
            found[queue, expected_offset] = record
    for message in acknowledged:
        record = found[message.queue, message.queue_offset]
        assert record.unique_key == message.unique_key
        assert hashlib.sha1(record.original_body).hexdigest() == message.body_sha1


def java_finds_everything(
    peer: JavaPeer, cluster: JavaCluster, acknowledged: list[Acknowledged]
) -> StoreView:
    view = StoreView.of_broker(peer, cluster.broker, all_queues())
    assert_whole(dict(view.decoded()), acknowledged)
    assert_java_finds_keys(peer, cluster, view, acknowledged)
    return view


def assert_java_finds_keys(
    peer: JavaPeer, cluster: JavaCluster, view: StoreView, acknowledged: list[Acknowledged]
) -> None:
    asked = {
        KeyQuestion(message.queue[0], message.unique_key): message.unique_key
        for message in random.Random(SEED).sample(acknowledged, KEYS_ASKED)
    }
    view.ask_keys(peer, cluster.broker, list(asked))
    for question, unique_key in asked.items():
        assert unique_key in {r.unique_key for r in decode_list(view.keys[question])}, question


def we_find_everything(store: Store, acknowledged: list[Acknowledged]) -> None:
    assert_whole(
        {queue: decode_list(read_queue(store, queue)) for queue in store.queues()}, acknowledged
    )
    for message in random.Random(SEED).sample(acknowledged, KEYS_ASKED):
        found = decode_list(query(store, KeyQuestion(message.queue[0], message.unique_key)))
        assert message.unique_key in {record.unique_key for record in found}, message


# After a crash Java's broker deletes its last index file. Unless told otherwise it builds only that
# part of it again which is a few seconds old at most.
INDEX_SAFE = {"messageIndexSafe": "true"}


def test_java_rebuilds_the_index_behind_our_checkpoint(
    make_java_cluster: MakeCluster, java_peer: JavaPeer
) -> None:
    """Index files full at our end, and one that was not, over ten minutes of messages."""
    settings = BrokerSettings(sizes=StoreSizes(512 << 10, index_entries=3_000), extra=INDEX_SAFE)
    cluster = make_java_cluster(settings)
    cluster.start_broker()
    java_writes(java_peer, cluster, seed=SEED, count=100, create_topics=True)
    cluster.stop_broker()
    clock = Clock(epoch_ms=int(time.time() * 1000), tick_ms=200, checkpoint_interval_ms=50)
    acknowledged = we_write_until_killed(
        cluster.store_root, settings.sizes, SEED + 1, kill_after=4_000, clock=clock
    )
    assert len(list((cluster.store_root / "index").iterdir())) > 2
    cluster.start_broker()
    view = StoreView.of_broker(java_peer, cluster.broker, all_queues())
    assert_java_finds_keys(java_peer, cluster, view, acknowledged)
    cluster.stop_broker()


UNIT_BYTES = 20


def remove_empty_last_files(root: Path) -> None:
    """Delete the last file of a queue if nothing is in it.

    A kill between the creation of a queue file and its first unit, by whichever broker, leaves one.
    Java's recovery counts it as a message (see `FINDINGS.md`); ours does not.
    """
    for queue in (root / "consumequeue").glob("*/*"):
        files = sorted(queue.iterdir())
        if not files:
            continue
        with files[-1].open("rb") as last:
            is_empty = not any(last.read(UNIT_BYTES))
        if is_empty:
            files[-1].unlink()


def test_nothing_acknowledged_is_lost_over_five_kills(
    java_cluster: JavaCluster, java_peer: JavaPeer, tmp_path: Path
) -> None:
    cluster, peer, root = java_cluster, java_peer, java_cluster.store_root
    cluster.settings = cluster.settings.with_extra(**INDEX_SAFE)
    sizes = cluster.settings.sizes
    chooser = random.Random(SEED)
    acknowledged: list[Acknowledged] = []
    for turn in range(5):
        kill_after = chooser.randrange(2_000, 5_000)
        if turn % 2 == 0:
            if turn:
                remove_empty_last_files(root)
            cluster.start_broker()
            if acknowledged:
                java_finds_everything(peer, cluster, acknowledged)
            acknowledged += java_writes_until_killed(peer, cluster, SEED + turn, kill_after)
        else:
            # We look at a copy: closing in good order would spare the next writer the crash.
            with Store.open(
                shutil.copytree(root, tmp_path / f"{turn}"), our_options(sizes), create=True
            ) as store:
                we_find_everything(store, acknowledged)
            acknowledged += we_write_until_killed(root, sizes, SEED + turn, kill_after)
        assert (root / "abort").exists()
    with Store.open(root, our_options(sizes), create=True) as store:
        we_find_everything(store, acknowledged)
        ours = {queue: read_queue(store, queue) for queue in store.queues()}
    cluster.start_broker()
    assert java_finds_everything(peer, cluster, acknowledged).records == ours
    cluster.stop_broker()
