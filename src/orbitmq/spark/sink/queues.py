"""Which queue a send goes to, and where its broker is.

A row may leave the choice (the next queue in turn, after a failure one of another broker), name the
broker, name the queue, or have its sharding key choose. Turns go on from task to task of a process
and begin anywhere: were the first queue of each task the same, tasks that send once, which those of
small micro-batches do, would put everything there. Routes are kept for `ROUTE_TTL_S` and read again
when a broker could not be reached.

With *pinned* brokers, those that suppress the repeats of a query, each partition of a batch has one
broker that depends on nothing but the two: a batch that is replayed must meet the brokers that know
it. Within the broker the turns choose: it knows its ids whatever queue they are in. For the same
reason a sharding key chooses its broker first and then one of that broker's
queues, which may have become more since. A broker that is missing is waited for, never gone around.
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
"""How long a route is good that no nameserver could confirm."""
MOST_TURNS = 10_000
"""How many topics a process remembers the turn of; beyond that it begins anywhere again."""


class Turns:
    """Whose turn it is, by topic and broker; shared by the tasks of a process."""

    def __init__(self) -> None:
        self._turns: dict[tuple[str, str | None], int] = {}
        self._lock = threading.Lock()

    def next(self, topic: str, broker: str | None) -> int:
        """Return a number that is one more each time; the first is any."""
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
    """The routes a process knows; shared by its tasks, one after the other."""

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
        """Return a route with queues to write to; raises `NoRoute` with the reason."""
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
        """Ask for a route that is known; without a nameserver the known one has to do."""
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
        """Read a topic's route again soon: a broker of it could not be reached."""
        topic = wrap(self._namespace, topic)
        with self._lock:
            if topic in self._good_until:
                soon = self._clock() + DOUBT_TTL_S
                self._good_until[topic] = min(self._good_until[topic], soon)

    def address(self, broker_name: str) -> str | None:
        """Return where a broker's master is."""
        return self._table.master(broker_name)


class SinkQueues:
    """The choices of one task."""

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
        """`pinned` tells the brokers of a topic, `patience_s` how long queues are waited for.

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
        """Return where a broker's master is."""
        return self._routes.address(broker_name)

    def doubt(self, topic: str) -> None:
        """Read a topic's route again soon."""
        self._routes.doubt(topic)

    def slots(self, topic: str) -> list[int]:
        """Return among how many queues sharding keys choose, from now on for this task.

        That is one number for each pinned broker; where the choice is free, one for all together.
        """
        queues = self._slots.get(topic)
        if queues is None:
            queues = self._slots[topic] = self._writable(topic)
        if self._pinned is None:
            return [len(queues)]
        counts = Counter(queue.broker_name for queue in queues)
        return [counts[name] for name in sorted(counts)]

    def fixed(self, send: Outbound) -> MessageQueue | None:
        """Return the only queue a send may go to, None if there is a choice."""
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
        """Return the next queue for a send that leaves the choice."""
        broker, queues = self._choice(send)
        if broker is None and last is not None:
            others = tuple(queue for queue in queues if queue.broker_name != last.broker_name)
            queues = others or queues
        return queues[self._turns.next(send.topic, broker) % len(queues)]

    def choices(self, send: Outbound) -> int:
        """Return how many queues a send may go to; 1 as well while that is not known."""
        if send.slot is not None or send.queue_id is not None:
            return 1
        try:
            return len(self._choice(send)[1])
        except NoRoute:
            return 1

    def _choice(self, send: Outbound) -> tuple[str | None, tuple[MessageQueue, ...]]:
        """Return the queues that a send has the choice of, and their broker if it must be one."""
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
        """Return the queues rows may go to, in order of their brokers; waits for what is missing.

        A row that names its broker needs no other.
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
    """Return the queues of these brokers, by broker; raises if one of them is not there."""
    if missing := brokers - {queue.broker_name for queue in queues}:
        raise NoRoute(
            f"broker {', '.join(sorted(missing))} is not there, whose part of topic {topic!r} must "
            "not go elsewhere while repeats are suppressed",
            topic=topic,
            cause="no_broker",
        )
    return tuple(sorted(queue for queue in queues if queue.broker_name in brokers))
