"""Test kit: a cluster inside the test's own process, for any RocketMQ client to connect to.

::

    with LocalCluster(brokers=2) as cluster:
        connect_to(cluster.address)

or, as a pytest fixture, ``pytest_plugins = ["orbitmq.testing.plugin"]`` and an argument called
``rocketmq``.
"""

from orbitmq.testing.local_cluster import LocalCluster

__all__ = ["LocalCluster"]
