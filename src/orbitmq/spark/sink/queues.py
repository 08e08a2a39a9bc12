"""Choice of the queue for a send, and routes of the sink.

A row may have no fixed queue. Then the send goes to the next queue in turn, and after a failure to
a queue of another broker. A row may also name its broker or its queue, or its sharding key chooses
the queue. Turns continue from task to task of a process and begin at a random queue. If the first
queue of each task were the same, the tasks of small micro-batches, which send once, would all use
that queue. Routes are cached for `ROUTE_TTL_S`, and read again after a broker could not be reached.

With *pinned* brokers, which suppress the repeats of a query, each partition of a batch has one
broker. This broker depends only on the batch and the partition, because a replayed batch must reach
the brokers that have its ids. Within the broker the turns choose, because the broker recognises its
ids in any of its queues. For the same reason a sharding key first chooses its broker and then one
of that broker's queues, whose number may have grown since. If a pinned broker is missing, the task
waits for it and never uses another one.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from orbitmq.errors import BadMessage, NoRoute
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.rpc.drivers.run_sync import perform
from orbitmq.rpc.namespace import wrap
from orbitmq.rpc.route_table import RouteTable, TopicRoute
from orbitmq.rpc.routes import fetch_route, publish_route
from orbitmq.spark.sink.pieces import Outbound

__all__ = ["RouteCache", "SinkQueues", "Turns"]

ROUTE_TTL_S = 30.0
DOUBT_TTL_S = 0.5
SILENCE_TTL_S = 5.0
"""Validity of a route that no nameserver could confirm."""
MOST_TURNS = 10_000
"""Number of turns a process keeps; beyond that all turns begin at a random queue again."""


class Turns:
    """Counters of queues in turn, by topic and broker; shared by the tasks of a process."""

    def __init__(self) -> None:
        self._turns: dict[tuple[str, str | None], int] = {}
        self._lock = threading.Lock()

    def next(self, topic: str, broker: str | None) -> int:
        """Return a number that grows by one with each call; the first one is random."""
        key = topic, broker
        with self._lock:
            turn = self._turns.get(key)
            if turn is None:
                if len(self._turns) >= MOST_TURNS:
                    self._turns.clear()
                turn = random.randrange(1 << 20)
            self._turns[key] = turn + 1
            return turn


class RouteCache:
    """Cache of routes, shared by consecutive tasks of a process."""

    def __init__(
        self,
        network: BlockingNetwork,
        nameservers: tuple[str, ...],
        namespace: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        timeout_ms: float = 5000,
    ) -> None:
        self._timeout_ms = timeout_ms
        self._network = network
        self._table = RouteTable(nameservers)
        self._namespace = namespace
        self._clock = clock
        self._good_until: dict[str, float] = {}
        self._lock = threading.Lock()

    def route(self, topic: str) -> TopicRoute:
        """Return a route with queues to write to; raise `NoRoute` with the reason."""
        topic = wrap(self._namespace, topic)
        with self._lock:
            good_until = self._good_until.get(topic)
            if good_until is not None and self._clock() < good_until:
                known = self._table.route(topic)
                if known is not None and known.publish_queues:
                    return known
            is_confirmed = good_until is None or self._read_again(topic)
            route = perform(
                publish_route(self._table, topic, timeout_ms=self._timeout_ms), self._network
            )
            good_for_s = ROUTE_TTL_S if is_confirmed else SILENCE_TTL_S
            self._good_until[topic] = self._clock() + good_for_s
            return route

    def _read_again(self, topic: str) -> bool:
        """Refresh a known route; return False, and keep the known one, if no nameserver answers."""
        try:
            found = perform(fetch_route(self._table, topic, self._timeout_ms), self._network)
        except NoRoute as error:
            if error.cause != "no_nameserver":
                raise
            return False
        if found is not None and not found.publish_queues:
            self._table.forget(topic)
        return True

    def doubt(self, topic: str) -> None:
        """Expire a topic's route within `DOUBT_TTL_S`, because a broker could not be reached."""
        topic = wrap(self._namespace, topic)
        with self._lock:
            if topic in self._good_until:
                soon = self._clock() + DOUBT_TTL_S
                self._good_until[topic] = min(self._good_until[topic], soon)

    def address(self, broker_name: str) -> str | None:
        """Return the address of a broker's master, None if unknown."""
        return self._table.master(broker_name)


