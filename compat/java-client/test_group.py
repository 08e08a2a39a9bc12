"""A group of four, in two JVMs, whose members join, leave and are killed under load.

Every member listens twice: concurrently in one group, in order in another. Each writes down what it
consumes before it acknowledges it, so its notes survive the kill.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from compat.java_client import JavaClient

TOPIC = "Shared"
QUEUES_EACH = 4
PER_SECOND = 300
LIMIT_S = 90.0
KINDS = {"concurrent", "orderly"}


class Delivery(NamedTuple):
    at_us: int
    kind: str
    broker: str
    queue_id: int
    offset: int
    number: int
    member: str


def notes(directory: Path) -> list[Delivery]:
    """Return all consumed messages so far, by time."""
    deliveries = []
    for log in directory.glob("*.notes"):
        for line in log.read_text().splitlines():
            at_us, kind, broker, queue_id, offset, number = line.split()
            place = (int(queue_id), int(offset), int(number))
            deliveries.append(Delivery(int(at_us), kind, broker, *place, log.stem))
    return sorted(deliveries)


def await_nothing_missing(
    directory: Path, what: str, missing: Callable[[list[Delivery]], Collection[object]]
) -> None:
    """Wait until the notes are complete; a failure lists the missing messages."""
    deadline = time.monotonic() + LIMIT_S
    while lacking := missing(seen := notes(directory)):
        some = sorted(lacking, key=repr)[:20]
        assert time.monotonic() < deadline, (
            f"not within {LIMIT_S} s: {what}; {len(seen)} deliveries came, missing are {some}"
        )
        time.sleep(0.1)


def works_since(member: str, since_us: int) -> Callable[[list[Delivery]], Collection[str]]:
    def missing(seen: list[Delivery]) -> set[str]:
        return KINDS - {one.kind for one in seen if one.member == member and one.at_us > since_us}

    return missing


def consumed_since(since_us: int) -> Callable[[list[Delivery]], Collection[tuple[str, str, int]]]:
    def missing(seen: list[Delivery]) -> set[tuple[str, str, int]]:
        queues = {(kind, one.broker, one.queue_id) for kind in KINDS for one in seen}
        return queues - {(o.kind, o.broker, o.queue_id) for o in seen if o.at_us > since_us}

    return missing


def all_consumed(sent: int) -> Callable[[list[Delivery]], Collection[tuple[str, int]]]:
    expected = {(kind, number) for kind in KINDS for number in range(sent)}

    def missing(seen: list[Delivery]) -> set[tuple[str, int]]:
        return expected - {(one.kind, one.number) for one in seen}

    return missing


def test_nothing_is_lost_when_members_join_leave_and_are_killed(
    impatient_client: JavaClient, doomed_client: JavaClient, tmp_path: Path, encoding: str
) -> None:
    mark = f"group-{encoding}"
    steady, doomed = impatient_client, doomed_client

    def join(jvm: JavaClient, member: str) -> None:
        log = str(tmp_path / f"{member}.notes")
        jvm.play("join", mark=mark, topic=topic, member=member, log=log)

    def now_us() -> int:
        return time.time_ns() // 1000

    topic = steady.play("make_topic", mark=mark, topic=TOPIC, queues=QUEUES_EACH)
    steady.play("load_start", mark=mark, topic=topic, per_second=PER_SECOND)
    for jvm, member in (
        (steady, "first"),
        (steady, "second"),
        (doomed, "third"),
        (steady, "fourth"),
    ):
        join(jvm, member)
        await_nothing_missing(tmp_path, f"{member} works", works_since(member, 0))
    joined_us = now_us()
    for member in ("first", "second", "third", "fourth"):
        await_nothing_missing(tmp_path, f"{member} goes on", works_since(member, joined_us))

    steady.play("leave", member="second")
    doomed.kill()
    await_nothing_missing(tmp_path, "the others take over", consumed_since(now_us()))
    sent = steady.play("load_stop", topic=topic)
    await_nothing_missing(tmp_path, f"all {sent} messages", all_consumed(sent))
    steady.play("leave", member="first")
    steady.play("leave", member="fourth")
    assert_in_order([one for one in notes(tmp_path) if one.kind == "orderly"])


def assert_in_order(deliveries: list[Delivery]) -> None:
    """Assert that queues are consumed without gaps; only a new owner may go back to a commit."""
    queues: dict[tuple[str, int], list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        queues[delivery.broker, delivery.queue_id].append(delivery)
    assert len(queues) == 2 * QUEUES_EACH
    for queue, seen in queues.items():
        highest, owner, last = -1, "", -1
        for delivery in seen:
            offset = delivery.offset
            if delivery.member == owner:
                assert offset == last + 1, f"{queue}: {delivery} after offset {last}"
            else:
                assert offset <= highest + 1, f"{queue}: {delivery} skips what follows {highest}"
            highest, owner, last = max(highest, offset), delivery.member, offset
        firsts = dict.fromkeys(one.number for one in seen)
        assert list(firsts) == sorted(firsts), f"{queue}: not in the order of sending"
