"""Handlers that hang: their messages are given up once and delay no others."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from orbitmq._native import ReceivedMessage, decode_messages, encode_record
from orbitmq.client.consumer.concurrent import ConcurrentService
from orbitmq.client.consumer.handlers import Failure, Handler, HandlerTable
from orbitmq.client.consumer.process_queue import CacheLimits, ProcessQueue, Run
from orbitmq.client.consumer.rates import ConsumeRates
from orbitmq.client.consumer.workers import ThreadWorkers, Workers
from orbitmq.protocol.bodies import MessageQueue
from tests.client.conftest import LIMIT_S, eventually

QUEUE = MessageQueue("T", "b", 0)
COUNT, BAD, HUNG = 12, 1, 7


def _messages() -> list[ReceivedMessage]:
    data = b"".join(encode_record("T", b"x", queue_offset=offset) for offset in range(COUNT))
    return decode_messages(data, QUEUE, topic="T")


class Played:
    """A service with a queue of messages; a failed message counts as taken care of."""

    def __init__(self, handler: Handler, workers: Workers) -> None:
        self.queue = ProcessQueue(QUEUE, 0, CacheLimits(messages=100, size_bytes=10**6, span=None))
        self.failed: list[int] = []
        handlers = HandlerTable()
        handlers.put(handler)
        self.service = ConcurrentService(
            handlers,
            workers,
            self._settle,
            concurrency=1,
            awaits=False,
            rates=ConsumeRates(),
        )

    def _settle(self, run: Run, failed: list[Failure]) -> None:
        self.failed += [failure.message.queue_offset for failure in failed]
        run.queue.finish(run)


@pytest.mark.parametrize("batch", [1, 3])
def test_stuck_messages_are_given_up_once_and_the_others_go_on(batch: int) -> None:
    began, may_end = threading.Event(), threading.Event()
    handled: list[int] = []

    def handle(unit: Any) -> None:
        offsets = [message.queue_offset for message in (unit if batch > 1 else [unit])]
        if HUNG in offsets:
            began.set()
            assert may_end.wait(LIMIT_S)
        handled.extend(offsets)
        if BAD in offsets:
            raise ValueError("bad")

    workers = ThreadWorkers(2, "test")
    played = Played(Handler("T", handle, batch=batch), workers)
    service, queue = played.service, played.queue
    service.take(queue, _messages(), 1000)
    assert began.wait(LIMIT_S)
    assert service.stuck_since(time.monotonic() - LIMIT_S) == [], "it has just begun"

    (stuck,) = service.stuck_since(time.monotonic() + 1)
    hung = [message.queue_offset for message in stuck.messages]
    assert hung == ([HUNG] if batch == 1 else [6, 7, 8])
    service.give_up(stuck)
    eventually(lambda: queue.commit_offset == COUNT)
    assert sorted(handled) == [offset for offset in range(COUNT) if offset not in hung]
    assert played.failed == ([BAD] if batch == 1 else [0, 1, 2])
    assert service.stuck_since(time.monotonic() + 1) == [], "once is enough"
    service.give_up(stuck)

    may_end.set()
    assert asyncio.run(workers.drain(LIMIT_S))
    assert sorted(handled) == list(range(COUNT)), "no message was begun with twice"
    assert (queue.commit_offset, queue.count) == (COUNT, 0)
    workers.close()


def test_a_message_finished_in_time_is_not_given_up() -> None:
    began, may_end = threading.Event(), threading.Event()

    def handle(message: Any) -> None:
        if message.queue_offset == HUNG:
            began.set()
            assert may_end.wait(LIMIT_S)

    workers = ThreadWorkers(1, "test")
    played = Played(Handler("T", handle), workers)
    played.service.take(played.queue, _messages(), 1000)
    assert began.wait(LIMIT_S)
    (stuck,) = played.service.stuck_since(time.monotonic() + 1)
    may_end.set()
    assert asyncio.run(workers.drain(LIMIT_S))
    played.service.give_up(stuck)
    assert (played.queue.commit_offset, played.queue.count) == (COUNT, 0)
    workers.close()
