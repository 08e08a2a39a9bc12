"""Registration that goes on, whatever happens to one attempt."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.broker.clients import ConsumerClients
from orbitmq.broker.queue_notices import QueueNotices
from orbitmq.broker.registration import Registration
from orbitmq.broker.topics import TopicTable
from orbitmq.config import BrokerConfig

ATTEMPTS = 4


class OnAFullDisk(Registration):
    """What it learns from nameservers cannot be saved."""

    def __init__(self) -> None:
        config = BrokerConfig(namesrv_addr=None)
        notices = QueueNotices(ConsumerClients(), lambda _group, _topic: None)
        topics = TopicTable(config, lambda: 0)
        super().__init__(config, topics, lambda: "a:1", notices, any_host=False)
        self.attempts = 0
        self.went_on = asyncio.Event()

    async def register(self) -> None:
        self.attempts += 1
        if self.attempts == ATTEMPTS:
            self.went_on.set()
        raise OSError("no space left on device")


def test_one_that_failed_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    real_sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: real_sleep(0))

    async def go_on() -> None:
        registration = OnAFullDisk()
        await registration.start()
        registration.soon()
        await asyncio.wait_for(registration.went_on.wait(), 20)
        await registration.stop()

    asyncio.run(go_on())
