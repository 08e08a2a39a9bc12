"""How long puts take: their distribution in the last minute, and the slowest ever.

`now` has one counter for every millisecond a put can take, the last one for all that take longer:
counting is an index and an addition, and everything else is left to those who ask.

    times.now[took_ms if 0 <= took_ms < SLOWEST_MS else SLOWEST_MS] += 1

What is told is of the last full period, as Java has it; before there was one, nothing is.
"""

from __future__ import annotations

from bisect import bisect_right

__all__ = ["SLOWEST_MS", "PutTimes"]

SLOWEST_MS = 10_000

# The first millisecond of each class but the first, and what Java calls the classes.
_CLASSES_MS = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
_NAMES = (
    *("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s"),
    *("1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~"),
)


class PutTimes:
    """Counts puts by the milliseconds they took."""

    def __init__(self) -> None:
        self.now = [0] * (SLOWEST_MS + 1)
        """The period that runs; always the same list."""
        self._last: dict[int, int] | None = None
        self._slowest_ms = 0

    def count(self, took_ms: float) -> None:
        """Count a put."""
        self.now[min(max(int(took_ms), 0), SLOWEST_MS)] += 1

    def end_period(self) -> None:
        """Begin a new period; the one that ran is the last one from now on."""
        self._last = {ms: count for ms, count in enumerate(self.now) if count}
        self._slowest_ms = self.slowest_ms
        self.now[:] = [0] * len(self.now)

    @property
    def slowest_ms(self) -> int:
        """The slowest put ever; `SLOWEST_MS` stands for all that were slower."""
        of_now = next((ms for ms in range(SLOWEST_MS, 0, -1) if self.now[ms]), 0)
        return max(self._slowest_ms, of_now)

    def distribution(self) -> str | None:
        """Return the puts of the last period by class, in the words of ``brokerStatus``."""
        if self._last is None:
            return None
        counts = [0] * len(_NAMES)
        for ms, count in self._last.items():
            counts[bisect_right(_CLASSES_MS, ms)] += count
        return "".join(f"[{name}]:{count} " for name, count in zip(_NAMES, counts, strict=True))

    def percentile_ms(self, fraction: float) -> float:
        """Return the milliseconds within which this fraction of the last period's puts was done."""
        last = self._last or {}
        wanted = sum(last.values()) * fraction
        passed = 0
        for ms, count in last.items():
            passed += count
            if passed >= wanted:
                return float(ms)
        return 0.0
