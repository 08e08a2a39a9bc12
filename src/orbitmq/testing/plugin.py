"""Pytest plugin with the fixture ``rocketmq``: a running `LocalCluster`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orbitmq.testing.local_cluster import LocalCluster

__all__ = ["rocketmq"]


@pytest.fixture
def rocketmq() -> Iterator[LocalCluster]:
    """Yield a running cluster of one broker, new for each test."""
    with LocalCluster() as cluster:
        yield cluster
