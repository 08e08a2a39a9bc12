"""How much of everything is measured."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Size"]


@dataclass(frozen=True)
class Size:
    """`quick` is for trying the harness, not for quoting."""

    messages: int = 2_000_000
    rounds: int = 3
    warm_up_s: float = 60.0
    """Until a JVM that does triggers is warm: they get quicker for 40 s here."""
    triggers_s: float = 8.0
    """How long triggers are measured then."""
    idle_s: float = 10.0

    @staticmethod
    def quick() -> Size:
        return Size(200_000, 1, 5.0, 3.0, 3.0)
