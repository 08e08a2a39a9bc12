"""Sending a message: choice of the queue, retries, and the budget of time.

The timeout is a budget for the whole send, including the look-up of the route; each attempt gets
the rest of it. Two kinds of failure differ:

=========================  ========================================================================
 unreachable broker         its connection is lost or cannot be made, or no master of it is known:
                            retried until the budget is spent, unless `retry_times` is 0
 any other failure          at most `retry_times` retries, see below
=========================  ========================================================================

Another broker is tried at once. After every broker has failed, there is a pause before the next
attempt, and each pause is longer than the one before (`rpc.pauses`). So a broker that comes back
within the budget gets the message.

============  ==================  ================================================  ==============
 kind          other failures      another attempt after                             goes to
============  ==================  ================================================  ==============
 blocking      retry_times         timeout, the refusals of `retry_codes`            another broker
 awaiting      retry_times         timeout                                           another broker
 … to a queue  blocking none,      timeout                                           the same
               awaiting as above
 one-way       as blocking         a connection that accepts nothing in time         another broker
============  ==================  ================================================  ==============

Requests and answers have binary headers, which cost both sides half as much as JSON.

An awaiting producer does not retry refusals, because many of its sends run at once and the refusing
broker would get all of them again; RocketMQ has the same rule.
"""

from __future__ import annotations

import logging
import time
from asyncio import Future
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from orbitmq._native import Command, decode_send_answer, encode_send
from orbitmq.client.producer.message import (
    OutgoingMessage,
    SendPolicy,
    check_topic,
    make_outgoing,
    make_unique_id,
    properties_text,
)
from orbitmq.client.producer.selection import FAILURE_LATENCY_MS, LatencyFaults, QueueChooser
from orbitmq.errors import BrokerRefused, ConnectionLost, RemotingError, RequestTimeout, SendFailed
from orbitmq.message import Message, MessageQueue, SendResult, SendStatus
from orbitmq.remoting.client import RemotingClient
from orbitmq.rpc.flow import Call, Flow, Notify
from orbitmq.rpc.namespace import wrap
from orbitmq.rpc.pauses import Pauses, is_away, look_patiently
from orbitmq.rpc.refusals import refusal
from orbitmq.rpc.route_table import RouteTable, TopicRoute
from orbitmq.rpc.routes import publish_route

__all__ = [
    "Attempt",
    "Begun",
    "Choose",
    "QuickSend",
    "SendState",
    "result_of",
    "send",
    "send_oneway",
]

_log = logging.getLogger(__name__)

Choose = Callable[[Sequence[MessageQueue]], MessageQueue]

_STATUS = {status.value: status for status in SendStatus}


