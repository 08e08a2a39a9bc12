"""Handles the requests that brokers send to a push consumer.

| Code | Request |
| --- | --- |
| 220 | Reset offsets, on behalf of an operator: take the queues up again at the new offsets |
| 221 | Return the current offsets in memory |
| 307 | Return the running info: queues, settings, subscriptions, rates |
| 309 | Call the handler with this message and return the outcome |
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from typing import Any

from orbitmq._native import Command, ReceivedMessage, dumps_lenient
from orbitmq.client.consumer.handlers import OrderlyStatus
from orbitmq.client.consumer.orderly_queue import OrderlyQueue
from orbitmq.client.consumer.process_queue import QueueCache
from orbitmq.client.consumer.push_member import PushMember
from orbitmq.client.consumer.pushed_message import pushed_message
from orbitmq.client.consumer.rates import TopicRates
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import Version
from orbitmq.protocol.members import LONG, Members, as_number
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Refused, respond

__all__ = ["answer_brokers"]

_log = logging.getLogger(__name__)


def answer_brokers(member: PushMember) -> None:
    """Register the handlers of brokers' requests at the member's client instance."""
    calls = _BrokerCalls(member)
    router = member.instance.router
    router.add(calls.reset_offsets, [RequestCode.RESET_CONSUMER_CLIENT_OFFSET])
    router.add(calls.tell_offsets, [RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT])
    router.add(calls.tell_running_info, [RequestCode.GET_CONSUMER_RUNNING_INFO])
    router.add(calls.consume_directly, [RequestCode.CONSUME_MESSAGE_DIRECTLY])


class _BrokerCalls:
    def __init__(self, member: PushMember) -> None:
        self._member = member

    # ---- Offsets

    def reset_offsets(self, request: Command, _connection: Connection) -> None:
        """Start resetting offsets in the background; the request is one-way."""
        ext = request.ext or {}
        if ext.get("group") != self._member.group or not request.body:
            return
        offsets = dict(_offsets(Members.read(request.body)))
        self._member.instance.spawn(self._reset(ext.get("topic", ""), offsets))

    async def _reset(self, topic: str, offsets: dict[MessageQueue, int]) -> None:
        """Drop the queues, so that results of running handlers do not count; commit the offsets."""
        member = self._member
        async with member._rebalancing:
            for queue, offset in offsets.items():
                cache = member.queues.get(queue)
                if queue.topic != topic or cache is None:
                    continue
                cache.drop()
                await member._let_go(cache)
                del member.queues[queue]
                member.offsets.table.put(queue, offset)
                await member.offsets.persist([queue], wait=True)
        _log.info("offsets of topic %s were reset by a broker's request; rebalancing", topic)
        member.rebalance_soon()

    def tell_offsets(self, request: Command, _connection: Connection) -> Command:
        """Return the offset up to which each queue of a topic is done."""
        member = self._member
        for cache in member.queues.values():
            member._collect(cache)
        offsets = member.offsets.table.of_topic(request.get_ext("topic") or "")
        table = {queue.as_key(): offset for queue, offset in offsets.items()}
        body = dumps_lenient({"consumerTable": {}, "messageQueueTable": table})
        return respond(request, body=body)

    # ---- Running info

    def tell_running_info(self, request: Command, _connection: Connection) -> Command:
        """Return the running info of this consumer."""
        member = self._member
        self._check_group(request)
        for cache in member.queues.values():
            member._collect(cache)  # current progress, not that of the last commit
        settings = member.settings
        ordered = bool(len(member.handlers)) and all(each.is_ordered for each in member.handlers)
        properties = {
            field.name: str(getattr(settings, field.name))
            for field in dataclasses.fields(settings)
            if field.name != "strategy"
        } | {
            "strategy": settings.allocate_strategy.name,
            "PROP_NAMESERVER_ADDR": "".join(
                f"{address};" for address in member.instance.routes.nameservers.addresses
            ),
            "PROP_CONSUME_TYPE": member.consume_type,
            "PROP_CONSUMEORDERLY": "true" if ordered else "false",
            "PROP_THREADPOOL_CORE_SIZE": str(settings.concurrency),
            "PROP_CLIENT_VERSION": Version.DESCRIPTION,
            "PROP_CONSUMER_START_TIMESTAMP": str(member.started_at_ms),
        }
        info: dict[str, Any] = {
            "mqTable": {
                queue.as_key(): _queue_info(cache, member.offsets.table.get(queue))
                for queue, cache in member.queues.items()
            },
            "properties": properties,
            "statusTable": {
                topic: _status(member.rates.of(topic)) for topic in member.subscriptions.topics
            },
            "subscriptionSet": [each.as_json() for each in member.subscriptions],
        }
        if (request.get_ext("jstackEnable") or "").lower() == "true":
            info["jstack"] = _stacks()
        return respond(request, body=dumps_lenient(info))

    def _check_group(self, request: Command) -> None:
        group = request.get_ext("consumerGroup")
        if group != self._member.group:
            remark = f"The Consumer Group <{group}> not exist in this consumer"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)

    # ---- Direct consumption of one message

    async def consume_directly(self, request: Command, _connection: Connection) -> Command:
        """Call the handler with the message in the request and return the outcome."""
        self._check_group(request)
        member = self._member
        broker_name = request.get_ext("brokerName") or ""
        message = pushed_message(request, member.namespace or "", broker_name=broker_name)
        began = time.monotonic()
        handler = member.handlers.find(message.topic)
        if handler is None:
            remark = f"nobody here handles topic {message.topic}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        result, remark_text = "CR_SUCCESS", None
        try:
            outcome = await _call(handler.function, [message] if handler.batch > 1 else message)
        except Exception as error:
            result, remark_text = "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"
        else:
            if not handler.auto_commit and isinstance(outcome, OrderlyStatus):
                result = f"CR_{outcome.name}"
        answer: dict[str, Any] = {
            "autoCommit": handler.auto_commit,
            "consumeResult": result,
            "order": handler.is_ordered,
            "spentTimeMills": int((time.monotonic() - began) * 1000),
        }
        if remark_text is not None:
            answer["remark"] = remark_text
        return respond(request, body=dumps_lenient(answer))


async def _call(function: Any, argument: ReceivedMessage | list[ReceivedMessage]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(argument)
    return await asyncio.to_thread(function, argument)


def _offsets(body: Members) -> Iterable[tuple[MessageQueue, int]]:
    """Read the offsets by queue; the body has a map, or a list for clients without maps."""
    if isinstance(body.values.get("offsetTable"), list):
        for entry in body.objects("offsetTable"):
            yield MessageQueue.from_json(entry), entry.number("offset", 0, within=LONG)
        return
    for key, offset in body.table("offsetTable").items():
        yield MessageQueue.from_json(key), as_number(offset, "offsetTable")


def _status(rates: TopicRates) -> dict[str, Any]:
    return {
        "consumeFailedMsgs": rates.failed_in_hour,
        "consumeFailedTPS": rates.failed_per_s,
        "consumeOKTPS": rates.done_per_s,
        "consumeRT": rates.call_ms,
        "pullRT": rates.pull_ms,
        "pullTPS": rates.pulled_per_s,
    }


def _queue_info(cache: QueueCache, committed: int | None) -> dict[str, Any]:
    locked_at, uncommitted = 0, list[ReceivedMessage]()
    if isinstance(cache, OrderlyQueue):
        locked_at, uncommitted = cache.locked_at_ms, cache.uncommitted
    return {
        "cachedMsgCount": cache.count,
        "cachedMsgMaxOffset": max(cache.max_offset, 0) if cache.count else 0,
        "cachedMsgMinOffset": max(cache.min_offset, 0),
        "cachedMsgSizeInMiB": cache.size_bytes >> 20,
        "commitOffset": committed if committed is not None else max(cache.commit_offset, 0),
        "droped": cache.is_dropped,
        "lastConsumeTimestamp": cache.last_pull_ms,
        "lastLockTimestamp": locked_at,
        "lastPullTimestamp": cache.last_pull_ms,
        "locked": bool(locked_at),
        "transactionMsgCount": len(uncommitted),
        "transactionMsgMaxOffset": uncommitted[-1].queue_offset if uncommitted else 0,
        "transactionMsgMinOffset": uncommitted[0].queue_offset if uncommitted else 0,
        "tryUnlockTimes": 0,
    }


def _stacks() -> str:
    """Return the stack traces of all threads, as the equivalent of Java's jstack."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )
