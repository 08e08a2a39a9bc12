"""One daemon thread with an event loop, for the background work of the blocking classes.

The thread starts on first use, and the whole process shares it. A forked child does not inherit the
thread and starts its own when it needs one. The value of `generation` changes with a fork, so that
objects created before the fork can detect the loss of their thread.
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
    """Return the number of forks between this process and the first that used this module."""
    return _generation


def loop() -> asyncio.AbstractEventLoop:
    """Return the loop; start its thread first if it is not running."""
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
    """Run a coroutine on the loop and wait for its result; never call this on the loop's thread."""
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
    """Keep objects that use the parent's loop alive in a forked child.

    Parent and child share the poll object of the loop. When a connection object is destroyed in the
    child, it closes its connection, and the parent's loop receives no events of it any more.
    """
    _left_behind.append(parents)


_left_behind: list[object] = []


def _after_fork_in_child() -> None:
    global _loop, _lock, _generation
    keep_parent_objects(_loop)
    _loop, _lock = None, threading.Lock()
    _generation += 1


os.register_at_fork(after_in_child=_after_fork_in_child)
