"""Every decision of a send: which queue, how often, for how long, what it ends with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orbitmq._native import Command
from orbitmq.client.flows.send import Sending, send, send_oneway
from orbitmq.client.state.outgoing import SendPolicy, make_outgoing
from orbitmq.client.state.routes import Nameservers, RouteTable
from orbitmq.client.wishes import Call, Flow
from orbitmq.errors import BrokerBusy, BrokerRefused, ConnectionLost, RequestTimeout, SendFailed
from orbitmq.message import Message, MessageQueue, SendResult, SendStatus
from tests.client.playing import Clock, Play, answer, stored
from tests.client.test_routes import route_body

LOST = ConnectionLost("gone")
LATE = RequestTimeout("late")


class Bench:
    """A producer's state with two brokers, `a` and `b`, of two queues each."""

    def __init__(self, *, awaiting: bool = False, faults: bool = False, **policy: object) -> None:
        self.clock = Clock()
        self.routes = RouteTable(Nameservers(("ns:9876",)))
        self.routes.apply("T", route_body("a", "b"))
        self.policy = SendPolicy(**policy)  # type: ignore[arg-type]
        self.sending = Sending(
            self.routes,
            self.policy,
            retries_refusals=not awaiting,
            latency_faults=faults,
            clock=self.clock,
        )

    def flow(
        self,
        *,
        queue: MessageQueue | None = None,
        choose: Callable[..., MessageQueue] | None = None,
        timeout_ms: float | None = None,
    ) -> Flow[SendResult]:
        message = make_outgoing(Message("T", b"x"), "g", self.policy)
        return send(self.sending, message, queue=queue, choose=choose, timeout_ms=timeout_ms)

    def after(self, seconds: float, then: Command | Exception) -> Callable[[Call], object]:
        def react(_call: Call) -> Command | Exception:
            self.clock.now += seconds
            return then

        return react


def brokers(play: Play) -> list[str]:
    return [call.address[0] for call in play.calls]


def test_the_first_broker_that_takes_it_ends_it() -> None:
    bench, play = Bench(), Play([stored(1, 41)])
    result = play.run(bench.flow())
    assert result.status is SendStatus.SEND_OK
    assert result.queue.queue_id == 1
    assert result.queue_offset == 41
    [call] = play.calls
    assert call.code == 310
    assert call.timeout_ms == 3000
    assert call.ext is not None
    assert call.ext["a"] == "g"
    assert call.ext["n"] == result.queue.broker_name
    assert f"UNIQ_KEY\1{result.message_id}" in call.ext["i"]


@pytest.mark.parametrize("code", [10, 11, 12])
def test_a_message_that_is_taken_but_not_safe_is_a_result(code: int) -> None:
    play = Play([stored(code=code)])
    assert play.run(Bench().flow()).status.value == code


def test_not_safe_can_mean_another_broker() -> None:
    play = Play([stored(code=10), stored()])
    assert play.run(Bench(retry_when_not_stored_ok=True).flow()).status is SendStatus.SEND_OK
    assert len(set(brokers(play))) == 2
    last = Play([stored(code=10)] * 3)
    result = last.run(Bench(retry_when_not_stored_ok=True).flow())
    assert result.status is SendStatus.FLUSH_DISK_TIMEOUT


@pytest.mark.parametrize("awaiting", [False, True])
def test_a_lost_connection_means_another_broker(awaiting: bool) -> None:
    play = Play([LOST, stored()])
    play.run(Bench(awaiting=awaiting).flow())
    assert len(set(brokers(play))) == 2


def test_a_broker_that_cannot_be_reached_may_have_moved() -> None:
    bench, told = Bench(), []
    bench.sending.on_lost = lambda: told.append(1)
    Play([LOST, answer(14), stored()]).run(bench.flow())
    assert told == [1]


def test_an_awaiting_retry_is_the_same_request_to_another_broker() -> None:
    play = Play([LOST, LOST, stored()])
    play.run(Bench(awaiting=True).flow())
    assert len({call.ext["e"] for call in play.calls if call.ext}) == 1


@pytest.mark.parametrize("awaiting", [False, True])
def test_retries_end(awaiting: bool) -> None:
    play = Play([LOST] * 3)
    with pytest.raises(SendFailed, match="failed 3 times") as caught:
        play.run(Bench(awaiting=awaiting).flow())
    assert len(play.calls) == 3
    assert [error for _, error in caught.value.attempts] == [LOST] * 3
    assert caught.value.__cause__ is LOST
    assert caught.value.retriable


@pytest.mark.parametrize("code", [17, 14, 1, 16, 204, 205])
def test_refusals_that_another_broker_may_not_share_are_tried_again(code: int) -> None:
    play = Play([answer(code, remark="no"), stored()])
    play.run(Bench().flow())
    assert len(set(brokers(play))) == 2


@pytest.mark.parametrize("code", [17, 14, 1, 16, 204, 205])
def test_an_awaiting_send_takes_a_refusal_for_an_answer(code: int) -> None:
    play = Play([answer(code, remark="no")])
    with pytest.raises(BrokerRefused, match="no"):
        play.run(Bench(awaiting=True).flow())


