"""Reads a split of a store directory in a task, and logs data that cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from orbitmq.errors import CorruptStore, FileExpired, MissingFile
from orbitmq.spark.worker import tune_worker
from orbitmq.storelog import ScanPlan, Split, StoreLog

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_split", "say_torn_tail"]

_log = logging.getLogger("orbitmq.spark.store")


def read_split(plan: ScanPlan, split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the selected messages of a split as record batches; log damaged parts."""
    import pyarrow as pa

    tune_worker()
    scan = plan.open(split)
    try:
        for batch in scan:
            yield pa.record_batch(batch)
    except (CorruptStore, MissingFile, FileExpired) as error:
        text = f"{error}; failOnCorruption=false reads on behind it"
        raise type(error)(text, path=error.path, offset=error.offset) from None
    report = scan.report()
    if report.damaged:
        _log.warning(
            "%d stretches of the log (%d bytes) cannot be read and were left out: %s",
            *(report.damaged, report.damaged_bytes),
            "; ".join(f"at {at}: {reason}" for _, at, _, reason, *_ in report.damages[:10]),
        )


def say_torn_tail(log: StoreLog) -> None:
    """Log an unfinished message at the end of the log, which no task reads."""
    if log.torn_bytes:
        _log.warning(
            "%s: %d bytes of an unfinished message follow the log's end at %d; left out",
            *(log.path, log.torn_bytes, log.snapshot.log_end),
        )
