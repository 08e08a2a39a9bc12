"""One daemon thread with an event loop, for the background work of the blocking classes.

It is started on first use and shared by the whole process. A forked child has no such thread any
more and gets one of its own when it needs it; `generation` tells objects of before the fork that
theirs is gone.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from orbitmq.errors import ClientError

__all__ = ["generation", "keep_parent_objects", "loop", "run"]

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_generation = 0


def generation() -> int:
    """Return how many forks lie between this process and the first that used this module."""
    return _generation


def loop() -> asyncio.AbstractEventLoop:
    """Return the loop, starting its thread if need be."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = _new_loop()
            ready = threading.Event()
            _loop.call_soon(ready.set)
            thread = threading.Thread(
                target=_run_forever, args=(_loop,), name="orbitmq-background", daemon=True
            )
            thread.start()
            ready.wait()
        return _loop


def run(work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
    """Let the loop do something and wait for it; never call this on the loop's own thread."""
    own = loop()
    if asyncio._get_running_loop() is own:
        work.close()
        raise ClientError(
            "a blocking call was made on the background thread, which would wait "
            "for itself; use the Async classes there, or another thread"
        )
    future = asyncio.run_coroutine_threadsafe(work, own)
    try:
        return future.result(timeout_s)
    except BaseException:
        future.cancel()
        raise


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _run_forever(own: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(own)
    own.run_forever()


def keep_parent_objects(parents: object) -> None:
    """Keep something of the parent's loop as it is, in a child.

    Parent and child share what the loop polls with, so closing a connection of the parent's in the
    child, which its end as an object would do, makes the parent deaf to it.
    """
    _left_behind.append(parents)


_left_behind: list[object] = []


def _after_fork_in_child() -> None:
    global _loop, _lock, _generation
    keep_parent_objects(_loop)
    _loop, _lock = None, threading.Lock()
    _generation += 1


os.register_at_fork(after_in_child=_after_fork_in_child)
