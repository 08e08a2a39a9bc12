"""Connected producers and consumers, by group.

Pure state: the methods change the tables and return which notifications the caller must send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from orbitmq.protocol.bodies import Subscription
from orbitmq.remoting.connection import Connection

__all__ = ["ClientInfo", "ConsumerClients", "ConsumerGroup", "ProducerClients"]

EXPIRY_MS = 120_000
_ABSENT: Final = object()


@dataclass(slots=True)
class ClientInfo:
    """A client at the other end of a connection."""

    client_id: str
    language: str
    version: int
    last_seen_ms: int
    access_key: str | None = None
    """Access key of the account that signs the client's requests; None without signatures."""


@dataclass(slots=True)
class ConsumerGroup:
    """Members of a group, and its settings from the latest heartbeat."""

    name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    members: dict[Connection, ClientInfo] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    def member(self, client_id: str) -> tuple[Connection, ClientInfo] | None:
        """Return connection and description of a member by its client id."""
        for connection, client in self.members.items():
            if client.client_id == client_id:
                return connection, client
        return None

    def take_subscriptions(self, subscriptions: Iterable[Subscription]) -> bool:
        """Replace the group's subscriptions; return True if topics were added or removed."""
        wanted = {subscription.topic: subscription for subscription in subscriptions}
        changed = wanted.keys() != self.subscriptions.keys()
        for topic, subscription in wanted.items():
            known = self.subscriptions.get(topic)
            if known is not None and known.sub_version >= subscription.sub_version:
                wanted[topic] = known
        self.subscriptions = wanted
        return changed


class ConsumerClients:
    """Table of the consumer groups that have a member here."""

    def __init__(self) -> None:
        self.groups: dict[str, ConsumerGroup] = {}

    def register(
        self,
        name: str,
        connection: Connection,
        client: ClientInfo,
        *,
        consume_type: str,
        message_model: str,
        consume_from_where: str,
        subscriptions: Iterable[Subscription],
    ) -> bool:
        """Note a heartbeat; return True if the members or the topics of the group changed."""
        group = self.groups.setdefault(name, ConsumerGroup(name))
        group.consume_type = consume_type
        group.message_model = message_model
        group.consume_from_where = consume_from_where
        is_new = connection not in group.members
        known = group.members.get(connection)
        if known is not None and known.client_id != client.client_id:
            del group.members[connection]
        _seen(group.members, connection, client)
        return group.take_subscriptions(subscriptions) or is_new

    def unregister(self, name: str, connection: Connection) -> bool:
        """Remove a member; return False if the connection was not a member."""
        group = self.groups.get(name)
        if group is None or group.members.pop(connection, None) is None:
            return False
        if not group.members:
            del self.groups[name]
        return True

    def closed(self, connection: Connection) -> list[tuple[str, str]]:
        """Remove a connection from all groups; return each group with the client id it lost."""
        lost = []
        for name, group in list(self.groups.items()):
            client = group.members.get(connection)
            if client is not None and self.unregister(name, connection):
                lost.append((name, client.client_id))
        return lost

    def silent_since(self, before_ms: int) -> set[Connection]:
        """Return the connections whose last heartbeat is older than `before_ms`."""
        return {
            connection
            for group in self.groups.values()
            for connection, client in group.members.items()
            if client.last_seen_ms < before_ms
        }

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that subscribe to a topic."""
        return sorted(g.name for g in self.groups.values() if topic in g.subscriptions)


class ProducerClients:
    """Table of the producer groups that have a member here."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[Connection, ClientInfo]] = {}
        self._by_id: dict[str, Counter[Connection]] = {}
        """Number of groups in which a connection uses a client id, by client id."""
        self._keys: dict[Connection, str | None] = {}
        """Access key of each connection's account."""
        self._next: dict[str, int] = {}

    def register(self, name: str, connection: Connection, client: ClientInfo) -> None:
        """Note a heartbeat."""
        members = self.groups.setdefault(name, {})
        if connection not in members:
            self._by_id.setdefault(client.client_id, Counter())[connection] += 1
        self._keys[connection] = client.access_key
        _seen(members, connection, client)

    def unregister(self, name: str, connection: Connection) -> None:
        """Remove a member."""
        members = self.groups.get(name, {})
        client = members.pop(connection, None)
        if client is None:
            return
        if not members:
            del self.groups[name]
        connections = self._by_id[client.client_id]
        connections[connection] -= 1
        if not connections[connection]:
            del connections[connection]
        if not connections:
            del self._by_id[client.client_id]

    def closed(self, connection: Connection) -> None:
        """Remove a connection from all groups."""
        if self._keys.pop(connection, _ABSENT) is _ABSENT:
            return
        for name in list(self.groups):
            self.unregister(name, connection)

    def silent_since(self, before_ms: int) -> set[Connection]:
        """Return the connections whose last heartbeat is older than `before_ms`."""
        return {
            connection
            for members in self.groups.values()
            for connection, client in members.items()
            if client.last_seen_ms < before_ms
        }

    def of_client(self, client_id: str) -> Connection | None:
        """Return an open connection of a client, for pushing a reply to it."""
        return next((one for one in self._by_id.get(client_id, ()) if one.is_open), None)

    def is_anothers(self, client_id: str, access_key: str | None) -> bool:
        """Return True if a client of another account has this id, by which replies are routed."""
        return any(
            connection.is_open and self._keys.get(connection) != access_key
            for connection in self._by_id.get(client_id, ())
        )

    def any_of(
        self, name: str, may_be_asked: Callable[[ClientInfo], bool] = lambda _client: True
    ) -> Connection | None:
        """Return the next open member in turn that `may_be_asked` accepts; None without one."""
        members = [
            connection
            for connection, client in self.groups.get(name, {}).items()
            if connection.is_open and may_be_asked(client)
        ]
        if not members:
            return None
        turn = self._next[name] = self._next.get(name, -1) + 1
        return members[turn % len(members)]


def _seen(
    members: dict[Connection, ClientInfo], connection: Connection, client: ClientInfo
) -> None:
    """Note a heartbeat; id, language and version stay those of the client's first one."""
    known = members.setdefault(connection, client)
    known.last_seen_ms = client.last_seen_ms
    known.access_key = client.access_key
