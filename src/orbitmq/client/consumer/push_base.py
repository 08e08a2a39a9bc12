"""Common base of `PushConsumer` and `AsyncPushConsumer`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Unpack

from orbitmq.client.consumer.base import MemberOwner
from orbitmq.client.consumer.broker_requests import answer_brokers
from orbitmq.client.consumer.handlers import Handler, HandlerTable, already_handled
from orbitmq.client.consumer.push_member import PushMember
from orbitmq.client.consumer.settings import ConsumerOptions, Nameservers, sort_options
from orbitmq.client.consumer.subscription import subscribe
from orbitmq.client.consumer.workers import Workers
from orbitmq.client.hooks import ConsumeHook, checked_hooks
from orbitmq.errors import ConfigError
from orbitmq.protocol.names import topic_name_fault

__all__ = ["BasePushConsumer"]

MAX_BATCH = 65_535


class BasePushConsumer(MemberOwner[PushMember]):
    """Common base of the push consumers: the handlers, and the member while it is running."""

    _awaits = False

    def __init__(
        self,
        nameservers: Nameservers = None,
        *,
        group: str,
        hooks: Iterable[ConsumeHook] = (),
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.client_settings, self.settings = sort_options(
            nameservers, group, options, calls_handlers=True
        )
        self._hooks = checked_hooks(hooks, "before_consume", "after_consume")
        self._handlers = HandlerTable()
        self._wanted: dict[str, tuple[str | None, str | None]] = {}

    def _make_handler(
        self,
        topic: str,
        function: Callable[[Any], Any],
        tags: str | None,
        sql: str | None,
        orderly: bool,
        batch: int,
        auto_commit: bool,
    ) -> Handler:
        """Return a new handler for a topic; raises `ConfigError` for invalid arguments."""
        fault = topic_name_fault(topic)
        if fault is not None:
            raise ConfigError(f"topic {topic!r}: {fault}")
        if not 1 <= batch <= MAX_BATCH:
            raise ConfigError(f"batch must lie between 1 and {MAX_BATCH}, it is {batch}")
        if inspect.iscoroutinefunction(function) and not self._awaits:
            raise ConfigError(
                f"the handler of {topic} is a coroutine function: use AsyncPushConsumer for it"
            )
        if self._awaits and not _is_awaited(function):
            raise ConfigError(
                f"the handler of {topic} is no coroutine function: use PushConsumer for it"
            )
        if not (orderly or auto_commit):
            raise ConfigError(
                f"the handler of {topic}: auto_commit=False needs orderly=True, since only what is "
                "handled in order can be committed by hand; `Consumer` commits by hand without it"
            )
        subscribe(topic, tags, sql, 0)  # raises `ConfigError` for an invalid subscription
        if (before := self._handlers.function_of(topic)) is not None:
            raise already_handled(topic, before)
        return Handler(topic, function, batch, orderly, auto_commit)

    def _add(self, handler: Handler, tags: str | None, sql: str | None) -> None:
        self._handlers.put(handler)
        self._wanted[handler.topic] = (tags, sql)

    async def _add_running(
        self, member: PushMember, handler: Handler, tags: str | None, sql: str | None
    ) -> None:
        """Add a handler after a broker has validated its filter; an error changes nothing."""
        await member.add_handler(handler, tags, sql)
        self._wanted[handler.topic] = (tags, sql)

    async def _join(self, workers: Workers) -> PushMember:
        if not self._wanted:
            raise ConfigError(f"{self!r} has no handlers: add some with @consumer.on(topic)")
        member = PushMember(
            self.client_settings,
            self.settings,
            self._handlers,
            workers,
            awaits=self._awaits,
            hooks=self._hooks,
        )
        for topic, (tags, sql) in self._wanted.items():
            await member.subscribe(topic, tags, sql)
        answer_brokers(member)
        await member.start()
        return member


def _is_awaited(function: Callable[[Any], Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose call is a coroutine
    )
