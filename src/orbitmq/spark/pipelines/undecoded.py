"""Number of bodies that could not be decoded, counted by Spark while it reads a source.

A bad message does not stop a stream, so the number of bad messages must be visible elsewhere. The
count is a metric that Spark observes where a source is decoded. For a stream, the progress of each
batch contains the count by the name of the source; each query counts the rows that it reads. For a
batch, the count is available once, when the first query over the source has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

__all__ = ["count_undecoded", "observed", "undecoded_in", "undecoded_note"]

_PREFIX: Final = "orbitmq.undecoded."
_COUNT: Final = "count"
EVENTS_LIMIT_MS: Final = 5000


def count_undecoded(rows: DataFrame, by: str | Observation) -> DataFrame:
    """Return rows whose malformed rows Spark counts, by source name or for an observation."""
    count = F.count_if("_malformed").alias(_COUNT)
    return rows.observe(f"{_PREFIX}{by}" if isinstance(by, str) else by, count)


def undecoded_in(metrics: Mapping[str, Any]) -> int | None:
    """Return the number of malformed rows in a batch of a stream, or None without a count.

    >>> undecoded_in({"orbitmq.undecoded.orders": {"count": 2}, "another": {"rows": 7}})
    2
    """
    counts = [found[_COUNT] for name, found in metrics.items() if name.startswith(_PREFIX)]
    return sum(counts) if counts else None


def observed(spark: SparkSession, counts: Mapping[str, Observation]) -> dict[str, int]:
    """Return the counts of completed batches; sources that no query has read are left out."""
    context: Any = spark.sparkContext._jsc
    with suppress(Py4JJavaError):
        # The counts arrive with an event, which may still be in the queue.
        context.sc().listenerBus().waitUntilEmpty(EVENTS_LIMIT_MS)
    return {name: int(each.get[_COUNT]) for name, each in counts.items() if _is_known(each)}


def _is_known(observation: Observation) -> bool:
    made: Any = observation._jo
    return made is not None and bool(made.future().isCompleted())


def undecoded_note(name: str, count: int) -> str:
    """Return a note on the rows of a query or a source that could not be decoded.

    >>> undecoded_note("orders", 1200)
    'orders: 1,200 rows could not be decoded'
    """
    return f"{name}: {count:,} row{'' if count == 1 else 's'} could not be decoded"
