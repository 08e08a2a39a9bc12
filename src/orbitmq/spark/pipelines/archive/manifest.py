"""Manifest of an archive: the valid files and a description of each.

::

    archive/
      topic=orders/day=2026-11-16/hour=8/<commit>-0.parquet    the messages
      _manifest/00000000000000000007.json                      one commit each, in order
      _staging/                                                unfinished files, not valid
      _checkpoint/                                             position of the stream

A file is valid from the moment at which the commit that lists it gets its name. A commit gets its
name atomically, and only one of two writers can use a name. The files of a writer that dies before
its commit are therefore never read. A repeated batch adds no message twice (see `archive.writer`).

A commit of a *compaction* removes files and adds others. Readers may still use the removed files,
so these stay for a while as *garbage*. After every `SNAPSHOT_EVERY` commits, a *snapshot* contains
the whole state. Commits before the previous snapshot are then deleted. A reader that listed the
commits just before the new snapshot can still read back to the previous one.

An archive has one writer: the one that started last. A writer begins with a commit *open*. This
commit takes the number that a previous writer, if it still runs, needs for its next commit. The
previous writer then fails before it commits files that the new writer has not read. There is no
lease to wait for, so a killed writer can be restarted at once. Commits *open* outlive snapshots for
a week, for a writer that was suspended.

For each file the manifest contains topic, number of rows, first and last store time. For each queue
it contains the first and last offset and the last store time. This is enough to find a range
without opening a file.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from orbitmq.errors import OrbitError

if TYPE_CHECKING:
    from orbitmq.spark.pipelines.archive.files import ArchiveFiles

__all__ = ["ArchivedFile", "Manifest", "QueueKey", "Reached"]

DIRECTORY = "_manifest"
SNAPSHOT_EVERY = 100
LOAD_ATTEMPTS = 10
OPEN_KEPT_MS = 7 * 86_400_000

QueueKey = tuple[str, str, int]
"""Topic, broker name and queue number."""


class Reached(NamedTuple):
    """Last archived position of a queue."""

    offset: int
    stored_ms: int
    """Latest store time of the archived messages of the queue."""


@dataclass(frozen=True)
class ArchivedFile:
    """Description of a Parquet file in the manifest."""

    path: str
    topic: str
    rows: int
    bytes: int
    first_ms: int
    last_ms: int
    queues: dict[str, dict[str, list[int]]]
    """First and last offset, and the last store time, by broker and queue."""

    @property
    def partition(self) -> str:
        """Directory of the file: topic, day and hour."""
        return self.path.rpartition("/")[0]

    def first_offsets(self) -> Iterator[tuple[QueueKey, int]]:
        """Yield the first offset of each queue."""
        for broker, queues in self.queues.items():
            for queue, (first, *_) in queues.items():
                yield (self.topic, broker, int(queue)), first


@dataclass
class Manifest:
    """State of an archive after its newest commit."""

    files: ArchiveFiles
    number: int = 0
    """Number of the next commit."""
    current: dict[str, ArchivedFile] = field(default_factory=dict)
    garbage: dict[str, int] = field(default_factory=dict)
    """Files that compactions removed, each with the time; readers may still use them."""
    opens: dict[str, int] = field(default_factory=dict)
    """Numbers of the commits *open*, each with the time."""
    queries: set[str] | None = field(default_factory=set)
    """Ids of the streams that have written here; None for archives of early versions."""
    _snapshot_number: int = -1
    _names: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, files: ArchiveFiles) -> Manifest:
        """Read the manifest of an archive; a missing manifest is empty.

        If commits are deleted while they are read, a newer snapshot exists, and the reading starts
        again with it.
        """
        for _ in range(LOAD_ATTEMPTS):
            names = [name for name, _ in files.below(DIRECTORY) if name.endswith(".json")]
            commits = cls._newest_first(files, names)
            if commits is not None:
                manifest = cls(files, _names=names)
                manifest.number = _number(names[-1]) + 1 - len(commits) if names else 0
                for commit in reversed(commits):
                    manifest._apply(commit)
                return manifest
        raise OrbitError(f"{files.url(DIRECTORY)} lacks commits after its newest snapshot")

    @classmethod
    def _newest_first(cls, files: ArchiveFiles, names: list[str]) -> list[dict[str, Any]] | None:
        """Read commits back to the newest snapshot; return None if a commit is missing."""
        commits: list[dict[str, Any]] = []
        for name in reversed(names):
            text = files.read_text_if_there(name)
            if text is None or _number(name) != _number(names[-1]) - len(commits):
                return None
            commits.append(json.loads(text))
            if commits[-1]["kind"] == "snapshot":
                return commits
        return commits if not names or _number(names[0]) == 0 else None

    @classmethod
    def take(cls, files: ArchiveFiles) -> Manifest:
        """Read the manifest and become its writer in the place of any previous writer."""
        while True:
            manifest = cls.load(files)
            owner = f"process {os.getpid()} on {platform.node()}"
            if manifest._try({"kind": "open", "owner": owner, "at": _now_ms(), "files": []}):
                return manifest

    def check_writer(self) -> None:
        """Raise `OrbitError` if another writer has taken the archive over."""
        path = self._path(self.number)
        if not self.files.exists(path):
            return
        rival = json.loads(self.files.read_text(path))
        who = ""
        if rival["kind"] == "open":
            when = datetime.fromtimestamp(rival["at"] / 1000, UTC).isoformat(timespec="seconds")
            who = f" since {when} ({rival['owner']})"
        raise OrbitError(
            f"another archiver has been writing to {self.files.root}{who}: this one ends, as an "
            "archive has one writer; nothing is lost, but give one of the two another path"
        )

    def commit_batch(self, query: str, batch: int, added: Iterable[ArchivedFile]) -> None:
        """Commit the files of a batch; the batch number is only for the analysis of errors."""
        commit = {"kind": "append", "query": query, "batch": batch}
        self._commit(commit | {"files": [asdict(file) for file in added]})

    def commit_compaction(
        self, added: Iterable[ArchivedFile], removed: Iterable[str], now_ms: int
    ) -> None:
        """Commit the replacement of files by others."""
        files = [asdict(file) for file in added]
        commit = {"kind": "compact", "at": now_ms, "files": files, "removes": list(removed)}
        self._commit(commit)

    def _path(self, number: int) -> str:
        return f"{DIRECTORY}/{number:020}.json"

    def _commit(self, commit: dict[str, Any]) -> None:
        if not self._try(commit):
            self.check_writer()
            raise OrbitError(f"{self._path(self.number)} came and went: who else writes here?")

    def _try(self, commit: dict[str, Any]) -> bool:
        path = self._path(self.number)
        if not self.files.create_text(path, json.dumps(commit)):
            return False
        self._apply(commit)
        self._names.append(path)
        if self.number - self._snapshot_number > SNAPSHOT_EVERY:
            self._snapshot()
        return True

    def _snapshot(self) -> None:
        before = self._snapshot_number
        since_ms = _now_ms() - OPEN_KEPT_MS
        state = {
            "files": [asdict(file) for file in self.current.values()],
            "garbage": self.garbage,
            "queries": None if self.queries is None else sorted(self.queries),
            "opens": {number: at for number, at in self.opens.items() if at >= since_ms},
        }
        self._commit({"kind": "snapshot", **state})
        for path in [path for path in self._names if _number(path) < before]:
            if str(_number(path)) not in self.opens:
                self.files.delete(path)
                self._names.remove(path)

    def _apply(self, commit: dict[str, Any]) -> None:
        """Apply the commit with the number `number`, and count it."""
        if commit["kind"] == "snapshot":
            self._snapshot_number = self.number
            self.opens = dict(commit.get("opens", {}))
            # Archives of early versions have garbage without times.
            garbage = commit["garbage"]
            self.garbage = dict.fromkeys(garbage, 0) | (garbage if type(garbage) is dict else {})
            self.current = {}
            queries = commit.get("queries")
            self.queries = None if queries is None else set(queries)
        elif commit["kind"] == "open":
            self.opens[str(self.number)] = commit["at"]
        elif commit["kind"] == "append" and self.queries is not None:
            self.queries.add(commit["query"])
        self.number += 1
        for removed in commit.get("removes", ()):
            if self.current.pop(removed, None) is not None:
                self.garbage[removed] = commit.get("at", 0)
        for each in commit["files"]:
            self.current[each["path"]] = ArchivedFile(**each)

    def reached(self) -> dict[QueueKey, Reached]:
        """Return the last archived position of each queue."""
        found: dict[QueueKey, Reached] = {}
        for file in self.current.values():
            for broker, queues in file.queues.items():
                for queue, (_, offset, *times) in queues.items():
                    key = (file.topic, broker, int(queue))
                    before = found.get(key, Reached(-1, 0))
                    # Files from early versions have no store time per queue.
                    stored_ms = max(before.stored_ms, *times or [file.last_ms])
                    found[key] = Reached(max(before.offset, offset), stored_ms)
        return found

    def find(
        self,
        *,
        topics: Iterable[str] | None = None,
        start_ms: int | None = None,
        end_ms: int | None = None,
    ) -> list[ArchivedFile]:
        """Return the files that can contain messages of these topics from this time range."""
        wanted = None if topics is None else set(topics)
        return [
            file
            for file in sorted(self.current.values(), key=lambda each: each.path)
            if (wanted is None or file.topic in wanted)
            and (start_ms is None or file.last_ms >= start_ms)
            and (end_ms is None or file.first_ms < end_ms)
        ]

    def delete_garbage(self, before_ms: int) -> None:
        """Delete files that compactions removed before a time; the next snapshot omits them."""
        for path in [path for path, at in self.garbage.items() if at < before_ms]:
            self.files.delete(path)
            del self.garbage[path]


def _number(path: str) -> int:
    return int(path.rpartition("/")[2].removesuffix(".json"))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
