"""Half messages that were decided, known by what all copies of one have in common.

A half message that is put again has a new place, and a decision may name any of its places. Which
places belong together is kept in memory (see `transaction_check`), so it is not known of copies
that were made before the broker started. Those are recognized here: copies keep the key that the
producer gave to the message, its time and the connection it came by.
"""

from __future__ import annotations

from orbitmq._native import Record
from orbitmq.protocol.names import Property

__all__ = ["DecidedMessages"]

MAX_DECIDED = 10_000
"""Number of messages that are kept; the one that was decided first gives way."""

Identity = tuple[str, str, int, tuple[str, int]]


class DecidedMessages:
    """The half messages decided lately that may have copies at places nobody has noted."""

    def __init__(self, max_decided: int = MAX_DECIDED) -> None:
        self._max_decided = max_decided
        self._decided: dict[Identity, None] = {}

    def add(self, half: Record) -> None:
        """Note that a message is decided, whichever of its copies `half` is."""
        identity = _identity(half)
        if identity is None:
            return
        self._decided[identity] = None
        if len(self._decided) > self._max_decided:
            del self._decided[next(iter(self._decided))]

    def __contains__(self, half: Record) -> bool:
        """Return True if any copy of this message was decided."""
        return bool(self._decided) and _identity(half) in self._decided


def _identity(half: Record) -> Identity | None:
    key = half.get_property(Property.UNIQUE_KEY)
    if key is None:
        return None
    return key, half.get_property(Property.REAL_TOPIC) or "", half.born_timestamp, half.born_host
