"""One test text for a class and its asyncio twin.

`as_sync` makes an asyncio object look like its blocking sibling: every call, and every coroutine
that it returns, runs on an event loop of another thread while the test waits. So a test is written
once, for the blocking class, and runs with both::

    @pytest.fixture(params=["sync", "async"])
    def admin(request, way):
        with way(Admin, AsyncAdmin)("127.0.0.1:9876") as admin:
            yield admin

Functions that the object is given (handlers, selectors) stay what they are; where the twin wants
coroutine functions, its suite wraps them.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar, cast

__all__ = ["LoopThread", "as_sync", "way_of"]

T = TypeVar("T")

LIMIT_S = 50.0


class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="test-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LIMIT_S)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class _View:
    def __init__(self, target: Any, thread: LoopThread) -> None:
        self._target = target
        self._thread = thread

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        async def there() -> Any:
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        result = self._thread.run(there())
        return self if result is self._target else result

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value
        return lambda *args, **kwargs: self._call(value, *args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_target", "_thread"):
            object.__setattr__(self, name, value)
        else:
            setattr(self._target, name, value)

    def __enter__(self) -> Any:
        return self._call(self._target.__aenter__)

    def __exit__(self, *error: Any) -> Any:
        return self._call(self._target.__aexit__, *error)

    def __iter__(self) -> Iterator[Any]:
        iterator = self._call(self._target.__aiter__)
        iterator = iterator._target if iterator is self else iterator
        while True:
            try:
                yield self._call(iterator.__anext__)
            except StopAsyncIteration:
                return


def as_sync(make: Callable[..., Any], thread: LoopThread) -> Callable[..., Any]:
    """Return a maker of objects that look like those of the blocking sibling."""

    def made(*args: Any, **kwargs: Any) -> Any:
        async def there() -> Any:
            return make(*args, **kwargs)

        return _View(thread.run(there()), thread)

    return made


def way_of(
    kind: str, thread: LoopThread
) -> Callable[[Callable[..., T], Callable[..., Any]], Callable[..., T]]:
    """Return the function that picks the blocking class, or its twin in the guise of it."""

    def pick(blocking: Callable[..., T], twin: Callable[..., Any]) -> Callable[..., T]:
        if kind == "sync":
            return blocking
        return cast("Callable[..., T]", as_sync(twin, thread))

    return pick
