"""Scan plans: byte ranges of files, cut into splits that can run anywhere.

A plan is plain data. It can be sent to other processes and machines with access to the same files.
A split returns the same rows on every read, also while a broker appends, because the end of the log
is part of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from orbitmq._native import LogScan
from orbitmq.storelog.selection import QueueWishes, names

__all__ = ["COLUMNS", "ScanPlan", "Selection", "Split", "check_columns", "cut"]

COLUMNS: Final = (
    *("topic", "brokerName", "queueId", "queueOffset", "msgId", "offsetMsgId", "tags", "keys"),
    *("body", "properties", "bornTimestamp", "storeTimestamp", "bornHost", "flag", "sysFlag"),
    *("reconsumeTimes", "physicalOffset"),
)
"""The columns of the table, in their order."""

PIECE_BYTES: Final = 8 << 20
"""Size of a piece that one of several threads reads: enough for some batches, small enough to wait
in memory."""

Range = tuple[int, int, bool]
"""First byte, end (exclusive), and True if a record is known to begin at the first byte."""


@dataclass(frozen=True)
class Selection:
    """Criteria for messages. A criterion without a value is not applied."""

    topics: QueueWishes | None = None
    start_ms: int | None = None
    """Earliest store time."""
    end_ms: int | None = None
    """Store time that messages are before."""
    keys: tuple[str, ...] | None = None
    """Keys of which a message has at least one: the producer's unique key or a user's key."""


@dataclass(frozen=True)
class Split:
    """A part of a scan: byte ranges of the log."""

    ranges: tuple[Range, ...]

    @property
    def size(self) -> int:
        """Bytes of the log that the split reads."""
        return sum(end - start for start, end, _ in self.ranges)


@dataclass(frozen=True)
class ScanPlan:
    """All parameters for reading a split."""

    log_files: tuple[tuple[Path, int, int], ...]
    log_end: int
    splits: tuple[Split, ...]
    selection: Selection = field(default_factory=Selection)
    columns: tuple[str, ...] = COLUMNS
    broker_name: str | None = None
    verify_crc: bool = True
    fail_on_damage: bool = True
    max_rows: int = 16_384
    max_bytes: int = 4 << 20
    """Most bytes of a batch: few enough to pass it on while it is in the processor's cache."""

    def open(self, *splits: Split, threads: int = 1) -> LogScan:
        """Return the scan of the given splits, by default of all splits.

        Several threads read ahead; memory holds a piece of the log for each of them.
        """
        ranges = [piece for split in splits or self.splits for piece in split.ranges]
        size = sum(end - start for start, end, _ in ranges)
        pieces = cut(ranges, size // PIECE_BYTES + 1) if threads > 1 else (Split(tuple(ranges)),)
        selection = self.selection
        return LogScan(
            self.log_files,
            self.log_end,
            [piece.ranges for piece in pieces],
            threads=threads,
            topics=selection.topics,
            start_ms=selection.start_ms,
            end_ms=selection.end_ms,
            keys=selection.keys,
            columns=self.columns,
            broker_name=self.broker_name,
            max_rows=self.max_rows,
            max_bytes=self.max_bytes,
            verify_crc=self.verify_crc,
            fail_on_damage=self.fail_on_damage,
        )


def check_columns(columns: Iterable[str] | None) -> tuple[str, ...]:
    """Return columns in their canonical spelling, all columns for None.

    Unknown names raise ValueError.

    >>> check_columns(["queueid", "Body"])
    ('queueId', 'body')
    """
    if columns is None:
        return COLUMNS
    spelt = {name.lower(): name for name in COLUMNS}
    wanted: list[str] = []
    for name in names(columns, "columns"):
        if name.lower() not in spelt:
            raise ValueError(f"messages have no column {name!r}; they have {', '.join(COLUMNS)}")
        if spelt[name.lower()] in wanted:
            raise ValueError(f"column {name!r} is named twice")
        wanted.append(spelt[name.lower()])
    if not wanted:
        raise ValueError("at least one column must be wanted")
    return tuple(wanted)


def cut(ranges: Sequence[Range], count: int) -> tuple[Split, ...]:
    """Cut ranges into at most `count` splits of about one size, at any byte."""
    total = sum(end - start for start, end, _ in ranges)
    target = max(1, -(-total // max(1, count)))
    splits: list[Split] = []
    pieces: list[Range] = []
    room = target
    for start, end, aligned in ranges:
        while start < end:
            stop = min(end, start + room)
            pieces.append((start, stop, aligned))
            room -= stop - start
            start, aligned = stop, False
            if room == 0:
                splits.append(Split(tuple(pieces)))
                pieces, room = [], target
    if pieces:
        splits.append(Split(tuple(pieces)))
    return tuple(splits)
