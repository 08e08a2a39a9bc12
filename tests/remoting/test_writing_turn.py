"""Event loops whose connections write together."""

from __future__ import annotations

import asyncio
import gc
import weakref

from orbitmq.remoting.coalesce import WriteCoalescer


def test_closed_event_loops_are_released() -> None:
    loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    async def use() -> None:
        loop = asyncio.get_running_loop()
        loops.add(loop)
        assert WriteCoalescer.of(loop) is WriteCoalescer.of(loop)

    for _ in range(5):
        asyncio.run(use())
    gc.collect()
    assert len(loops) == 1, "the last one, until another takes its place"
