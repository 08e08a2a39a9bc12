"""How far streaming queries are: Spark's progress events as figures people ask for.

Spark reports each micro-batch as JSON. Lag is the sum, over the queues of all sources, of the
newest offset that the broker has minus the offset the batch ended at; both come from the source
as ``{topic: {broker: {queue: offset}}}`` (see `offsets`). A source that does not tell its newest
offset has no lag to show rather than a lag of 0.

A query that finds nothing to do has no event with figures, only one that it is idle: its figures
are in its `lastProgress` then, which whoever has the query can show.
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
    """One micro-batch of one query, or that it has nothing to do."""

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
    """How many rows could not be decoded since the query was started; None where none is."""
    idle: bool = False

    @classmethod
    def from_json(cls, text: str, *, idle: bool = False) -> BatchProgress:
        """Read a progress event; its `undecoded` is of the batch alone."""
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
        """Return the figures by name."""
        return asdict(self)


def _finite(number: object) -> float:
    """Return a rate; Spark writes one that is not a number as text, or leaves it out."""
    return float(number) if isinstance(number, int | float) else 0.0


def lag_of(newest: object, end: object) -> int | None:
    """Return how many offsets are between two positions; None if that cannot be said.

    >>> lag_of({"orders": {"a": {"0": 12, "1": 5}}}, {"orders": {"a": {"0": 10, "1": 5}}})
    2
    """
    newest, end = _decoded(newest), _decoded(end)
    if isinstance(newest, Mapping) and isinstance(end, Mapping):
        # A queue that the batch does not know yet has all of it before it; from where, only the
        # next batch will tell.
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
    """Hands every micro-batch to `on_progress`, and knows which queries are idle, or have ended.

    Spark calls it on a thread of its own, in order, a little after the fact: `wait_ended` is how
    to know that nothing more will come from a query.
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
        """Take note of nothing: the runner knows what it has started."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Remember that a query has nothing to do; its figures are not in the event."""
        with self._changed:
            self._idle.add(str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Pass a batch on."""
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
        """Remember that a query has ended."""
        with self._changed:
            self._ended.add(str(event.runId))
            self._changed.notify_all()

    def is_idle(self, run_id: str) -> bool:
        """Whether a query has had nothing to do since this was asked last, nor a batch."""
        with self._changed:
            found = run_id in self._idle
            self._idle.discard(run_id)
            return found

    def show_idle(self, run_id: str, text: str) -> None:
        """Pass the figures of an idle query on, unless they are those of last time."""
        progress = BatchProgress.from_json(text, idle=True)
        with self._changed:
            progress = replace(progress, undecoded=self._undecoded.get(progress.query))
            shown = self._shown_idle.get(run_id)
            self._shown_idle[run_id] = progress
        if shown is None or shown.lag != progress.lag:
            self._on_progress(progress)

    @property
    def undecoded(self) -> dict[str, int]:
        """How many rows of each query could not be decoded, of queries whose rows are decoded."""
        with self._changed:
            return dict(self._undecoded)

    def batches(self, run_id: str) -> int:
        """Return how many batches of a query have been reported."""
        with self._changed:
            return self._batches.get(run_id, 0)

    def wait_batch(self, run_id: str, after: int, timeout_s: float) -> bool:
        """Wait until more than `after` batches were reported, or the query has ended."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._batches.get(run_id, 0) > after or run_id in self._ended, timeout_s
            )

    def wait_ended(self, run_id: str, timeout_s: float) -> bool:
        """Wait until a query's end has been reported."""
        with self._changed:
            return self._changed.wait_for(lambda: run_id in self._ended, timeout_s)
