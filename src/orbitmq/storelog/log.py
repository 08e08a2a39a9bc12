"""`StoreLog`: a store directory at one moment, and `StoreScan`: a table of its messages."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbitmq._native import ArrowBatch, LogScan, ScanReport, StoreSnapshot
from orbitmq.errors import StoreIOError
from orbitmq.storelog.plan import ScanPlan, Selection, check_columns, cut
from orbitmq.storelog.selection import matching_topics, names, parse_time_ms, whole_number, wishes

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

__all__ = ["StoreLog", "StoreScan"]

SPLIT_BYTES = 1 << 30
"""Most bytes of one split when the number of splits is not given: about a second of work, so that
the start of a task costs little in comparison."""
LEAST_SPLIT_BYTES = 16 << 20
"""Fewest bytes worth a split of their own: reading less is faster than starting another task."""
MOST_THREADS = 8
"""Most reading threads by default: more of them wait for memory, not for processors."""


class StoreLog:
    """The content of a store directory at the moment of creation.

    `path` is the directory itself or a bare ``commitlog`` directory; `commit_log_paths` are the
    directories of a log that lies elsewhere, or is spread over several. Relative paths are resolved
    against the current directory now, so a later change of directory has no effect.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        commit_log_paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self.path = Path(path).absolute()
        if isinstance(commit_log_paths, (str, os.PathLike)):
            commit_log_paths = (commit_log_paths,)
        log_paths = [Path(each).absolute() for each in commit_log_paths]
        _check_directory(self.path, "store")
        for each in log_paths:
            _check_directory(each, "log")
        self.snapshot = StoreSnapshot(self.path, commit_log_paths=log_paths)

    @property
    def topics(self) -> list[str]:
        """Topics that have queues."""
        return self.snapshot.topics

    @property
    def size(self) -> int:
        """Size of the log in bytes, gaps included."""
        return self.snapshot.log_end - self.snapshot.log_start

    @property
    def torn_bytes(self) -> int:
        """Bytes of an unfinished message behind the end of the log."""
        return self.snapshot.tail[0] if self.snapshot.tail else 0

    def select(
        self,
        *,
        topics: Iterable[str] | Mapping[str, int | Iterable[int] | None] | None = None,
        topic_pattern: str | None = None,
        start: int | str | date | None = None,
        end: int | str | date | None = None,
        starting_offsets: Mapping[str, Mapping[int, int]] | None = None,
        ending_offsets: Mapping[str, Mapping[int, int]] | None = None,
        keys: Iterable[str] | None = None,
    ) -> Selection:
        """Return the selection for the given parameters, which are those of `scan`."""
        if topic_pattern is not None:
            if topics is not None:
                raise ValueError("give topics or a topic pattern, not both")
            if self.snapshot.dispatched_end is None:
                raise ValueError(
                    f"{self.path} has no consume queues that would tell its topics; "
                    "name the topics themselves"
                )
            topics = matching_topics(topic_pattern, self.topics)
        return Selection(
            topics=wishes(topics, starting_offsets, ending_offsets),
            start_ms=None if start is None else parse_time_ms(start, "start"),
            end_ms=None if end is None else parse_time_ms(end, "end"),
            keys=None if keys is None else names(keys, "keys"),
        )

    def plan(
        self,
        selection: Selection | None = None,
        *,
        columns: Iterable[str] | None = None,
        broker_name: str | None = None,
        splits: int | None = None,
        at_once: int | None = None,
        prune: bool = True,
        verify_crc: bool = True,
        fail_on_damage: bool = True,
        **wishes: Any,
    ) -> ScanPlan:
        """Plan a scan; the parameters are those of `scan`.

        The scan is cut into `splits` parts. Without `splits`, `_split_count` takes a number that
        suits `at_once` parallel tasks (by default one per core).
        """
        if selection is None:
            selection = self.select(**wishes)
        wanted = check_columns(columns)
        # Without the store, missing queues would look expired, and nothing would be read.
        _check_directory(self.path, "store")
        ranges = self.snapshot.whole()
        if prune:
            ranges = self.snapshot.ranges(
                topics=selection.topics,
                start_ms=selection.start_ms,
                end_ms=selection.end_ms,
                keys=selection.keys,
            )
        if splits is None:
            total = sum(stop - first for first, stop, _ in ranges)
            splits = _split_count(total, at_once or os.cpu_count() or 1)
        else:
            splits = whole_number(splits, "splits", least=1)
        return ScanPlan(
            log_files=tuple(self.snapshot.log_files),
            log_end=self.snapshot.log_end,
            splits=cut(ranges, splits),
            selection=selection,
            columns=wanted,
            broker_name=broker_name,
            verify_crc=verify_crc,
            fail_on_damage=fail_on_damage,
        )

    def scan(self, *, threads: int | None = None, **wishes: Any) -> StoreScan:
        """Return the selected messages as a table for Arrow libraries.

        - ``topics``: names, or names with the numbers of their queues (None for all of them);
          ``topic_pattern``: a regular expression in their place, for users' topics only.
        - ``start``, ``end``: store time, the end exclusive; epoch milliseconds, ISO 8601 text, a
          datetime with its time zone or a date (its midnight in UTC).
        - ``starting_offsets``, ``ending_offsets``: queue offsets by topic and queue, the ending
          ones exclusive.
        - ``keys``: messages with one of these keys, unique or the user's.
        - ``columns``: some of `COLUMNS`; other columns are not copied. A single topic, key or
          column needs no list.
        - ``broker_name``: value of the column ``brokerName``, because no file contains it.
        - ``fail_on_damage``: True (the default) raises `CorruptStore` for an unreadable message,
          `MissingFile` for a gap between log files and `FileExpired` for a file that expires
          during the scan. False skips these parts and counts them in `StoreScan.report`.
        - ``verify_crc``: compare bodies with their checksums.
        - ``prune``: use queues, index and times to skip parts of the log; False for stores whose
          queues are unreliable.
        - ``threads``: number of reading threads, by default one per core, eight at most. Rows keep
          the order of the log.
        """
        if threads is None:
            threads = min(os.cpu_count() or 1, MOST_THREADS)
        else:
            threads = whole_number(threads, "threads", least=1)
        return StoreScan(self.plan(**wishes), threads)


