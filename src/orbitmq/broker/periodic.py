"""Periodic work of the broker, each function in its own asyncio task."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from orbitmq.errors import FAILURES

__all__ = ["PeriodicTasks"]

_log = logging.getLogger(__name__)


class PeriodicTasks:
    """Runs functions periodically; a failure is logged and the function runs again next period."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def every(
        self,
        period_ms: int,
        work: Callable[[], Awaitable[None] | None],
        *,
        first_after_ms: int | None = None,
    ) -> None:
        """Run `work` once per period; the first run is after `first_after_ms` or one period."""
        first = period_ms if first_after_ms is None else first_after_ms
        self._tasks.append(asyncio.create_task(self._repeat(period_ms, first, work)))

    async def _repeat(
        self, period_ms: int, first_after_ms: int, work: Callable[[], Awaitable[None] | None]
    ) -> None:
        await asyncio.sleep(first_after_ms / 1000)
        while True:
            try:
                if (pending := work()) is not None:
                    await pending
            except FAILURES:
                _log.exception(
                    "periodic work %s failed, it runs again in the next period",
                    getattr(work, "__name__", work),
                )
            await asyncio.sleep(period_ms / 1000)

    async def stop(self) -> None:
        """Cancel all tasks; threads they have started run to their own end."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
