"""Base classes of consumers: the owner of a group member, and support for ``with`` blocks."""

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
    """Consumer that owns a member of its group while the consumer is running.

    A member pulls as soon as it has joined. So a handler may get messages, and call `close`, before
    `start` has returned. Such an early `close` is remembered, and `start` closes the consumer.
    """

    settings: ConsumerSettings
    _member: M | None = None
    _stop_came_early = False
    _changing = threading.Lock()  # shared by all objects: it is held for two assignments only

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of group {self.settings.group!r}>"

    @property
    def is_running(self) -> bool:
        """True if the consumer was started and not stopped."""
        return self._member is not None

    @property
    def client_id(self) -> str:
        """Id of this consumer at the brokers."""
        return self._running.instance.client_id

    @property
    def _running(self) -> M:
        if self._member is None:
            raise ClientClosed(f"{self!r} is not running: call start() first")
        return self._member

    def _begin(self) -> None:
        """Prepare a start; raises `ClientClosed` if the consumer is running already."""
        if self._member is not None:
            raise ClientClosed(f"{self!r} is running already")
        self._stop_came_early = False

    def _has_joined(self, member: M) -> bool:
        """Store the member that has joined; returns False if `close` was called before."""
        with self._changing:
            self._member = member
            return not self._stop_came_early

    def _take_member(self) -> M | None:
        """Remove the member and return it to the caller, who has to stop it.

        Before the member has joined, this returns None and notes the early `close` for
        `_has_joined`.
        """
        with self._changing:
            member, self._member = self._member, None
            self._stop_came_early = member is None
            return member


class WithBlock:
    """Starts when a ``with`` block begins and closes when the block ends."""

    def start(self) -> Self:
        """Start the consumer."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the consumer."""
        raise NotImplementedError

    def stop(self) -> None:
        """Do the same as `close`, under an older name. ::

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
    """Starts when an ``async with`` block begins and closes when the block ends."""

    async def start(self) -> Self:
        """Start the consumer."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the consumer."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Do the same as `close`, under an older name. ::

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