class SendState:
    """State that all sends of a producer share."""

    def __init__(
        self,
        routes: RouteTable,
        policy: SendPolicy,
        *,
        retries_refusals: bool = True,
        latency_faults: bool = False,
        vip_channel: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.routes = routes
        self.policy = policy
        self.retries_refusals = retries_refusals
        self.faults = LatencyFaults(clock) if latency_faults else None
        self.chooser = QueueChooser(self.faults)
        self.vip_channel = vip_channel
        self.clock = clock
        self.on_lost: Callable[[], None] | None = None
        """Called on any thread if a broker could not be reached: its address may have changed."""
        self.is_closing = False
        """True if failed attempts are final, because the producer is closing."""

    def route(self, topic: str, timeout_ms: float) -> Flow[TopicRoute]:
        """Return the route for sends to a topic; retry while servers are unreachable."""
        policy = self.policy

        def look(left_ms: float) -> Flow[TopicRoute]:
            return publish_route(
                self.routes,
                topic,
                template=policy.template_topic,
                max_queues=policy.queue_nums,
                timeout_ms=left_ms,
            )

        return look_patiently(look, timeout_ms, self.clock, lambda: self.is_closing)

    def address(self, broker_name: str) -> str | None:
        """Return the address to which messages for a broker are sent."""
        address = self.routes.master(broker_name)
        if not self.vip_channel or address is None:
            return address
        host, _, port = address.rpartition(":")
        return f"{host}:{int(port) - 2}"


class Attempt(NamedTuple):
    """First attempt of a send, already made."""

    began: float
    queue: MessageQueue
    answer: Callable[[], Command]
    """Returns the broker's answer, or raises the error of the attempt."""


class _Course:
    """Tracks one send whose first attempt failed: its failures, and the queue to try next."""

    def __init__(
        self,
        sending: SendState,
        message: OutgoingMessage,
        wanted: MessageQueue | None,
        budget_ms: float,
        begin: float,
    ) -> None:
        self.attempts: list[tuple[str, Exception]] = []
        self._sending = sending
        self._message = message
        self._wanted = wanted
        self._budget_ms = budget_ms
        self._begin = begin
        self._pauses = Pauses(begin, budget_ms, sending.clock)
        self._tried: set[str] = set()
        """Brokers that have failed since the last pause."""
        self._retries = sending.policy.retry_times
        if wanted is not None and sending.retries_refusals:
            self._retries = 0
        self._used = 0
        """Number of retries used; attempts at unreachable brokers do not count."""
        self._is_out_of_time = False

    def next_queue(
        self, route: TopicRoute, name: str, error: Exception
    ) -> Flow[MessageQueue | None]:
        """Record a failure at a broker; return the queue to try next, or None to give up.

        A broker that has failed since the last pause is retried only after another pause.
        """
        sending, policy = self._sending, self._sending.policy
        self.attempts.append((name, error))
        if isinstance(error, ConnectionLost) and sending.on_lost is not None:
            sending.on_lost()
        if not is_away(error):
            self._used += 1
        if self._used > self._retries or policy.retry_times == 0:
            return None
        _log.debug("attempt %d to send to broker %s failed: %s", len(self.attempts), name, error)
        self._tried.add(name)
        queue = self._choose(route, self._tried)
        if queue.broker_name not in self._tried:
            return queue
        pause = None if sending.is_closing else self._pauses.next()
        if pause is None:
            self._is_out_of_time = not sending.is_closing
            return None
        yield pause
        if sending.is_closing:
            return None
        self._tried.clear()
        return self._choose(route, {name})

    def _choose(self, route: TopicRoute, avoided: set[str]) -> MessageQueue:
        if self._wanted is not None:
            return self._wanted
        topic = self._message.topic
        latest = self._sending.routes.route(topic)
        if latest is not None and latest.publish_queues:
            route = latest
        return self._sending.chooser.choose(topic, route.publish_queues, avoided)

    def failure(self, *, out_of_time: bool = False) -> SendFailed:
        """Return the error of a send that gives up."""
        took_ms = (self._sending.clock() - self._begin) * 1000
        times = Counter((name, str(error)) for name, error in self.attempts)
        brokers = list(dict.fromkeys(name for name, _ in self.attempts))
        text = (
            f"send to topic {self._message.topic!r} failed {_times(len(self.attempts))} in "
            f"{took_ms:.0f} ms, brokers tried: {brokers}"
        )
        if (
            out_of_time
            or self._is_out_of_time
            or any(isinstance(error, RequestTimeout) for _, error in self.attempts)
        ):
            text += f"; the budget for all attempts is timeout_ms={self._budget_ms:.0f}"
        elif self._sending.is_closing:
            text += "; the producer was closed meanwhile"
        for (name, reason), count in times.items():
            text += f"\n  {name}: {reason}" + (f" ({_times(count)})" if count > 1 else "")
        failed = SendFailed(text, self.attempts)
        if self.attempts:
            failed.__cause__ = self.attempts[-1][1]
        return failed


def _times(count: int) -> str:
    return f"{count} time" if count == 1 else f"{count} times"


def send(
    sending: SendState,
    message: OutgoingMessage,
    *,
    queue: MessageQueue | None = None,
    choose: Choose | None = None,
    timeout_ms: float | None = None,
    attempt: Attempt | None = None,
) -> Flow[SendResult]:
    """Send a message until a broker accepts it, or raise an error."""
    policy, clock = sending.policy, sending.clock
    budget_ms = policy.timeout_ms if timeout_ms is None else timeout_ms
    begin = attempt_begin = clock() if attempt is None else attempt.began
    route = sending.routes.route(message.topic)
    if route is None or not route.publish_queues:
        route = yield from sending.route(message.topic, budget_ms)
        attempt_begin = clock()
    wanted = queue
    if choose is not None:
        wanted = choose(route.publish_queues)
    if attempt is not None:
        queue = attempt.queue
    else:
        queue = wanted or sending.chooser.choose(message.topic, route.publish_queues)
    queue_id = queue.queue_id
    course: _Course | None = None
    while True:
        left_ms = budget_ms - (attempt_begin - begin) * 1000
        if left_ms <= 0:
            course = course or _Course(sending, message, wanted, budget_ms, begin)
            raise course.failure(out_of_time=True)
        name = queue.broker_name
        address = sending.address(name)
        error: Exception
        result: SendResult | None = None
        if address is None:
            # The broker of a given queue may be missing in this client's routes.
            error = ConnectionLost(f"no master of broker {name} is known")
        else:
            try:
                response: Command
                if attempt is None:
                    ext = message.ext_for(queue)
                    response = yield Call(
                        address, message.code, ext, message.body, left_ms, "binary"
                    )
                else:
                    response = attempt.answer()
            except RemotingError as lost:
                error = lost
                if sending.faults is not None:
                    sending.faults.note(name, FAILURE_LATENCY_MS)
            else:
                status = _STATUS.get(response.code)
                if sending.faults is not None:
                    took_ms = (clock() - attempt_begin) * 1000
                    sending.faults.note(name, took_ms if status else FAILURE_LATENCY_MS)
                if status is not None:
                    result = result_of(
                        status, message.message_id, message.original.topic, queue, response
                    )
                    if status is SendStatus.SEND_OK or not policy.retry_when_not_stored_ok:
                        return result
                    error = BrokerRefused(response.code, status.name, address=address)
                else:
                    error = refusal(response, address)
                    if not sending.retries_refusals or response.code not in policy.retry_codes:
                        raise error
        attempt = None
        if course is None:
            course = _Course(sending, message, wanted, budget_ms, begin)
        following = yield from course.next_queue(route, name, error)
        if following is None and result is not None:
            return result  # accepted, but not stored as safely as requested
        if following is None:
            raise course.failure()
        queue = following
        attempt_begin = clock()
        if wanted is None and not sending.retries_refusals:
            # As in RocketMQ, the same request goes to another broker, with the same queue id.
            queue = MessageQueue(queue.topic, queue.broker_name, queue_id)


def send_oneway(
    sending: SendState,
    message: OutgoingMessage,
    *,
    queue: MessageQueue | None = None,
    choose: Choose | None = None,
    timeout_ms: float | None = None,
) -> Flow[None]:
    """Send a message without waiting for an answer.

    If its broker is unreachable, the message is retried like any other.
    """
    budget_ms = sending.policy.timeout_ms if timeout_ms is None else timeout_ms
    begin = sending.clock()
    route = sending.routes.route(message.topic)
    if route is None or not route.publish_queues:
        route = yield from sending.route(message.topic, budget_ms)
    wanted = queue
    if choose is not None:
        wanted = choose(route.publish_queues)
    queue = wanted or sending.chooser.choose(message.topic, route.publish_queues)
    course: _Course | None = None
    while True:
        name = queue.broker_name
        address = sending.address(name)
        error: Exception
        if address is None:
            error = ConnectionLost(f"no master of broker {name} is known")
        else:
            try:
                yield Notify(address, message.code, message.ext_for(queue), message.body, "binary")
                return
            except RemotingError as lost:
                error = lost
        if course is None:
            course = _Course(sending, message, wanted, budget_ms, begin)
        following = yield from course.next_queue(route, name, error)
        if following is None:
            raise course.failure()
        queue = following


def result_of(
    status: SendStatus, message_id: str, topic: str, queue: MessageQueue, response: Command
) -> SendResult:
    """Return the result in the answer of a broker that has accepted a message."""
    offset_id, queue_id, offset, transaction_id, region, trace_on = decode_send_answer(response)
    if (queue_id is not None and queue_id != queue.queue_id) or topic != queue.topic:
        queue_id = queue.queue_id if queue_id is None else queue_id
        queue = MessageQueue(topic, queue.broker_name, queue_id)
    return SendResult(
        status,
        message_id,
        offset_id,
        queue,
        offset,
        transaction_id,
        region or "DefaultRegion",
        trace_on,
    )


# ---- Fast path of awaiting producers
#
# Nearly all sends have a known route, an open connection and a first attempt that succeeds. The
# fast path is the beginning of the flow `send`, without a generator, a `Call` and a coroutine
# between producer and connection. These cost more than the request itself; with ten thousand
# concurrent sends, their objects cost the garbage collector as much again. Other messages use the
# flow from the start. After a failed first attempt, the flow continues where the fast path ended.

Begun = tuple[Future[Command], MessageQueue, str, int, float]
"""Future of the answer, queue, id of the message, its time of birth, start of the attempt."""


class QuickSend:
    """Fast path for those sends of one producer that need a single request."""

    def __init__(
        self, sending: SendState, network: RemotingClient, group: str, namespace: str | None
    ) -> None:
        self._sending = sending
        self._network = network
        self._group = group
        self._namespace = namespace

    def begin(
        self, message: Message, queue: MessageQueue | None, timeout_ms: float | None
    ) -> Begun | None:
        """Make the first attempt, or return None if the message needs the whole flow."""
        sending = self._sending
        policy = sending.policy
        body = message.body
        if message.system or not 0 < len(body) < policy.compress_over_bytes:
            return None
        topic = wrap(self._namespace, message.topic) if self._namespace else message.topic
        route = sending.routes.route(topic)
        if route is None or not route.publish_queues or len(body) > policy.max_message_bytes:
            return None
        check_topic(topic)
        if queue is None:
            queue = sending.chooser.choose(topic, route.publish_queues)
        address = sending.address(queue.broker_name)
        link = self._network.ready(address) if address is not None else None
        if link is None:
            return None
        now_ms = time.time_ns() // 1_000_000
        message_id = make_unique_id(now_ms)
        opaque = link.next_opaque()
        frame = encode_send(
            opaque,
            self._group,
            topic,
            policy.template_topic,
            policy.queue_nums,
            queue.queue_id,
            now_ms,
            message.flag,
            properties_text(message, message_id, self._namespace),
            policy.unit_mode,
            queue.broker_name,
            body,
        )
        limit_ms = policy.timeout_ms if timeout_ms is None else timeout_ms
        answer = link.request(frame, opaque, limit_ms)
        return answer, queue, message_id, now_ms, sending.clock()

    @staticmethod
    def taken(message: Message, begun: Begun) -> SendResult | None:
        """Return the result of a first attempt that succeeded, None for an answer with an error."""
        answer, queue, message_id, _, _ = begun
        response = answer.result()
        if response.code:
            return None
        return result_of(SendStatus.SEND_OK, message_id, message.topic, queue, response)

    def go_on(
        self, message: Message, begun: Begun, queue: MessageQueue | None, timeout_ms: float | None
    ) -> Flow[SendResult]:
        """Return the flow that continues after a failed first attempt."""
        answer, tried, message_id, now_ms, began = begun
        outgoing = make_outgoing(
            message,
            self._group,
            self._sending.policy,
            self._namespace,
            identity=(message_id, now_ms),
        )
        attempt = Attempt(began, tried, answer.result)
        return send(self._sending, outgoing, queue=queue, timeout_ms=timeout_ms, attempt=attempt)
