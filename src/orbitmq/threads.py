"""Blocking work in a thread on behalf of the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["in_thread"]

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a thread; on cancellation, wait until the thread is done.

    A thread cannot be cancelled. If it went on alone it could write a file that the stopping broker
    also writes, or clean a store that is already closed.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if (error := running.exception()) is not None:
            _log.error("%s failed", getattr(work, "__name__", work), exc_info=error)
        raise
