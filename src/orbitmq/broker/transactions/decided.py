"""Decided half messages, recognized by the properties that all copies of a message share.

A half message that is put again gets a new offset, and a decision may refer to any of its offsets.
The offsets of one message are linked in memory only (see `TransactionCheck`), so the links of
copies from before the broker's start are lost. This module recognizes such copies: they keep the
unique key of the producer, the topic, the born time and the born host of the message.
"""

from __future__ import annotations

from orbitmq._native import Record
from orbitmq.protocol.names import Property

__all__ = ["DecidedMessages"]

MAX_DECIDED = 10_000
"""Number of decided messages that are kept; the one that was decided first is dropped first."""

Identity = tuple[str, str, int, tuple[str, int]]


class DecidedMessages:
    """Table of recently decided half messages that may have copies at unknown offsets."""

    def __init__(self, max_decided: int = MAX_DECIDED) -> None:
        self._max_decided = max_decided
        self._decided: dict[Identity, None] = {}

    def add(self, half: Record) -> None:
        """Note that a message is decided; `half` may be any of its copies."""
        identity = _identity(half)
        if identity is None:
            return
        self._decided[identity] = None
        if len(self._decided) > self._max_decided:
            del self._decided[next(iter(self._decided))]

    def __contains__(self, half: Record) -> bool:
        """Return True if a decision about any copy of this message was added."""
        return bool(self._decided) and _identity(half) in self._decided


def _identity(half: Record) -> Identity | None:
    key = half.get_property(Property.UNIQUE_KEY)
    if key is None:
        return None
    return key, half.get_property(Property.REAL_TOPIC) or "", half.born_timestamp, half.born_host
