"""Deduplication for exactly-once senders: the window of stored ids, and its recovery.

A sender (a streaming query, see `orbitmq.spark.sink.exactly_once`) numbers its batches. A message
has the same id when its batch is sent again. `StoredIds` (Rust) holds the ids of the newest batch
of each sender. Account, sender, batch and id are properties of each message, so the log contains
all ids. A sender belongs to an account and a topic (`SenderScope`), so no account can suppress the
messages of another one.

- *Snapshot*: the ids are periodically written to ``config/deduplication.ids`` with the log offset
  they stand for. This also happens when only other clients have written to the log, so that a
  start never has to read much of it. A snapshot is written only after the log is on disk up to its
  offset. It therefore never contains the id of a message that a crash has lost.
- *Start*: the ids come from the snapshot and from the part of the log behind its offset. If the
  snapshot is unreadable or ahead of the log, the whole log is read instead.
- *First use*: an empty snapshot is written before the first message of the first such sender. A
  missing snapshot therefore means that the log has no ids to look for. A broker without
  exactly-once senders starts without reading its log for them.

Bounds. A sender that has sent nothing for `deduplicationWindowMs` is forgotten. A sender that ends
its batch keeps no ids (`end`). Each account can have at most `deduplicationMaxIds` ids (about 40
bytes each), so that no account takes the room of another one. The senders of an account are limited
to a quarter of that number. A batch beyond these limits is rejected rather than stored without
deduplication.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orbitmq import persist
from orbitmq._native import Store, StoredIds
from orbitmq.config import BrokerConfig
from orbitmq.errors import BatchNotTaken, MalformedId, WireError
from orbitmq.protocol.codes import ResponseCode
from orbitmq.remoting.router import Refused
from orbitmq.threads import in_thread

__all__ = ["Deduplication", "SenderScope"]

_log = logging.getLogger(__name__)

SNAPSHOT = "deduplication.ids"
FLUSH_TIMEOUT_MS = 60_000
LOG_BEHIND_BYTES = 64 << 20
"""Bytes the log may grow behind a snapshot; more if the snapshot itself is large."""
ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class SenderScope:
    """A batch of a sender, with the topic and the account it belongs to."""

    sender: str
    batch: int
    topic: str
    account: str
    """Text that stands for the account; empty without access control."""

    @property
    def text(self) -> str:
        """The value of the property `SCOPE` in messages."""
        return f"{self.sender}/{self.batch}"


class Deduplication:
    """Stored ids of exactly-once senders, with their snapshots."""

    def __init__(
        self, config: BrokerConfig, store: Store, config_dir: Path, clock: Callable[[], int]
    ) -> None:
        self._config = config
        self._store = store
        self._clock = clock
        self._path = config_dir / SNAPSHOT
        self._has_snapshot = self._path.exists() or persist.backup_of(self._path).exists()
        self._is_dirty = False
        self._saved_end = 0
        self.suppressed = 0
        """Number of repeated messages that were not stored again since the start."""
        self._ids = self._recover() if self._has_snapshot else StoredIds()

    def _recover(self) -> StoredIds:
        for path in (self._path, persist.backup_of(self._path)):
            try:
                ids = self._store.stored_ids(path.read_bytes())
            except FileNotFoundError:
                continue
            except WireError as error:
                _log.warning("cannot use snapshot %s of stored ids: %s", path, error)
                continue
            _log.info("loaded %d stored ids of exactly-once senders", len(ids))
            return ids
        _log.warning("no snapshot of stored ids is usable, reading the whole log for the ids")
        return self._store.stored_ids()

    def __len__(self) -> int:
        return len(self._ids)

    def stored(self, scope: SenderScope, ids: Sequence[str]) -> list[bool]:
        """Return for each id of a batch if it is stored; reject a batch that cannot be checked."""
        limit = self._config.deduplication_max_ids
        for may_forget in (True, False):
            try:
                stored = self._ids.stored(
                    scope.sender,
                    scope.batch,
                    ids,
                    limit=limit,
                    topic=scope.topic,
                    account=scope.account,
                )
            except MalformedId as error:
                raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"UNIQ_KEY: {error}") from None
            except BatchNotTaken as error:
                if may_forget and self._forget():
                    continue
                remark = f"not taken, as repeats could not be told from new messages: {error}"
                if "limit" in str(error):
                    remark += " (send smaller batches, or raise deduplicationMaxIds)"
                raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark) from None
            self.suppressed += sum(stored)
            return stored
        raise AssertionError  # the second round ends one way or the other

    def add(self, scope: SenderScope, ids: Sequence[str]) -> None:
        """Add the ids of messages that have been appended to the log."""
        self._ids.add(
            scope.sender,
            scope.batch,
            ids,
            now_ms=self._clock(),
            topic=scope.topic,
            account=scope.account,
        )
        self._is_dirty = True

    def end(self, scope: SenderScope) -> None:
        """Drop the ids of a batch that will not be sent again."""
        if self._ids.end(scope.sender, scope.batch, topic=scope.topic, account=scope.account):
            self._is_dirty = True

    def prepare(self) -> None:
        """Write an empty snapshot if none exists; to be called before any append."""
        if not self._has_snapshot:
            persist.save(self._path, self._ids.snapshot(max(self._store.max_physical_offset, 0)))
            self._has_snapshot = True

    async def save(self) -> None:
        """Forget old senders; write a snapshot if ids have changed or the last is far behind."""
        if self._forget():
            self._is_dirty = True
        end = self._store.max_physical_offset
        most_behind = max(LOG_BEHIND_BYTES, 8 * ID_BYTES * len(self._ids))
        is_behind = self._has_snapshot and end - self._saved_end >= most_behind
        if not self._is_dirty and not is_behind:
            return
        self._is_dirty = False
        snapshot = self._ids.snapshot(end)
        try:
            await in_thread(self._save, snapshot, end)
        except BaseException:
            self._is_dirty = True
            raise

    def _save(self, snapshot: bytes, end: int) -> None:
        if self._store.wait_flushed(end, FLUSH_TIMEOUT_MS):
            persist.save(self._path, snapshot)
            self._saved_end = end
        else:
            self._is_dirty = True
            _log.warning(
                "snapshot of stored ids is not written, next try with the next save: the log was "
                "not flushed in time"
            )

    def _forget(self) -> int:
        return self._ids.forget_before(self._clock() - self._config.deduplication_window_ms)
