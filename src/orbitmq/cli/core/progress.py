"""Bars for what takes long: on stderr, on a terminal, and gone when it is over.

`progress` counts things one by one, `waiting` turns a wheel while one call takes its time. Neither
shows anything in a pipe or in a file, nor below a table that `--watch` redraws in place.

A wheel appears only after `PATIENCE_S`: most commands are over by then. It gives way to a bar.
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
    """Return a bar to start and to advance, None if nobody would see it."""
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
    """Give items, with a bar while somebody looks; without a total it only counts them."""
    shown = bar()
    if shown is None:
        yield from items
        return
    with shown:
        yield from shown.track(items, total, description=what)


class _Wheel:
    """Turns once its time has come, unless it was stopped before."""

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
    """Turn a wheel while what is inside takes its time."""
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
    """Show neither inside: something else is being redrawn."""
    token = _is_unshown.set(True)
    try:
        yield
    finally:
        _is_unshown.reset(token)
