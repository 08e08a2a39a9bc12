"""Progress of streaming queries: figures from Spark's progress events.

Spark reports each micro-batch as JSON. The lag is the sum over the queues of all sources: the
newest offset at the broker minus the offset at which the batch ended. The source supplies both as
``{topic: {broker: {queue: offset}}}`` (see `orbitmq.spark.offsets`). The lag of a source that does
not supply its newest offset is unknown, not 0.

For a query without new rows Spark sends an idle event, which has no figures. The figures are in
the `lastProgress` of the query; the runner passes them to `Listener.show_idle`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from orbitmq.spark.offsets import NO_TOPICS
from orbitmq.spark.pipelines.undecoded import undecoded_in

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

__all__ = ["BatchProgress", "Listener", "lag_of"]


@dataclass(frozen=True)
class BatchProgress:
    """Figures of one micro-batch of a query, or of an idle query (`idle`)."""

    query: str
    batch_id: int
    timestamp: str
    rows: int
    input_rows_per_s: float
    processed_rows_per_s: float
    duration_ms: int
    lag: int | None
    watermark: str | None
    state_rows: int
    undecoded: int | None = None
    """Number of rows since the query's start that could not be decoded; None for a query without
    a decoded source."""
    idle: bool = False

    @classmethod
    def from_json(cls, text: str, *, idle: bool = False) -> BatchProgress:
        """Parse a progress event; `undecoded` then counts the rows of this batch only."""
        event = json.loads(text)
        lags = [
            lag
            for source in event.get("sources", ())
            if (lag := lag_of(source.get("latestOffset"), source.get("endOffset"))) is not None
        ]
        return cls(
            query=event.get("name") or event["id"],
            batch_id=event["batchId"],
            timestamp=event["timestamp"],
            rows=event.get("numInputRows", 0),
            input_rows_per_s=_finite(event.get("inputRowsPerSecond")),
            processed_rows_per_s=_finite(event.get("processedRowsPerSecond")),
            duration_ms=event.get("durationMs", {}).get("triggerExecution", 0),
            lag=sum(lags) if lags else None,
            watermark=event.get("eventTime", {}).get("watermark"),
            state_rows=sum(state["numRowsTotal"] for state in event.get("stateOperators", ())),
            undecoded=undecoded_in(event.get("observedMetrics", {})),
            idle=idle,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as a dictionary."""
        return asdict(self)


def _finite(number: object) -> float:
    """Return a rate, or 0 for NaN and infinity, which Spark writes as text or omits."""
    return float(number) if isinstance(number, int | float) else 0.0


def lag_of(newest: object, end: object) -> int | None:
    """Return the number of offsets between two positions, or None if it is unknown.

    >>> lag_of({"orders": {"a": {"0": 12, "1": 5}}}, {"orders": {"a": {"0": 10, "1": 5}}})
    2
    """
    newest, end = _decoded(newest), _decoded(end)
    if isinstance(newest, Mapping) and isinstance(end, Mapping):
        # A queue that is new since the batch is left out: its first offset is unknown until the
        # next batch.
        common = [name for name in newest if name in end and name not in NO_TOPICS]
        lags = [lag_of(newest[name], end[name]) for name in common]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if known else None
    if isinstance(newest, int) and isinstance(end, int):
        return max(0, newest - end)
    return None


def _decoded(offset: object) -> object:
    if isinstance(offset, str):
        try:
            return json.loads(offset)
        except ValueError:
            return None
    return offset


class Listener(StreamingQueryListener):
    """Passes every micro-batch to `on_progress` and tracks which queries are idle or have ended.

    Spark calls the listener on a thread of its own, in order and a little later. After `wait_ended`
    no more events of a query follow.
    """

    def __init__(self, on_progress: Callable[[BatchProgress], None]) -> None:
        self._on_progress = on_progress
        self._ended: set[str] = set()
        self._batches: dict[str, int] = {}
        self._idle: set[str] = set()
        self._undecoded: dict[str, int] = {}
        self._shown_idle: dict[str, BatchProgress] = {}
        self._changed = threading.Condition()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: the runner has a list of the queries that it started."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Note that a query is idle; the event has no figures."""
        with self._changed:
            self._idle.add(str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Count a batch and pass its figures on."""
        progress = BatchProgress.from_json(event.progress.json)
        with self._changed:
            key = str(event.progress.runId)
            self._batches[key] = self._batches.get(key, 0) + 1
            self._idle.discard(key)
            self._shown_idle.pop(key, None)
            if progress.undecoded is not None:
                count = self._undecoded.get(progress.query, 0) + progress.undecoded
                self._undecoded[progress.query] = count
                progress = replace(progress, undecoded=count)
            self._changed.notify_all()
        self._on_progress(progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Note that a query has ended."""
        with self._changed:
            self._ended.add(str(event.runId))
            self._changed.notify_all()

    def is_idle(self, run_id: str) -> bool:
        """Return True if an idle event came since the last call and since the last batch."""
        with self._changed:
            found = run_id in self._idle
            self._idle.discard(run_id)
            return found

    def show_idle(self, run_id: str, text: str) -> None:
        """Pass the figures of an idle query on, unless its lag is unchanged since the last time."""
        progress = BatchProgress.from_json(text, idle=True)
        with self._changed:
            progress = replace(progress, undecoded=self._undecoded.get(progress.query))
            shown = self._shown_idle.get(run_id)
            self._shown_idle[run_id] = progress
        if shown is None or shown.lag != progress.lag:
            self._on_progress(progress)

    @property
    def undecoded(self) -> dict[str, int]:
        """Number of rows that could not be decoded, by name of each query that decodes rows."""
        with self._changed:
            return dict(self._undecoded)

    def batches(self, run_id: str) -> int:
        """Return the number of reported batches of a query."""
        with self._changed:
            return self._batches.get(run_id, 0)

    def wait_batch(self, run_id: str, after: int, timeout_s: float) -> bool:
        """Wait until more than `after` batches are reported or the query has ended."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._batches.get(run_id, 0) > after or run_id in self._ended, timeout_s
            )

    def wait_ended(self, run_id: str, timeout_s: float) -> bool:
        """Wait until the end of a query is reported; return False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: run_id in self._ended, timeout_s)
