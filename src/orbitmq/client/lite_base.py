"""What consumers that are asked have in common, whether threads or tasks ask them."""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from orbitmq.client.consumer_base import MemberOwner
from orbitmq.client.consumer_options import ConsumerOptions, Nameservers, sort_options
from orbitmq.client.inbox import Inbox
from orbitmq.client.lite_member import LiteMember
from orbitmq.client.queue_watch import Tell
from orbitmq.client.state.subscription import subscribe
from orbitmq.errors import ClientClosed
from orbitmq.message import MessageQueue

__all__ = ["BaseConsumer", "epoch_ms", "settle"]


class BaseConsumer(MemberOwner[LiteMember]):
    """What consumers that are asked have in common."""

    def __init__(
        self,
        nameservers: Nameservers = None,
        *topics: str,
        group: str,
        tags: str | None = None,
        sql: str | None = None,
        auto_commit: bool = True,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.client_settings, self.settings = sort_options(nameservers, group, options)
        self.auto_commit = auto_commit
        self._wanted = dict.fromkeys(topics, (tags, sql))
        for topic in topics:
            subscribe(topic, tags, sql, 0)  # says what is wrong with it
        self._assigned: tuple[list[MessageQueue], str | None] | None = None
        self._told: dict[str, Tell] = {}
        self._inbox: Inbox | None = None

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer reads now. ::

        for queue in consumer.assignment:
            print(queue, consumer.position(queue))
        """
        member = self._running
        return [member.user_queue(queue) for queue in list(member.queues)]

    @property
    def _reading(self) -> Inbox:
        if self._member is None or self._inbox is None:
            raise ClientClosed(f"{self!r} is not running: call start() first")
        return self._inbox

    async def _join(self, inbox: Inbox) -> LiteMember:
        member = LiteMember(
            self.client_settings, self.settings, inbox, auto_commit=self.auto_commit
        )
        for topic, (tags, sql) in self._wanted.items():
            await member.subscribe(topic, tags, sql)
        await member.start()
        if self._assigned is not None:
            await member.assign(*self._assigned)
        for topic, tell in self._told.items():
            await member.watch.add(topic, tell)
        return member

    def _tell(self, topic: str, function: Tell) -> Tell:
        """Have a function told of a topic's queues, also in the next life."""
        tell = self._caller(function)
        self._told[topic] = tell
        return tell

    def _caller(self, function: Tell) -> Tell:
        """Return how the loop calls a function of the user's."""
        return function

    def position(self, queue: MessageQueue) -> int:
        """Return the offset from which on messages of a queue are not done yet. ::

        consumer.position(queue)
        """
        return self._running.position(queue)


def epoch_ms(moment: datetime | int) -> int:
    """Return a time as brokers count it."""
    return int(moment.timestamp() * 1000) if isinstance(moment, datetime) else moment


def settle(inbox: Inbox | None, last_is_done: bool) -> None:
    """Note what was handed out as done, the last of it if it is."""
    if inbox is not None:
        inbox.finish_last(include=last_is_done)
        if last_is_done:
            inbox.finish_given()
