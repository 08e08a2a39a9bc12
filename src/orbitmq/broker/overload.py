"""Flow control: rejection of requests with SYSTEM_BUSY while the broker is overloaded.

Java's broker queues requests for thread pools. It answers SYSTEM_BUSY to a request that waits too
long or finds its queue full. In OrbitMQ one event loop serves all connections. Requests that the
loop has no time for stay unread in the sockets, which slows clients down by itself. Three cases
still need an answer, so that a producer can try another broker. Each answer has the text of the
corresponding case in Java.

=====================  ===========================================================================
``TIMEOUT_CLEAN_QUEUE``  The request waited longer than `waitTimeMillsInSendQueue` or the setting
                         for its kind of request. One turn of the loop serves all connections that
                         were readable when it began. A request served late in a long turn has
                         therefore waited since then, for a stalled disk or for too many others. One
                         long turn may be a hiccup, which costs each request only its duration. In
                         the second long turn in a row the broker does not keep up.
``REJECTREQUEST``        Under sync flush: the oldest send that waits for the disk has waited longer
                         than `osPageCacheBusyTimeOutMills`. The disk is stuck, and a send accepted
                         now would wait as well.
``OVERLOAD``             Under sync flush: as many sends wait for the disk as
                         `sendThreadPoolQueueCapacity` allows.
=====================  ===========================================================================

Most producers do not retry after SYSTEM_BUSY, so the broker uses the code sparingly. A one-way
request is never rejected: it has no response, so the message would be lost silently. A broker with
`brokerFastFailureEnable=false` never rejects a request because of its waiting time.

Requests beyond a connection's share of a turn (`remoting/fair_turns.py`) wait for the next turn.
That wait is caused by the connection itself and does not count.
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
"""Turns shorter than this never cause a rejection: Java checks its queues at this interval."""


class UnflushedSends(Protocol):
    """Sends that are answered when they are on disk."""

    def __len__(self) -> int: ...

    @property
    def oldest_waited_ms(self) -> float:
        """Milliseconds that the oldest send has waited; 0 if no send waits."""


class FlowControl:
    """Measures turns of the event loop and decides which requests are rejected as SYSTEM_BUSY."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._clock_s = clock_s
        self.call_soon: Callable[[Callable[[], None]], object] = lambda _work: None
        """The event loop's `call_soon`: runs a function before the loop reads again."""
        self.unflushed: UnflushedSends | None = None
        """Sends that wait for the disk; None unless sends are answered only after a flush."""
        self._turn_began: float | None = None
        self._short_until = 0.0  # in a turn under way; 0 between turns
        self._last_turn_s = 0.0  # 0 after a rest
        self._turn_before_s = 0.0
        self.refused = 0
        """Number of requests rejected since the start."""

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
        """Forget the last turn if the loop has polled its sockets and found nothing to do.

        A clock cannot show this: a busy machine may stop the loop between two turns.
        """
        if self._turn_began is None:
            self._last_turn_s = 0.0

    def is_calm(self) -> bool:
        """Return True if a quick check shows that no request has to be rejected.

        Called before each request that may be rejected; the first call of a turn starts its clock.
        """
        if self._turn_began is None:
            self._turn_began = now = self._clock_s()
            self._short_until = now + SHORT_TURN_S
            self._turn_before_s = self._last_turn_s
            self.call_soon(self._end_turn)
            return self.unflushed is None
        return self.unflushed is None and self._clock_s() < self._short_until

    def refusal(self, code: int) -> Refused | None:
        """Return the rejection of a request with this code; None if the request is served."""
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
        """Return a handler that rejects requests of this code while the broker is too busy."""
        if code not in _LIMITS:
            return handler

        def guarded(request: Command, connection: Connection) -> Answer:
            # The common case of `is_calm` is repeated inline, because this runs once per message.
            if self.unflushed is None and self._clock_s() < self._short_until:
                return handler(request, connection)
            if not self.is_calm() and not request.is_oneway:
                refusal = self.refusal(code)
                if refusal is not None:
                    raise refusal
            return handler(request, connection)

        return guarded


class FlowControlledRouter(Router):
    """Router that checks `FlowControl` before a handler serves a request."""

    def __init__(self, flow_control: FlowControl) -> None:
        super().__init__()
        self._flow_control = flow_control

    def add(self, handler: Handler, codes: Iterable[int]) -> None:
        """Register a handler for these codes, guarded by flow control."""
        for code in codes:
            super().add(self._flow_control.guard(handler, code), [code])
