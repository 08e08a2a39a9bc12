"""Members of consumer groups that are disconnected, but have time to reconnect.

Members distribute the queues of a topic by the member list that a broker returns. If a member is
missing in the list, the others take over queues that it still consumes. A member that has lost its
connection, or whose broker has restarted, registers again with its next heartbeat. Java's clients
send it within half a minute, OrbitMQ's at once. Until then it counts as a member. The list is saved
in a file, for a restart.

Pure state: the methods change the table and use no connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from orbitmq.broker.state.clients import ConsumerClients
from orbitmq.broker.state.rows import BadRows
from orbitmq.protocol.members import Members

__all__ = ["AwaitedMembers"]


class AwaitedMembers:
    """Table of the time until which a member is awaited, by group and client id.

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
        """Return the client ids of a group's members, both connected and awaited.

        As in Java, an id that two connections use is listed twice.
        """
        connected = self._ids_connected(group)
        return connected + [each for each in self._awaited.get(group, ()) if each not in connected]

    def _ids_connected(self, group: str) -> list[str]:
        known = self._connected.groups.get(group)
        return [] if known is None else [client.client_id for client in known.members.values()]

    def lost(self, group: str, client_id: str) -> bool:
        """Await a member whose connection was closed; return False if it is no longer a member."""
        if client_id in self._ids_connected(group):
            return True
        self._on_change()
        if (grace_ms := self._after_loss_ms()) <= 0:
            return False
        self._awaited.setdefault(group, {})[client_id] = self._clock() + grace_ms
        return True

    def came(self, group: str, client_id: str) -> bool:
        """Note a heartbeat of a new connection; return True if the member was awaited."""
        self._on_change()
        return self._forget(group, client_id)

    def left(self, group: str, client_id: str) -> None:
        """Note that a member has unregistered."""
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
        """Drop the awaited members whose time is over; return them by group."""
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
        """Await the members of a saved file after a restart; return the bad rows."""
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
        """Copy the table; return a function that converts the copy to the form of the file."""
        groups = {*self._connected.groups, *self._awaited}
        table = {group: ids for group in sorted(groups) if (ids := self.ids(group))}
        return lambda: {"members": table}


def _texts(ids: Iterable[Any]) -> list[str]:
    return [str(each) for each in ids]