def _check_directory(path: Path, what: str) -> None:
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            return
        reason = f"{path} is a file, not a {what} directory"
    except (FileNotFoundError, NotADirectoryError):
        reason = f"there is no directory {path}"
    except OSError as error:
        reason = f"directory {path} cannot be read: {error.strerror}"
    raise StoreIOError(reason, path=path)


def _split_count(total: int, at_once: int) -> int:
    """Return the number of splits for a number of bytes to read.

    Normally each parallel task gets one split, because every further split costs the start of a
    task. If these splits were too large, the number is a multiple of `at_once`, so that every round
    of tasks is full.
    """
    rounds = -(-total // (at_once * SPLIT_BYTES))
    if rounds > 1:
        return rounds * at_once
    return max(1, min(at_once, -(-total // LEAST_SPLIT_BYTES)))


class StoreScan:
    """A table of messages, for `polars.DataFrame`, `duckdb.sql`, `pyarrow.table` and their like.

    A table can be read more than once: each reading starts from the beginning.
    """

    def __init__(self, plan: ScanPlan, threads: int = 1) -> None:
        self.plan = plan
        self.threads = threads
        self._last: LogScan | None = None

    def _open(self) -> LogScan:
        self._last = self.plan.open(threads=self.threads)
        return self._last

    def __iter__(self) -> Iterator[ArrowBatch]:
        return iter(self._open())

    def __arrow_c_schema__(self) -> CapsuleType:
        """Return the schema as a capsule of the Arrow PyCapsule interface."""
        return replace(self.plan, splits=()).open().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> CapsuleType:
        """Return the batches as a capsule of the Arrow PyCapsule interface."""
        return self._open().__arrow_c_stream__(requested_schema)

    def report(self) -> ScanReport | None:
        """Return the report of the latest reading so far, or None before the first reading."""
        return None if self._last is None else self._last.report()
