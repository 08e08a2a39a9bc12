"""Rights of accounts, with the numbers of RocketMQ's plain ACL."""

from __future__ import annotations

from enum import IntFlag

__all__ = ["PERMISSION_TEXTS", "Need", "Right", "right_of"]


class Right(IntFlag):
    """Rights of an account on a topic, or as a group."""

    DENY = 1
    PUB = 4
    SUB = 8


Need = tuple[str, Right]
"""A resource and the right that a request needs on it. A group stands under the name of its retry
topic."""

PERMISSION_TEXTS = {
    "DENY": Right.DENY,
    "PUB": Right.PUB,
    "SUB": Right.SUB,
    "PUB|SUB": Right.PUB | Right.SUB,
    "SUB|PUB": Right.PUB | Right.SUB,
}


def right_of(text: str | None) -> Right:
    """Return the rights a file writes as text; any other text is a denial."""
    return PERMISSION_TEXTS.get((text or "").strip(), Right.DENY)