@pytest.mark.parametrize("code", [2, 13, 26, 3, 215, 999])
def test_other_refusals_are_final(code: int) -> None:
    play = Play([answer(code, remark="no")])
    with pytest.raises(BrokerRefused) as caught:
        play.run(Bench().flow())
    assert caught.value.code == code
    assert isinstance(caught.value, BrokerBusy) == (code in (2, 215))


def test_the_last_refusal_gives_the_failure_its_code() -> None:
    with pytest.raises(SendFailed) as caught:
        Play([LOST, LOST, answer(14, remark="disk full")]).run(Bench().flow())
    assert caught.value.code == 14
    assert "disk full" in str(caught.value)


def test_the_timeout_is_a_budget_for_all_attempts() -> None:
    bench = Bench()
    play = Play([bench.after(1.0, LOST), bench.after(1.5, LOST), stored()])  # type: ignore[list-item]
    play.run(bench.flow())
    assert [round(call.timeout_ms) for call in play.calls] == [3000, 2000, 500]


def test_no_attempt_is_made_without_time_for_it() -> None:
    bench = Bench()
    play = Play([bench.after(3.0, LATE)])  # type: ignore[list-item]
    with pytest.raises(SendFailed, match="timeout_ms=3000") as caught:
        play.run(bench.flow())
    assert len(play.calls) == 1
    assert caught.value.attempts[0][1] is LATE


def test_a_timeout_of_its_own() -> None:
    play = Play([stored()])
    play.run(Bench().flow(timeout_ms=120))
    assert play.calls[0].timeout_ms == 120


def test_a_given_queue_is_tried_once_by_a_blocking_producer() -> None:
    play = Play([LOST])
    with pytest.raises(SendFailed):
        play.run(Bench().flow(queue=MessageQueue("T", "b", 1)))
    assert brokers(play) == ["b"]


def test_a_given_queue_is_tried_again_on_its_broker_by_an_awaiting_one() -> None:
    play = Play([LOST, LOST, stored(1)])
    play.run(Bench(awaiting=True).flow(queue=MessageQueue("T", "b", 1)))
    assert brokers(play) == ["b", "b", "b"]


def test_a_selector_sees_all_queues() -> None:
    play = Play([stored(1)])
    play.run(Bench().flow(choose=lambda queues: queues[-1]))
    [call] = play.calls
    assert call.ext is not None
    assert (call.ext["n"], call.ext["e"]) == ("b", "1")
    with pytest.raises(SendFailed):
        Play([LOST]).run(Bench().flow(choose=lambda queues: queues[0]))


def test_an_unknown_broker_is_passed_over_by_a_blocking_producer() -> None:
    bench = Bench()
    bench.routes._brokers.pop("a")
    for _ in range(4):
        play = Play([stored()])
        play.run(bench.flow())
        assert brokers(play) == ["b"]
    with pytest.raises(SendFailed, match="no master of broker a"):
        Play().run(bench.flow(queue=MessageQueue("T", "a", 0)))


def test_an_unknown_broker_ends_an_awaiting_send() -> None:
    bench = Bench(awaiting=True)
    bench.routes._brokers.clear()
    with pytest.raises(SendFailed, match="no master"):
        Play().run(bench.flow())


def test_the_route_is_fetched_on_the_first_send() -> None:
    bench = Bench()
    bench.routes.forget("T")
    play = Play([answer(body=route_body("a")), stored()])
    play.run(bench.flow())
    assert [call.code for call in play.calls] == [105, 310]


def test_oneway_is_one_notice() -> None:
    bench, play = Bench(), Play()
    message = make_outgoing(Message("T", b"x"), "g", bench.policy)
    play.run(send_oneway(bench.sending, message))
    assert len(play.notices) == 1


def test_queues_take_turns() -> None:
    bench = Bench()
    seen = []
    for _ in range(8):
        play = Play([stored()])
        play.run(bench.flow())
        [call] = play.calls
        assert call.ext is not None
        seen.append((call.ext["n"], call.ext["e"]))
    assert len(set(seen[:4])) == 4
    assert seen[:4] == seen[4:]


def test_slow_brokers_are_passed_over_and_failing_ones_longer() -> None:
    bench = Bench(faults=True)
    first = Play([bench.after(0.6, stored())])  # type: ignore[list-item]
    first.run(bench.flow())
    slow = brokers(first)[0]
    for _ in range(4):
        play = Play([stored()])
        play.run(bench.flow())
        assert brokers(play) != [slow]
    bench.clock.now += 30
    seen = set()
    for _ in range(4):
        play = Play([stored()])
        play.run(bench.flow())
        seen.update(brokers(play))
    assert seen == {"a", "b"}
    broken = Play([LOST, stored()])
    broken.run(bench.flow())
    lost, other = brokers(broken)
    assert lost != other
    bench.clock.now += 599
    for _ in range(4):
        play = Play([stored()])
        play.run(bench.flow())
        assert brokers(play) == [other]


def test_the_vip_channel_is_two_ports_lower() -> None:
    bench = Bench()
    bench.sending.vip_channel = True
    play = Play([stored()])
    play.run(bench.flow())
    assert play.calls[0].address.endswith(":10909")
