"""A group under load while all of its members and all brokers are restarted, one after the other.

Everything that is handled is noted with the place it came from, so that repeats can be counted: a
message that a producer has sent twice is two messages, one that two members have handled is one.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from compat.java_client import Cluster, JavaClient
from orbitmq.admin.admin import Admin
from orbitmq.client.consumer.push import PushConsumer
from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import OrbitError
from orbitmq.message import Message

__all__ = ["Handled", "JavaMember", "Member", "OurMember", "Repeats", "Stage"]

LIMIT_S = 120.0
HANDLER_S = 0.004
BETWEEN_SENDS_S = 0.004
QUEUES = 4
BROKERS = ("broker-a", "broker-b")
Place = tuple[str, int, int]
"""Broker, queue and offset of a message."""


def await_true(what: str, holds: Callable[[], Any]) -> None:
    """Wait until a condition holds, for events without a notification."""
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {LIMIT_S:.0f} s: {what}"
        time.sleep(0.02)


@dataclass(frozen=True)
class Handled:
    """A message as handled by one member."""

    place: Place
    body: bytes
    member: str


class Member(Protocol):
    """A member of the group, ours or Java's."""

    name: str
    is_ours: bool

    def handled(self) -> list[Handled]: ...
    def leave(self) -> None: ...


class OurMember:
    """A `PushConsumer` that records the messages it handles."""

    is_ours = True

    def __init__(self, cluster: Cluster, topic: str, group: str, name: str) -> None:
        self.name = name
        self._handled: list[Handled] = []
        self._consumer = PushConsumer(cluster.address, group=group, consume_from="first")
        self._consumer.on(topic)(self._handle)
        self._consumer.start()

    def _handle(self, message: Any) -> None:
        queue = message.queue
        place = (queue.broker_name, queue.queue_id, message.queue_offset)
        self._handled.append(Handled(place, bytes(message.body), self.name))
        time.sleep(HANDLER_S)

    def handled(self) -> list[Handled]:
        return list(self._handled)

    def leave(self) -> None:
        self._consumer.stop()


class JavaMember:
    """A member in a JVM, which writes down the messages it handles; see `Members.java`."""

    is_ours = False

    def __init__(self, jvm: JavaClient, mark: str, topic: str, name: str, directory: Path) -> None:
        self.name = name
        self._jvm = jvm
        self._notes = directory / f"{name}.notes"
        jvm.play("join", mark=mark, topic=topic, member=name, log=str(self._notes))

    def handled(self) -> list[Handled]:
        found = []
        for line in self._notes.read_text().splitlines():
            _, kind, broker, queue_id, offset, body = line.split()
            if kind == "concurrent":
                place = (broker, int(queue_id), int(offset))
                found.append(Handled(place, body.encode(), self.name))
        return found

    def leave(self) -> None:
        self._jvm.play("leave", member=self.name)


class Sender:
    """Sends numbered messages continuously, and keeps the acknowledged ones."""

    def __init__(self, address: str, topic: str) -> None:
        self._topic = topic
        self.acknowledged: set[bytes] = set()
        self.taken: Counter[str] = Counter()
        settings = ClientSettings.of(address, route_refresh_s=0.5)
        self._producer = Producer(settings, group="rolling", timeout_ms=2000).start()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for number in itertools.count():
            if self._stopped.wait(BETWEEN_SENDS_S):
                return
            body = b"%d" % number
            with contextlib.suppress(OrbitError):  # It was not acknowledged, and may be lost.
                result = self._producer.send(Message(self._topic, body))
                self.taken[result.queue.broker_name] += 1
                self.acknowledged.add(body)

    def wait_for(self, count: int, broker: str) -> None:
        """Wait until a broker has acknowledged a number of further messages."""
        wanted = self.taken[broker] + count
        await_true(f"{broker} takes {count} messages", lambda: self.taken[broker] >= wanted)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._producer.close()


@dataclass(frozen=True)
class Repeats:
    """Number of messages handled twice, by the kind of restart."""

    by_members: int
    by_brokers: int
    among_ours: list[str] = field(default_factory=list)
    """Messages that only members of ours have handled twice, one text for each."""


class Stage:
    """A cluster, a topic under load, and the members of a group."""

    def __init__(self, cluster: Cluster, mark: str) -> None:
        self.cluster = cluster
        self.topic = f"Rolling_{mark}"
        self.group = f"members-concurrent_{mark}"  # The name in the JVM.
        self._everybody: list[Member] = []
        self._names = (f"member-{number}" for number in itertools.count(1))

    @contextlib.contextmanager
    def _load(self) -> Iterator[Sender]:
        with Admin(self.cluster.address) as admin:
            admin.create_topic(self.topic, queues=QUEUES)
        sender = Sender(self.cluster.address, self.topic)
        try:
            yield sender
        finally:
            sender.stop()

    def _join(self, make: Callable[[str], Member]) -> Member:
        member = make(next(self._names))
        self._everybody.append(member)
        await_true(f"{member.name} works", member.handled)
        return member

    def _handled(self) -> list[Handled]:
        return [each for member in self._everybody for each in member.handled()]

    def _repeats(self) -> int:
        times = Counter(each.place for each in self._handled())
        return sum(count - 1 for count in times.values())

    def _await_all(self, sender: Sender) -> None:
        wanted = set(sender.acknowledged)
        await_true("all is handled", lambda: wanted <= {each.body for each in self._handled()})

    def restart_all(self, makers: list[Callable[[str], Member]]) -> Repeats:
        """Restart each member, then each broker, under load; return the messages handled twice."""
        members: list[Member] = []
        try:
            with self._load() as sender:
                members += [self._join(make) for make in makers]
                self._await_all(sender)
                for number, make in enumerate(makers):
                    members[number].leave()
                    self._await_all(sender)
                    members[number] = self._join(make)
                self._await_all(sender)
                by_members = self._repeats()
                for broker in BROKERS:
                    self._restart(broker, sender)
                sender.stop()
                self._await_all(sender)
        finally:
            for member in members:
                member.leave()
        return Repeats(by_members, self._repeats() - by_members, self._repeats_among_ours())

    def _restart(self, broker: str, sender: Sender) -> None:
        (other,) = set(BROKERS) - {broker}
        self.cluster.stop_broker(broker)
        sender.wait_for(100, other)
        self.cluster.start_broker(broker)
        sender.wait_for(200, broker)
        self._await_all(sender)

    def _repeats_among_ours(self) -> list[str]:
        ours = [each for one in self._everybody if one.is_ours for each in one.handled()]
        times = Counter(each.place for each in ours)
        return [
            f"{place}: {' '.join(each.member for each in ours if each.place == place)}"
            for place, count in sorted(times.items())
            if count > 1
        ]
