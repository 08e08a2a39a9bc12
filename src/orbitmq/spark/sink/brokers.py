"""Checks the features of a sink's brokers before any task starts.

Two features that rows may need are not in every broker. Suppressing repeats (`deduplicate`) is
OrbitMQ's own. Delivery at a given time instead of after one of 18 delay levels (`deliverAt`) is in
OrbitMQ and in RocketMQ from version 5 on. A broker without these features would accept the rows and
break the promise. So `check_cluster` requests the features of the brokers first.
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

# ---- State of a writing process
#
# Later tasks of the process reuse its connections, routes, turns and pinned brokers.


class SinkProcess:
    """Connections, routes, turns and pins of this process for one cluster."""

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
    """Return this process's state for a cluster; a forked process does not use its parent's."""
    found = _processes.get(connection)
    if found is None or found.pid != os.getpid():
        found = _processes[connection] = SinkProcess(connection)
    return found


_log = logging.getLogger(__name__)

CHECK_AGAIN_S = 30.0
ASK_AGAIN_S = 0.5
"""Pause before the next request to a broker that is away."""
_VERSION = re.compile(r"V?(\d+)[._]")


@dataclass(frozen=True, slots=True)
class BrokerAbilities:
    """Broker and the runtime info it returned, with checks of its features."""

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
    """Return the runtime infos of the masters that have a topic; without `topic`, of all.

    Raises a `retriable` error if a broker does not answer for now.
    """
    # Imported late: tasks import this module but do not call this; it would cost each 0.15 s.
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
    """Raise if brokers lack a needed feature; return the brokers that get rows, if needed.

    The result is empty if the rows need no special feature. Spark creates a new writer for every
    micro-batch, often in a new process, so results are cached for `CHECK_AGAIN_S`.

    A broker that is away for a moment does not end a running query. A process that has checked
    before continues with its last result. Another process waits as long as a task would
    (`retryTimeoutMs`). A new broker without a needed feature ends the query.
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
        _log.warning("check of broker features failed; using the last result: %s", hidden)
    _checked[key] = now, brokers
    return brokers


def _await(options: SinkOptions, columns: frozenset[str]) -> tuple[str, ...]:
    """Check the cluster, with retries until it answers: brokers may be restarting."""
    deadline, is_told = _clock() + options.retry_timeout_ms / 1000, False
    while True:
        try:
            return _ask_cluster(options, columns)
        except NoRoute as error:
            if error.cause != "no_broker" or _clock() + ASK_AGAIN_S > deadline:
                raise
            if not is_told:
                is_told = True
                _log.warning("waiting for broker: %s", options.connection.hide_secrets(str(error)))
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
