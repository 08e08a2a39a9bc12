"""A cluster behind a network that fails on purpose, and clients of either kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq.admin.admin import Admin
from tests.both_ways import LoopThread, way_of
from tests.client.faults.proxy import FaultyNetwork


@pytest.fixture
def network() -> Iterator[FaultyNetwork]:
    """One broker behind one nameserver."""
    with FaultyNetwork() as network:
        yield network


@pytest.fixture
def admin(network: FaultyNetwork) -> Iterator[Admin]:
    """An admin that goes past the proxies, to see what is really there."""
    with Admin(network.cluster.address) as admin:
        yield admin


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    thread = LoopThread()
    yield way_of(request.param, thread)
    thread.close()
