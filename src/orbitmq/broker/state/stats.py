"""Counters of a broker and their rates.

Every counter is a pair of rising sums (value, times). Rates come from snapshots of all counters,
taken at fixed intervals: minute, hour and day are the difference between the newest snapshot of a
window and its oldest. Keeping snapshots of sums makes counting itself one addition.

Clients choose the names of topics and groups. A counter that has not changed for longer than the
longest window is dropped. If there are too many counters, the longest idle ones are dropped.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from orbitmq.protocol.names import SCHEDULE_TOPIC

__all__ = ["SLOWEST_MS", "WINDOWS", "BrokerStats", "GroupLags", "PutTimes", "Rate", "Totals"]

# ---- Durations of puts
#
# These are their distribution in the last minute, and the slowest put ever. `now` has one counter
# for every millisecond a put can take, and a last one for all longer puts. Counting is therefore an
# index and an addition, and all other work is done when a value is read.
#
#     times.now[took_ms if 0 <= took_ms < SLOWEST_MS else SLOWEST_MS] += 1
#
# As in Java, the distribution is that of the last full period; before its end there is none.

SLOWEST_MS = 10_000

# The first millisecond of each class except the first, and Java's names of the classes.
_CLASSES_MS = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
_NAMES = (
    *("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s"),
    *("1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~"),
)


class PutTimes:
    """Counts puts by the milliseconds they took."""

    def __init__(self) -> None:
        self.now = [0] * (SLOWEST_MS + 1)
        """Counts of the current period; always the same list object."""
        self._last: dict[int, int] | None = None
        self._slowest_ms = 0

    def count(self, took_ms: float) -> None:
        """Count a put."""
        self.now[min(max(int(took_ms), 0), SLOWEST_MS)] += 1

    def end_period(self) -> None:
        """Begin a new period; the current one becomes the last full period."""
        self._last = {ms: count for ms, count in enumerate(self.now) if count}
        self._slowest_ms = self.slowest_ms
        self.now[:] = [0] * len(self.now)

    @property
    def slowest_ms(self) -> int:
        """Milliseconds of the slowest put ever, at most `SLOWEST_MS`."""
        of_now = next((ms for ms in range(SLOWEST_MS, 0, -1) if self.now[ms]), 0)
        return max(self._slowest_ms, of_now)

    def distribution(self) -> str | None:
        """Return the puts of the last period by class, in the format of ``brokerStatus``."""
        if self._last is None:
            return None
        counts = [0] * len(_NAMES)
        for ms, count in self._last.items():
            counts[bisect_right(_CLASSES_MS, ms)] += count
        return "".join(f"[{name}]:{count} " for name, count in zip(_NAMES, counts, strict=True))

    def percentile_ms(self, fraction: float) -> float:
        """Return the milliseconds within which `fraction` of the last period's puts ended."""
        last = self._last or {}
        wanted = sum(last.values()) * fraction
        passed = 0
        for ms, count in last.items():
            passed += count
            if passed >= wanted:
                return float(ms)
        return 0.0


# ---- Lag counters
#
# The counters GROUP_GET_FALL_SIZE and GROUP_GET_FALL_TIME hold the value of the last pull of a
# queue. They have no sum, unlike the counters of `BrokerStats`. RocketMQ keeps them under
# ``queueId@topic@group`` and writes them to its log only.

MAX_LAGS = 100_000
"""Number of lags that are kept; the lag of the queue pulled longest ago is dropped first."""

FALL_SIZE, FALL_TIME = "GROUP_GET_FALL_SIZE", "GROUP_GET_FALL_TIME"
Place = tuple[int, str, str]


class GroupLags:
    """Table with the lag of each group in each queue at its last pull."""

    def __init__(self, max_lags: int = MAX_LAGS) -> None:
        self._max_lags = max_lags
        self._lags: dict[Place, tuple[int | None, int | None]] = {}

    def note(
        self, topic: str, group: str, queue_id: int, size: int | None, time_ms: int | None
    ) -> None:
        """Note the lag of a pull in bytes of the log and in time; None keeps the old value."""
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
        """Return the value of a counter by RocketMQ's name and key; None without a value."""
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


_log = logging.getLogger(__name__)

# (name, seconds between snapshots, snapshots kept)
WINDOWS = (("minute", 10, 7), ("hour", 600, 7), ("day", 3600, 25))
TPS_SAMPLES = 601
MAX_ITEMS = 100_000
"""Number of counters that are kept; a broker with 1000 topics of ten groups each has fewer."""
IDLE_MS = 25 * 3_600_000
"""Time after which the rates of an unchanged counter are zero in every window."""
PUT_TIMES_PERIOD_MS = 60_000


