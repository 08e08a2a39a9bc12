"""Telling programs that the queues of a topic have changed: those that assign queues themselves.

A topic gets more queues or a broker, or loses them; nameservers tell of it when they are asked.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from orbitmq.client.instance import ClientInstance
from orbitmq.message import MessageQueue
from orbitmq.rpc.namespace import wrap
from orbitmq.rpc.routes import fetch_route

__all__ = ["QueueWatch", "Tell"]

_log = logging.getLogger(__name__)

Tell = Callable[[list[MessageQueue]], Any]
"""Is told all queues a topic has now; may be a coroutine function."""


class QueueWatch:
    """Looks at topics every now and then, on the instance's loop."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._known: dict[str, list[MessageQueue]] = {}
        self._told: dict[str, Tell] = {}

    async def add(self, topic: str, tell: Tell) -> None:
        """Tell about a topic from now on, what it has now is known."""
        if not self._told:
            self._instance.every(self._instance.settings.route_refresh_s, self.look)
        self._known[topic] = await self._queues(topic)
        self._told[topic] = tell

    async def _queues(self, topic: str) -> list[MessageQueue]:
        wrapped = wrap(self._instance.settings.namespace, topic)
        route = await self._instance.run(fetch_route(self._instance.routes, wrapped))
        return [
            MessageQueue(topic, queue.broker_name, queue.queue_id)
            for queue in (() if route is None else route.subscribe_queues)
        ]

    async def look(self) -> None:
        """Look at all topics, and tell what has changed."""
        for topic, tell in list(self._told.items()):
            queues = await self._queues(topic)
            if queues == self._known[topic]:
                continue
            self._known[topic] = queues
            try:
                told = tell(list(queues))
                if inspect.isawaitable(told):
                    await told
            except Exception:
                _log.exception("who is told of the queues of %s failed", topic)
