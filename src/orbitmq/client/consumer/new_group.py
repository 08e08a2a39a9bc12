"""Start offsets of a group that is new to a topic, where the brokers' own rule differs."""

from __future__ import annotations

import asyncio
import logging

from orbitmq.client.consumer.offsets import StartRule, begin_new_group
from orbitmq.client.instance import ClientInstance

__all__ = ["NewGroup"]

_log = logging.getLogger(__name__)


class NewGroup:
    """Commits the start offsets of topics that the member's group may be new to.

    This applies only to topics that exist when the member subscribes. A topic that is created later
    is read from its first message on, because all its messages are newer than the subscription.
    """

    def __init__(self, instance: ClientInstance, group: str, rule: StartRule) -> None:
        self._instance = instance
        self._group = group
        self._rule = rule
        self._waiting: set[str] = set()
        self._lock = asyncio.Lock()

    def expect(self, topic: str) -> None:
        """Add an existing topic; retry topics, and rules other than end or time, are ignored."""
        if self._rule.is_exact and not topic.startswith("%"):
            self._waiting.add(topic)

    async def begin(self, topic: str) -> None:
        """Commit the start offsets of all queues of a topic, once, before any queue is read."""
        async with self._lock:
            if topic not in self._waiting:
                return
            time_ms = self._rule.time_ms if self._rule.where == "time" else None
            flow = begin_new_group(self._instance.routes, self._group, topic, time_ms)
            if await self._instance.run(flow):
                where = "at its end" if time_ms is None else f"at {time_ms} ms since the epoch"
                _log.info(
                    "group %s is new to topic %s and starts %s: offsets of all queues committed",
                    self._group,
                    topic,
                    where,
                )
            self._waiting.discard(topic)