class SinkQueues:
    """Chooses the queues for the sends of one task."""

    def __init__(
        self,
        routes: RouteCache,
        *,
        turns: Turns | None = None,
        first: int = 0,
        pinned: Callable[[str], Sequence[str]] | None = None,
        patience_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create the choice of queues for a task.

        `pinned` returns the brokers of a topic; `patience_s` limits the wait for missing queues.
        `first` chooses one of the pinned brokers, `turns` the queue.
        """
        self._routes = routes
        self._patience_s = patience_s
        self._clock = clock
        self._pause = pause
        self._turns = turns or Turns()
        self._first = first
        self._pinned = pinned
        self._slots: dict[str, tuple[MessageQueue, ...]] = {}

    def address(self, broker_name: str) -> str | None:
        """Return the address of a broker's master, None if unknown."""
        return self._routes.address(broker_name)

    def doubt(self, topic: str) -> None:
        """Expire a topic's route soon."""
        self._routes.doubt(topic)

    def slots(self, topic: str) -> list[int]:
        """Return the numbers of queues among which sharding keys choose, fixed for this task.

        There is one number per pinned broker; without pinned brokers, one for all brokers.
        """
        queues = self._slots.get(topic)
        if queues is None:
            queues = self._slots[topic] = self._writable(topic)
        if self._pinned is None:
            return [len(queues)]
        counts = Counter(queue.broker_name for queue in queues)
        return [counts[name] for name in sorted(counts)]

    def fixed(self, send: Outbound) -> MessageQueue | None:
        """Return the only queue a send may go to, None if it may go to several."""
        if send.slot is not None:
            return self._slots[send.topic][send.slot]
        if send.queue_id is None:
            return None
        queues = self._writable(send.topic, send.broker_name)
        broker = send.broker_name
        if broker is None:
            names = sorted({queue.broker_name for queue in queues})
            if len(names) > 1:
                raise BadMessage(
                    f"queueId {send.queue_id} of topic {send.topic!r} is not one queue: brokers "
                    f"{', '.join(names)} have the topic; add the column brokerName"
                )
            broker = names[0]
        ids = [one.queue_id for one in queues if one.broker_name == broker]
        if ids and send.queue_id not in ids:
            raise BadMessage(
                f"topic {send.topic!r} has no queue {send.queue_id} on {broker}, only 0 to "
                f"{max(ids)}: correct or drop the column queueId"
            )
        return MessageQueue(send.topic, broker, send.queue_id)

    def choose(self, send: Outbound, last: MessageQueue | None) -> MessageQueue:
        """Return the next queue in turn for a send without a fixed queue."""
        broker, queues = self._choice(send)
        if broker is None and last is not None:
            others = tuple(queue for queue in queues if queue.broker_name != last.broker_name)
            queues = others or queues
        return queues[self._turns.next(send.topic, broker) % len(queues)]

    def choices(self, send: Outbound) -> int:
        """Return the number of queues a send may go to, 1 while the route is unknown."""
        if send.slot is not None or send.queue_id is not None:
            return 1
        try:
            return len(self._choice(send)[1])
        except NoRoute:
            return 1

    def _choice(self, send: Outbound) -> tuple[str | None, tuple[MessageQueue, ...]]:
        """Return the broker a send is bound to, or None, and the queues it may go to."""
        queues = self._routes.route(send.topic).publish_queues
        broker = send.broker_name
        if broker is None and self._pinned is not None:
            pinned = sorted(self._pinned(send.topic))
            broker = pinned[self._first % len(pinned)]
        if broker is None:
            return None, queues
        queues = tuple(queue for queue in queues if queue.broker_name == broker)
        if not queues:
            raise NoRoute(
                f"broker {broker} has no queue of topic {send.topic!r} to write to now",
                topic=send.topic,
                cause="no_broker",
            )
        return broker, queues

    def _writable(self, topic: str, broker: str | None = None) -> tuple[MessageQueue, ...]:
        """Return the queues that rows may go to, by broker; wait for missing pinned brokers.

        A row that names its broker needs no other broker.
        """
        deadline = self._clock() + self._patience_s
        while True:
            try:
                queues = self._routes.route(topic).publish_queues
                if self._pinned is None or broker is not None:
                    return queues
                return _of_all(set(self._pinned(topic)), queues, topic)
            except NoRoute:
                if self._clock() + DOUBT_TTL_S > deadline:
                    raise
            self._routes.doubt(topic)
            self._pause(DOUBT_TTL_S)


def _of_all(
    brokers: set[str], queues: Sequence[MessageQueue], topic: str
) -> tuple[MessageQueue, ...]:
    """Return the queues of these brokers, by broker; raise if a broker is missing."""
    if missing := brokers - {queue.broker_name for queue in queues}:
        raise NoRoute(
            f"broker {', '.join(sorted(missing))} is not there, whose part of topic {topic!r} must "
            "not go elsewhere while repeats are suppressed",
            topic=topic,
            cause="no_broker",
        )
    return tuple(sorted(queue for queue in queues if queue.broker_name in brokers))
