"""Lags of consumer groups: the counters GROUP_GET_FALL_SIZE and GROUP_GET_FALL_TIME.

They hold the value of the last pull of a queue and have no sum, unlike the counters of `stats`.
RocketMQ keeps them under ``queueId@topic@group`` and writes them to its log only.
"""

from __future__ import annotations

__all__ = ["GroupLags"]

MAX_LAGS = 100_000
"""Number of lags that are kept; the lag of the queue that was pulled longest ago gives way."""

FALL_SIZE, FALL_TIME = "GROUP_GET_FALL_SIZE", "GROUP_GET_FALL_TIME"
Place = tuple[int, str, str]


class GroupLags:
    """The lag of each group in each queue, as its last pull has seen it."""

    def __init__(self, max_lags: int = MAX_LAGS) -> None:
        self._max_lags = max_lags
        self._lags: dict[Place, tuple[int | None, int | None]] = {}

    def note(
        self, topic: str, group: str, queue_id: int, size: int | None, time_ms: int | None
    ) -> None:
        """Note how far a pull is behind, in bytes of the log and in time; None keeps a value."""
        place, lags = (queue_id, topic, group), self._lags
        before = lags.pop(place, None)
        if before is None:
            lags[place] = (size, time_ms)
            if len(lags) > self._max_lags:
                del lags[next(iter(lags))]
        elif size is None or time_ms is None:
            lags[place] = (
                before[0] if size is None else size,
                before[1] if time_ms is None else time_ms,
            )
        else:
            lags[place] = (size, time_ms)

    def value(self, name: str, key: str) -> int | None:
        """Return the value of a counter by RocketMQ's name and key; None if there is none."""
        queue_id, _, rest = key.partition("@")
        topic, _, group = rest.partition("@")
        if name not in (FALL_SIZE, FALL_TIME) or not queue_id.isdecimal():
            return None
        size, time_ms = self._lags.get((int(queue_id), topic, group), (None, None))
        return size if name == FALL_SIZE else time_ms

    def forget_topic(self, topic: str) -> None:
        """Drop the lags of a topic that is deleted."""
        for place in [place for place in self._lags if place[1] == topic]:
            del self._lags[place]
