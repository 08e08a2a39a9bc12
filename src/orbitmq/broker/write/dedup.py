"""Repeats of exactly-once senders, told from new messages: the window, and how it survives.

A sender (a streaming query, see `orbitmq.spark.sink.exactly_once`) numbers its batches. The id of
a message is the same when its batch is sent again. `StoredIds` (Rust) holds the ids of every
sender's newest batch; account, sender, batch and id are properties of each message, so the log
contains all of it. A sender belongs to an account and a topic (`Scope`), so nobody
has a say in what is stored of another's.

- *snapshot*: from time to time the ids are written to ``config/deduplication.ids`` with the offset
  of the log they stand for, also when only others have written to the log, so that a start never
  has much of it to read. It is written only after the log is on disk up to there, so that no
  snapshot knows of a message that a crash has taken.
- *start*: the snapshot, and what the log has behind its offset. A snapshot that cannot be read, or
  that is ahead of the log, is replaced by a walk through the whole log.
- before the first message ever of any such sender an empty snapshot is written. So no snapshot
  means that there is nothing to look for, and a broker that nobody uses this way starts as fast as
  ever.

Bounds. A sender that has sent nothing for `deduplicationWindowMs` is forgotten, and one that says
that its batch is over keeps no ids (`end`). Of each account at most `deduplicationMaxIds` ids are
kept (about 40 bytes each), so that one cannot take another's room, and one sender for every four of
them; a batch that would need more is refused rather than stored without the promise.
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
"""How far the log may grow behind a snapshot; more when a snapshot is itself large."""
ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class SenderScope:
    """A batch of a sender, and whose it is."""

    sender: str
    batch: int
    topic: str
    account: str
    """Stands for the account; empty without access control."""

    @property
    def text(self) -> str:
        """The value of the property `SCOPE` in messages."""
        return f"{self.sender}/{self.batch}"


class Deduplication:
    """What a broker knows of exactly-once senders."""

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
        """How many messages were not stored a second time since the start."""
        self._ids = self._recover() if self._has_snapshot else StoredIds()

    def _recover(self) -> StoredIds:
        for path in (self._path, persist.backup_of(self._path)):
            try:
                ids = self._store.stored_ids(path.read_bytes())
            except FileNotFoundError:
                continue
            except WireError as error:
                _log.warning("cannot use %s: %s", path, error)
                continue
            _log.info("%d ids of exactly-once senders are known", len(ids))
            return ids
        _log.warning("no snapshot of stored ids can be used, reading the whole log for them")
        return self._store.stored_ids()

    def __len__(self) -> int:
        return len(self._ids)

    def stored(self, scope: SenderScope, ids: Sequence[str]) -> list[bool]:
        """Return which messages of a batch are stored already; refuses what cannot be told."""
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
        """Note messages that are in the log now."""
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
        """Let go of the ids of a batch that will not be sent again."""
        if self._ids.end(scope.sender, scope.batch, topic=scope.topic, account=scope.account):
            self._is_dirty = True

    def prepare(self) -> None:
        """Make sure that there is a snapshot to start from; to be called before any append."""
        if not self._has_snapshot:
            persist.save(self._path, self._ids.snapshot(max(self._store.max_physical_offset, 0)))
            self._has_snapshot = True

    async def save(self) -> None:
        """Forget old senders and write a snapshot, if the last is no longer good enough."""
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
            _log.warning("no snapshot of stored ids: the log was not flushed in time")

    def _forget(self) -> int:
        return self._ids.forget_before(self._clock() - self._config.deduplication_window_ms)
