"""What becomes of messages whose handlers failed, or never came back.

They go back to their brokers, to be retried later or to become dead letters; until a broker has
taken one, its offset is not committed. A message that no broker takes is tried again here. One that
no broker can ever take, because of the message itself, is tried here as often as it would have been
elsewhere; then it is set aside with an error in the log, and its queue goes on.
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
    """Settles what handlers have left, on the loop."""

    def __init__(self, member: ConsumerCoordinator) -> None:
        self._member = member
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()

    def serve(self, service: ConcurrentService) -> None:
        """Say who tries again what stays here."""
        self._service = service

    async def finish(self, timeout_s: float) -> None:
        """Wait until everything is settled."""
        # What the last handlers left behind has been handed to the loop by now.
        await asyncio.sleep(0)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    def failed(self, run: Run, failed: list[Failure]) -> None:
        """Take care of what a run has failed with; workers call this."""
        for _, group in itertools.groupby(failed, lambda failure: id(failure.error)):
            of_one = list(group)
            log_failure(_log, [failure.message for failure in of_one], of_one[0].error)
        self._loop.call_soon_threadsafe(lambda: self._begin_to_settle(run, failed))

    def _begin_to_settle(self, run: Run, failed: list[Failure]) -> None:
        task = self._member.instance.spawn(self._settle(run, failed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, run: Run, failed: list[Failure]) -> None:
        """Send failed messages back; those that cannot be sent are tried again here."""
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
            self._member.rebalance_soon()  # the topic of retries is there now
        if runs:
            self._loop.call_later(LOCAL_RETRY_S, self._retry_here, runs)

    def _retry_here(self, runs: list[Run]) -> None:
        for run in runs:
            if not run.queue.is_dropped:
                self._service.submit(run)

    async def give_up_stuck_messages(self) -> None:
        """Send back what handlers do not come back from, so that its queue can go on."""
        overdue = time.monotonic() - self._member.settings.consume_timeout_s
        for stuck in self._service.stuck_since(overdue):
            names = ", ".join(message.message_id for message in stuck.messages)
            _log.warning(
                "the handler of %s has had message %s for more than %.0f s: it will be retried",
                stuck.messages[0].topic,
                names,
                self._member.settings.consume_timeout_s,
            )
            try:
                for message in stuck.messages:
                    await self._send_back(message, STUCK_DELAY_LEVEL)
            except FAILURES as error:
                _log.warning("message %s stays with its handler: %s", names, error)
                continue
            self._service.give_up(stuck)

    @staticmethod
    def _is_set_aside(message: ReceivedMessage, error: BaseException, limit: int) -> bool:
        """Set a message aside that was tried often enough, if no broker can ever take it."""
        if message.reconsume_times < limit or not is_hopeless(error):
            return False
        _log.error(
            "message %s of %s at offset %d, physical offset %d, was tried %d times and is set "
            "aside, because no broker can take it as a dead letter: %s",
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
        """Hand messages that were tried too often to the dead letters, have the others again."""
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
        """Make messages dead letters; returns whether they need not be tried any more."""
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
        "could not send message %s back to its broker, retrying it in this consumer: %s",
        message.message_id,
        error,
        exc_info=None if isinstance(error, OrbitError) else error,
    )


# ---- What becomes of a message whose handler failed: back to the broker, for another try later
#
# The broker puts it into the group's retry topic, with a delay that grows from try to try, and
# after too many into the topic of dead letters. A broker that cannot do that now (its master is
# down) does not keep the message from being retried: then a copy goes into the retry topic on any
# broker.

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
    """Give a message back; raises when neither way works.

    `delay_level` 0 lets the broker choose, below 0 makes the message a dead letter at once.
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
            # The broker counts for itself: tries in this consumer alone are not in its record.
            is_retry = message.stored_topic.startswith(RETRY_PREFIX)
            tries = message.reconsume_times if is_retry else 0
            if delay_level < 0 or tries >= max_reconsume_times:
                _note_dead_letter(group, message)
            return
        raise refusal(response, address)
    except OrbitError as error:
        _log.warning(
            "message %s cannot be sent back (%s): a copy of it goes into the retry topic",
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
    """Put a copy of a message into the group's retry topic, on the first broker that takes it.

    One that has been tried too often becomes a dead letter there.
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
    """Log a message that its group will not get again by itself."""
    _log.warning(
        "message %s of topic %s is a dead letter of group %s after %d attempts; it is in topic %s",
        message.message_id,
        message.topic,
        group,
        message.reconsume_times + 1,
        dlq_topic(group),
    )
