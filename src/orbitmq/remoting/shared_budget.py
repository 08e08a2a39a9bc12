"""A common limit of many owners, in which no owner can use up the share of another.

Below the limit every request is granted. Above the limit only owners with at most `SMALL_BYTES` are
granted more, so heavy users are refused first.

Pure state, without I/O.
"""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["SMALL_BYTES", "SharedBudget"]

C = TypeVar("C")

SMALL_BYTES = 64 << 10
"""Bytes that each owner may keep even above the common limit."""


class SharedBudget(Generic[C]):
    """Counts the bytes that each owner keeps."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._kept: dict[C, int] = {}
        self.total_bytes = 0

    def take(self, owner: C, size: int) -> bool:
        """Grant an owner `size` more bytes, or return False without a change."""
        wanted = self._kept.get(owner, 0) + size
        if self.total_bytes + size > self._limit_bytes and wanted > SMALL_BYTES:
            return False
        self._kept[owner] = wanted
        self.total_bytes += size
        return True

    def give_back(self, owner: C, size: int) -> None:
        """Return `size` bytes of an owner."""
        left = self._kept.get(owner, 0) - size
        if left > 0:
            self._kept[owner] = left
        else:
            self._kept.pop(owner, None)
        self.total_bytes -= size
