"""Test kit: a cluster inside the test's own process, for any RocketMQ client to connect to.

::

    with LocalCluster(brokers=2) as cluster:
        connect_to(cluster.address)

As a pytest fixture: set ``pytest_plugins = ["orbitmq.testing.plugin"]`` and give the test an
argument called ``rocketmq``.
"""

from orbitmq.testing.local_cluster import LocalCluster

__all__ = ["LocalCluster"]
