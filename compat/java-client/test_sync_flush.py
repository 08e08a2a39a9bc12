"""The official Java client and brokers that acknowledge messages only when they are on disk.

A representative part of the scenarios, with binary headers, in the JVM that the others have warmed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat.java_client import JavaClient
from orbitmq.testing import LocalCluster

SCENARIOS = (
    "send_sync",
    "send_async",
    "send_oneway",
    "send_batch",
    "send_selector",
    "push_concurrently",
    "push_orderly",
    "pull_long_poll",
    "query_by_key",
)


@pytest.fixture(scope="module")
def flushing_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, settings={"flushDiskType": "SYNC_FLUSH"}) as running:
        yield running


in_the_warm_jvm = pytest.mark.parametrize("encoding", ["ROCKETMQ"], indirect=True, scope="session")


@in_the_warm_jvm
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_succeeds_with_sync_flush(
    client: JavaClient, flushing_cluster: LocalCluster, scenario: str
) -> None:
    client.play(scenario, nameserver=flushing_cluster.address)


# It asks no client, but belongs behind those that do: without one it would run when their cluster
# is gone.
@in_the_warm_jvm
@pytest.mark.usefixtures("client")
def test_everything_acknowledged_was_flushed(flushing_cluster: LocalCluster) -> None:
    for broker in flushing_cluster.brokers.values():
        assert broker.acks is not None
        assert len(broker.acks) == 0
        assert broker.stats.put_times > 0
        assert sum(broker.stats.put_times_ms.now) > 0, "no send has waited for the disk"
        assert broker.store.wait_flushed(broker.store.max_physical_offset, 60_000)
