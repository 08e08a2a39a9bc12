"""Progress bars and spinners on stderr, for slow operations; removed when the operation ends.

`progress` counts items in a bar, `waiting` shows a spinner during one call. Both need a terminal:
they show nothing in a pipe, in a file, or below a table that `--watch` redraws in place.

A spinner appears only after `PATIENCE_S`, because most commands end earlier. A bar replaces it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["PATIENCE_S", "bar", "progress", "unshown", "waiting"]

T = TypeVar("T")

PATIENCE_S: Final = 0.5

_is_unshown: ContextVar[bool] = ContextVar("_is_unshown", default=False)
_wheel: ContextVar[_Wheel | None] = ContextVar("_wheel", default=None)


def _is_shown() -> bool:
    return sys.stderr.isatty() and not _is_unshown.get()


def bar() -> Progress | None:
    """Return a progress bar that is not started yet, or None if it would not be visible."""
    if not _is_shown():
        return None
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    if (wheel := _wheel.get()) is not None:
        wheel.stop()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


def progress(items: Iterable[T], total: int | None, what: str) -> Iterator[T]:
    """Yield items, with a progress bar on a terminal; without a total the bar only counts."""
    shown = bar()
    if shown is None:
        yield from items
        return
    with shown:
        yield from shown.track(items, total, description=what)


class _Wheel:
    """A spinner that appears after `PATIENCE_S`, unless it is stopped before."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lock = threading.Lock()
        self._status: Any = None
        self._is_over = False
        self._timer = threading.Timer(PATIENCE_S, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        from rich.console import Console

        with self._lock:
            if not self._is_over:
                self._status = Console(stderr=True).status(self._text)
                self._status.start()

    def stop(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            if self._status is not None:
                self._status.stop()
                self._status = None


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a spinner while the enclosed code runs."""
    if not _is_shown():
        yield
        return
    wheel = _Wheel(text)
    token = _wheel.set(wheel)
    try:
        yield
    finally:
        _wheel.reset(token)
        wheel.stop()


@contextmanager
def unshown() -> Iterator[None]:
    """Show no bar and no spinner in the enclosed code, because a table is being redrawn."""
    token = _is_unshown.set(True)
    try:
        yield
    finally:
        _is_unshown.reset(token)
