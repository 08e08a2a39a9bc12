"""Which groups this process is in, and under which client id.

Brokers take two members of a group that go by one id for one member: each would get the share of
both. Ids that are made up never meet, those made of a given `instance_name` may.
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
# Weak, so that a client that was never stopped does not bar the next one for ever.
_members: WeakValueDictionary[tuple[str, Kind, str], ClientInstance] = WeakValueDictionary()


def join(instance: ClientInstance, kind: Kind, group: str) -> None:
    """Note that a client is in a group; `ClientError` if one of the same id is in it already."""
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
    """Note that a client is in a group no more."""
    key = instance.client_id, kind, group
    with _lock:
        if _members.get(key) is instance:
            del _members[key]


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _members.clear()  # the parent's


os.register_at_fork(after_in_child=_after_fork_in_child)
