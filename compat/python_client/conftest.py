"""Three clusters for one suite: ours, Apache RocketMQ 4.9.7 and Apache RocketMQ 5.4.0.

Every test runs against each of them, and each cluster is started once. The Java ones take seconds
to start, so they do it in the background while the tests of the first cluster run.
`ORBITMQ_COMPAT_AGAINST` (``ours``, ``4.9.7``, ``5.4.0``) leaves only one of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compat import jars
from compat.java_client import IMPATIENT, Cluster, JavaClient
from compat.java_pair import JavaPair
from compat.python_client.guarded import Guarded
from compat.python_client.shared import KINDS, Java, Listen, ReadAll, Way, await_true, count
from orbitmq.admin.admin import Admin
from orbitmq.client.consumer.push import AsyncPushConsumer, PushConsumer
from orbitmq.client.producer.producer import Producer
from orbitmq.testing import LocalCluster
from tests.both_ways import LoopThread, way_of

SETTINGS = {
    # Retries begin at level 3.
    "messageDelayLevel": "1s 2s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s",
    # By default a broker checks the outcome of a transaction after a minute.
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    "transactionCheckMax": "15",
    "enablePropertyFilter": "true",
}
OF_APACHE = SETTINGS | {
    # 5.x stores outcomes in batches, every three seconds; until then it may still send checks.
    "transactionOpBatchInterval": "100",
}


@dataclass
class Starting:
    """Clusters that are being started."""

    clusters: dict[str, Future[Cluster]]
    guarded: dict[str, Future[Guarded]]


@pytest.fixture(scope="session")
def starting(
    request: pytest.FixtureRequest,
    java_peer_jars: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Starting]:
    """The clusters of the run, all of them being started."""
    jars.fetch(jars.LOCK_FILE_5_4)
    directory = tmp_path_factory.mktemp("python_client")

    def java(release: str) -> Cluster:
        return JavaPair(directory / release, OF_APACHE, release)

    makers: dict[str, Callable[[], Cluster]] = {
        "ours": lambda: LocalCluster(brokers=2, settings=SETTINGS).start(),
        "4.9.7": lambda: java("4.9.7"),
        "5.4.0": lambda: java("5.4.0"),
    }
    # One after the other, to leave the machine to the tests.
    pools = [ThreadPoolExecutor(1, "starting"), ThreadPoolExecutor(1, "starting-java")]
    started = Starting({kind: pools[kind != "ours"].submit(makers[kind]) for kind in KINDS}, {})
    if any("guarded" in getattr(item, "fixturenames", ()) for item in request.session.items):
        for kind in KINDS:
            home = directory / f"guarded-{kind}"
            started.guarded[kind] = pools[kind != "ours"].submit(Guarded, home, kind)
    try:
        yield started
    finally:
        for pool in pools:
            pool.shutdown(cancel_futures=True)
        every: list[Future[Any]] = [*started.clusters.values(), *started.guarded.values()]
        for future in every:
            if not future.cancelled() and future.exception() is None:
                future.result().stop()


@pytest.fixture(scope="session", params=KINDS)
def cluster(request: pytest.FixtureRequest, starting: Starting) -> Cluster:
    """Two brokers, called broker-a and broker-b, behind one nameserver."""
    return starting.clusters[request.param].result()


@pytest.fixture(scope="session", params=KINDS)
def guarded(request: pytest.FixtureRequest, starting: Starting) -> str:
    """Nameserver of a broker that serves only known accounts, see `guarded.py`."""
    return starting.guarded[request.param].result().address


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest, loop_thread: LoopThread) -> Way:
    """The tested one of two twins, as in ``way(Producer, AsyncProducer)(...)``."""
    return way_of(request.param, loop_thread)


@pytest.fixture
def is_async(request: pytest.FixtureRequest) -> bool:
    """True if the asyncio twin is tested."""
    return bool(request.node.callspec.params["way"] == "async")


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[Producer]:
    """A producer for tests of other parts."""
    with Producer(cluster.address, group="for-tests", timeout_ms=10_000) as producer:
        yield producer


@pytest.fixture
def listen(
    cluster: Cluster, way: Way, is_async: bool, group: str, tmp_path: Path
) -> Iterator[Listen]:
    """Start push consumers that pass the messages of a topic to a function."""
    consumers = []

    def start(topic: str, function: Callable[[Any], Any], **options: Any) -> Any:
        of_topic = {"tags", "sql", "orderly", "batch", "auto_commit"}
        settings = {
            "group": group,
            "consume_from": "first",
            "offset_directory": tmp_path,
            "rebalance_s": 2,
            "lock_s": 2,
            **{name: value for name, value in options.items() if name not in of_topic},
        }
        consumer = way(PushConsumer, AsyncPushConsumer)(cluster.address, **settings)

        async def handle(message: Any) -> Any:
            return function(message)

        on = consumer.on(topic, **{name: options[name] for name in of_topic & options.keys()})
        on(handle if is_async else function)
        consumers.append(consumer)
        return consumer.start()

    yield start
    for consumer in consumers:
        consumer.stop()


@pytest.fixture(scope="session")
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.address) as admin:
        yield admin


_marks = itertools.count(1)


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> str:
    """A word that is unique to the names of the test's topics and groups."""
    return f"{re.sub(r'[^a-zA-Z0-9]+', '-', request.node.name)[:60]}{next(_marks)}"


@pytest.fixture
def topic(admin: Admin, mark: str) -> str:
    """A new topic with two queues on each broker."""
    name = f"T-{mark}"
    admin.create_topic(name, queues=2)
    return name


@pytest.fixture
def group(mark: str) -> str:
    return f"G-{mark}"


@pytest.fixture(scope="session")
def jvm(java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    """A JVM with Java's own client, for all clusters."""
    home = tmp_path_factory.mktemp("jvm")
    started = JavaClient(home, "JSON", "", flags=IMPATIENT)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture
def java(jvm: JavaClient, cluster: Cluster, mark: str) -> Java:
    """Run a task of Java's client on the cluster; see `Interop.java` and `Members.java`."""

    def play(scenario: str, **words: Any) -> Any:
        return jvm.play(scenario, mark=mark, nameserver=cluster.address, **words)

    return play


@pytest.fixture
def read_all(java: Java, admin: Admin) -> ReadAll:
    """Have Java's client read a topic that is to hold so many messages.

    Java's broker acknowledges messages a moment before they are in their queues.
    """

    def read(topic: str, wanted: int) -> list[dict[str, Any]]:
        await_true(f"{topic} holds {wanted}", lambda: count(admin, topic) >= wanted)
        messages: list[dict[str, Any]] = java("read_all", topic=topic)
        assert len(messages) == wanted
        return messages

    return read
