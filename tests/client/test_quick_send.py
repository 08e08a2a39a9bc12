"""Quick sends: the same request as any other send; the general flow decides what follows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from orbitmq import Message, MessageQueue, SendStatus
from orbitmq._native import Command, FrameReader
from orbitmq.client.producer.message import SendPolicy, make_outgoing
from orbitmq.client.producer.send import QuickSend, SendState
from orbitmq.errors import BadMessage, BrokerRefused, ConnectionLost, RequestTimeout, SendFailed
from orbitmq.rpc.route_table import Nameservers, RouteTable
from tests.client.playing import Clock, Play, answer, stored
from tests.client.test_routes import route_body


class Link:
    """A connection with prepared answers."""

    def __init__(self, *outcomes: Command | Exception) -> None:
        self._outcomes = list(outcomes)
        self.requests: list[Command] = []
        self.limits_ms: list[float] = []

    def next_opaque(self) -> int:
        return 7

    def request(self, frame: bytes, opaque: int, timeout_ms: float) -> asyncio.Future[Command]:
        assert opaque == 7
        self.requests += FrameReader().feed(frame)
        self.limits_ms.append(timeout_ms)
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        return future


class Network:
    def __init__(self, link: Link | None) -> None:
        self.link = link

    def ready(self, _address: str) -> Link | None:
        return self.link


class Bench:
    """A producer's state with two brokers, `a` and `b`, and one link to each."""

    def __init__(self, link: Link | None, *, namespace: str | None = None, **policy: Any) -> None:
        routes = RouteTable(Nameservers(("ns:9876",)))
        for topic in ("T", "N%T"):
            routes.apply(topic, route_body("a", "b"))
        self.policy = SendPolicy(**policy)
        self.clock = Clock()
        self.sending = SendState(routes, self.policy, retries_refusals=False, clock=self.clock)
        self.quick = QuickSend(self.sending, Network(link), "g", namespace)  # type: ignore[arg-type]


def in_loop(work: Callable[[], None]) -> None:
    async def run() -> None:
        work()

    asyncio.run(run())


MESSAGES = [
    Message("T", b"x"),
    Message("T", b"x", tags="a", keys=["k", "l"], flag=3, properties={"shop": "Malmö"}),
    Message("T", b"x", delay_level=3, wait_store_ok=False),
]


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("namespace", [None, "N"])
def test_a_quick_request_equals_that_of_the_general_flow(
    message: Message, namespace: str | None
) -> None:
    def work() -> None:
        link = Link(stored())
        bench = Bench(link, namespace=namespace, queue_nums=6, unit_mode=True)
        begun = bench.quick.begin(message, None, None)
        assert begun is not None
        _, queue, message_id, now_ms, _ = begun
        [request] = link.requests
        general = make_outgoing(
            message, "g", bench.policy, namespace, identity=(message_id, now_ms)
        )
        assert (request.code, request.body) == (general.code, general.body)
        assert request.ext == general.ext_for(queue)
        assert request.encoding == "binary"
        assert link.limits_ms == [3000]

    in_loop(work)


def test_an_answer_becomes_a_result() -> None:
    def work() -> None:
        bench = Bench(Link(stored(1, 41)))
        message, queue = Message("T", b"x"), MessageQueue("T", "a", 0)
        begun = bench.quick.begin(message, queue, 50)
        assert begun is not None
        result = bench.quick.taken(message, begun)
        assert result is not None
        assert result.status is SendStatus.SEND_OK
        assert (result.queue, result.queue_offset) == (MessageQueue("T", "a", 1), 41)
        assert result.message_id == begun[2]

    in_loop(work)


@pytest.mark.parametrize(
    "message",
    [Message("T", b"x" * 5000), Message("T", b""), Message("unknown", b"x")],
    ids=["to compress", "empty", "no route"],
)
def test_sends_that_need_more_are_left_to_the_flow(message: Message) -> None:
    assert Bench(Link()).quick.begin(message, None, None) is None


def test_a_send_without_a_connection_is_left_to_the_flow() -> None:
    assert Bench(None).quick.begin(Message("T", b"x"), None, None) is None


def test_an_invalid_message_is_refused() -> None:
    with pytest.raises(BadMessage, match="the character 2"):
        Bench(Link()).quick.begin(Message("T", b"x", tags="a\2b"), None, None)


def test_after_a_lost_connection_the_flow_tries_the_other_broker() -> None:
    def work() -> None:
        bench = Bench(Link(ConnectionLost("gone")))
        message = Message("T", b"x")
        begun = bench.quick.begin(message, None, None)
        assert begun is not None
        bench.clock.now += 1
        play = Play([stored()])
        result = play.run(bench.quick.go_on(message, begun, None, None))
        assert result.message_id == begun[2]
        assert result.queue.broker_name != begun[1].broker_name
        [call] = play.calls
        assert call.timeout_ms == 2000, "the first attempt had its part of the budget"

    in_loop(work)


def test_the_quick_attempt_counts_as_the_first_try() -> None:
    def work() -> None:
        bench = Bench(Link(RequestTimeout("late")), retry_times=1)
        message = Message("T", b"x")
        begun = bench.quick.begin(message, None, None)
        assert begun is not None
        play = Play([RequestTimeout("late, too")])
        with pytest.raises(SendFailed, match="failed 2 times") as failed:
            play.run(bench.quick.go_on(message, begun, None, None))
        assert len(failed.value.attempts) == 2

    in_loop(work)


def test_a_lost_first_attempt_is_repeated_until_a_broker_is_back() -> None:
    def work() -> None:
        lost = ConnectionLost("gone")
        bench = Bench(Link(lost))
        message = Message("T", b"x")
        begun = bench.quick.begin(message, None, None)
        assert begun is not None
        play = Play([lost] * 7 + [stored()], bench.clock)
        result = play.run(bench.quick.go_on(message, begun, None, None))
        assert result.message_id == begun[2]
        assert len(play.pauses) == 4, "one after each round of both brokers"

    in_loop(work)


def test_refusals_and_unsafe_results_are_left_to_the_flow() -> None:
    def work() -> None:
        message = Message("T", b"x")
        bench = Bench(Link(answer(16, remark="no permission"), stored(code=10)))
        begun = bench.quick.begin(message, None, None)
        assert begun is not None
        assert bench.quick.taken(message, begun) is None
        with pytest.raises(BrokerRefused, match="no permission"):
            Play([]).run(bench.quick.go_on(message, begun, None, None))
        begun = bench.quick.begin(message, None, None)
        assert begun is not None
        assert bench.quick.taken(message, begun) is None
        result = Play([]).run(bench.quick.go_on(message, begun, None, None))
        assert result.status is SendStatus.FLUSH_DISK_TIMEOUT

    in_loop(work)
