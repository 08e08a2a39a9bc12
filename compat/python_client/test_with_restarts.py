"""A restarting broker of every kind: no acknowledged message is lost.

The file comes last, because every other test would rather have its brokers stay.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from compat.java_client import Cluster
from compat.python_client.conftest import Starting
from compat.python_client.shared import KINDS, Catcher, await_true
from orbitmq.client.consumer.push import PushConsumer
from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import OrbitError
from orbitmq.message import Message, SendResult

LIMIT_S = 60.0


class Sender:
    """Sends numbered messages continuously, and keeps the acknowledged ones."""

    def __init__(self, address: str, topic: str, group: str) -> None:
        self.acknowledged: list[tuple[bytes, SendResult]] = []
        self._topic = topic
        settings = ClientSettings.of(address, route_refresh_s=0.5)
        self._producer = Producer(settings, group=f"P-{group}", timeout_ms=2000).start()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopped.wait(0.005):
            body = b"%d" % number
            number += 1
            # A failed one was not acknowledged, and may be lost.
            with contextlib.suppress(OrbitError):
                self.acknowledged.append((body, self._producer.send(Message(self._topic, body))))

    def wait_for(self, count: int, broker: str) -> None:
        """Wait until a broker has acknowledged a number of further messages."""
        begin = len(self.acknowledged)

        def taken() -> bool:
            takers = [result.queue.broker_name for _, result in self.acknowledged[begin:]]
            return takers.count(broker) >= count

        await_true(f"{broker} takes {count} messages", taken, LIMIT_S)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._producer.close()


@pytest.fixture(scope="session", params=[kind for kind in KINDS if kind != "5.4.0"])
def cluster(request: pytest.FixtureRequest, starting: Starting) -> Cluster:
    """A cluster other than 5.4.0, whose brokers take a quarter of a minute to stop."""
    return starting.clusters[request.param].result()


@pytest.fixture
def sender(cluster: Cluster, topic: str, group: str) -> Iterator[Sender]:
    sender = Sender(cluster.address, topic, group)
    yield sender
    sender.stop()


def test_clients_go_on_when_a_broker_restarts(
    cluster: Cluster, topic: str, group: str, sender: Sender
) -> None:
    catcher = Catcher()
    consumer = PushConsumer(
        cluster.address,
        group=group,
        consume_from="first",
        rebalance_s=1,
        route_refresh_s=0.5,
        error_delay_ms=100,
    )
    consumer.on(topic)(catcher.add)
    with consumer:
        sender.wait_for(20, "broker-b")
        cluster.stop_broker("broker-b")
        sender.wait_for(20, "broker-a")
        cluster.start_broker("broker-b")
        sender.wait_for(20, "broker-b")
        sender.stop()
        sent = {body for body, _ in sender.acknowledged}
        await_true("all comes", lambda: sent <= set(catcher.bodies), LIMIT_S)