@dataclass(slots=True, frozen=True)
class Rate:
    """Sum and rates of a counter within a window."""

    sum: int = 0
    tps: float = 0.0
    average_per_time: float = 0.0


class Totals(NamedTuple):
    """Sums of all messages put and got, and of pulls, at one moment."""

    at_ms: int = 0
    put: int = 0
    found: int = 0
    missed: int = 0
    got: int = 0

    @property
    def pulls(self) -> int:
        """Number of all pulls, with or without messages."""
        return self.found + self.missed


class _Item:
    __slots__ = ("moved_ms", "seen_sums", "snapshots", "times", "value")

    def __init__(self, now_ms: int) -> None:
        self.value = 0
        self.times = 0
        self.moved_ms = now_ms
        self.seen_sums = (0, 0)
        self.snapshots: dict[str, list[tuple[int, int, int]]] = {}

    def take(self, window: str, kept: int, seconds: int, now_ms: int) -> None:
        """Add a snapshot to a window."""
        snapshots = self.snapshots.setdefault(window, [(now_ms - seconds * 1000, 0, 0)])
        snapshots.append((now_ms, self.value, self.times))
        del snapshots[:-kept]


class BrokerStats:
    """All counters of a broker."""

    def __init__(
        self, cluster: str, clock: Callable[[], int], *, max_items: int = MAX_ITEMS
    ) -> None:
        self._max_items = max_items
        self._cluster = cluster
        self._clock = clock
        self._items: dict[tuple[str, str], _Item] = {}
        self._last_taken = {name: 0 for name, _, _ in WINDOWS}
        self._totals: deque[Totals] = deque(maxlen=TPS_SAMPLES)
        self._topic_items: dict[str, tuple[_Item, _Item]] = {}
        self._group_items: dict[tuple[str, str], tuple[_Item, _Item, _Item]] = {}
        self._latency_items: dict[tuple[int, str, str], _Item] = {}
        self._broker_put = self._item("BROKER_PUT_NUMS", cluster)
        self.boot_ms = self._put_times_since = clock()
        self.put_times_ms = PutTimes()
        self.lags = GroupLags()
        self.slowest_get_ms = 0
        self.put_times = 0
        self.put_failed = 0
        self.put_bytes = 0
        self.got_found = 0
        self.got_missed = 0
        self.got_messages = 0
        self.disk_used_ratio = 0.0
        self._day = _local_day(self.boot_ms)
        self.today_morning = self.yesterday_morning = Totals()

    def _item(self, name: str, key: str) -> _Item:
        item = self._items.get((name, key))
        if item is None:
            item = self._items[name, key] = _Item(self._clock())
        return item

    def add(self, name: str, key: str, value: int, times: int = 1) -> None:
        """Add a value to a counter."""
        item = self._item(name, key)
        item.value += value
        item.times += times

    def put(self, topic: str, messages: int, size: int, *, counts: bool = True) -> None:
        """Count messages that were put; with `counts=False` (no producer) not for their topic."""
        self.put_times += messages
        self.put_bytes += size
        if not counts:
            return
        items = self._topic_items.get(topic)
        if items is None:
            items = self._topic_items[topic] = (
                self._item("TOPIC_PUT_NUMS", topic),
                self._item("TOPIC_PUT_SIZE", topic),
            )
        count, bytes_ = items
        count.value += messages
        count.times += 1
        bytes_.value += size
        bytes_.times += 1
        self._broker_put.value += messages

    def got(self, topic: str, group: str, messages: int, size: int) -> None:
        """Count a pull that found messages."""
        self.got_found += 1
        self.got_messages += messages
        items = self._group_items.get((topic, group))
        if items is None:
            key = f"{topic}@{group}"
            items = self._group_items[topic, group] = (
                self._item("GROUP_GET_NUMS", key),
                self._item("GROUP_GET_SIZE", key),
                self._item("BROKER_GET_NUMS", self._cluster),
            )
        of_group, bytes_of_group, of_broker = items
        of_group.value += messages
        of_group.times += 1
        bytes_of_group.value += size
        bytes_of_group.times += 1
        of_broker.value += messages

    def got_in(self, topic: str, group: str, queue_id: int, took_ms: int) -> None:
        """Count the milliseconds a pull needed to find messages."""
        item = self._latency_items.get((queue_id, topic, group))
        if item is None:
            item = self._item("GROUP_GET_LATENCY", f"{queue_id}@{topic}@{group}")
            self._latency_items[queue_id, topic, group] = item
        item.value += took_ms
        item.times += 1
        if took_ms > self.slowest_get_ms:
            self.slowest_get_ms = took_ms

    def scheduled(self, level: int, size: int) -> None:
        """Count a message put into the queue of a delay level."""
        key = f"{SCHEDULE_TOPIC}@{level - 1}"
        self.add("QUEUE_PUT_NUMS", key, 1)
        self.add("QUEUE_PUT_SIZE", key, size)

    def sent_back(self, topic: str, group: str) -> None:
        """Count a message that a consumer has sent back."""
        self.add("SNDBCK_PUT_NUMS", f"{topic}@{group}", 1)

    def sample(self) -> None:
        """Take the snapshots that are due; to be called every second."""
        now = self._clock()
        totals = Totals(now, self.put_times, self.got_found, self.got_missed, self.got_messages)
        self._totals.append(totals)
        if now - self._put_times_since >= PUT_TIMES_PERIOD_MS:
            self._put_times_since = now
            self.put_times_ms.end_period()
        if _local_day(now) != self._day:
            self._day = _local_day(now)
            self.yesterday_morning, self.today_morning = self.today_morning, totals
        for name, seconds, kept in WINDOWS:
            if now - self._last_taken[name] >= seconds * 1000:
                self._last_taken[name] = now
                for item in self._items.values():
                    item.take(name, kept, seconds, now)
                if seconds == WINDOWS[0][1]:
                    self._drop_idle(now)

    def _drop_idle(self, now_ms: int) -> None:
        """Drop counters that are zero in every window, and idle ones above the limit."""
        for item in self._items.values():
            sums = (item.value, item.times)
            if sums != item.seen_sums:
                item.seen_sums, item.moved_ms = sums, now_ms
        kept = {
            place: item
            for place, item in self._items.items()
            if item is self._broker_put or now_ms - item.moved_ms <= IDLE_MS
        }
        if len(kept) > self._max_items:
            newest = sorted(kept.items(), key=lambda entry: entry[1].moved_ms, reverse=True)
            kept = dict(newest[: self._max_items])
            kept["BROKER_PUT_NUMS", self._cluster] = self._broker_put
            _log.warning(
                "%d counters of the longest idle topics and groups are dropped: the limit is %d",
                len(newest) - self._max_items, self._max_items,
            )  # fmt: skip
        if len(kept) < len(self._items):
            self._items = kept
            self._topic_items.clear()
            self._group_items.clear()
            self._latency_items.clear()

    def forget_topic(self, topic: str) -> None:
        """Drop the counters of a topic that is deleted."""
        for name, key in list(self._items):
            if topic in key.split("@"):
                del self._items[name, key]
        self._topic_items.clear()
        self._group_items.clear()
        self._latency_items.clear()

    def rate(self, name: str, key: str, window: str) -> Rate | None:
        """Return sum and rates of a counter within a window; None for an unknown counter."""
        item = self._items.get((name, key))
        if item is None:
            return None
        snapshots = item.snapshots.get(window, [])
        if len(snapshots) < 2:
            return Rate()
        (t0, v0, n0), (t1, v1, n1) = snapshots[0], snapshots[-1]
        total = v1 - v0
        return Rate(
            total,
            total * 1000 / (t1 - t0) if t1 > t0 else 0.0,
            total / (n1 - n0) if n1 > n0 else 0.0,
        )

    def per_second(self, column: Literal["put", "found", "missed", "pulls", "got"]) -> str:
        """Return the rates of one total over 10, 60 and 600 seconds, as Java prints them."""
        texts = []
        for seconds in (10, 60, 600):
            if len(self._totals) <= seconds:
                # For a window longer than its run time Java prints nothing, but 0.0 for all pulls.
                texts.append("0.0" if column == "pulls" else "")
                continue
            old, new = self._totals[-1 - seconds], self._totals[-1]
            elapsed_s = (new.at_ms - old.at_ms) / 1000 or 1.0
            texts.append(str((getattr(new, column) - getattr(old, column)) / elapsed_s))
        return " ".join(texts)


def _local_day(at_ms: int) -> tuple[int, int]:
    local = time.localtime(at_ms / 1000)
    return local.tm_year, local.tm_yday
