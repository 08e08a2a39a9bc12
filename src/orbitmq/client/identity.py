"""Registry of the groups that the clients of this process belong to, by client id.

Brokers treat two members of a group with the same client id as one member. Each of the two would
get the queues of both. Generated ids are unique; ids made from a given `instance_name` can collide.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Literal
from weakref import WeakValueDictionary

from orbitmq.errors import ClientError

if TYPE_CHECKING:
    from orbitmq.client.instance import ClientInstance

__all__ = ["Kind", "join", "leave"]

Kind = Literal["producer", "consumer"]

_lock = threading.Lock()
# Weak references, so that a client that was never stopped does not block the next one forever.
_members: WeakValueDictionary[tuple[str, Kind, str], ClientInstance] = WeakValueDictionary()


def join(instance: ClientInstance, kind: Kind, group: str) -> None:
    """Add a client to a group; raise `ClientError` if its client id is in the group already."""
    key = instance.client_id, kind, group
    with _lock:
        other = _members.get(key)
        if other is instance:
            raise ClientError(f"{kind} group {group} is on this client already")
        if other is not None:
            raise ClientError(
                f"this process has a {kind} of group {group} with the client id "
                f"{instance.client_id} already, and brokers would take both for one: "
                "give one of them another instance_name"
            )
        _members[key] = instance


def leave(instance: ClientInstance, kind: Kind, group: str) -> None:
    """Remove a client from a group."""
    key = instance.client_id, kind, group
    with _lock:
        if _members.get(key) is instance:
            del _members[key]


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _members.clear()  # clients of the parent process


os.register_at_fork(after_in_child=_after_fork_in_child)
