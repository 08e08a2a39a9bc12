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
*compaction* takes files out as it adds others. Every so often a *snapshot* holds all of it, and the
commits before it go.

For each file the manifest says topic, rows, first and last store time, and for each queue the first
and last offset and the last store time: enough to find a range without opening a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from orbitmq.spark.pipelines.archive_files import ArchiveFiles

__all__ = ["ArchivedFile", "Manifest", "QueueKey", "Reached"]

DIRECTORY = "_manifest"
SNAPSHOT_EVERY = 100

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
    garbage: list[str] = field(default_factory=list)
    """What the last compactions took out; readers may still be at it."""
    _since_snapshot: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, files: ArchiveFiles) -> Manifest:
        """Read the manifest of an archive; one that is not there is empty."""
        manifest = cls(files)
        for name, _ in files.below(DIRECTORY):
            if name.endswith(".json"):
                manifest._apply(json.loads(files.read_text(name)))
                manifest._since_snapshot.append(name)
                manifest.number = int(name.rpartition("/")[2].removesuffix(".json")) + 1
        return manifest

    def commit_batch(self, query: str, batch: int, added: Iterable[ArchivedFile]) -> None:
        """Make the files of a batch count; query and batch are for people who look for a cause."""
        commit = {"kind": "append", "query": query, "batch": batch}
        self._commit(commit | {"files": [asdict(file) for file in added]})

    def commit_compaction(self, added: Iterable[ArchivedFile], removed: Iterable[str]) -> None:
        """Put files in the place of others."""
        files = [asdict(file) for file in added]
        self._commit({"kind": "compact", "files": files, "removes": list(removed)})

    def _commit(self, commit: dict[str, Any]) -> None:
        path = f"{DIRECTORY}/{self.number:020}.json"
        self.files.create_text(path, json.dumps(commit))
        self._apply(commit)
        self._since_snapshot.append(path)
        self.number += 1
        if len(self._since_snapshot) > SNAPSHOT_EVERY:
            self._snapshot()

    def _snapshot(self) -> None:
        older = self._since_snapshot
        self._since_snapshot = []
        files = [asdict(file) for file in self.current.values()]
        self._commit({"kind": "snapshot", "files": files, "garbage": self.garbage})
        for path in older:
            self.files.delete(path)

    def _apply(self, commit: dict[str, Any]) -> None:
        if commit["kind"] == "snapshot":
            self.current, self.garbage = {}, list(commit["garbage"])
        for removed in commit.get("removes", ()):
            if self.current.pop(removed, None) is not None:
                self.garbage.append(removed)
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

    def delete_garbage(self) -> None:
        """Delete what earlier compactions took out; called before the next one."""
        for path in self.garbage:
            self.files.delete(path)
        self.garbage = []
