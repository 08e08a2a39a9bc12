"""Bounds that a Spark filter sets for one column: values, offsets or times that pass.

Spark pushes a list of filters, all of which must hold. A filter of an unknown kind sets no bounds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

__all__ = ["ALL_OFFSETS", "column_of", "narrowed_offsets", "narrowed_times", "passing_values"]

ALL_OFFSETS: Final = range(2**63 - 1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def column_of(wanted: Filter) -> str | None:
    """Return the column of a filter, None if the filter is about a part of a column."""
    attribute: tuple[str, ...] = getattr(wanted, "attribute", ())
    return attribute[0] if len(attribute) == 1 else None


def passing_values(wanted: Filter) -> frozenset[Any] | None:
    """Return the values that an equality filter lets pass, None for other filters."""
    match wanted:
        case EqualTo(value=value) | EqualNullSafe(value=value) if value is not None:
            return frozenset([value])
        case In(value=values) if None not in values:
            return frozenset(values)
    return None


def narrowed_offsets(offsets: range, wanted: Filter) -> range | None:
    """Return the offsets of a range that a filter lets pass, None if it does not compare numbers.

    >>> narrowed_offsets(range(10), GreaterThan(("queueOffset",), 6))
    range(7, 10)
    """
    start, stop = offsets.start, offsets.stop
    match wanted:
        case EqualTo(value=int(value)) | EqualNullSafe(value=int(value)):
            start, stop = max(start, value), min(stop, value + 1)
        case GreaterThan(value=int(value)):
            start = max(start, value + 1)
        case GreaterThanOrEqual(value=int(value)):
            start = max(start, value)
        case LessThan(value=int(value)):
            stop = min(stop, value)
        case LessThanOrEqual(value=int(value)):
            stop = min(stop, value + 1)
        case _:
            return None
    start = min(start, offsets.stop)
    return range(start, max(start, stop))


def narrowed_times(
    since_ms: int | None, until_ms: int | None, wanted: Filter
) -> tuple[int | None, int | None]:
    """Return the first millisecond that a filter lets pass, and the one after the last."""
    value = getattr(wanted, "value", None)
    if not isinstance(value, datetime):
        return since_ms, until_ms
    # Integer arithmetic: a float would make some times a millisecond too early.
    at_ms = (value.astimezone(UTC) - EPOCH) // timedelta(milliseconds=1)
    if isinstance(wanted, GreaterThan | GreaterThanOrEqual | EqualTo | EqualNullSafe):
        since_ms = at_ms if since_ms is None else max(since_ms, at_ms)
    if isinstance(wanted, LessThan | LessThanOrEqual | EqualTo | EqualNullSafe):
        # Some messages of this millisecond may still pass the filter.
        until_ms = at_ms + 1 if until_ms is None else min(until_ms, at_ms + 1)
    return since_ms, until_ms
