"""What the brokers behind a sink can do, asked before any task starts.

Two things that rows may ask for are not in every broker: that repeats are suppressed
(`deduplicate`, OrbitMQ's own) and that a message waits for a moment rather than for one of 18 delay
levels (`deliverAt`, OrbitMQ's and RocketMQ's from version 5 on). A broker that does not know them
would take the rows all the same and break the promise, so it is asked.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orbitmq.errors import ConfigError, NoRoute, OrbitError
from orbitmq.protocol.features import DEDUPLICATE, TIMERS, features_of
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.spark.options import ConnectionOptions
from orbitmq.spark.sink.exactly_once import Pins
from orbitmq.spark.sink.nameserver_tables import NameserverTable
from orbitmq.spark.sink.options import SinkOptions
from orbitmq.spark.sink.queues import RouteCache, Turns
from orbitmq.spark.sink.runs import Runs

__all__ = ["BrokerAbilities", "SinkProcess", "ask_brokers", "check_cluster", "sink_process"]

# ---- State of a writing process for its later tasks: connections, routes, turns, pinned brokers


class SinkProcess:
    """The connections and routes of this process, by the cluster they lead to."""

    def __init__(self, connection: ConnectionOptions) -> None:
        settings = connection.client_settings()
        self.network = BlockingNetwork(settings.make_hooks(), settings.make_tls())
        where, timeout_ms = settings.nameservers, settings.timeout_ms
        self.routes = RouteCache(self.network, where, settings.namespace, timeout_ms=timeout_ms)
        self.turns = Turns()
        table = NameserverTable(self.network, where, settings.namespace, timeout_ms)
        self.pins, self.runs = Pins(table), Runs(table)
        self.pid = os.getpid()


_processes: dict[ConnectionOptions, SinkProcess] = {}


def sink_process(connection: ConnectionOptions) -> SinkProcess:
    """Return what this process has of a cluster; a forked one has nothing of its parent's."""
    found = _processes.get(connection)
    if found is None or found.pid != os.getpid():
        found = _processes[connection] = SinkProcess(connection)
    return found


_log = logging.getLogger(__name__)

CHECK_AGAIN_S = 30.0
ASK_AGAIN_S = 0.5
"""How long to wait before a broker that is away is asked again."""
_VERSION = re.compile(r"V?(\d+)[._]")


@dataclass(frozen=True, slots=True)
class BrokerAbilities:
    """A broker and what it says of itself."""

    name: str
    address: str
    runtime_info: Mapping[str, str]

    @property
    def _version(self) -> str:
        return self.runtime_info.get("brokerVersionDesc", "of unknown version")

    def must_suppress_repeats(self) -> None:
        """Raise unless the broker suppresses repeats."""
        if DEDUPLICATE not in features_of(self.runtime_info):
            raise ConfigError(
                f"deduplicate=true needs brokers that suppress repeats; {self.name} "
                f"({self.address}, {self._version}) does not, so a batch that is sent again would "
                "be stored twice"
            )

    def must_deliver_at(self) -> None:
        """Raise unless the broker delivers messages at a given time."""
        major = _VERSION.match(self._version)
        if TIMERS in features_of(self.runtime_info) or (major and int(major[1]) >= 5):
            return
        raise ConfigError(
            f"column deliverAt needs brokers that deliver at a time (RocketMQ 5 and newer); "
            f"{self.name} ({self.address}, {self._version}) does not: use delayLevel"
        )


def ask_brokers(connection: ConnectionOptions, topic: str | None) -> list[BrokerAbilities]:
    """Ask the masters that have a topic, of any topic all of the cluster.

    Raises an error that is `retriable` when one does not answer for now.
    """
    # Loaded late: tasks load this module, too, and ask nothing; it would cost each 0.15 s.
    from orbitmq.admin.admin import Admin

    with Admin(connection.client_settings()) as admin:
        info = admin.cluster_info()
        names = set(info.brokers)
        if not names:
            raise NoRoute("no broker is registered: start one, or wait for it", cause="no_broker")
        if topic is not None:
            route = admin.topic_route(topic)
            names = {queue.broker_name for queue in route.publish_queues} or names
        found = []
        for name in sorted(names):
            address = info.brokers[name].master if name in info.brokers else None
            if address is None:
                text = f"broker {name} has no master to ask what it can do"
                raise NoRoute(text, cause="no_broker")
            try:
                found.append(BrokerAbilities(name, address, admin.broker_runtime_info(address)))
            except OrbitError as error:
                text = f"broker {name} does not say what it can do: {error}"
                if error.retriable:
                    raise NoRoute(text, cause="no_broker") from None
                raise ConfigError(text) from None
        return found


_clock: Callable[[], float] = time.monotonic
_pause: Callable[[float], None] = time.sleep
_checked: dict[tuple[SinkOptions, frozenset[str]], tuple[float, tuple[str, ...]]] = {}


def check_cluster(options: SinkOptions, columns: frozenset[str]) -> tuple[str, ...]:
    """Refuse what the cluster cannot do; returns the brokers that the rows go to, if it matters.

    Spark makes a new writer for every micro-batch, often in a new process. What was found lately is
    not asked again. A broker that is gone for a moment does not end a query that has begun well: a
    process that has asked before goes on with what it knows, another waits as long as a task would
    (`retryTimeoutMs`). A broker that has joined since, and breaks a promise, ends it.
    """
    key, now = (options, columns), _clock()
    checked_at, brokers = _checked.get(key, (-CHECK_AGAIN_S, ()))
    if now - checked_at < CHECK_AGAIN_S:
        return brokers
    try:
        brokers = _ask_cluster(options, columns) if key in _checked else _await(options, columns)
    except OrbitError as error:
        if key not in _checked or not error.retriable:
            raise
        hidden = options.connection.hide_secrets(str(error))
        _log.warning("the cluster was not asked again what it can do: %s", hidden)
    _checked[key] = now, brokers
    return brokers


def _await(options: SinkOptions, columns: frozenset[str]) -> tuple[str, ...]:
    """Ask the cluster until it answers: brokers may be restarting."""
    deadline, is_told = _clock() + options.retry_timeout_ms / 1000, False
    while True:
        try:
            return _ask_cluster(options, columns)
        except NoRoute as error:
            if error.cause != "no_broker" or _clock() + ASK_AGAIN_S > deadline:
                raise
            if not is_told:
                is_told = True
                _log.warning("waiting: %s", options.connection.hide_secrets(str(error)))
        _pause(ASK_AGAIN_S)


def _ask_cluster(options: SinkOptions, columns: frozenset[str]) -> tuple[str, ...]:
    if options.topic is not None:
        sink_process(options.connection).routes.route(options.topic)
    if not (options.deduplicate or "deliverAt" in columns):
        return ()
    brokers = ask_brokers(options.connection, options.topic)
    for broker in brokers:
        if options.deduplicate:
            broker.must_suppress_repeats()
        if "deliverAt" in columns:
            broker.must_deliver_at()
    return tuple(broker.name for broker in brokers)
