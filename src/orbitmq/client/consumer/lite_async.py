"""`AsyncConsumer`: the iterating consumer for asyncio, see `orbitmq.client.consumer.lite`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Self

from orbitmq._native import ReceivedMessage
from orbitmq.client.consumer.buffer import ReadBuffer
from orbitmq.client.consumer.lite_member import BaseConsumer, epoch_ms, settle
from orbitmq.client.consumer.queue_watch import Tell
from orbitmq.client.consumer.subscription import subscribe
from orbitmq.message import MessageQueue

__all__ = ["AsyncConsumer"]


class AsyncConsumer(BaseConsumer):
    """Iterating consumer for asyncio: returns messages one by one or in lists.

    ::

        async with AsyncConsumer("127.0.0.1:9876", "orders", group="billing") as consumer:
            async for message in consumer:
                print(message.body)

    The consumer belongs to the event loop on which it is started. Everything else is as in
    `Consumer`.
    """

    async def start(self) -> Self:
        """Join the group and start pulling on the running loop. ::

        await consumer.start()
        """
        self._begin()
        self._arrived = asyncio.Event()
        self._inbox = ReadBuffer(self._arrived)
        if not self._has_joined(await self._join(self._inbox)):
            await self.close()
        return self

    async def close(self, *, last_is_done: bool = True) -> None:
        """Commit the offsets of done messages and leave the group.

        The last returned message or list counts as done, unless `last_is_done` is False. ::

            await consumer.close()
        """
        member = self._take_member()
        if member is None:
            return
        settle(self._inbox, last_is_done)
        await member.stop()

    async def stop(self, *, last_is_done: bool = True) -> None:
        """Do the same as `close`, under an older name. ::

        await consumer.stop()
        """
        await self.close(last_is_done=last_is_done)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.close(last_is_done=error is None)

    # ---- Messages

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        if self._inbox is not None:
            return self._messages()
        return self._all_messages()

    async def _all_messages(self) -> AsyncIterator[ReceivedMessage]:
        """Start the consumer, yield messages, and close the consumer when the iteration ends."""
        await self.start()
        try:
            async for message in self._messages():
                yield message
        finally:
            # The loop may have ended normally or with an error; this generator cannot tell which.
            await self.close(last_is_done=False)

    async def _messages(self) -> AsyncIterator[ReceivedMessage]:
        inbox = self._reading
        while not inbox.is_closed:
            messages = inbox.take()
            if messages is None:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            for message in messages:
                inbox.last = message
                yield message
            inbox.went_through()
            # Let other tasks run, above all the pulls.
            await asyncio.sleep(0)

    async def poll(
        self, max_messages: int = 1000, *, timeout_s: float = 5.0
    ) -> list[ReceivedMessage]:
        """Return at most `max_messages` messages, or an empty list if none arrive in time.

        The messages of the previous call count as done. ::

            while messages := await consumer.poll(1000):
                await store(messages)
        """
        inbox = self._reading
        await asyncio.sleep(0)
        messages = inbox.take_many(max_messages)
        if messages or inbox.is_closed:
            return messages
        try:
            async with asyncio.timeout(timeout_s):
                while not messages and not inbox.is_closed:
                    self._arrived.clear()
                    await self._arrived.wait()
                    messages = inbox.take_many(max_messages)
        except TimeoutError:
            pass
        return messages

    async def batches(self, size: int = 1000) -> AsyncIterator[list[ReceivedMessage]]:
        """Yield messages in lists of at most `size`. ::

        async for messages in consumer.batches(1000):
            await store(messages)
        """
        while self._member is not None:
            messages = await self.poll(size, timeout_s=60)
            if messages:
                yield messages

    # ---- Topics and queues

    async def subscribe(
        self, topic: str, *, tags: str | None = None, sql: str | None = None
    ) -> None:
        """Subscribe to another topic and read this consumer's share of its queues. ::

        await consumer.subscribe("orders", tags="created || paid")
        """
        subscribe(topic, tags, sql, 0)
        if self._member is not None:
            await self._member.subscribe(topic, tags, sql)
        self._wanted[topic] = (tags, sql)

    async def unsubscribe(self, topic: str) -> None:
        """Stop reading a topic. ::

        await consumer.unsubscribe("orders")
        """
        self._wanted.pop(topic, None)
        if self._member is not None:
            await self._member.unsubscribe(topic)

    async def assign(self, queues: Iterable[MessageQueue], *, tags: str | None = None) -> None:
        """Read exactly these queues; other members of the group may read them, too. ::

        await consumer.assign(await consumer.queues("orders"))
        """
        self._assigned = (list(queues), tags)
        if self._member is not None:
            await self._member.assign(*self._assigned)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic. ::

        await consumer.queues("orders")
        """
        return await self._running.queues_of(topic)

    async def on_queues_changed(self, topic: str, function: Tell) -> None:
        """Call a function with all queues of a topic whenever the queues have changed. ::

        await consumer.on_queues_changed("orders", consumer.assign)
        """
        tell = self._tell(topic, function)
        if self._member is not None:
            await self._member.watch.add(topic, tell)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue reading a queue at another offset. ::

        await consumer.seek(queue, 100)
        """
        await self._running.seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue reading a queue at its first message. ::

        await consumer.seek_to_begin(queue)
        """
        await self.seek(queue, await self.begin_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue reading a queue at its end, behind all present messages. ::

        await consumer.seek_to_end(queue)
        """
        await self.seek(queue, await self.end_offset(queue))

    async def pause(self, *queues: MessageQueue) -> None:
        """Stop pulling from these queues; messages in the buffer are still returned. ::

        await consumer.pause(queue)
        """
        self._running.pause(queues)

    async def resume(self, *queues: MessageQueue) -> None:
        """Resume pulling from these queues. ::

        await consumer.resume(queue)
        """
        self._running.resume(queues)

    # ---- Offsets

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit `offsets` now; without them, commit all messages returned so far. ::

        await consumer.commit()
        """
        if offsets is None:
            settle(self._inbox, True)
        await self._running.commit(offsets)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset of a queue, None before the first commit. ::

        await consumer.committed(queue)
        """
        return await self._running.committed(queue)

    async def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message that a queue still has. ::

        await consumer.begin_offset(queue)
        """
        return await self._running.end_of(queue, first=True)

    async def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset behind a queue's last message. ::

        await consumer.end_offset(queue)
        """
        return await self._running.end_of(queue, first=False)

    async def offset_for_time(self, queue: MessageQueue, moment: datetime | int) -> int:
        """Return the offset of the message stored nearest to a time (epoch ms). ::

        await consumer.offset_for_time(queue, datetime(2024, 1, 1))
        """
        return await self._running.offset_at(queue, epoch_ms(moment))
