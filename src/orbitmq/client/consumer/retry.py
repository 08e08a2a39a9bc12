"""Handling of failed messages: messages whose handler raised an error or has not returned in time.

Failed messages are sent back to their brokers, which deliver them again later or make them dead
letters. The offset of a message is not committed before a broker has accepted the message. A
message that no broker accepts now is retried in this consumer.

Some messages can never be accepted by a broker, because of the message itself. This consumer
retries such a message up to the usual limit. Then the message is set aside with an error in the
log, and its queue continues.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from typing import Any

from orbitmq._native import ReceivedMessage, encode_properties
from orbitmq.client.consumer.concurrent import ConcurrentService
from orbitmq.client.consumer.coordinator import ConsumerCoordinator
from orbitmq.client.consumer.handlers import Failure, log_failure
from orbitmq.client.consumer.orderly_queue import OrderlyQueue
from orbitmq.client.consumer.process_queue import Run
from orbitmq.errors import FAILURES, BrokerRefused, OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import AUTO_CREATE_TOPIC, RETRY_PREFIX, Property, dlq_topic, retry_topic
from orbitmq.rpc.flow import Call, Flow
from orbitmq.rpc.refusals import is_hopeless, refusal
from orbitmq.rpc.route_table import RouteTable
from orbitmq.rpc.routes import fetch_route

__all__ = ["FailedMessageHandler", "send_back", "send_copy"]

_log = logging.getLogger(__name__)

LOCAL_RETRY_S = 5.0
STUCK_DELAY_LEVEL = 3
FOREVER = 2**31 - 1


class FailedMessageHandler:
    """Settles failed messages on the loop: sends them back, retries them or sets them aside."""

    def __init__(self, member: ConsumerCoordinator) -> None:
        self._member = member
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()

    def serve(self, service: ConcurrentService) -> None:
        """Set the service that retries the messages which no broker accepts."""
        self._service = service

    async def finish(self, timeout_s: float) -> None:
        """Wait until all failed messages are settled, at most `timeout_s`."""
        # Workers have passed all failures to the loop by now; let the loop start their tasks.
        await asyncio.sleep(0)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    def failed(self, run: Run, failed: list[Failure]) -> None:
        """Log the failures of a run and settle them on the loop; workers call this."""
        for _, group in itertools.groupby(failed, lambda failure: id(failure.error)):
            of_one = list(group)
            log_failure(_log, [failure.message for failure in of_one], of_one[0].error)
        self._loop.call_soon_threadsafe(lambda: self._begin_to_settle(run, failed))

    def _begin_to_settle(self, run: Run, failed: list[Failure]) -> None:
        task = self._member.instance.spawn(self._settle(run, failed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, run: Run, failed: list[Failure]) -> None:
        """Send failed messages back; messages that cannot be sent are retried in this consumer."""
        if self._member.settings.broadcast:
            run.queue.finish(run)
            return
        kept = []
        for failure in failed:
            message = failure.message
            try:
                await self._send_back(message, failure.delay_level)
            except FAILURES as error:
                if self._is_set_aside(message, error, self._member.settings.send_back_limit):
                    continue
                _stays_here(message, error)
                kept.append(message.with_reconsume_times(message.reconsume_times + 1))
        runs = run.queue.finish(run, kept)
        if not self._member.instance.routes.route(retry_topic(self._member.group)):
            self._member.rebalance_soon()  # the retry topic exists now
        if runs:
            self._loop.call_later(LOCAL_RETRY_S, self._retry_here, runs)

    def _retry_here(self, runs: list[Run]) -> None:
        for run in runs:
            if not run.queue.is_dropped:
                self._service.submit(run)

    async def give_up_stuck_messages(self) -> None:
        """Send back messages whose handlers do not return in time, to let their queues continue."""
        overdue = time.monotonic() - self._member.settings.consume_timeout_s
        for stuck in self._service.stuck_since(overdue):
            names = ", ".join(message.message_id for message in stuck.messages)
            _log.warning(
                "the handler of topic %s has not finished message %s within %.0f s; the message is "
                "sent back to its broker and will be retried",
                stuck.messages[0].topic,
                names,
                self._member.settings.consume_timeout_s,
            )
            try:
                for message in stuck.messages:
                    await self._send_back(message, STUCK_DELAY_LEVEL)
            except FAILURES as error:
                _log.warning(
                    "message %s could not be sent back; its handler keeps it until the next check: "
                    "%s",
                    names,
                    error,
                )
                continue
            self._service.give_up(stuck)

    @staticmethod
    def _is_set_aside(message: ReceivedMessage, error: BaseException, limit: int) -> bool:
        """Set a message aside if no broker can ever accept it and its retries are used up.

        Returns True if the message was set aside.
        """
        if message.reconsume_times < limit or not is_hopeless(error):
            return False
        _log.error(
            "message %s of %s at offset %d, physical offset %d, was tried %d times and is set "
            "aside, because no broker can accept it as a dead letter: %s",
            message.message_id,
            message.queue,
            message.queue_offset,
            message.physical_offset,
            message.reconsume_times,
            error,
        )
        return True

    async def _send_back(self, message: ReceivedMessage, delay_level: int) -> None:
        queue: MessageQueue = message.queue
        await self._member.instance.run(
            send_back(
                self._member.instance.routes,
                self._member.group,
                message,
                queue.broker_name,
                delay_level=delay_level,
                max_reconsume_times=self._member.settings.send_back_limit,
            )
        )

    async def settle_ordered(
        self, _queue: OrderlyQueue, taken: list[ReceivedMessage], _error: BaseException
    ) -> list[ReceivedMessage] | None:
        """Make failed ordered messages dead letters if all have used up their retries.

        Returns None if they need no retry, else the messages to retry.
        """
        limit = self._member.settings.max_reconsume_times
        if self._member.settings.broadcast:
            limit = FOREVER if limit < 0 else limit
            if all(message.reconsume_times >= limit for message in taken):
                return None
        elif (
            limit >= 0
            and all(message.reconsume_times >= limit for message in taken)
            and await self._are_dead_letters(taken, limit)
        ):
            return None
        return [message.with_reconsume_times(message.reconsume_times + 1) for message in taken]

    async def _are_dead_letters(self, taken: list[ReceivedMessage], limit: int) -> bool:
        """Make messages dead letters; returns False if this fails, so that they must be retried."""
        for message in taken:
            try:
                await self._member.instance.run(
                    send_copy(
                        self._member.instance.routes,
                        self._member.group,
                        message,
                        reconsume_times=message.reconsume_times,
                        max_reconsume_times=limit,
                    )
                )
            except FAILURES as error:
                if not self._is_set_aside(message, error, limit):
                    _stays_here(message, error)
                    return False
        return True


def _stays_here(message: ReceivedMessage, error: BaseException) -> None:
    _log.warning(
        "could not send message %s back to its broker; retrying it in this consumer: %s",
        message.message_id,
        error,
        exc_info=None if isinstance(error, OrbitError) else error,
    )


# ---- Send-back of a failed message
#
# The broker puts a returned message into the group's retry topic, with a delay that grows with each
# attempt. After too many attempts the broker puts the message into the dead-letter topic. If the
# broker cannot do that now (its master is down), the client sends a copy of the message to the
# retry topic on any broker. So the message is retried nevertheless.

SEND_BACK_TIMEOUT_MS = 5000
COPY_TIMEOUT_MS = 3000
INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
FIRST_DELAY_LEVEL = 3
_STORED = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)


def send_back(
    routes: RouteTable,
    group: str,
    message: ReceivedMessage,
    broker_name: str,
    *,
    delay_level: int = 0,
    max_reconsume_times: int = 16,
    topic: str = "",
) -> Flow[None]:
    """Send a message back to its broker, or else a copy of it to any broker's retry topic.

    Raises an error if both fail. With `delay_level` 0 the broker chooses the delay; a negative
    level makes the message a dead letter at once.
    """
    host, port = message.store_host
    address = routes.master(broker_name) or f"{host}:{port}"
    ext = {
        "offset": str(message.physical_offset),
        "group": group,
        "delayLevel": str(delay_level),
        "originMsgId": message.message_id,
        "originTopic": topic or message.stored_topic,
        "unitMode": "false",
        "maxReconsumeTimes": str(max_reconsume_times),
        "bname": broker_name,
    }
    try:
        response = yield Call(
            address, RequestCode.CONSUMER_SEND_MSG_BACK, ext, None, SEND_BACK_TIMEOUT_MS
        )
        if response.code == ResponseCode.SUCCESS:
            # The broker counts attempts in its own record, without retries in this consumer.
            is_retry = message.stored_topic.startswith(RETRY_PREFIX)
            tries = message.reconsume_times if is_retry else 0
            if delay_level < 0 or tries >= max_reconsume_times:
                _note_dead_letter(group, message)
            return
        raise refusal(response, address)
    except OrbitError as error:
        _log.warning(
            "message %s could not be sent back (%s); sending a copy to the retry topic",
            message.message_id,
            error,
        )
    yield from send_copy(
        routes,
        group,
        message,
        reconsume_times=message.reconsume_times + 1,
        max_reconsume_times=max_reconsume_times,
        delay_level=FIRST_DELAY_LEVEL + message.reconsume_times,
    )


def send_copy(
    routes: RouteTable,
    group: str,
    message: ReceivedMessage,
    *,
    reconsume_times: int,
    max_reconsume_times: int,
    delay_level: int = 0,
) -> Flow[None]:
    """Send a copy of a message to the group's retry topic, on the first broker that accepts it.

    That broker makes the message a dead letter if it has used up its retries.
    """
    topic = retry_topic(group)
    if not routes.publish_queues(topic):
        yield from fetch_route(routes, topic)
    properties = message.properties
    properties.setdefault(Property.RETRY_TOPIC, message.stored_topic)
    properties.setdefault(Property.ORIGIN_MESSAGE_ID, message.message_id)
    properties.pop(Property.TRANSACTION, None)
    properties.pop(Property.DELAY, None)
    if delay_level > 0:
        properties[Property.DELAY] = str(delay_level)
    body = message.stored_body
    failure: OrbitError = BrokerRefused(
        ResponseCode.TOPIC_NOT_EXIST, f"no broker has the topic {topic}"
    )
    tried: set[str] = set()
    for queue in routes.publish_queues(topic):
        address = routes.master(queue.broker_name)
        if address is None or queue.broker_name in tried:
            continue
        tried.add(queue.broker_name)
        ext = {
            "producerGroup": INNER_PRODUCER,
            "topic": topic,
            "defaultTopic": AUTO_CREATE_TOPIC,
            "defaultTopicQueueNums": "4",
            "queueId": str(queue.queue_id),
            "sysFlag": str(message.sys_flag & ~0xC),
            "bornTimestamp": str(message.born_timestamp),
            "flag": str(message.flag),
            "properties": encode_properties(properties),
            "reconsumeTimes": str(reconsume_times),
            "unitMode": "false",
            "batch": "false",
            "maxReconsumeTimes": str(max_reconsume_times),
        }
        try:
            response = yield Call(address, RequestCode.SEND_MESSAGE, ext, body, COPY_TIMEOUT_MS)
        except OrbitError as error:
            failure = error
            continue
        if response.code in _STORED:
            if reconsume_times >= max_reconsume_times:
                _note_dead_letter(group, message)
            return
        failure = refusal(response, address)
    raise failure


def _note_dead_letter(group: str, message: ReceivedMessage) -> None:
    """Log a dead letter, because its group will not get the message again automatically."""
    _log.warning(
        "message %s of topic %s is a dead letter of group %s after %d attempts; it is in topic %s",
        message.message_id,
        message.topic,
        group,
        message.reconsume_times + 1,
        dlq_topic(group),
    )
