"""What was measured: a figure of ours, a peer's if there is one, and the target it has to meet."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from rich.table import Table

__all__ = ["Figure", "Target", "at_least", "at_most", "table"]


@dataclass(frozen=True)
class Target:
    """A bound for the ratio to the peer (at least) or for the figure itself (at most)."""

    kind: Literal["ratio", "value"]
    bound: float

    def is_met(self, value: float, ratio: float | None) -> bool:
        if self.kind == "value":
            return value <= self.bound
        return ratio is not None and ratio >= self.bound

    def __str__(self) -> str:
        return f"ratio ≥ {self.bound:g}" if self.kind == "ratio" else f"≤ {self.bound:g}"


def at_least(ratio: float) -> Target:
    return Target("ratio", ratio)


def at_most(value: float) -> Target:
    return Target("value", value)


@dataclass(frozen=True)
class Figure:
    """One line of the report; the figure of a side is the median of its rounds."""

    case: str
    name: str
    unit: str
    values: Sequence[float]
    peer: str = ""
    peer_values: Sequence[float] = ()
    target: Target | None = None
    details: dict[str, Any] = field(default_factory=dict)
    """What else the rounds said, for the JSON file."""

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def peer_value(self) -> float | None:
        return statistics.median(self.peer_values) if self.peer_values else None

    @property
    def ratio(self) -> float | None:
        """Ours over the peer's, the way that more is better."""
        theirs = self.peer_value
        if theirs is None:
            return None
        return theirs / self.value if self.unit == "ms" else self.value / theirs

    @property
    def is_met(self) -> bool | None:
        return None if self.target is None else self.target.is_met(self.value, self.ratio)

    def as_json(self) -> dict[str, Any]:
        judged = {"ratio": self.ratio, "is_met": self.is_met}
        return asdict(self) | judged | {"target": str(self.target) if self.target else None}


def table(figures: Sequence[Figure]) -> Table:
    made = Table("case", "what", box=None, header_style="bold", pad_edge=False)
    for head in ("OrbitMQ", "peer", "ratio"):
        made.add_column(head, justify="right")
    for head in ("", "target", "met", "the peer"):
        made.add_column(head)
    case = ""
    for each in figures:
        theirs, ratio = each.peer_value, each.ratio
        made.add_row(
            each.case if each.case != case else "",
            each.name,
            _number(each.value),
            "" if theirs is None else _number(theirs),
            "" if ratio is None else f"{ratio:.2f}",
            each.unit,
            "" if each.target is None else str(each.target),
            {True: "yes", False: "[bold]no[/]", None: ""}[each.is_met],
            each.peer,
        )
        case = each.case
    return made


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
