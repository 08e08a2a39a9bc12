"""Exactly once: what makes a repeat recognisable, and what it takes.

An id for every row, made of *sender*, *batch*, *partition* and what the row says (`RowPacker`), is
the same whenever a batch is sent again, and the broker that has stored it suppresses the repeat
(`orbitmq.broker.write.dedup`). Sender and batch are

- for a query its id and the number of the micro-batch, both from the checkpoint, so that they are
  the same after the driver was killed;
- for a batch job a random name, which protects from tasks that are run again; with `deduplicateId`
  (and `deduplicateBatch`) the name the user gives, which protects from running the job again, too.

A broker knows only what it has stored itself. So a batch that is replayed must spread its rows over
the same brokers, and a broker that has died in between must be waited for, although nameservers
forget it within moments. That is why the brokers of a sender are *pinned* for each of its topics:
the first task ever that writes to a topic notes their names in the nameservers' key-value table,
and every later one finds them there. A query that should use brokers that have joined since starts
with a new checkpoint. The brokers of a job without a name travel with the job where they can, and
where they cannot (its rows name their topics) their pins are taken back when the job is over.

Rows whose content differs in a replay (random numbers, ``uuid()``), or that are spread over other
partitions, are new rows to any broker: a query must be deterministic for this to mean anything. A
named job that has ended is held to that (`sink_runs`).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspark import TaskContext

from orbitmq.errors import ConfigError
from orbitmq.spark.sink.nameserver_tables import NameserverTable

__all__ = ["Pins", "Scope", "query_scope", "sender_name"]

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
MOST_KNOWN = 1000
"""How many pins a process remembers; the nameservers have all of them."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose messages, of which batch and partition."""

    sender: str
    batch: int
    partition: int

    @property
    def of_batch(self) -> str:
        """What brokers are told."""
        return f"{self.sender}/{self.batch}"

    def __str__(self) -> str:
        return f"{self.sender}/{self.batch}/{self.partition}"


def sender_name(name: str) -> str:
    """Return the short name of a sender, which every one of its messages carries."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def query_scope(name: str | None, batch: int | None) -> Scope:
    """Return the scope of the running task; `name` and `batch` come before those of the query."""
    context = TaskContext.get()
    if context is None:
        raise ConfigError("deduplicate needs a Spark task to run in")
    if name is None:
        name = context.getLocalProperty(QUERY_ID)
        number = context.getLocalProperty(BATCH_ID)
        if name is None or number is None:
            raise ConfigError(
                "deduplicate: this Spark does not say which query and batch a task belongs to"
            )
        batch = int(number)
    return Scope(sender_name(name), batch or 0, context.partitionId())


class Pins:
    """The pinned brokers of the senders that this process works for, asked for once."""

    def __init__(self, table: NameserverTable) -> None:
        self._table = table
        self._known: dict[str, tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def brokers(
        self, sender: str, topic: str, wished: Callable[[], Sequence[str]]
    ) -> tuple[str, ...]:
        """Return the brokers of a sender's topic: those of its first task, which are the wished.

        Raises `NoRoute` when no nameserver can say.
        """
        key = self._table.key(sender, topic)
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._found_or_noted(key, f"{sender}@{topic}", wished)
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                self._known[key] = found
            return found

    def take_back(self, sender: str, topics: Iterable[str]) -> None:
        """Have nameservers forget a sender that will not come again, as far as they answer."""
        for topic in topics:
            self._table.delete(self._table.key(sender, topic))

    def _found_or_noted(
        self, key: str, old_key: str, wished: Callable[[], Sequence[str]]
    ) -> tuple[str, ...]:
        """`old_key` is the one that earlier versions used where there is a namespace."""
        notes = self._table.read(key)
        found = next(filter(None, notes.values()), None)
        if found is None and old_key != key:
            found = next(filter(None, self._table.read(old_key).values()), None)
        without = [address for address, note in notes.items() if not note]
        if found is not None:
            # The next time only those may be up that were down when it was noted.
            self._table.write(without, key, found)
            return tuple(found.split(","))
        # One that has lost its table may say that there is nothing; one that says nothing may not.
        if not without:
            raise self._table.unreachable("says which brokers the query has used before")
        names = tuple(wished())
        if not self._table.write(self._table.nameservers, key, ",".join(names)):
            raise self._table.unreachable("has noted which brokers the query uses")
        return names
