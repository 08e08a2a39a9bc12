"""Sending: which queue, how often, for how long.

The timeout is a budget for everything, the look-up of the route included; each attempt has what is
left of it.

============  =====================  =============================================  ==============
 kind          attempts               another attempt after                          goes to
============  =====================  =============================================  ==============
 blocking      1 + retry_times        lost connection, timeout, no such broker,      another broker
                                      the refusals of `retry_codes`
 awaiting      1 + retry_times        lost connection, timeout                       another broker
 … to a queue  blocking 1, awaiting   lost connection, timeout                       the same
               as above
 one-way       1
============  =====================  =============================================  ==============

Requests and answers have binary headers, which cost both sides half of what JSON costs them.

An awaiting producer's refusals are not retried because many sends are under way at once, and a
broker that refuses them would get them all again; that is RocketMQ's rule, too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from orbitmq._native import Command, decode_send_answer
from orbitmq.client.flows.refusals import refusal
from orbitmq.client.flows.routes import publish_route
from orbitmq.client.state.faults import FAILURE_LATENCY_MS, LatencyFaults
from orbitmq.client.state.outgoing import Outgoing, SendPolicy
from orbitmq.client.state.routes import RouteTable, TopicRoute
from orbitmq.client.state.selection import QueueChooser
from orbitmq.client.wishes import Call, Flow, Notify
from orbitmq.errors import BrokerRefused, ConnectionLost, RemotingError, RequestTimeout, SendFailed
from orbitmq.message import MessageQueue, SendResult, SendStatus

__all__ = ["Attempt", "Choose", "Sending", "result_of", "send", "send_oneway"]

_log = logging.getLogger(__name__)

Choose = Callable[[Sequence[MessageQueue]], MessageQueue]

_STATUS = {status.value: status for status in SendStatus}


class Sending:
    """What a producer's sends have in common."""

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
        """Called, by any thread, when a broker could not be reached: it may have moved."""

    def route(self, topic: str, timeout_ms: float) -> Flow[TopicRoute]:
        """Return where a topic's messages can go to."""
        policy = self.policy
        return publish_route(
            self.routes,
            topic,
            template=policy.template_topic,
            max_queues=policy.queue_nums,
            timeout_ms=timeout_ms,
        )

    def address(self, broker_name: str) -> str | None:
        """Return where a broker takes messages."""
        address = self.routes.master(broker_name)
        if not self.vip_channel or address is None:
            return address
        host, _, port = address.rpartition(":")
        return f"{host}:{int(port) - 2}"


class Attempt(NamedTuple):
    """A first attempt that was made already."""

    began: float
    queue: MessageQueue
    answer: Callable[[], Command]
    """Returns what the broker has answered, or raises why there is no answer."""


def send(
    sending: Sending,
    message: Outgoing,
    *,
    queue: MessageQueue | None = None,
    choose: Choose | None = None,
    timeout_ms: float | None = None,
    attempt: Attempt | None = None,
) -> Flow[SendResult]:
    """Send until a broker has taken the message, or give up."""
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
    retries = policy.retry_times
    if wanted is not None and sending.retries_refusals:
        retries = 0
    attempts: list[tuple[str, Exception]] = []
    if attempt is not None:
        queue = attempt.queue
    else:
        queue = wanted or sending.chooser.choose(message.topic, route.publish_queues)
    queue_id = queue.queue_id
    while True:
        left_ms = budget_ms - (attempt_begin - begin) * 1000
        if left_ms <= 0:
            raise _failed(message, attempts, budget_ms, begin, clock)
        name = queue.broker_name
        address = sending.address(name)
        error: Exception
        if address is None:
            # A given queue's broker may be known to nameservers only.
            error = ConnectionLost(f"no master of broker {name} is known")
            if not sending.retries_refusals:
                retries = 0
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
                if sending.on_lost is not None and isinstance(lost, ConnectionLost):
                    sending.on_lost()
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
                    if (
                        status is SendStatus.SEND_OK
                        or not policy.retry_when_not_stored_ok
                        or len(attempts) >= retries
                    ):
                        return result
                    error = BrokerRefused(response.code, status.name, address=address)
                else:
                    error = refusal(response, address)
                    if not sending.retries_refusals or response.code not in policy.retry_codes:
                        raise error
        attempts.append((name, error))
        attempt = None
        if len(attempts) > retries:
            raise _failed(message, attempts, budget_ms, begin, clock)
        _log.debug("attempt %d to send to %s failed: %s", len(attempts), name, error)
        attempt_begin = clock()
        if wanted is None:
            route = sending.routes.route(message.topic) or route
            queue = sending.chooser.choose(message.topic, route.publish_queues, name)
            if not sending.retries_refusals:
                # As RocketMQ does: the same request goes to another broker.
                queue = MessageQueue(queue.topic, queue.broker_name, queue_id)


def send_oneway(
    sending: Sending,
    message: Outgoing,
    *,
    queue: MessageQueue | None = None,
    choose: Choose | None = None,
    timeout_ms: float | None = None,
) -> Flow[None]:
    """Send once and do not wait for what becomes of it."""
    budget_ms = sending.policy.timeout_ms if timeout_ms is None else timeout_ms
    route = sending.routes.route(message.topic)
    if route is None or not route.publish_queues:
        route = yield from sending.route(message.topic, budget_ms)
    if choose is not None:
        queue = choose(route.publish_queues)
    queue = queue or sending.chooser.choose(message.topic, route.publish_queues)
    address = sending.address(queue.broker_name)
    if address is None:
        raise SendFailed(f"no master of broker {queue.broker_name} is known")
    try:
        yield Notify(address, message.code, message.ext_for(queue), message.body, "binary")
    except RemotingError as error:
        attempts = [(queue.broker_name, error)]
        raise SendFailed(f"the message could not be sent: {error}", attempts) from error


def result_of(
    status: SendStatus, message_id: str, topic: str, queue: MessageQueue, response: Command
) -> SendResult:
    """Return what a broker that has taken a message says of it."""
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


def _failed(
    message: Outgoing,
    attempts: list[tuple[str, Exception]],
    budget_ms: float,
    begin: float,
    clock: Callable[[], float],
) -> SendFailed:
    took_ms = (clock() - begin) * 1000
    brokers = [name for name, _ in attempts]
    text = (
        f"send to topic {message.topic!r} failed {len(attempts)} times in {took_ms:.0f} ms, "
        f"brokers tried: {brokers}"
    )
    if took_ms >= budget_ms or any(isinstance(error, RequestTimeout) for _, error in attempts):
        text += f"; the budget for all attempts is timeout_ms={budget_ms:.0f}"
    for name, error in attempts:
        text += f"\n  {name}: {error}"
    failed = SendFailed(text, attempts)
    if attempts:
        failed.__cause__ = attempts[-1][1]
    return failed
