"""Setting aside of messages that a loop of the broker can never move.

Delayed messages, timer messages and half messages wait in queues that the broker works through in
order. A message that fails because of the state of the machine (a full disk, a busy store) is tried
again: the same work succeeds later. A message that fails because of its own content never succeeds.
The loop sets it aside: it logs an error with the message's position and goes on with the next
message. The message stays readable in the log by its physical offset until the log expires.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from orbitmq.errors import (
    CorruptStore,
    InvalidMessage,
    OrbitError,
    RecordTooLarge,
    StoreError,
    StoreIOError,
    StorePanic,
    WireError,
)
from orbitmq.protocol.codes import ResponseCode
from orbitmq.remoting.router import Refused

__all__ = ["MessagePosition", "SetAside", "passes"]

_log = logging.getLogger(__name__)

READ_ATTEMPTS = 20
"""Number of failed reads of one message before it counts as unreadable."""


class MessagePosition(NamedTuple):
    """The place of a message in a queue and in the log."""

    topic: str
    queue_id: int
    queue_offset: int | None
    physical_offset: int | None

    def __str__(self) -> str:
        parts = [f"topic {self.topic}, queue {self.queue_id}"]
        if self.queue_offset is not None:
            parts.append(f"offset {self.queue_offset}")
        if self.physical_offset is not None:
            parts.append(f"physical offset {self.physical_offset}")
        return ", ".join(parts)


def passes(error: BaseException) -> bool:
    """Return True if the machine's state causes an error, so that the same work succeeds later."""
    if isinstance(error, Refused):
        return error.code != ResponseCode.MESSAGE_ILLEGAL
    if isinstance(error, StoreError):
        return not isinstance(error, InvalidMessage | RecordTooLarge | CorruptStore)
    if isinstance(error, WireError):
        return False
    return isinstance(error, OrbitError | OSError | MemoryError)


class SetAside:
    """Decides for one loop which messages are set aside.

    `what` names the kind of messages in log lines, such as "delayed message".
    """

    def __init__(self, what: str, read_attempts: int = READ_ATTEMPTS) -> None:
        self._what = what
        self._read_attempts = read_attempts
        self._unreadable: dict[tuple[str, int], tuple[MessagePosition, int]] = {}
        """Last unreadable message of each queue, with the number of its failed reads."""
        self.count = 0
        """Number of messages set aside since the start."""

    def takes(self, place: MessagePosition, error: BaseException) -> bool:
        """Set a message aside if its error is permanent; return False if it must be tried again."""
        if isinstance(error, StoreIOError | StorePanic):
            if not self._is_unreadable(place):
                return False
        elif passes(error):
            return False
        self.count += 1
        _log.error(
            "%s at %s cannot be delivered, it is set aside and the queue goes on: %s: %s",
            self._what,
            place,
            type(error).__name__,
            error,
            exc_info=None if isinstance(error, OrbitError | ValueError) else error,
        )
        return True

    def _is_unreadable(self, place: MessagePosition) -> bool:
        """Count a failed read; return True once the last attempt has failed.

        A bad sector may become readable again within a few attempts, but not later.
        """
        queue = (place.topic, place.queue_id)
        last, attempts = self._unreadable.get(queue, (place, 0))
        attempts = attempts + 1 if last == place else 1
        if attempts < self._read_attempts:
            self._unreadable[queue] = (place, attempts)
            return False
        self._unreadable.pop(queue, None)
        return True
