"""A cluster behind a deliberately failing network, and clients of either kind."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.admin.admin import Admin
from tests.both_ways import LoopThread, way_of
from tests.client.faults.proxy import FaultyNetwork

LIMIT_S = 30.0


@pytest.fixture
def network() -> Iterator[FaultyNetwork]:
    """One broker behind one nameserver."""
    with FaultyNetwork() as network:
        yield network


@pytest.fixture
def admin(network: FaultyNetwork) -> Iterator[Admin]:
    """An admin client that bypasses the proxies, to see the real state."""
    with Admin(network.cluster.address) as admin:
        yield admin


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    thread = LoopThread()
    yield way_of(request.param, thread)
    thread.close()


def open_files() -> int:
    return len(os.listdir(Path("/proc/self/fd")))  # noqa: PTH208


def own_threads() -> set[threading.Thread]:
    """Return all threads but those of the loops' own pools, which the cluster here creates, too."""
    return {
        thread
        for thread in threading.enumerate()
        if not thread.name.startswith(("uvloop_", "asyncio_"))
    }


class Remains:
    """Threads, connections and objects before a test; `assert_none` checks that none were added."""

    def __init__(self, network: FaultyNetwork) -> None:
        self._network = network
        self._threads = own_threads()
        self._files, self._connections = open_files(), network.broker.connection_count

    def assert_none(self, clients: Iterable[weakref.ref[Any]]) -> None:
        """Assert that the clients left no thread, connection, file or object."""
        deadline = time.monotonic() + LIMIT_S
        while not own_threads() <= self._threads:
            left = own_threads() - self._threads
            assert time.monotonic() < deadline, f"threads go on: {left}"
            time.sleep(0.01)  # Workers have been told to end.
        while self._network.broker.connection_count > self._connections or (
            open_files() > self._files
        ):
            assert time.monotonic() < deadline, "connections stay open"
            time.sleep(0.01)
        while any(client() is not None for client in clients):
            assert time.monotonic() < deadline, "clients are kept alive"
            gc.collect()
            time.sleep(0.01)


@pytest.fixture
def unseen_log(caplog: pytest.LogCaptureFixture) -> None:
    """Keep no log records: they hold errors, and those hold the objects in their tracebacks."""
    caplog.set_level(logging.CRITICAL, "orbitmq")


def weakly(client: Any) -> weakref.ref[Any]:
    """Return a weak reference to a client of either kind."""
    return weakref.ref(getattr(client, "_target", client))
