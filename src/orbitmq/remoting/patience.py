"""Learning whether it pays to wait awake.

Theory of operation. To put a thread to sleep and to wake it up again costs more than a peer nearby
takes for an answer, or for its next request. So whoever waits for one looks again and again for a
moment, and sleeps only then. Where it takes longer, that moment is wasted; so after a few in a row
that were, the next waits are asleep from the start: one, then two, then four … up to
`MOST_SKIPPED`, until one has paid again. It takes a few, because a peer that was let sleep itself
is late once, and would be so for ever if that were held against it.

Nobody waits awake on a machine with one processor: it would be the peer's.
"""

from __future__ import annotations

import os

__all__ = ["Patience"]

TRIES = 8
MOST_SKIPPED = 1024

_has_processors_to_spare = len(os.sched_getaffinity(0)) > 1


class Patience:
    """What one who waits again and again has learned of it."""

    __slots__ = ("_skip_next", "_to_skip", "_tries_left")

    def __init__(self) -> None:
        self._to_skip = 0 if _has_processors_to_spare else -1
        self._skip_next = 1
        self._tries_left = TRIES

    def for_this_one(self) -> bool:
        """Say whether to wait awake this time; whoever does says then what came of it."""
        if self._to_skip:
            self._to_skip -= self._to_skip > 0
            return False
        return True

    def paid(self) -> None:
        """What was waited for came in time."""
        self._skip_next, self._tries_left = 1, TRIES

    def wasted(self) -> None:
        """It did not."""
        self._tries_left -= 1
        if not self._tries_left:
            self._to_skip, self._tries_left = self._skip_next, TRIES
            self._skip_next = min(2 * self._skip_next, MOST_SKIPPED)
