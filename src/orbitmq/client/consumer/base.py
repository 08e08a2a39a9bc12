"""What all consumers that are members of a group look like from outside, and ``with`` blocks."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Generic, Self, TypeVar

from orbitmq.client.consumer.coordinator import ConsumerCoordinator
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.errors import ClientClosed

__all__ = ["AsyncWithBlock", "MemberOwner", "WithBlock"]

M = TypeVar("M", bound=ConsumerCoordinator)


class MemberOwner(Generic[M]):
    """Has a member of a group while it is running.

    Its functions may be called with messages, and call `close`, before `start` has returned: a
    member that has joined pulls. Such a `close` is kept, and whoever starts the consumer obeys it.
    """

    settings: ConsumerSettings
    _member: M | None = None
    _stop_came_early = False
    _changing = threading.Lock()  # one for all: it is held for two assignments

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of group {self.settings.group!r}>"

    @property
    def is_running(self) -> bool:
        """Whether the consumer was started and not stopped."""
        return self._member is not None

    @property
    def client_id(self) -> str:
        """What brokers call this consumer."""
        return self._running.instance.client_id

    @property
    def _running(self) -> M:
        if self._member is None:
            raise ClientClosed(f"{self!r} is not running: call start() first")
        return self._member

    def _begin(self) -> None:
        """Get ready for a start."""
        if self._member is not None:
            raise ClientClosed(f"{self!r} is running already")
        self._stop_came_early = False

    def _has_joined(self, member: M) -> bool:
        """Be running from now on; returns whether to go on, which an early `close` denies."""
        with self._changing:
            self._member = member
            return not self._stop_came_early

    def _take_member(self) -> M | None:
        """Be running no more; returns the member that is to be stopped."""
        with self._changing:
            member, self._member = self._member, None
            self._stop_came_early = member is None
            return member


class WithBlock:
    """Runs as long as a ``with`` block."""

    def start(self) -> Self:
        """Begin."""
        raise NotImplementedError

    def close(self) -> None:
        """End."""
        raise NotImplementedError

    def stop(self) -> None:
        """Do what `close` does, by an older name. ::

        consumer.stop()
        """
        self.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncWithBlock:
    """Runs as long as an ``async with`` block."""

    async def start(self) -> Self:
        """Begin."""
        raise NotImplementedError

    async def close(self) -> None:
        """End."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Do what `close` does, by an older name. ::

        await consumer.stop()
        """
        await self.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.close()
