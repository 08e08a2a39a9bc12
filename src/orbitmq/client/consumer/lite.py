"""Iterating consumers: `Consumer` for threads, `AsyncConsumer` for asyncio.

The program iterates over messages or polls for lists of them. Both consumers read from a buffer
that pulls fill in advance. A message counts as done when the reader requests the next one. Offsets
of done messages are committed periodically.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Self

from orbitmq._native import ReceivedMessage
from orbitmq.client import background
from orbitmq.client.consumer.buffer import ReadBuffer
from orbitmq.client.consumer.lite_async import AsyncConsumer
from orbitmq.client.consumer.lite_member import BaseConsumer, epoch_ms, settle
from orbitmq.client.consumer.queue_watch import Tell
from orbitmq.client.consumer.subscription import subscribe
from orbitmq.message import MessageQueue

__all__ = ["AsyncConsumer", "Consumer"]


class Consumer(BaseConsumer):
    """Iterating consumer: returns messages one by one or in lists.

    ::

        with Consumer("127.0.0.1:9876", "orders", group="billing") as consumer:
            for message in consumer:
                print(message.body)

    A message is done when the loop requests the next one. Offsets of done messages are committed
    every few seconds and at the end. With ``auto_commit=False`` only `commit` commits offsets.
    A consumer reads its share of the given topics, or exactly the queues given to `assign`. `seek`
    moves to any offset of a queue.

    ``for message in Consumer(...)`` works without ``with``. Then the message at which the loop was
    left is delivered again next time.

    Other settings (keyword arguments) are those of `PushConsumer`.
    """

    def start(self) -> Self:
        """Join the group and start pulling in the background. ::

        consumer.start()
        """
        self._begin()
        self._generation = background.generation()
        self._arrived = threading.Event()
        self._inbox = ReadBuffer(self._arrived)
        if not self._has_joined(background.run(self._join(self._inbox))):
            self.close()
        return self

    def close(self, *, last_is_done: bool = True) -> None:
        """Commit the offsets of done messages and leave the group.

        The last returned message or list counts as done, unless `last_is_done` is False. ::

            consumer.close()
        """
        member = self._take_member()
        if member is None:
            return
        if self._generation != background.generation():
            background.keep_parent_objects(member)  # a forked child has only a copy of the member
            return
        settle(self._inbox, last_is_done)
        background.run(member.stop())

    def stop(self, *, last_is_done: bool = True) -> None:
        """Do the same as `close`, under an older name. ::

        consumer.stop()
        """
        self.close(last_is_done=last_is_done)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close(last_is_done=error is None)

    # ---- Messages

    def __iter__(self) -> Iterator[ReceivedMessage]:
        if self._inbox is not None:
            return self._messages()
        return self._all_messages()

    def _all_messages(self) -> Iterator[ReceivedMessage]:
        """Start the consumer, yield messages, and close the consumer when the iteration ends."""
        self.start()
        try:
            yield from self._messages()
        finally:
            # The loop may have ended normally or with an error; this generator cannot tell which.
            self.close(last_is_done=False)

    def _messages(self) -> Iterator[ReceivedMessage]:
        inbox = self._reading
        while not inbox.is_closed:
            messages = inbox.take()
            if messages is None:
                self._arrived.clear()
                messages = inbox.take()
                if messages is None:
                    # In slices, because an endless wait blocks signals on some systems.
                    self._arrived.wait(1)
                    continue
            for message in messages:
                inbox.last = message
                yield message
            inbox.went_through()

    def poll(self, max_messages: int = 1000, *, timeout_s: float = 5.0) -> list[ReceivedMessage]:
        """Return at most `max_messages` messages, or an empty list if none arrive in time.

        The messages of the previous call count as done. ::

            while messages := consumer.poll(1000):
                store(messages)
        """
        inbox = self._reading
        deadline = time.monotonic() + timeout_s
        while not inbox.is_closed:
            self._arrived.clear()
            messages = inbox.take_many(max_messages)
            if messages:
                return messages
            left = deadline - time.monotonic()
            if left <= 0:
                break
            self._arrived.wait(min(left, 1))
        return []

    def batches(self, size: int = 1000) -> Iterator[list[ReceivedMessage]]:
        """Yield messages in lists of at most `size`. ::

        for messages in consumer.batches(1000):
            store(messages)
        """
        while self._member is not None:
            messages = self.poll(size, timeout_s=1)
            if messages:
                yield messages

    # ---- Topics and queues

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        """Subscribe to another topic and read this consumer's share of its queues. ::

        consumer.subscribe("orders", tags="created || paid")
        """
        subscribe(topic, tags, sql, 0)
        if self._member is not None:
            background.run(self._member.subscribe(topic, tags, sql))
        self._wanted[topic] = (tags, sql)

    def unsubscribe(self, topic: str) -> None:
        """Stop reading a topic. ::

        consumer.unsubscribe("orders")
        """
        self._wanted.pop(topic, None)
        if self._member is not None:
            background.run(self._member.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], *, tags: str | None = None) -> None:
        """Read exactly these queues; other members of the group may read them, too. ::

        consumer.assign(consumer.queues("orders"))
        """
        self._assigned = (list(queues), tags)
        if self._member is not None:
            background.run(self._member.assign(*self._assigned))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic. ::

        consumer.queues("orders")
        """
        return background.run(self._running.queues_of(topic))

    def on_queues_changed(self, topic: str, function: Tell) -> None:
        """Call a function with all queues of a topic whenever the queues have changed.

        The function is called on a separate thread. ::

            consumer.on_queues_changed("orders", consumer.assign)
        """
        tell = self._tell(topic, function)
        if self._member is not None:
            background.run(self._member.watch.add(topic, tell))

    def _caller(self, function: Tell) -> Tell:
        async def call(queues: list[MessageQueue]) -> None:
            await asyncio.to_thread(function, queues)

        return call

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue reading a queue at another offset. ::

        consumer.seek(queue, 100)
        """
        background.run(self._running.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue reading a queue at its first message. ::

        consumer.seek_to_begin(queue)
        """
        self.seek(queue, self.begin_offset(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue reading a queue at its end, behind all present messages. ::

        consumer.seek_to_end(queue)
        """
        self.seek(queue, self.end_offset(queue))

    def pause(self, *queues: MessageQueue) -> None:
        """Stop pulling from these queues; messages in the buffer are still returned. ::

        consumer.pause(queue)
        """
        member = self._running
        background.loop().call_soon_threadsafe(member.pause, queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Resume pulling from these queues. ::

        consumer.resume(queue)
        """
        member = self._running
        background.loop().call_soon_threadsafe(member.resume, queues)

    # ---- Offsets

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit `offsets` now; without them, commit all messages returned so far. ::

        consumer.commit()
        """
        if offsets is None:
            settle(self._inbox, True)
        background.run(self._running.commit(offsets))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset of a queue, None before the first commit. ::

        consumer.committed(queue)
        """
        return background.run(self._running.committed(queue))

    def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message that a queue still has. ::

        consumer.begin_offset(queue)
        """
        return background.run(self._running.end_of(queue, first=True))

    def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset behind a queue's last message. ::

        consumer.end_offset(queue)
        """
        return background.run(self._running.end_of(queue, first=False))

    def offset_for_time(self, queue: MessageQueue, moment: datetime | int) -> int:
        """Return the offset of the message stored nearest to a time (epoch ms). ::

        consumer.seek(queue, consumer.offset_for_time(queue, datetime(2024, 1, 1)))
        """
        return background.run(self._running.offset_at(queue, epoch_ms(moment)))
