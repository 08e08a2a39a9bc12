"""Meanings of settings: one works, is idle, is warned of, or is refused.

Every setting is declared with its meaning, so that a broker that starts, and the page of the
reference (`orbitmq.config.reference`), say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["Meaning", "Use", "idle", "refused", "warned"]


class Use(Enum):
    """Tells what becomes of a setting."""

    WORKS = "works"
    IDLE = "idle"
    WARNED = "warned"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The statement about one setting; `refused_when` decides over all settings together."""

    use: Use
    text: str
    refused_when: Callable[[Any], bool] | None = None

    @classmethod
    def of(cls, says: str | Meaning) -> Meaning:
        """Take a plain text for a setting that works."""
        return says if isinstance(says, Meaning) else cls(Use.WORKS, says)


def idle(reason: str) -> Meaning:
    """Declare that a setting is accepted without effect, and that nobody notices."""
    return Meaning(Use.IDLE, reason)


def warned(reason: str) -> Meaning:
    """Declare that a setting has no effect; any value but the default is a warning at start."""
    return Meaning(Use.WARNED, reason)


def refused(reason: str, *, when: Callable[[Any], bool] | None = None) -> Meaning:
    """Declare that nothing starts with this setting, unless it has its default or `when` is false.

    To be used where neglect would lose messages or change what a message means.
    """
    return Meaning(Use.REFUSED, reason, when)
