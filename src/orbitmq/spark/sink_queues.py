"""Which queue a send goes to, and where its broker is.

A row may leave the choice (the next queue in turn, after a failure one of another broker), name the
broker, name the queue, or have its sharding key choose. Routes are kept for `ROUTE_TTL_S` and read
again when a broker could not be reached.

With *pinned* brokers, those that suppress the repeats of a query, each partition of a batch has one
broker that depends on nothing but the two: a batch that is replayed must meet the brokers that know
it. Then a broker that is missing is waited for, never gone around.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence

from orbitmq._native import PackedSend
from orbitmq.client.drivers.blocking import perform
from orbitmq.client.flows.routes import fetch_route, publish_route
from orbitmq.client.state.namespace import wrap
from orbitmq.client.state.routes import RouteTable, TopicRoute
from orbitmq.errors import BadMessage, NoRoute
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.remoting.blocking import BlockingNetwork

__all__ = ["RouteCache", "SinkQueues"]

ROUTE_TTL_S = 30.0
DOUBT_TTL_S = 0.5


class RouteCache:
    """The routes a process knows; shared by its tasks, one after the other."""

    def __init__(
        self,
        network: BlockingNetwork,
        nameservers: tuple[str, ...],
        namespace: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._network = network
        self._table = RouteTable(nameservers)
        self._namespace = namespace
        self._clock = clock
        self._read_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def route(self, topic: str) -> TopicRoute:
        """Return a route with queues to write to; raises `NoRoute` with the reason."""
        topic = wrap(self._namespace, topic)
        with self._lock:
            read_at = self._read_at.get(topic)
            if read_at is not None and self._clock() - read_at < ROUTE_TTL_S:
                route = self._table.route(topic)
                if route is not None and route.publish_queues:
                    return route
            if read_at is not None:
                found = perform(fetch_route(self._table, topic), self._network)
                if found is not None and not found.publish_queues:
                    self._table.forget(topic)
            route = perform(publish_route(self._table, topic), self._network)
            self._read_at[topic] = self._clock()
            return route

    def doubt(self, topic: str) -> None:
        """Read a topic's route again soon: a broker of it could not be reached."""
        topic = wrap(self._namespace, topic)
        with self._lock:
            read_at = self._read_at.get(topic)
            if read_at is not None:
                self._read_at[topic] = min(read_at, self._clock() - ROUTE_TTL_S + DOUBT_TTL_S)

    def address(self, broker_name: str) -> str | None:
        """Return where a broker's master is."""
        return self._table.master(broker_name)


class SinkQueues:
    """The choices of one task."""

    def __init__(
        self,
        routes: RouteCache,
        *,
        first: int = 0,
        pinned: Sequence[str] | None = None,
        patience_s: float = 0.0,
    ) -> None:
        self._routes = routes
        self._patience_s = patience_s
        self._turn = itertools.count(first)
        self._first = first
        self._pinned = tuple(sorted(pinned)) if pinned else None
        self._slots: dict[str, tuple[MessageQueue, ...]] = {}

    def address(self, broker_name: str) -> str | None:
        """Return where a broker's master is."""
        return self._routes.address(broker_name)

    def doubt(self, topic: str) -> None:
        """Read a topic's route again soon."""
        self._routes.doubt(topic)

    def slots(self, topic: str) -> int:
        """Return among how many queues sharding keys choose, from now on for this task."""
        queues = self._slots.get(topic)
        if queues is None:
            queues = self._slots[topic] = self._writable(topic)
        return len(queues)

    def fixed(self, send: PackedSend) -> MessageQueue | None:
        """Return the only queue a send may go to, None if there is a choice."""
        if send.slot is not None:
            return self._slots[send.topic][send.slot]
        if send.queue_id is None:
            return None
        broker = send.broker_name
        if broker is None:
            names = sorted({queue.broker_name for queue in self._writable(send.topic)})
            if len(names) > 1:
                raise BadMessage(
                    f"queueId {send.queue_id} of topic {send.topic!r} is not one queue: brokers "
                    f"{', '.join(names)} have the topic; add the column brokerName"
                )
            broker = names[0]
        queue = MessageQueue(send.topic, broker, send.queue_id)
        queues = self._routes.route(send.topic).publish_queues
        ids = [one.queue_id for one in queues if one.broker_name == broker]
        if ids and send.queue_id not in ids:
            raise BadMessage(
                f"topic {send.topic!r} has no queue {send.queue_id} on {broker}, only 0 to "
                f"{max(ids)}: correct or drop the column queueId"
            )
        return queue

    def choose(self, send: PackedSend, last: MessageQueue | None) -> MessageQueue:
        """Return the next queue for a send that leaves the choice."""
        queues = self._routes.route(send.topic).publish_queues
        broker = send.broker_name
        if broker is None and self._pinned is not None:
            broker = self._pinned[self._first % len(self._pinned)]
        if broker is not None:
            queues = tuple(queue for queue in queues if queue.broker_name == broker)
            if not queues:
                raise NoRoute(
                    f"broker {broker} has no queue of topic {send.topic!r} to write to now",
                    topic=send.topic,
                    cause="no_broker",
                )
        elif last is not None:
            others = tuple(queue for queue in queues if queue.broker_name != last.broker_name)
            queues = others or queues
        return queues[next(self._turn) % len(queues)]

    def _writable(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues rows may go to; waits for pinned brokers that are not there."""
        if self._pinned is None:
            return self._routes.route(topic).publish_queues
        deadline = time.monotonic() + self._patience_s
        while True:
            queues = self._routes.route(topic).publish_queues
            missing = set(self._pinned) - {queue.broker_name for queue in queues}
            if not missing:
                return tuple(queue for queue in queues if queue.broker_name in self._pinned)
            if time.monotonic() >= deadline:
                raise NoRoute(
                    f"broker {', '.join(sorted(missing))} is not there, whose part of topic "
                    f"{topic!r} must not go elsewhere while repeats are suppressed",
                    topic=topic,
                    cause="no_broker",
                )
            self._routes.doubt(topic)
            time.sleep(DOUBT_TTL_S)
