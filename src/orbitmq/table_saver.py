"""Saves a table to its file in a thread, one save at a time.

Clients create topics and groups, and each of these changes a table whose file is written whole. So
a change only marks the table. One task writes the newest state, pauses ten times as long as the
save took, and writes again if there was another change: saves use at most a tenth of the time, or
half of it while clients wait for them. A handler whose answer promises that a change is on disk
awaits `saved`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orbitmq import persist
from orbitmq._native import dumps_lenient
from orbitmq.errors import FAILURES
from orbitmq.threads import in_thread

__all__ = ["TableSaver"]

_log = logging.getLogger(__name__)

PAUSE_FACTOR = 10
MAX_PAUSE_S = 1.0
RETRY_S = 1.0
"""Time until a save that failed is tried again."""


class TableSaver:
    """Keeps one file up to date with one table.

    `snapshot` copies the table on the event loop, quickly; the function it returns makes JSON
    values of the copy and runs in the thread.
    """

    def __init__(self, path: Path, snapshot: Callable[[], Callable[[], dict[str, Any]]]) -> None:
        self.path = path
        self._snapshot = snapshot
        self._changes = 0
        self._saved = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_saved(self) -> bool:
        """True if the file has every change of the table."""
        return self._saved == self._changes

    def changed(self) -> None:
        """Schedule a save; after `close` only `saved` saves."""
        self._changes += 1
        if self._task is None and not self._is_closed:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def saved(self, *, hurry: bool = True) -> None:
        """Wait until all changes so far are on disk; raises the error of a save that failed.

        With `hurry` a save begins at once, else after a pause as long as the last save.
        """
        if self.is_saved:
            return
        if self._is_closed:
            await self._save()
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((self._changes, future))
        self._wanted.set()
        if hurry:
            self._hurry.set()
        await future

    async def close(self) -> None:
        """Save unsaved changes; later changes are saved by `saved` only."""
        self._is_closed = True
        self._wanted.set()
        self._hurry.set()
        if self._task is not None:
            await self._task
        if not self.is_saved:
            await self._save()

    async def _run(self) -> None:
        while not self.is_saved:
            self._wanted.clear()
            self._hurry.clear()
            began = time.monotonic()
            try:
                await self._save()
            except FAILURES as error:
                _log.error(
                    "%s cannot be saved: %s. It is tried again in %g s", self.path, error, RETRY_S
                )
                self._answer(self._changes, error)
                took_s = RETRY_S / PAUSE_FACTOR
            else:
                took_s = min(time.monotonic() - began, MAX_PAUSE_S / PAUSE_FACTOR)
            if self._is_closed:
                break
            await _until(self._hurry, took_s)
            await _until(self._wanted, (PAUSE_FACTOR - 1) * took_s)
        self._task = None

    async def _save(self) -> None:
        version, values = self._changes, self._snapshot()
        await in_thread(lambda: persist.save(self.path, dumps_lenient(values())))
        self._saved = version
        self._answer(version, None)

    def _answer(self, version: int, error: BaseException | None) -> None:
        """Complete the waiters of changes up to a version."""
        still = []
        for wanted, future in self._waiting:
            if wanted > version:
                still.append((wanted, future))
            elif not future.done():
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)
        self._waiting = still


async def _until(event: asyncio.Event, timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
