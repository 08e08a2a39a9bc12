"""Parameters of the Bloom filter in which Java's brokers register a consumer's SQL filter.

Only the parameters matter here: they are part of ``consumerFilter.json``, and a broker with other
parameters ignores the file. The name of a filter is ``group#topic``. Its bit positions come from
the 64 low bits of MurmurHash3 (x64, 128 bits, seed 0), as h1 + i * h2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

__all__ = ["BloomSize"]

_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


@dataclass(frozen=True, slots=True)
class BloomSize:
    """Number of bits of the Bloom filter, and number of bits per SQL filter."""

    bits: int
    hashes: int

    @classmethod
    def of(cls, error_percent: int, filters: int) -> BloomSize:
        """Return the size for this number of filters and this rate of false matches."""
        error_percent = min(max(error_percent, 1), 99)
        halvings = math.log2(100 / error_percent)
        bits = math.ceil(max(filters, 1) * halvings * math.log2(math.e))
        return cls(bits=(bits + 7) // 8 * 8, hashes=math.ceil(halvings))

    def positions(self, name: str) -> list[int]:
        """Return the bit positions of a name."""
        low = _murmur3_low(name.encode())
        first, second = low & 0xFFFFFFFF, low >> 32
        found = []
        for i in range(1, self.hashes + 1):
            combined = (first + i * second) & 0xFFFFFFFF
            if combined & 0x80000000:
                combined ^= 0xFFFFFFFF
            found.append(combined % self.bits)
        return found

    def as_json(self, group: str, topic: str) -> dict[str, Any]:
        """Return size and bit positions in the form of the file."""
        return {"bitNum": self.bits, "bitPos": self.positions(f"{group}#{topic}")}


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK


def _mixed(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33


def _murmur3_low(data: bytes) -> int:
    """Return the first 64 bits of MurmurHash3 x64 128."""

    def first(part: bytes) -> int:
        block = int.from_bytes(part, "little")
        return _rotated(block * _C1 & _MASK, 31) * _C2 & _MASK

    def second(part: bytes) -> int:
        block = int.from_bytes(part, "little")
        return _rotated(block * _C2 & _MASK, 33) * _C1 & _MASK

    h1 = h2 = 0
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        h1 = _rotated(h1 ^ first(data[at : at + 8]), 27)
        h1 = ((h1 + h2) * 5 + 0x52DCE729) & _MASK
        h2 = _rotated(h2 ^ second(data[at + 8 : at + 16]), 31)
        h2 = ((h2 + h1) * 5 + 0x38495AB5) & _MASK
    tail = data[whole:]
    h2 ^= second(tail[8:])
    h1 ^= first(tail[:8])
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return (_mixed(h1) + _mixed(h2)) & _MASK
