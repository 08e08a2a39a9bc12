"""How much of everything is measured."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Size"]


@dataclass(frozen=True)
class Size:
    """`quick` is for trying the harness, not for quoting."""

    messages: int = 2_000_000
    rounds: int = 3
    triggers: int = 100
    warm_up: int = 100
    """Triggers until a JVM is warm."""
    idle_s: float = 10.0

    @staticmethod
    def quick() -> Size:
        return Size(200_000, 1, 20, 20, 3.0)
