"""Exactly-once delivery: the ids by which brokers recognise repeats, and the pinned brokers.

Every row has an id, made of *sender*, *batch*, *partition* and the content of the row
(`RowPacker`). The id is the same whenever a batch is sent again. The broker that has stored the id
suppresses the repeat (`orbitmq.broker.write.dedup`). Sender and batch are

- for a query: its id and the number of the micro-batch, both from the checkpoint, so that they are
  the same after the driver was killed;
- for a batch job: a random name, which protects from tasks that run again;
- with `deduplicateId` (and `deduplicateBatch`): the name the user gives, which also protects from
  running the job again.

A broker can recognise only rows that it has stored itself. So a batch that is replayed must spread
its rows over the same brokers. If one of these brokers has died in between, the tasks must wait for
it, although nameservers drop it within moments. Therefore the brokers of a sender are *pinned* for
each of its topics. The first task that writes to a topic stores the names of the brokers in the
nameservers' key-value table. Every later task reads them there.

A query that should use brokers added later needs a new checkpoint. The brokers of a job without a
name are part of the job that Spark sends to the tasks. If its rows name their topics, this is
impossible: then the brokers are pinned, and the pins are deleted when the job is over.

If the content of a row differs in a replay (random numbers, ``uuid()``), brokers store it as a new
row. The same holds for a row in another partition. So only a deterministic query is exactly once.
For a named job that has ended, `runs` checks this.
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
"""Number of pins a process caches; the nameservers have all of them."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Sender, batch and partition of messages, which make repeats recognisable."""

    sender: str
    batch: int
    partition: int

    @property
    def of_batch(self) -> str:
        """Scope that sends carry to brokers: the sender and the batch."""
        return f"{self.sender}/{self.batch}"

    def __str__(self) -> str:
        return f"{self.sender}/{self.batch}/{self.partition}"


def sender_name(name: str) -> str:
    """Return the short name of a sender, which each of its messages contains."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def query_scope(name: str | None, batch: int | None) -> Scope:
    """Return the scope of the running task; `name` and `batch` replace those of the query."""
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
    """Cache of the pinned brokers of the senders that this process works for."""

    def __init__(self, table: NameserverTable) -> None:
        self._table = table
        self._known: dict[str, tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def brokers(
        self, sender: str, topic: str, wished: Callable[[], Sequence[str]]
    ) -> tuple[str, ...]:
        """Return the pinned brokers of a sender's topic; the first call of all pins `wished`.

        Raises `NoRoute` if no nameserver returns or stores the pins.
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
        """Delete the pins of a finished sender at all nameservers that answer."""
        for topic in topics:
            self._table.delete(self._table.key(sender, topic))

    def _found_or_noted(
        self, key: str, old_key: str, wished: Callable[[], Sequence[str]]
    ) -> tuple[str, ...]:
        """Return the pins at the nameservers, or store new ones.

        `old_key` is the key that earlier versions used if there is a namespace.
        """
        notes = self._table.read(key)
        found = next(filter(None, notes.values()), None)
        if found is None and old_key != key:
            found = next(filter(None, self._table.read(old_key).values()), None)
        without = [address for address, note in notes.items() if not note]
        if found is not None:
            # Next time only nameservers may be up that were down when the pins were stored.
            self._table.write(without, key, found)
            return tuple(found.split(","))
        # An empty answer counts, even of a nameserver that has lost its table; no answer does not.
        if not without:
            raise self._table.unreachable("says which brokers the query has used before")
        names = tuple(wished())
        if not self._table.write(self._table.nameservers, key, ",".join(names)):
            raise self._table.unreachable("has noted which brokers the query uses")
        return names
