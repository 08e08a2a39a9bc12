"""How the sink sends: retries, pauses, order and limits, without Spark."""

from __future__ import annotations

import itertools
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from orbitmq._native import Command, PackedSend, RowPacker, decode_batch
from orbitmq.errors import BrokerRefused, ConnectionLost, NoRoute, SendFailed
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.spark.sink.queues import RouteCache, SinkQueues, Turns
from orbitmq.spark.sink.sender import Sender, SendSettings
from orbitmq.testing import LocalCluster

QUEUES = tuple(MessageQueue("t", name, number) for name in ("a", "b") for number in (0, 1))
Answer = Callable[[str, int], int | Exception]


class FakeRoutes:
    """Two brokers with two queues each, unless a test removes some."""

    def __init__(self) -> None:
        self.queues = QUEUES
        self.doubts = 0

    def route(self, _topic: str) -> Any:
        if not self.queues:
            raise NoRoute("nothing there", cause="no_broker")
        return type("Route", (), {"publish_queues": self.queues})

    def doubt(self, _topic: str) -> None:
        self.doubts += 1

    def address(self, broker_name: str) -> str | None:
        return f"{broker_name}:1"


class FakeNetwork:
    """Answers with the result of a function, and records the requests."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self.calls: list[tuple[str, int, list[int]]] = []
        self.most_at_once = 0
        self._at_once = 0

    def invoke(self, address: str, _code: int, **request: Any) -> Command:
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            bodies = [request["body"]]
            if request["ext"]["m"] == "true":
                bodies = [body for _, body, _ in decode_batch(request["body"])]
            numbers = [int(body) for body in bodies]
            self.calls.append((address[0], int(request["ext"]["e"]), numbers))
            number = len(self.calls)
        try:
            answer = self._answer(address[0], number)
        finally:
            with self._lock:
                self._at_once -= 1
        if isinstance(answer, Exception):
            raise answer
        return Command(answer, remark="a word", ext={"suppressed": "0"})


class Clock:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self._lock = threading.Lock()

    def pause(self, seconds: float) -> None:
        with self._lock:
            self.now += seconds
            self.pauses.append(seconds)


def packed(count: int = 1, **columns: list[Any]) -> list[PackedSend]:
    types = {"queueId": pa.int32()}
    rows = {name: pa.array(v, types.get(name, pa.string())) for name, v in columns.items()}
    rows["body"] = pa.array([b"%d" % number for number in range(count)], pa.binary())
    packer = RowPacker(
        topic="t",
        batch_bytes=200,
        body_bytes=1000,
        waiting_bytes=10_000,
        left_out=set(),
        id_prefix=b"0123456789",
    )
    sends = packer.push(pa.record_batch(rows), queue_counts={"t": [4]}, month_ms=1)
    return sends + packer.finish()


class Bench:
    def __init__(self, answer: Answer, retry_timeout_ms: int = 10_000) -> None:
        self.network = FakeNetwork(answer)
        self.routes = FakeRoutes()
        self.clock = Clock()
        settings = SendSettings(
            group="g", max_in_flight=4, send_timeout_ms=100, retry_timeout_ms=retry_timeout_ms
        )
        routes: Any = self.routes
        network: Any = self.network
        self.queues = SinkQueues(routes)
        self.sender = Sender(
            settings, network, self.queues, clock=lambda: self.clock.now, pause=self.clock.pause
        )

    def run(self, sends: list[PackedSend]) -> None:
        with self.sender as sender:
            for send in sends:
                sender.submit(send)
            sender.drain()


def test_several_sends_are_in_flight_and_all_are_counted() -> None:
    meeting = threading.Barrier(2, timeout=20)

    def answer(_broker: str, number: int) -> int:
        if number <= 2:
            meeting.wait()
        return ResponseCode.SUCCESS

    bench = Bench(answer)
    bench.run(packed(200))
    counts = bench.sender.counts
    assert (counts.rows, counts.sends) == (200, len(bench.network.calls))
    assert 2 <= bench.network.most_at_once <= 4
    assert {(broker, queue) for broker, queue, _ in bench.network.calls} == {
        (queue.broker_name, queue.queue_id) for queue in QUEUES
    }


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE])
def test_busy_brokers_are_retried_with_pauses_and_counted(code: int) -> None:
    bench = Bench(lambda _broker, number: code if number <= 5 else ResponseCode.SUCCESS)
    bench.run(packed())
    counts = bench.sender.counts
    assert (counts.busy, counts.retried, counts.rows) == (5, 5, 1)
    assert 0.02 <= bench.clock.pauses[0] <= 0.05
    assert 0.4 <= bench.clock.pauses[4] <= 0.8
    brokers = [broker for broker, _, _ in bench.network.calls]
    assert all(one != other for one, other in itertools.pairwise(brokers))


def test_a_send_fails_with_its_reason_after_the_retry_timeout() -> None:
    bench = Bench(lambda *_: ResponseCode.SYSTEM_BUSY, retry_timeout_ms=5000)
    with pytest.raises(SendFailed, match=r"in \d+ ms \(retryTimeoutMs=5000\).*a word"):
        bench.run(packed())
    assert 4.8 < bench.clock.now < 5, "the last attempt is shortly before the end"


def test_a_lost_connection_is_retried_elsewhere_with_a_new_route() -> None:
    bench = Bench(lambda broker, _: ConnectionLost("gone") if broker == "a" else 0)
    bench.run(packed(100))
    assert bench.sender.counts.rows == 100
    assert bench.routes.doubts > 0


@pytest.mark.parametrize(
    "code", [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE, 1]
)
def test_unsafe_results_are_retried_a_limited_number_of_times(code: int) -> None:
    bench = Bench(lambda _broker, number: code if number == 1 else 0)
    bench.run(packed())
    assert len(bench.network.calls) == 2
    hopeless = Bench(lambda *_: code, retry_timeout_ms=10**9)
    with pytest.raises(SendFailed, match="in 4 attempts"):
        hopeless.run(packed())


def test_a_message_no_broker_accepts_is_an_error_at_once() -> None:
    bench = Bench(lambda *_: ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(BrokerRefused, match="a word"):
        bench.run(packed())
    assert len(bench.network.calls) == 1


def test_a_failure_ends_the_task_and_its_threads() -> None:
    bench = Bench(lambda _broker, number: ResponseCode.MESSAGE_ILLEGAL if number == 3 else 0)
    with pytest.raises(BrokerRefused):
        bench.run(packed(5000))
    calls = len(bench.network.calls)
    assert calls < 100
    assert not [t for t in threading.enumerate() if t.name.startswith("orbitmq-send")]


def test_sends_to_one_queue_keep_their_order() -> None:
    def answer(_broker: str, number: int) -> int:
        return ResponseCode.SYSTEM_BUSY if number % 3 == 0 else ResponseCode.SUCCESS

    bench = Bench(answer)
    bench.queues.slots("t")
    bench.run(packed(300, shardingKey=[f"k{number % 5}" for number in range(300)]))
    stored: dict[tuple[str, int], list[int]] = defaultdict(list)
    for broker, queue, numbers in bench.network.calls:
        if stored[broker, queue][-len(numbers) :] != numbers:  # The same send was refused before.
            stored[broker, queue] += numbers
    assert sum(map(len, stored.values())) == 300
    assert all(numbers == sorted(numbers) for numbers in stored.values())


def test_pinned_brokers_are_not_replaced_by_others() -> None:
    routes: Any = FakeRoutes()
    queues = SinkQueues(routes, first=1, pinned=lambda _topic: ["b", "a"])
    (send,) = packed()
    assert {queues.choose(send, None).broker_name for _ in range(4)} == {"b"}
    last = MessageQueue("t", "b", 0)
    assert queues.choose(send, last).broker_name == "b", "a retry stays"
    routes.queues = QUEUES[:2]
    with pytest.raises(NoRoute, match="broker b has no queue"):
        queues.choose(send, None)
    with pytest.raises(NoRoute, match="broker b is not there, whose part"):
        queues.slots("t")


def test_queue_rotation_continues_from_task_to_task() -> None:
    routes: Any = FakeRoutes()
    turns = Turns()
    (send,) = packed()
    chosen = [SinkQueues(routes, turns=turns).choose(send, None) for _ in range(12)]
    assert Counter(chosen) == dict.fromkeys(QUEUES, 3)


def test_every_queue_of_a_pinned_broker_is_used() -> None:
    routes: Any = FakeRoutes()
    turns = Turns()
    (send,) = packed()
    chosen = [
        SinkQueues(routes, turns=turns, first=batch, pinned=lambda _topic: ["a", "b"]).choose(
            send, None
        )
        for batch in range(12)
    ]
    assert [queue.broker_name for queue in chosen] == ["a", "b"] * 6, "a replay finds its broker"
    assert Counter(chosen) == dict.fromkeys(QUEUES, 3)


def test_the_number_of_possible_queues_is_known_for_each_send() -> None:
    routes: Any = FakeRoutes()
    (free,) = packed(2)
    (of_broker,) = packed(brokerName=["b"])
    (fixed,) = packed(queueId=[1], brokerName=["b"])
    queues = SinkQueues(routes)
    assert [queues.choices(send) for send in (free, of_broker, fixed)] == [4, 2, 1]
    pinned = SinkQueues(routes, pinned=lambda _topic: ["a", "b"])
    assert pinned.choices(free) == 2
    routes.queues = ()
    assert queues.choices(free) == 1, "not known for now"


@pytest.mark.parametrize("pinned", [True, False])
def test_queues_are_waited_for_while_brokers_restart(pinned: bool) -> None:
    clock = Clock()
    routes: Any = FakeRoutes()
    routes.queues = ()

    def come_back(seconds: float) -> None:
        clock.pause(seconds)
        routes.queues = QUEUES if clock.now > 30 else ()

    queues = SinkQueues(
        routes,
        pinned=(lambda _topic: ["a", "b"]) if pinned else None,
        patience_s=60,
        clock=lambda: clock.now,
        pause=come_back,
    )
    assert queues.slots("t") == ([2, 2] if pinned else [4])
    assert 30 < clock.now < 32
    clock.now, routes.queues = 0.0, ()
    (send,) = packed(queueId=[1], brokerName=["b"])
    assert queues.fixed(send) == MessageQueue("t", "b", 1)
    assert 30 < clock.now < 32
    clock.now = -1000.0
    routes.queues = ()
    with pytest.raises(NoRoute, match="nothing there"):
        queues.fixed(send)
    assert -941 < clock.now <= -940, "patience has an end"


def test_a_row_that_names_its_broker_waits_for_no_other() -> None:
    routes: Any = FakeRoutes()
    routes.queues = QUEUES[:2]
    queues = SinkQueues(routes, pinned=lambda _topic: ["a", "b"])
    (send,) = packed(queueId=[1], brokerName=["a"])
    assert queues.fixed(send) == MessageQueue("t", "a", 1)


def test_a_known_route_is_used_while_no_nameserver_answers() -> None:
    with LocalCluster() as cluster:
        clock = Clock()
        network = BlockingNetwork()
        routes = RouteCache(network, (cluster.address,), clock=lambda: clock.now)
        known = routes.route("t")
        cluster.stop_nameserver(0)
        clock.now += 31
        assert routes.route("t") == known
        cluster.start_nameserver(0)
        network.close()
