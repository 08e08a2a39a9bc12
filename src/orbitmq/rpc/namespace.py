"""Names inside a namespace: ``ns%name``, with the prefix of retry and dead-letter topics in front.

Names of the system are the same for all namespaces, and a name that is wrapped already stays.
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
    """Return the name by which brokers know a topic or a group of this namespace."""
    if not namespace or not name or _is_of_the_system(name):
        return name
    prefix, bare = _split(name)
    if bare.startswith(f"{namespace}%"):
        return name
    return f"{prefix}{namespace}%{bare}"


def unwrap(namespace: str | None, name: str) -> str:
    """Return the name by which the namespace's users know it."""
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
