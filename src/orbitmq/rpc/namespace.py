"""Names in a namespace: adds ``ns%`` to names sent to brokers and strips it from returned names.

The prefix of a retry or dead-letter topic stays in front: ``%RETRY%ns%group``. System topics and
system groups have the same names in all namespaces. A name that has the namespace already is
returned unchanged.
"""

from __future__ import annotations

from orbitmq.protocol.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SYSTEM_GROUP_PREFIX,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
)

__all__ = ["unwrap", "wrap"]


def wrap(namespace: str | None, name: str) -> str:
    """Return the broker's name for a topic or group: `name` with the namespace added."""
    if not namespace or not name or _is_of_the_system(name):
        return name
    prefix, bare = _split(name)
    if bare.startswith(f"{namespace}%"):
        return name
    return f"{prefix}{namespace}%{bare}"


def unwrap(namespace: str | None, name: str) -> str:
    """Return the user's name for a topic or group: `name` without the namespace."""
    if not namespace:
        return name
    prefix, bare = _split(name)
    return prefix + bare.removeprefix(f"{namespace}%")


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def _is_of_the_system(name: str) -> bool:
    return name in SYSTEM_TOPICS or name.startswith((SYSTEM_TOPIC_PREFIX, SYSTEM_GROUP_PREFIX))
