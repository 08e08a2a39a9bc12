"""The way nearly all sends of an awaiting producer go: known route, open connection, taken at once.

It is the beginning of the flow of `flows.send`, without a generator, a wish and a coroutine between
producer and connection: these cost more than the request itself, and with ten thousand sends under
way their objects cost the garbage collector as much again. What is not plain is left to the flow
from the start; after a first attempt that did not succeed the flow goes on where it ended.
"""

from __future__ import annotations

import time
from asyncio import Future

from orbitmq._native import Command, encode_send
from orbitmq.client.flows.send import Attempt, Sending, result_of, send
from orbitmq.client.state.namespace import wrap
from orbitmq.client.state.outgoing import check_topic, make_outgoing, properties_text
from orbitmq.client.state.unique_ids import make_unique_id
from orbitmq.client.wishes import Flow
from orbitmq.message import Message, MessageQueue, SendResult, SendStatus
from orbitmq.remoting.client import RemotingClient

__all__ = ["Begun", "QuickSend"]

Begun = tuple[Future[Command], MessageQueue, str, int, float]
"""The answer to come, the queue, the message's id, its time of birth, when the attempt began."""


class QuickSend:
    """Sends of one producer that need nothing but one request."""

    def __init__(
        self, sending: Sending, network: RemotingClient, group: str, namespace: str | None
    ) -> None:
        self._sending = sending
        self._network = network
        self._group = group
        self._namespace = namespace

    def begin(
        self, message: Message, queue: MessageQueue | None, timeout_ms: float | None
    ) -> Begun | None:
        """Make the first attempt, or return None when this message needs more than that."""
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
        """Return what became of a message if its first attempt was answered, and all is well."""
        answer, queue, message_id, _, _ = begun
        response = answer.result()
        if response.code:
            return None
        return result_of(SendStatus.SEND_OK, message_id, message.topic, queue, response)

    def go_on(
        self, message: Message, begun: Begun, queue: MessageQueue | None, timeout_ms: float | None
    ) -> Flow[SendResult]:
        """Return the flow that decides what follows a first attempt that did not succeed."""
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
