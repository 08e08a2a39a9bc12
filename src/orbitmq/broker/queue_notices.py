"""Notices to consumer groups that the queues of a topic have changed.

RocketMQ's clients fetch routes every 30 s and rebalance every 20 s, so a new queue can wait 50 s
for its first reader. NOTIFY_CONSUMER_IDS_CHANGED makes every client rebalance at once, but with
the route it already has. Therefore:

- the notice is sent only after a nameserver has the new queues,
- the notice contains the topic, so that OrbitMQ's own clients fetch the new route first,
- the notice is repeated until every Java or Go client has fetched the route by its own timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from orbitmq.broker.state.clients import ConsumerClients

__all__ = ["QueueNotices"]

REPEAT_AFTER_S = (10.0, 20.0, 31.0)
"""Java and Go clients fetch routes every 30 s; after 31 s all of them have the new one."""


class QueueNotices:
    """Collects topics whose queues have changed, and notifies the groups that subscribe to them.

    `notify` sends the notice about a topic to the members of a group.
    """

    def __init__(self, consumers: ConsumerClients, notify: Callable[[str, str], None]) -> None:
        self._consumers = consumers
        self._notify = notify
        self._changed: set[str] = set()
        self._timers: set[asyncio.TimerHandle] = set()

    def changed(self, topic: str) -> None:
        """Note a topic whose queues have changed, for the next notice to its consumers."""
        self._changed.add(topic)

    def take(self) -> set[str]:
        """Return and clear the topics that the next registration publishes."""
        taken, self._changed = self._changed, set()
        return taken

    def put_back(self, topics: Iterable[str]) -> None:
        """Keep topics for the next registration, because no nameserver accepted this one."""
        self._changed.update(topics)

    def published(self, topics: set[str]) -> None:
        """Notify the groups that subscribe to `topics`; a nameserver has their new queues."""
        subscribed = [topic for topic in sorted(topics) if self._notify_groups_of(topic)]
        if subscribed:
            for delay_s in REPEAT_AFTER_S:
                self._repeat_after(delay_s, subscribed)

    def _notify_groups_of(self, topic: str) -> bool:
        """Notify the groups that subscribe to a topic; return True if any group does."""
        groups = self._consumers.groups_of(topic)
        for group in groups:
            self._notify(group, topic)
        return bool(groups)

    def _repeat_after(self, delay_s: float, topics: list[str]) -> None:
        def repeat() -> None:
            self._timers.discard(timer)
            for topic in topics:
                self._notify_groups_of(topic)

        timer = asyncio.get_running_loop().call_later(delay_s, repeat)
        self._timers.add(timer)

    def close(self) -> None:
        """Cancel the repetitions of all notices."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
