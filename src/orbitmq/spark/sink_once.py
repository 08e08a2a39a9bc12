"""Exactly once: what makes a repeat recognisable, and what it takes.

An id for every row, made of *sender*, *batch*, *partition* and what the row says (`RowPacker`), is
the same whenever a batch is sent again, and the broker that has stored it suppresses the repeat
(`orbitmq.broker.deduplication`). Sender and batch are

- for a query its id and the number of the micro-batch, both from the checkpoint, so that they are
  the same after the driver was killed;
- for a batch job a random name, which protects from tasks that are run again; with `deduplicateId`
  (and `deduplicateBatch`) the name the user gives, which protects from running the job again, too.

A broker knows only what it has stored itself. So a batch that is replayed must spread its rows over
the same brokers, and a broker that has died in between must be waited for, although nameservers
forget it within moments. That is why the brokers of a sender are *pinned*: its first task writes
their names to the nameservers' key-value table, and every later one finds them there. A query that
should use brokers that have joined since starts with a new checkpoint.

Rows whose content differs in a replay (random numbers, ``uuid()``), or that are spread over other
partitions, are new rows to any broker: a query must be deterministic for this to mean anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark import TaskContext

from orbitmq.errors import ConfigError, OrbitError
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.remoting.blocking import BlockingNetwork

__all__ = ["Scope", "pinned_brokers", "query_scope"]

PINS = "ORBITMQ_SINK_BROKERS"
"""The namespace of the nameservers' table that has the brokers of each sender."""
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
PIN_TIMEOUT_MS = 5000


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


def pinned_brokers(
    network: BlockingNetwork, nameservers: Sequence[str], sender: str, wished: Sequence[str]
) -> tuple[str, ...]:
    """Return the brokers of a sender: those of its first task ever, which are the wished ones."""
    key = {"namespace": PINS, "key": sender}
    asked = 0
    for address in nameservers:
        try:
            answer = network.invoke(
                address, RequestCode.GET_KV_CONFIG, ext=key, timeout_ms=PIN_TIMEOUT_MS
            )
        except OrbitError:
            continue
        asked += 1
        if answer.code == ResponseCode.SUCCESS and (value := answer.get_ext("value")):
            return tuple(value.split(","))
    if not asked:
        raise ConfigError(
            f"deduplicate: no nameserver of {', '.join(nameservers)} says which brokers the query "
            "has used before"
        )
    written = 0
    for address in nameservers:
        ext = {**key, "value": ",".join(wished)}
        try:
            answer = network.invoke(
                address, RequestCode.PUT_KV_CONFIG, ext=ext, timeout_ms=PIN_TIMEOUT_MS
            )
        except OrbitError:
            continue
        written += answer.code == ResponseCode.SUCCESS
    if not written:
        raise ConfigError("deduplicate: no nameserver has noted the brokers of the query")
    return tuple(wished)
