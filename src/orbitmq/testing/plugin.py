"""The pytest fixture: an argument called ``rocketmq`` is a running `LocalCluster`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orbitmq.testing.local_cluster import LocalCluster

__all__ = ["rocketmq"]


@pytest.fixture
def rocketmq() -> Iterator[LocalCluster]:
    """A cluster of one broker, fresh for each test."""
    with LocalCluster() as cluster:
        yield cluster
