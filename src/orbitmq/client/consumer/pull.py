"""Classic pull consumers: the program chooses queue and offset of each pull, and keeps the offsets.

These consumers do not pull in advance and do not share queues in the group; the other consumers do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from orbitmq._native import ReceivedMessage
from orbitmq.client import background
from orbitmq.client.consumer.base import AsyncWithBlock, WithBlock
from orbitmq.client.consumer.pull_base import BasePullConsumer, PullResult
from orbitmq.errors import ClientClosed
from orbitmq.message import MessageQueue, PullStatus

__all__ = ["AsyncPullConsumer", "PullConsumer", "PullResult", "PullStatus"]


class PullConsumer(WithBlock, BasePullConsumer):
    """Pulls from a given queue and offset, one request per call.

    ::

        with PullConsumer("127.0.0.1:9876", group="audit") as consumer:
            for queue in consumer.queues("orders"):
                offset = consumer.begin_offset(queue)
                while True:
                    result = consumer.pull(queue, offset, 100, tags="paid")
                    if result.status is PullStatus.NO_NEW_MESSAGE:
                        break
                    for message in result.messages:  # none, if no message here is wanted
                        print(message.body)
                    offset = result.next_offset
                consumer.commit({queue: offset})
    """

    def start(self) -> Self:
        """Start the background work: heartbeats and refreshes of routes. ::

        consumer.start()
        """
        if self._instance is not None:
            raise ClientClosed(f"{self!r} is running already")
        self._generation = background.generation()
        self._instance = background.run(self._open())
        return self

    def close(self) -> None:
        """Leave the group and close all connections. ::

        consumer.close()
        """
        instance, self._instance = self._instance, None
        if instance is None:
            return
        if self._generation != background.generation():
            background.keep_parent_objects(instance)  # a forked child has only a copy of it
            return
        background.run(instance.stop())

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
        sql: str | None = None,
        block: bool = False,
    ) -> PullResult:
        """Pull messages of a queue from an offset on; with `block`, wait up to 20 s for messages.

        An empty result means the end of the queue only if its status is ``NO_NEW_MESSAGE``. ::

        result = consumer.pull(queue, 0, 100, tags="paid")
        """
        return background.run(self._pull(queue, offset, max_messages, tags, sql, block))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic. ::

        consumer.queues("orders")
        """
        return background.run(self._queues(topic))

    def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message that a queue still has. ::

        consumer.begin_offset(queue)
        """
        return background.run(self._offset(queue, "min"))

    def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset behind a queue's last message. ::

        consumer.end_offset(queue)
        """
        return background.run(self._offset(queue, "max"))

    def offset_for_time(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the message stored nearest to a time (epoch ms). ::

        consumer.offset_for_time(queue, 1_700_000_000_000)
        """
        return background.run(self._search(queue, time_ms))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset of a queue, None before the first commit. ::

        consumer.committed(queue)
        """
        offset = background.run(self._offset(queue, "stored"))
        return offset if offset >= 0 else None

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit offsets of queues for the group. ::

        consumer.commit({queue: 100})
        """
        background.run(self._commit(offsets))

    def send_back(self, message: ReceivedMessage, *, delay_level: int = 0) -> None:
        """Send a message back to its broker, which delivers it again through the retry topic. ::

        consumer.send_back(message, delay_level=3)
        """
        background.run(self._send_back(message, delay_level))


class AsyncPullConsumer(AsyncWithBlock, BasePullConsumer):
    """Pulls from a given queue and offset, one request per call; for asyncio.

    ::

        async with AsyncPullConsumer("127.0.0.1:9876", group="audit") as consumer:
            (queue, *_) = await consumer.queues("orders")
            offset = await consumer.begin_offset(queue)
            while True:
                result = await consumer.pull(queue, offset, 100, tags="paid")
                if result.status is PullStatus.NO_NEW_MESSAGE:
                    break
                for message in result.messages:  # none, if no message here is wanted
                    print(message.body)
                offset = result.next_offset
    """

    async def start(self) -> Self:
        """Start the background work, heartbeats and refreshes of routes, on the running loop. ::

        await consumer.start()
        """
        if self._instance is not None:
            raise ClientClosed(f"{self!r} is running already")
        self._instance = await self._open()
        return self

    async def close(self) -> None:
        """Leave the group and close all connections. ::

        await consumer.close()
        """
        instance, self._instance = self._instance, None
        if instance is not None:
            await instance.stop()

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
        sql: str | None = None,
        block: bool = False,
    ) -> PullResult:
        """Pull messages of a queue from an offset on; with `block`, wait up to 20 s for messages.

        An empty result means the end of the queue only if its status is ``NO_NEW_MESSAGE``. ::

        result = await consumer.pull(queue, 0, 100, tags="paid")
        """
        return await self._pull(queue, offset, max_messages, tags, sql, block)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic. ::

        await consumer.queues("orders")
        """
        return await self._queues(topic)

    async def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message that a queue still has. ::

        await consumer.begin_offset(queue)
        """
        return await self._offset(queue, "min")

    async def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset behind a queue's last message. ::

        await consumer.end_offset(queue)
        """
        return await self._offset(queue, "max")

    async def offset_for_time(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the message stored nearest to a time (epoch ms). ::

        await consumer.offset_for_time(queue, 1_700_000_000_000)
        """
        return await self._search(queue, time_ms)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset of a queue, None before the first commit. ::

        await consumer.committed(queue)
        """
        offset = await self._offset(queue, "stored")
        return offset if offset >= 0 else None

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit offsets of queues for the group. ::

        await consumer.commit({queue: 100})
        """
        await self._commit(offsets)

    async def send_back(self, message: ReceivedMessage, *, delay_level: int = 0) -> None:
        """Send a message back to its broker, which delivers it again through the retry topic. ::

        await consumer.send_back(message, delay_level=3)
        """
        await self._send_back(message, delay_level)
