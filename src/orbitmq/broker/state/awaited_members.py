"""Members of consumer groups that are not connected, but are given time to come back.

Members share out the queues of a topic by the list that a broker gives them, and a list that lacks
some has the others take over queues that are still consumed. A member whose connection is lost, or
whose broker has restarted, announces itself again with its next heartbeat: Java's within half a
minute, OrbitMQ's at once. Until then it counts as a member. The list is in a file, for a restart.

Pure state: the methods change the table; nothing here knows of connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from orbitmq.broker.state.clients import ConsumerClients
from orbitmq.broker.state.rows import BadRows
from orbitmq.protocol.members import Members

__all__ = ["AwaitedMembers"]


class AwaitedMembers:
    """By group and client id, the time up to which a member is awaited.

    `on_change` is called after every change of a group's members, connected or awaited.
    """

    def __init__(
        self,
        connected: ConsumerClients,
        clock: Callable[[], int],
        *,
        after_loss_ms: Callable[[], int],
        after_start_ms: Callable[[], int],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._connected = connected
        self._clock = clock
        self._after_loss_ms = after_loss_ms
        self._after_start_ms = after_start_ms
        self._on_change = on_change
        self._awaited: dict[str, dict[str, int]] = {}

    def ids(self, group: str) -> list[str]:
        """Return the client ids of a group's members, connected ones and awaited ones.

        As in Java, an id that two connections have is there twice.
        """
        connected = self._ids_connected(group)
        return connected + [each for each in self._awaited.get(group, ()) if each not in connected]

    def _ids_connected(self, group: str) -> list[str]:
        known = self._connected.groups.get(group)
        return [] if known is None else [client.client_id for client in known.members.values()]

    def lost(self, group: str, client_id: str) -> bool:
        """Await a member whose connection is gone; False if it is a member no longer."""
        if client_id in self._ids_connected(group):
            return True
        self._on_change()
        if (grace_ms := self._after_loss_ms()) <= 0:
            return False
        self._awaited.setdefault(group, {})[client_id] = self._clock() + grace_ms
        return True

    def came(self, group: str, client_id: str) -> bool:
        """Note a heartbeat of a new connection; True if the member was awaited."""
        self._on_change()
        return self._forget(group, client_id)

    def left(self, group: str, client_id: str) -> None:
        """Note that a member has taken its leave."""
        self._on_change()
        self._forget(group, client_id)

    def _forget(self, group: str, client_id: str) -> bool:
        awaited = self._awaited.get(group, {})
        if awaited.pop(client_id, None) is None:
            return False
        if not awaited:
            del self._awaited[group]
        return True

    def expire(self) -> dict[str, list[str]]:
        """Await no longer whose time is over; returns these members by group."""
        now = self._clock()
        over = {
            group: ids
            for group, awaited in self._awaited.items()
            if (ids := [client_id for client_id, until_ms in awaited.items() if until_ms <= now])
        }
        for group, ids in over.items():
            for client_id in ids:
                self._forget(group, client_id)
        if over:
            self._on_change()
        return over

    def load(self, value: Members) -> BadRows:
        """Await the members of the time before a restart; returns the bad rows."""
        bad: BadRows = {}
        grace_ms = self._after_start_ms()
        until_ms = self._clock() + grace_ms
        for group, ids in value.table("members").items():
            is_list = isinstance(ids, list) and all(isinstance(each, str) for each in ids)
            if not isinstance(group, str) or not is_list:
                bad[group] = (ids, "it is no list of client ids")
            elif grace_ms > 0 and ids:
                self._awaited[group] = dict.fromkeys(_texts(ids), until_ms)
        return bad

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """Copy the table; the function that is returned makes the form of its file of it."""
        groups = {*self._connected.groups, *self._awaited}
        table = {group: ids for group in sorted(groups) if (ids := self.ids(group))}
        return lambda: {"members": table}


def _texts(ids: Iterable[Any]) -> list[str]:
    return [str(each) for each in ids]
