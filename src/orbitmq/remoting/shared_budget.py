"""A limit on what many owners together may keep, in which nobody can take the share of another.

Below the limit everybody gets what they ask for. Beyond it only those get more who have little, so
that the greedy are refused and the modest are not.

Pure state.
"""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["SMALL_BYTES", "SharedBudget"]

C = TypeVar("C")

SMALL_BYTES = 64 << 10
"""Bytes that every owner may keep, however many the others keep."""


class SharedBudget(Generic[C]):
    """Counts the bytes that each owner keeps."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._kept: dict[C, int] = {}
        self.total_bytes = 0

    def take(self, owner: C, size: int) -> bool:
        """Let an owner keep `size` more bytes; False, and nothing changes, if it may not."""
        wanted = self._kept.get(owner, 0) + size
        if self.total_bytes + size > self._limit_bytes and wanted > SMALL_BYTES:
            return False
        self._kept[owner] = wanted
        self.total_bytes += size
        return True

    def give_back(self, owner: C, size: int) -> None:
        """Take `size` bytes off the count of an owner."""
        left = self._kept.get(owner, 0) - size
        if left > 0:
            self._kept[owner] = left
        else:
            self._kept.pop(owner, None)
        self.total_bytes -= size
