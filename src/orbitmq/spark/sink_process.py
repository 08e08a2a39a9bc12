"""State of a writing process for its later tasks: connections, routes, turns, pinned brokers."""

from __future__ import annotations

import os

from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.spark.options import Connection
from orbitmq.spark.sink_once import Pins
from orbitmq.spark.sink_queues import RouteCache, Turns
from orbitmq.spark.sink_runs import Runs
from orbitmq.spark.sink_table import Table

__all__ = ["SinkProcess", "sink_process"]


class SinkProcess:
    """The connections and routes of this process, by the cluster they lead to."""

    def __init__(self, connection: Connection) -> None:
        settings = connection.client_settings()
        self.network = BlockingNetwork(settings.make_hooks(), settings.make_tls())
        where, timeout_ms = settings.nameservers, settings.timeout_ms
        self.routes = RouteCache(self.network, where, settings.namespace, timeout_ms=timeout_ms)
        self.turns = Turns()
        table = Table(self.network, where, settings.namespace, timeout_ms)
        self.pins, self.runs = Pins(table), Runs(table)
        self.pid = os.getpid()


_processes: dict[Connection, SinkProcess] = {}


def sink_process(connection: Connection) -> SinkProcess:
    """Return what this process has of a cluster; a forked one has nothing of its parent's."""
    found = _processes.get(connection)
    if found is None or found.pid != os.getpid():
        found = _processes[connection] = SinkProcess(connection)
    return found
