"""The manifest of an archive: which files count, and what is in each.

::

    archive/
      topic=orders/day=2026-11-16/hour=8/<commit>-0.parquet    the messages
      _manifest/00000000000000000007.json                      one commit each, in order
      _staging/                                                being written, counts for nothing
      _checkpoint/                                             how far the stream has come

A file counts from the moment the commit that names it has its name, which happens at once or not
at all, and which only one of two writers can give. So a writer that dies leaves files that nobody
reads, and of a batch that is repeated nothing is new (see `archive_offsets`). A commit of a
*compaction* takes files out as it adds others; readers may be at them, so they stay for a while as
*garbage*. Every so often a *snapshot* holds all of it, and the commits before the snapshot before
it go: who has just listed them can still read them.

An archive has one writer, the one that started last. It begins with a commit of its own, *open*,
and so takes the number that the writer before it, should it still run, needs for its next commit:
that one fails before it makes anything count that the new one does not know of. Nothing expires, so
a writer can be started again the moment it was killed. Commits *open* outlive snapshots for a week,
for a writer that was asleep.

For each file the manifest says topic, rows, first and last store time, and for each queue the first
and last offset and the last store time: enough to find a range without opening a file.
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
"""Topic, broker and queue."""


class Reached(NamedTuple):
    """How far the archive has come in a queue."""

    offset: int
    stored_ms: int
    """The latest store time of its messages."""


@dataclass(frozen=True)
class ArchivedFile:
    """One Parquet file."""

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
        """Its directory: topic, day and hour."""
        return self.path.rpartition("/")[0]

    def first_offsets(self) -> Iterator[tuple[QueueKey, int]]:
        """Return the first offset of each queue."""
        for broker, queues in self.queues.items():
            for queue, (first, *_) in queues.items():
                yield (self.topic, broker, int(queue)), first


@dataclass
class Manifest:
    """The state of an archive after its newest commit."""

    files: ArchiveFiles
    number: int = 0
    """Of the next commit."""
    current: dict[str, ArchivedFile] = field(default_factory=dict)
    garbage: dict[str, int] = field(default_factory=dict)
    """What compactions took out, and when; readers may still be at it."""
    opens: dict[str, int] = field(default_factory=dict)
    """The numbers of commits by which writers began, and when."""
    queries: set[str] | None = field(default_factory=set)
    """The streams that have written here; None where the first archives did not say."""
    _snapshot_number: int = -1
    _names: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, files: ArchiveFiles) -> Manifest:
        """Read the manifest of an archive; one that is not there is empty.

        Should commits go while they are read, there is a newer snapshot to begin with.
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
        """Read commits back to the newest snapshot; None if one of them is not there."""
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
        """Read the manifest and become its writer; who was it until now is not any more."""
        while True:
            manifest = cls.load(files)
            owner = f"process {os.getpid()} on {platform.node()}"
            if manifest._try({"kind": "open", "owner": owner, "at": _now_ms(), "files": []}):
                return manifest

    def check_writer(self) -> None:
        """Raise if another writer has taken the archive over."""
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
        """Make the files of a batch count; its number is for people who look for a cause."""
        commit = {"kind": "append", "query": query, "batch": batch}
        self._commit(commit | {"files": [asdict(file) for file in added]})

    def commit_compaction(
        self, added: Iterable[ArchivedFile], removed: Iterable[str], now_ms: int
    ) -> None:
        """Put files in the place of others."""
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
        """Take a commit in, whose number is the next."""
        if commit["kind"] == "snapshot":
            self._snapshot_number = self.number
            self.opens = dict(commit.get("opens", {}))
            # The first archives did not say since when.
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
        """Return how far the archive has come in each queue."""
        found: dict[QueueKey, Reached] = {}
        for file in self.current.values():
            for broker, queues in file.queues.items():
                for queue, (_, offset, *times) in queues.items():
                    key = (file.topic, broker, int(queue))
                    before = found.get(key, Reached(-1, 0))
                    # Files of the first archives do not say the time of each queue.
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
        """Return the files that can hold messages of these topics stored within this time."""
        wanted = None if topics is None else set(topics)
        return [
            file
            for file in sorted(self.current.values(), key=lambda each: each.path)
            if (wanted is None or file.topic in wanted)
            and (start_ms is None or file.last_ms >= start_ms)
            and (end_ms is None or file.first_ms < end_ms)
        ]

    def delete_garbage(self, before_ms: int) -> None:
        """Delete what compactions took out before a time; the next snapshot forgets it."""
        for path in [path for path, at in self.garbage.items() if at < before_ms]:
            self.files.delete(path)
            del self.garbage[path]


def _number(path: str) -> int:
    return int(path.rpartition("/")[2].removesuffix(".json"))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
