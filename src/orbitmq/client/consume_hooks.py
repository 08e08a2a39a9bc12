"""Runs the hooks of a push consumer around the calls of its handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from orbitmq.client.hooks import ConsumeContext, ConsumeHook, HookCalls

__all__ = ["ConsumeHooks"]


class ConsumeHooks:
    """The hooks of one consumer. May be used by any thread."""

    def __init__(self, hooks: Sequence[ConsumeHook], group: str, client_id: str) -> None:
        self._hooks = hooks
        self._group = group
        self._client_id = client_id
        self._calls = HookCalls()

    def around(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function that does what a handler does, with the hooks around it."""

        def hooked(unit: Any) -> Any:
            context, begun = self._begin(unit)
            try:
                outcome = context.outcome = function(unit)
            except BaseException as error:
                context.error = error
                raise
            finally:
                self._end(context, begun)
            return outcome

        return hooked

    def around_awaiting(
        self, function: Callable[[Any], Awaitable[Any]]
    ) -> Callable[[Any], Awaitable[Any]]:
        """Return a coroutine function that does what a handler does, with the hooks around it."""

        async def hooked(unit: Any) -> Any:
            context, begun = self._begin(unit)
            try:
                outcome = context.outcome = await function(unit)
            except BaseException as error:
                context.error = error
                raise
            finally:
                self._end(context, begun)
            return outcome

        return hooked

    def _begin(self, unit: Any) -> tuple[ConsumeContext, list[ConsumeHook]]:
        messages = unit if isinstance(unit, list) else [unit]
        context = ConsumeContext(tuple(messages), self._group, self._client_id)
        call = self._calls.call
        return context, [hook for hook in self._hooks if call(hook, hook.before_consume, context)]

    def _end(self, context: ConsumeContext, begun: list[ConsumeHook]) -> None:
        for hook in reversed(begun):
            self._calls.call(hook, hook.after_consume, context)
