"""Names of the features that OrbitMQ's brokers have beyond RocketMQ 4.9.

A broker announces its features in GET_BROKER_RUNTIME_INFO as one more entry of the table, a comma
list under `FEATURES_KEY`. Apache's brokers have no such entry. A client asks before it uses a
feature, and otherwise does without it or raises an error that names the feature.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BULK_READ", "DEDUPLICATE", "FEATURES", "FEATURES_KEY", "TIMERS", "features_of"]

FEATURES_KEY = "orbitFeatures"

BULK_READ = "bulkRead"
"""ORBIT_BULK_READ: the records of a stretch of a queue, megabytes at once."""

DEDUPLICATE = "deduplicate"
"""ORBIT_SEND_ONCE: a send whose repeats are suppressed; ORBIT_END_BATCH: there will be none."""

TIMERS = "timers"
"""TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS: delivery at any time."""

FEATURES: tuple[str, ...] = (BULK_READ, DEDUPLICATE, TIMERS)
"""What this broker announces."""


def features_of(runtime_info: Mapping[str, str]) -> frozenset[str]:
    """Return the features that a broker announces; the empty set for Apache's.

    >>> sorted(features_of({"orbitFeatures": "bulkRead,deduplicate"}))
    ['bulkRead', 'deduplicate']
    """
    names = runtime_info.get(FEATURES_KEY, "").split(",")
    return frozenset(name.strip() for name in names if name.strip())
