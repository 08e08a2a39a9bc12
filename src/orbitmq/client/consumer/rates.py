"""Rates at which topics are pulled and consumed, over the last minute.

Counts are collected in buckets of ten seconds. The rates cover the buckets of the last minute, the
number of failures those of the last hour, as in RocketMQ's `consumerStatus`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ConsumeRates", "TopicRates"]

BUCKET_S = 10
MINUTE_S = 60
HOUR_S = 3600


@dataclass(slots=True)
class _Bucket:
    number: int
    pulled: int = 0
    pulls: int = 0
    pull_s: float = 0
    done: int = 0
    failed: int = 0
    calls: int = 0
    call_s: float = 0


@dataclass(slots=True, frozen=True)
class TopicRates:
    """Rates of one topic; times are averages per pull and per call of the handler."""

    pulled_per_s: float = 0.0
    pull_ms: float = 0.0
    done_per_s: float = 0.0
    failed_per_s: float = 0.0
    call_ms: float = 0.0
    failed_in_hour: int = 0


class ConsumeRates:
    """Counts pulled and consumed messages; any thread may call the methods."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_at = clock()
        self._lock = threading.Lock()
        self._of_topic: dict[str, deque[_Bucket]] = {}

    def _bucket(self, topic: str) -> _Bucket:
        number = int(self._clock() / BUCKET_S)
        buckets = self._of_topic.get(topic)
        if buckets is None:
            buckets = self._of_topic[topic] = deque(maxlen=HOUR_S // BUCKET_S)
        if not buckets or buckets[-1].number != number:
            buckets.append(_Bucket(number))
        return buckets[-1]

    def pulled(self, topic: str, messages: int, seconds: float) -> None:
        """Count a pull that returned messages."""
        with self._lock:
            bucket = self._bucket(topic)
            bucket.pulled += messages
            bucket.pulls += 1
            bucket.pull_s += seconds

    def consumed(self, topic: str, messages: int, failed: int, calls: int, seconds: float) -> None:
        """Count handler calls: the number of their messages, and of the failed ones among them."""
        with self._lock:
            bucket = self._bucket(topic)
            bucket.done += messages - failed
            bucket.failed += failed
            bucket.calls += calls
            bucket.call_s += seconds

    def of(self, topic: str) -> TopicRates:
        """Return the current rates of a topic."""
        now = self._clock()
        with self._lock:
            buckets = list(self._of_topic.get(topic) or ())
        hour = [one for one in buckets if one.number > (now - HOUR_S) / BUCKET_S - 1]
        minute = [one for one in hour if one.number > (now - MINUTE_S) / BUCKET_S - 1]
        seconds = min(max(now - self._began_at, 1), MINUTE_S)
        return TopicRates(
            pulled_per_s=sum(one.pulled for one in minute) / seconds,
            pull_ms=_mean_ms(sum(one.pull_s for one in minute), sum(one.pulls for one in minute)),
            done_per_s=sum(one.done for one in minute) / seconds,
            failed_per_s=sum(one.failed for one in minute) / seconds,
            call_ms=_mean_ms(sum(one.call_s for one in minute), sum(one.calls for one in minute)),
            failed_in_hour=sum(one.failed for one in hour),
        )


def _mean_ms(seconds: float, count: int) -> float:
    return 1000 * seconds / count if count else 0.0
