"""Every decision of a send: queue, number of attempts, time, and result."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import pytest

from orbitmq._native import Command
from orbitmq.client.producer.message import SendPolicy, make_outgoing
from orbitmq.client.producer.send import SendState, send, send_oneway
from orbitmq.errors import (
    BrokerBusy,
    BrokerRefused,
    ConnectionLost,
    NoRoute,
    RequestTimeout,
    SendFailed,
)
from orbitmq.message import Message, MessageQueue, SendResult, SendStatus
from orbitmq.rpc.flow import Call, Flow, Notify, Pause
from orbitmq.rpc.route_table import Nameservers, RouteTable
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
        self.sending = SendState(
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

    def play(self, *reactions: object) -> Play:
        """Return a network whose pauses move this clock."""
        return Play(reactions, self.clock)  # type: ignore[arg-type]

    def always(self, then: Command | Exception) -> Play:
        """Return a network that always gives the same answer."""
        return self.play(*[then] * 1000)

    def after(self, seconds: float, then: Command | Exception) -> Callable[[Call], object]:
        def react(_call: Call) -> Command | Exception:
            self.clock.now += seconds
            return then

        return react


def brokers(play: Play) -> list[str]:
    return [call.address[0] for call in play.calls]


def test_a_send_ends_with_the_first_success() -> None:
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
def test_a_stored_but_unsafe_message_is_a_result(code: int) -> None:
    play = Play([stored(code=code)])
    assert play.run(Bench().flow()).status.value == code


def test_an_unsafe_result_is_retried_when_the_setting_is_on() -> None:
    play = Play([stored(code=10), stored()])
    assert play.run(Bench(retry_when_not_stored_ok=True).flow()).status is SendStatus.SEND_OK
    assert len(set(brokers(play))) == 2
    last = Play([stored(code=10)] * 3)
    result = last.run(Bench(retry_when_not_stored_ok=True).flow())
    assert result.status is SendStatus.FLUSH_DISK_TIMEOUT


@pytest.mark.parametrize("awaiting", [False, True])
def test_a_lost_connection_is_retried_on_another_broker(awaiting: bool) -> None:
    play = Play([LOST, stored()])
    play.run(Bench(awaiting=awaiting).flow())
    assert len(set(brokers(play))) == 2


def test_an_unreachable_broker_triggers_a_route_refresh() -> None:
    bench, told = Bench(), []
    bench.sending.on_lost = lambda: told.append(1)
    Play([LOST, answer(14), stored()]).run(bench.flow())
    assert told == [1]


def test_an_awaiting_retry_is_the_same_request_to_another_broker() -> None:
    play = Play([LOST, LOST, stored()])
    play.run(Bench(awaiting=True).flow())
    assert len({call.ext["e"] for call in play.calls if call.ext}) == 1


@pytest.mark.parametrize("awaiting", [False, True])
@pytest.mark.parametrize("names", ["a", "ab", "abc"])
def test_a_send_uses_its_whole_budget_when_all_brokers_are_away(awaiting: bool, names: str) -> None:
    bench = Bench(awaiting=awaiting)
    bench.routes.apply("T", route_body(*names))
    play = bench.always(LOST)
    begin = bench.clock.now
    with pytest.raises(SendFailed) as caught:
        play.run(bench.flow())
    failed, took_ms = caught.value, (bench.clock.now - begin) * 1000
    assert 2800 < took_ms < 3000, "the last attempt is shortly before the end"
    assert len(failed.attempts) == len(play.calls) == len(names) * (len(play.pauses) + 1)
    assert {name for name, _ in failed.attempts} == set(names)
    text = f"failed {len(play.calls)} times in {took_ms:.0f} ms"
    assert text in str(failed)
    assert "timeout_ms=3000" in str(failed)
    assert failed.__cause__ is LOST
    assert failed.retriable


@pytest.mark.parametrize("awaiting", [False, True])
def test_every_broker_is_tried_before_a_pause(awaiting: bool) -> None:
    bench = Bench(awaiting=awaiting)
    bench.routes.apply("T", route_body(*"abcde"))
    play = bench.always(LOST)
    with pytest.raises(SendFailed):
        play.run(bench.flow())
    rounds: list[list[str]] = [[]]
    for wish in play.wishes:
        if isinstance(wish, Call):
            rounds[-1].append(wish.address[0])
        else:
            rounds.append([])
    assert len(rounds) > 3
    assert all(sorted(one) == list("abcde") for one in rounds)


@pytest.mark.parametrize("awaiting", [False, True])
@pytest.mark.parametrize("fixed", [False, True])
def test_a_broker_that_comes_back_within_the_budget_gets_the_message(
    awaiting: bool, fixed: bool
) -> None:
    bench = Bench(awaiting=awaiting)
    bench.routes.apply("T", route_body("a"))
    back_at = bench.clock.now + 2.8

    def react(_call: Call) -> Command | Exception:
        return stored() if bench.clock.now >= back_at else LOST

    play = bench.play(*[react] * 1000)
    queue = MessageQueue("T", "a", 0) if fixed else None
    assert play.run(bench.flow(queue=queue)).status is SendStatus.SEND_OK


def test_pauses_grow_and_are_randomised() -> None:
    runs = []
    for _ in range(20):
        bench = Bench()
        play = bench.always(LOST)
        with pytest.raises(SendFailed):
            play.run(bench.flow(timeout_ms=10_000))
        runs.append(play.pauses)
    for pauses in runs:
        assert all(
            low / 2 <= ms <= low
            for low, ms in zip((25, 50, 100, 200, 400, 500), pauses, strict=False)
        )
        assert max(pauses) <= 500
        assert len(pauses) < 60, "no storm of attempts"
    assert len({pauses[0] for pauses in runs}) > 1, "clients do not come back all at once"


@pytest.mark.parametrize("awaiting", [False, True])
def test_one_attempt_is_made_when_retries_are_disabled(awaiting: bool) -> None:
    bench = Bench(awaiting=awaiting, retry_times=0)
    play = bench.always(LOST)
    with pytest.raises(SendFailed, match="failed 1 time in 0 ms"):
        play.run(bench.flow())
    assert not play.pauses


def test_retries_of_refusals_are_limited_and_pause_after_all_brokers() -> None:
    bench = Bench()
    play = bench.always(answer(14, remark="no"))
    with pytest.raises(SendFailed, match="failed 3 times in ") as caught:
        play.run(bench.flow())
    assert len(play.calls) == 3
    assert len(play.pauses) == 1, "the second broker is tried at once"
    assert "timeout_ms" not in str(caught.value)


def test_a_failure_lists_equal_errors_once() -> None:
    bench = Bench()
    bench.routes.apply("T", route_body("a"))
    play = bench.always(LOST)
    with pytest.raises(SendFailed) as caught:
        play.run(bench.flow())
    head, *lines = str(caught.value).splitlines()
    assert "brokers tried: ['a']" in head
    assert lines == [f"  a: gone ({len(play.calls)} times)"]


def test_an_unsafe_message_is_a_result_when_no_time_is_left() -> None:
    bench = Bench(retry_when_not_stored_ok=True)
    bench.routes.apply("T", route_body("a"))
    play = bench.play(bench.after(2.95, stored(code=10)))
    assert play.run(bench.flow()).status is SendStatus.FLUSH_DISK_TIMEOUT


def test_closing_a_producer_ends_its_sends() -> None:
    bench = Bench()

    def react(_call: Call) -> Exception:
        bench.sending.is_closing = bench.clock.now > 1000.2
        return LOST

    play = bench.play(*[react] * 1000)
    with pytest.raises(SendFailed, match="closed meanwhile"):
        play.run(bench.flow())
    assert bench.clock.now < 1001


@pytest.mark.parametrize("code", [17, 14, 1, 16, 204, 205])
def test_refusals_of_one_broker_are_retried_on_another(code: int) -> None:
    play = Play([answer(code, remark="no"), stored()])
    play.run(Bench().flow())
    assert len(set(brokers(play))) == 2


@pytest.mark.parametrize("code", [17, 14, 1, 16, 204, 205])
def test_an_awaiting_send_does_not_retry_refusals(code: int) -> None:
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
        Play([answer(14, remark="disk full")] * 3).run(Bench().flow())
    assert caught.value.code == 14
    assert "disk full" in str(caught.value)


def test_the_timeout_is_a_budget_for_all_attempts() -> None:
    bench = Bench()
    play = bench.play(bench.after(1.0, LOST), bench.after(1.5, LOST), stored())
    play.run(bench.flow())
    (pause,) = play.pauses
    assert [call.timeout_ms for call in play.calls] == pytest.approx([3000, 2000, 500 - pause])


def test_no_attempt_is_made_when_the_budget_is_spent() -> None:
    bench = Bench()
    play = Play([bench.after(3.0, LATE)])  # type: ignore[list-item]
    with pytest.raises(SendFailed, match="timeout_ms=3000") as caught:
        play.run(bench.flow())
    assert len(play.calls) == 1
    assert caught.value.attempts[0][1] is LATE


def test_a_send_may_have_its_own_timeout() -> None:
    play = Play([stored()])
    play.run(Bench().flow(timeout_ms=120))
    assert play.calls[0].timeout_ms == 120


def test_a_given_queue_is_tried_once_when_its_broker_refuses() -> None:
    play = Play([answer(14)])
    with pytest.raises(SendFailed, match="failed 1 time "):
        play.run(Bench().flow(queue=MessageQueue("T", "b", 1)))
    assert brokers(play) == ["b"]


def test_a_given_queue_is_retried_while_its_broker_is_away() -> None:
    bench = Bench()
    play = bench.play(LOST, LOST, LOST, stored(1))
    play.run(bench.flow(queue=MessageQueue("T", "b", 1)))
    assert brokers(play) == ["b"] * 4
    assert len(play.pauses) == 3


def test_a_given_queue_is_retried_by_an_awaiting_producer() -> None:
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
        Play([answer(14)]).run(Bench().flow(choose=lambda queues: queues[0]))


def test_a_blocking_producer_skips_a_broker_without_an_address() -> None:
    bench = Bench()
    bench.routes._brokers.pop("a")
    for _ in range(4):
        play = Play([stored()])
        play.run(bench.flow())
        assert brokers(play) == ["b"]
    with pytest.raises(SendFailed, match="no master of broker a"):
        bench.play().run(bench.flow(queue=MessageQueue("T", "a", 0)))


def test_a_send_waits_for_the_address_of_a_broker() -> None:
    bench, told = Bench(awaiting=True), []
    bench.routes._brokers.clear()
    bench.sending.on_lost = lambda: told.append(bench.routes.apply("T", route_body("a", "c")))
    bench.play(stored()).run(bench.flow())
    assert told == [True], "the first failure had the route refreshed"
    bench.routes._brokers.clear()
    bench.sending.on_lost = None
    with pytest.raises(SendFailed, match="no master") as caught:
        bench.play().run(bench.flow())
    assert "timeout_ms=3000" in str(caught.value)


def test_the_route_is_fetched_on_the_first_send() -> None:
    bench = Bench()
    bench.routes.forget("T")
    play = Play([answer(body=route_body("a")), stored()])
    play.run(bench.flow())
    assert [call.code for call in play.calls] == [105, 310]


def test_a_route_is_fetched_until_a_broker_is_registered() -> None:
    bench = Bench()
    bench.routes.forget("T")
    nobody = [answer(17), answer(17), answer(body=b'{"brokerAddrTable":{}}')]
    found = [answer(body=route_body("a")), stored()]
    play = bench.play(LOST, *nobody, LOST, *nobody, *found)
    play.run(bench.flow())
    assert len(play.pauses) == 4
    assert play.calls[-1].timeout_ms == pytest.approx(3000 - sum(play.pauses))


def test_fetching_a_route_ends_with_the_budget() -> None:
    bench = Bench()
    bench.routes.forget("T")
    play = bench.always(LOST)
    begin = bench.clock.now
    with pytest.raises(NoRoute, match=r"asked for \d+ times in \d+ ms") as caught:
        play.run(bench.flow())
    assert caught.value.cause == "no_nameserver"
    assert 2.8 < bench.clock.now - begin < 3


@pytest.mark.parametrize("known", [False, True])
def test_an_untrusted_certificate_is_not_retried(known: bool) -> None:
    distrusted = ConnectionLost("certificate verify failed")
    distrusted.__cause__ = ssl.SSLCertVerificationError("no")
    bench = Bench()
    if not known:
        bench.routes.forget("T")
    play = bench.always(distrusted)
    with pytest.raises((NoRoute, SendFailed), match="certificate verify failed"):
        play.run(bench.flow())
    assert len(play.calls) == (3 if known else 1)
    broken = ConnectionLost("it ended in the middle")
    broken.__cause__ = ssl.SSLEOFError("end")
    bench.play(
        broken, broken, broken, broken, *([] if known else [answer(body=route_body("a"))]), stored()
    ).run(bench.flow())


def test_a_topic_that_does_not_exist_ends_a_send_at_once() -> None:
    bench = Bench()
    bench.routes.forget("T")
    table = answer(body=b'{"brokerAddrTable":{"a":{}}}')
    play = bench.play(answer(17), answer(17), table)
    with pytest.raises(NoRoute) as caught:
        play.run(bench.flow())
    assert caught.value.cause == "no_topic"
    assert not play.pauses


def test_a_oneway_message_is_sent_once_a_broker_is_back() -> None:
    bench = Bench()
    message = make_outgoing(Message("T", b"x"), "g", bench.policy)
    flow = send_oneway(bench.sending, message)
    first = next(flow)
    second = flow.throw(LOST)
    assert isinstance(first, Notify)
    assert isinstance(second, Notify)
    assert {first.address[0], second.address[0]} == {"a", "b"}, "the other broker at once"
    assert isinstance(flow.throw(LOST), Pause)
    assert isinstance(flow.send(None), Notify)
    with pytest.raises(StopIteration):
        flow.send(None)


def test_a_oneway_message_that_cannot_be_sent_is_an_error() -> None:
    bench = Bench()
    message = make_outgoing(Message("T", b"x"), "g", bench.policy)
    flow = send_oneway(bench.sending, message, queue=MessageQueue("T", "a", 0))
    begin = bench.clock.now

    def lose_all() -> None:
        wish = next(flow)
        while True:
            if isinstance(wish, Pause):
                bench.clock.now += wish.ms / 1000
                wish = flow.send(None)
            else:
                wish = flow.throw(LOST)

    with pytest.raises(SendFailed, match="timeout_ms=3000"):
        lose_all()
    assert 2.8 < bench.clock.now - begin < 3


def test_a_oneway_send_is_one_notice() -> None:
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


def test_slow_brokers_are_avoided_and_failing_ones_longer() -> None:
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


def test_the_vip_channel_uses_the_port_two_below() -> None:
    bench = Bench()
    bench.sending.vip_channel = True
    play = Play([stored()])
    play.run(bench.flow())
    assert play.calls[0].address.endswith(":10909")
