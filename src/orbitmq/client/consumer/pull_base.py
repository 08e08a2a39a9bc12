"""Common base of `PullConsumer` and `AsyncPullConsumer`, in which a pull is one request."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Unpack

from orbitmq._native import ReceivedMessage
from orbitmq.client.consumer.coordinator import now_ms
from orbitmq.client.consumer.handlers import DEAD_LETTER
from orbitmq.client.consumer.offsets import (
    commit_offset,
    max_offset,
    min_offset,
    search_offset,
    stored_offset,
)
from orbitmq.client.consumer.pull_flow import PullRequest, messages_of, pull
from orbitmq.client.consumer.retry import send_back
from orbitmq.client.consumer.settings import ConsumerOptions, Nameservers, sort_options
from orbitmq.client.consumer.subscription import subscribe
from orbitmq.client.instance import ClientInstance
from orbitmq.errors import ClientClosed, ConfigError
from orbitmq.message import MessageQueue, PullStatus, check_delay_level
from orbitmq.protocol.flags import PullFlag
from orbitmq.rpc.flow import Flow
from orbitmq.rpc.namespace import wrap
from orbitmq.rpc.pauses import look_patiently
from orbitmq.rpc.route_table import TopicRoute
from orbitmq.rpc.routes import route_or_diagnose

__all__ = ["BasePullConsumer", "PullHow", "PullResult", "pull_once"]

T = TypeVar("T")

PULL_TIMEOUT_MS = 10_000
SUSPEND_MS = 20_000
SUSPENDED_TIMEOUT_MS = 30_000


@dataclass(slots=True, frozen=True)
class PullResult:
    """Result of a pull: status, messages, and the offset of the next pull.

    >>> PullResult(PullStatus.NO_NEW_MESSAGE, [], 7, 0, 7).next_offset
    7

    `messages` is empty unless `status` is ``FOUND``. Empty `messages` alone do not mean the end of
    the queue: a pull with tags or SQL also ends after some hundred messages that do not match.
    """

    status: PullStatus
    messages: list[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int


@dataclass(slots=True, frozen=True)
class PullHow:
    """Options of a pull: limit, filter, and True to wait for messages."""

    max_messages: int
    tags: str | None = None
    sql: str | None = None
    block: bool = False


async def pull_once(
    instance: ClientInstance,
    group: str,
    queue: MessageQueue,
    own: MessageQueue,
    offset: int,
    how: PullHow,
) -> PullResult:
    """Pull from a queue; `own` is the queue with the broker's topic name."""
    if offset < 0 or how.max_messages <= 0:
        raise ConfigError(
            f"offset must not be negative ({offset}) and max_messages positive ({how.max_messages})"
        )
    version = 0 if how.sql is None else now_ms()
    subscription = subscribe(own.topic, how.tags, how.sql, version)
    request = PullRequest(
        group,
        own,
        subscription,
        offset,
        how.max_messages,
        flags=PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if how.block else 0),
        suspend_ms=SUSPEND_MS if how.block else 0,
        timeout_ms=SUSPENDED_TIMEOUT_MS if how.block else PULL_TIMEOUT_MS,
    )
    pulled = await instance.run(pull(instance.routes, request))
    messages = messages_of(pulled, queue, subscription, topic=queue.topic)
    status = pulled.status
    if status is PullStatus.FOUND and not messages:
        status = PullStatus.NO_MATCHED_MESSAGE  # brokers compare only the hashes of tags
    return PullResult(status, messages, pulled.next_offset, pulled.min_offset, pulled.max_offset)


class BasePullConsumer:
    """Common base of the classic pull consumers."""

    def __init__(
        self,
        nameservers: Nameservers = None,
        *,
        group: str,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.client_settings, self.settings = sort_options(nameservers, group, options)
        self.group = wrap(self.client_settings.namespace, group)
        self._instance: ClientInstance | None = None
        self._topics: set[str] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of group {self.settings.group!r}>"

    @property
    def is_running(self) -> bool:
        """True if the consumer was started and not stopped."""
        return self._instance is not None

    @property
    def _running(self) -> ClientInstance:
        if self._instance is None:
            raise ClientClosed(f"{self!r} is not running: call start() first")
        return self._instance

    async def _open(self) -> ClientInstance:
        instance = ClientInstance(self.client_settings, stream=True)
        instance.add_consumer(self.group, self._describe)
        await instance.start()
        return instance

    def _describe(self) -> dict[str, Any]:
        return {
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "consumeType": "CONSUME_ACTIVELY",
            "groupName": self.group,
            "messageModel": self.settings.message_model,
            "subscriptionDataSet": [
                subscribe(topic, None, None, 0).as_json() for topic in sorted(self._topics)
            ],
            "unitMode": False,
        }

    async def _route(self, topic: str) -> TopicRoute:
        """Return a route with queues to read from; waits for a broker that is unreachable."""
        instance = self._running

        def look(left_ms: float) -> Flow[TopicRoute]:
            return route_or_diagnose(instance.routes, topic, left_ms)

        timeout_ms = self.client_settings.timeout_ms
        return await instance.run(look_patiently(look, timeout_ms, time.monotonic))

    async def _introduce(self, topic: str) -> None:
        """Announce the group by a heartbeat before the first request about a topic."""
        instance = self._running
        if topic and topic not in self._topics:
            await self._route(topic)
            instance.routes.watch(topic)
            self._topics.add(topic)
            await instance.heartbeat()

    async def _run(self, flow: Flow[T], topic: str) -> T:
        """Run a flow about a topic, after a heartbeat if it is the first about this topic."""
        await self._introduce(topic)
        return await self._running.run(flow)

    def _own(self, queue: MessageQueue) -> MessageQueue:
        topic = wrap(self.client_settings.namespace, queue.topic)
        return MessageQueue(topic, queue.broker_name, queue.queue_id)

    async def _pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int,
        tags: str | None,
        sql: str | None,
        block: bool,
    ) -> PullResult:
        own = self._own(queue)
        await self._introduce(own.topic)
        how = PullHow(max_messages, tags, sql, block)
        return await pull_once(self._running, self.group, queue, own, offset, how)

    async def _queues(self, topic: str) -> list[MessageQueue]:
        route = await self._route(wrap(self.client_settings.namespace, topic))
        return [
            MessageQueue(topic, queue.broker_name, queue.queue_id)
            for queue in route.subscribe_queues
        ]

    async def _offset(self, queue: MessageQueue, which: Literal["min", "max", "stored"]) -> int:
        own, routes = self._own(queue), self._running.routes
        if which == "stored":
            return await self._run(stored_offset(routes, self.group, own), own.topic)
        ask = min_offset if which == "min" else max_offset
        return await self._run(ask(routes, own), own.topic)

    async def _search(self, queue: MessageQueue, time_ms: int) -> int:
        own = self._own(queue)
        return await self._run(search_offset(self._running.routes, own, time_ms), own.topic)

    async def _commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        routes = self._running.routes
        # One after the other: see RemoteOffsets.persist.
        for queue, offset in offsets.items():
            own = self._own(queue)
            await self._run(commit_offset(routes, self.group, own, offset), own.topic)

    async def _send_back(self, message: ReceivedMessage, delay_level: int) -> None:
        check_delay_level(delay_level, lowest=DEAD_LETTER)
        queue: MessageQueue = message.queue
        flow = send_back(
            self._running.routes,
            self.group,
            message,
            queue.broker_name,
            delay_level=delay_level,
            max_reconsume_times=self.settings.send_back_limit,
        )
        await self._run(flow, "")
