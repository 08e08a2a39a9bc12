"""When a broker says that it is busy, instead of letting a client wait.

Java's broker queues requests for pools of threads and answers SYSTEM_BUSY for those that wait too
long or find their queue full. Here one loop serves everybody, and what it has no time for stays
unread in the sockets, which slows clients down by itself. Three things still call for an answer, so
that a producer can try another broker; each has the words of the Java case that it stands for.

=====================  ===========================================================================
``TIMEOUT_CLEAN_QUEUE``  The request waited longer than `waitTimeMillsInSendQueue` and its kin. One
                         turn of the loop serves all connections that had something to read when it
                         began, so that whoever is served late in a long turn has provably waited
                         since: for a stalled disk, or for too many others. One long turn may be a
                         hiccup, which costs nobody more than its time; in the second in a row the
                         broker does not keep up.
``REJECTREQUEST``        Under sync flush: the oldest send that waits for the disk has waited longer
                         than `osPageCacheBusyTimeOutMills`. The disk is stuck, and a send that is
                         taken now would only wait, too.
``OVERLOAD``             Under sync flush: as many sends wait for the disk as
                         `sendThreadPoolQueueCapacity` allows.
=====================  ===========================================================================

Most producers do not try again after SYSTEM_BUSY, so it is not said lightly. A one-way request is
never refused: nobody would hear of it, so that the message would be lost without a word. A broker
with `brokerFastFailureEnable=false` never says that a request waited too long.

What a connection has sent beyond its share of a turn (`remoting/fair_turns.py`) waits for its next
one; that wait is its own doing and does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

from orbitmq._native import Command
from orbitmq.config import BrokerConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Answer, Handler, Refused, Router

__all__ = ["FlowControl", "FlowControlledRouter", "UnflushedSends"]

_SENDS: frozenset[int] = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.ORBIT_SEND_ONCE,
    }
)
_LIMITS: dict[int, str] = {
    **dict.fromkeys(_SENDS, "wait_time_mills_in_send_queue"),
    RequestCode.PULL_MESSAGE: "wait_time_mills_in_pull_queue",
    RequestCode.HEART_BEAT: "wait_time_mills_in_heartbeat_queue",
    RequestCode.END_TRANSACTION: "wait_time_mills_in_transaction_queue",
}
START_FLOW_CONTROL = "start flow control for a while"
SHORT_TURN_S = 0.01
"""Within so short a turn nobody has waited: Java looks at its queues no more often than that."""


class UnflushedSends(Protocol):
    """The sends that are answered when they are on disk."""

    def __len__(self) -> int: ...

    @property
    def oldest_waited_ms(self) -> float:
        """How long the first of them has waited; 0 when there is none."""


class FlowControl:
    """Measures turns of the loop, and decides who is told that the broker is busy."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._clock_s = clock_s
        self.call_soon: Callable[[Callable[[], None]], object] = lambda _work: None
        """The event loop's: calls before anything more is read."""
        self.unflushed: UnflushedSends | None = None
        """Set when sends are answered only when they are on disk."""
        self._turn_began: float | None = None
        self._short_until = 0.0  # in a turn under way; 0 between turns
        self._last_turn_s = 0.0  # 0 after a rest
        self._turn_before_s = 0.0
        self.refused = 0
        """How many requests were."""

    def _end_turn(self) -> None:
        now = self._clock_s()
        self._last_turn_s = now - (self._turn_began or now)
        self._turn_began = None
        self._short_until = 0.0
        if self._last_turn_s >= SHORT_TURN_S:
            self.call_soon(self._note_rest)
        else:
            self._last_turn_s = 0.0

    def _note_rest(self) -> None:
        """Forget the last turn if the loop has looked at its sockets and found nothing to do.

        No clock tells that: a busy machine may stop the loop between two turns.
        """
        if self._turn_began is None:
            self._last_turn_s = 0.0

    def is_calm(self) -> bool:
        """Whether nobody need be refused, for all that can be seen at a glance.

        Asked before each request that may be refused; the first of a turn begins to measure it.
        """
        if self._turn_began is None:
            self._turn_began = now = self._clock_s()
            self._short_until = now + SHORT_TURN_S
            self._turn_before_s = self._last_turn_s
            self.call_soon(self._end_turn)
            return self.unflushed is None
        return self.unflushed is None and self._clock_s() < self._short_until

    def refusal(self, code: int) -> Refused | None:
        """Return why a request is not served now; None when it is."""
        config = self._config
        began = self._turn_began
        waited_ms = 0 if began is None else int((self._clock_s() - began) * 1000)
        limit_ms = getattr(config, _LIMITS[code])
        late = waited_ms >= limit_ms and self._turn_before_s * 1000 >= limit_ms
        if late and config.broker_fast_failure_enable:
            return self._busy(
                f"[TIMEOUT_CLEAN_QUEUE]broker busy, {START_FLOW_CONTROL}, "
                f"period in queue: {waited_ms}ms, size of queue: {len(self.unflushed or ())}"
            )
        if self.unflushed and code in _SENDS:
            if self.unflushed.oldest_waited_ms > config.os_page_cache_busy_time_out_mills:
                return self._busy(f"[REJECTREQUEST]system busy, {START_FLOW_CONTROL}")
            if len(self.unflushed) >= config.send_thread_pool_queue_capacity:
                return self._busy(f"[OVERLOAD]system busy, {START_FLOW_CONTROL}")
        return None

    def _busy(self, remark: str) -> Refused:
        self.refused += 1
        return Refused(ResponseCode.SYSTEM_BUSY, remark)

    def guard(self, handler: Handler, code: int) -> Handler:
        """Return a handler that serves a code only when the broker is not too busy for it."""
        if code not in _LIMITS:
            return handler

        def guarded(request: Command, connection: Connection) -> Answer:
            # The first half of `is_calm` is asked here, because it is asked once per message.
            if self.unflushed is None and self._clock_s() < self._short_until:
                return handler(request, connection)
            if not self.is_calm() and not request.is_oneway:
                refusal = self.refusal(code)
                if refusal is not None:
                    raise refusal
            return handler(request, connection)

        return guarded


class FlowControlledRouter(Router):
    """A router that asks before it lets a handler serve a request."""

    def __init__(self, flow_control: FlowControl) -> None:
        super().__init__()
        self._flow_control = flow_control

    def add(self, handler: Handler, codes: Iterable[int]) -> None:
        """Let a handler serve these codes while there is time for them."""
        for code in codes:
            super().add(self._flow_control.guard(handler, code), [code])
