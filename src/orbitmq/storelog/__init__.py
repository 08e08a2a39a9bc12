"""Log of a store directory as a table, for every library that reads Arrow.

::

    import duckdb, polars
    from orbitmq.storelog import StoreLog

    log = StoreLog("/var/lib/rocketmq/store")     # its broker, ours or Java's, may be running
    orders = log.scan(topics=["orders"], columns=["keys", "body", "storeTimestamp"])
    polars.DataFrame(orders)
    messages = log.scan(start="2026-11-16T00:00:00Z", columns=["topic"])
    duckdb.sql("select topic, count(*) from messages group by topic")

A scan takes no lock, writes nothing and sends no request to a broker. The creation of a scan fixes
its rows: messages that a running broker stores later are not included.
"""

from __future__ import annotations

from orbitmq.storelog.log import StoreLog, StoreScan
from orbitmq.storelog.plan import COLUMNS, ScanPlan, Selection, Split
from orbitmq.storelog.selection import QueueWishes, parse_time_ms

__all__ = [
    "COLUMNS",
    "QueueWishes",
    "ScanPlan",
    "Selection",
    "Split",
    "StoreLog",
    "StoreScan",
    "parse_time_ms",
]
