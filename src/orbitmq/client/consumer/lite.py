"""Consumers that are asked for messages: `Consumer` for threads, `AsyncConsumer` for asyncio.

Both read from an inbox that is filled ahead of them. A message counts as done, and is committed in
time, when the reader comes back for the next one.
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
    """Gives messages to whoever asks for them, one by one or in lists.

    ::

        with Consumer("127.0.0.1:9876", "orders", group="billing") as consumer:
            for message in consumer:
                print(message.body)

    A message is done when the loop asks for the next one; what is done is committed every few
    seconds and at the end. With ``auto_commit=False`` only `commit` does that. Instead of topics a
    consumer can be given queues (`assign`), and it may go anywhere in them (`seek`).

    ``for message in Consumer(...)`` does without the ``with``; then the message that the loop was
    left at comes again next time.

    Other settings (keyword arguments) are those of `PushConsumer`.
    """

    def start(self) -> Self:
        """Begin to pull, in the background. ::

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
        """Commit what was done and leave the group.

        The message, or list, handed out last counts as done unless told otherwise. ::

            consumer.close()
        """
        member = self._take_member()
        if member is None:
            return
        if self._generation != background.generation():
            background.keep_parent_objects(member)  # a forked child has only a picture of it
            return
        settle(self._inbox, last_is_done)
        background.run(member.stop())

    def stop(self, *, last_is_done: bool = True) -> None:
        """Do what `close` does, by an older name. ::

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

    # ---- reading

    def __iter__(self) -> Iterator[ReceivedMessage]:
        if self._inbox is not None:
            return self._messages()
        return self._all_messages()

    def _all_messages(self) -> Iterator[ReceivedMessage]:
        """Start, give what comes, and stop when nobody wants more."""
        self.start()
        try:
            yield from self._messages()
        finally:
            # Whether the loop was left because it was done or because it failed, nobody knows.
            self.close(last_is_done=False)

    def _messages(self) -> Iterator[ReceivedMessage]:
        inbox = self._reading
        while not inbox.is_closed:
            messages = inbox.take()
            if messages is None:
                self._arrived.clear()
                messages = inbox.take()
                if messages is None:
                    # In slices: a wait without an end would not let signals through everywhere.
                    self._arrived.wait(1)
                    continue
            for message in messages:
                inbox.last = message
                yield message
            inbox.went_through()

    def poll(self, max_messages: int = 1000, *, timeout_s: float = 5.0) -> list[ReceivedMessage]:
        """Return what is there, as one list of at most `max_messages`; empty if nothing comes.

        The messages of the call before count as done. ::

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
        """Go through the messages in lists of at most `size`. ::

        for messages in consumer.batches(1000):
            store(messages)
        """
        while self._member is not None:
            messages = self.poll(size, timeout_s=1)
            if messages:
                yield messages

    # ---- queues

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        """Read our share of a topic, too. ::

        consumer.subscribe("orders", tags="created || paid")
        """
        subscribe(topic, tags, sql, 0)
        if self._member is not None:
            background.run(self._member.subscribe(topic, tags, sql))
        self._wanted[topic] = (tags, sql)

    def unsubscribe(self, topic: str) -> None:
        """Read a topic no more. ::

        consumer.unsubscribe("orders")
        """
        self._wanted.pop(topic, None)
        if self._member is not None:
            background.run(self._member.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], *, tags: str | None = None) -> None:
        """Read exactly these queues, whoever else reads them. ::

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
        """Have a function called with all queues of a topic whenever they have changed.

        It is called on a thread of its own. ::

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
        """Go on at another offset of a queue. ::

        consumer.seek(queue, 100)
        """
        background.run(self._running.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go back to the first message a queue still has. ::

        consumer.seek_to_begin(queue)
        """
        self.seek(queue, self.begin_offset(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Skip what a queue has now. ::

        consumer.seek_to_end(queue)
        """
        self.seek(queue, self.end_offset(queue))

    def pause(self, *queues: MessageQueue) -> None:
        """Pull these queues no more; what was pulled is still handed out. ::

        consumer.pause(queue)
        """
        member = self._running
        background.loop().call_soon_threadsafe(member.pause, queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Pull these queues again. ::

        consumer.resume(queue)
        """
        member = self._running
        background.loop().call_soon_threadsafe(member.resume, queues)

    # ---- offsets

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit offsets now; without any, all that was handed out. ::

        consumer.commit()
        """
        if offsets is None:
            settle(self._inbox, True)
        background.run(self._running.commit(offsets))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return what the group has committed for a queue, None for nothing. ::

        consumer.committed(queue)
        """
        return background.run(self._running.committed(queue))

    def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message a queue still has. ::

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
