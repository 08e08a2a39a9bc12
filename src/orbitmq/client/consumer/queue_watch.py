"""Notifies programs that assign queues themselves when the queues of a topic have changed.

A topic can gain or lose queues and brokers. The changes become visible when the route is fetched
from a nameserver.
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
"""Function that is called with all current queues of a topic; may be a coroutine function."""


class QueueWatch:
    """Fetches the queues of topics periodically, on the instance's loop."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._known: dict[str, list[MessageQueue]] = {}
        self._told: dict[str, Tell] = {}

    async def add(self, topic: str, tell: Tell) -> None:
        """Watch a topic: call `tell` at every change of the queues from now on."""
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
        """Fetch the queues of all watched topics, and call the functions of changed topics."""
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
                _log.exception(
                    "function for changed queues of topic %s failed; next call at the next change",
                    topic,
                )
