"""Clusters: the registered brokers and their addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orbitmq.admin.requests import ask_nameserver, read
from orbitmq.errors import NoRoute
from orbitmq.protocol.codes import RequestCode
from orbitmq.protocol.members import Members, as_number
from orbitmq.rpc.flow import Flow

__all__ = ["BrokerPlaces", "ClusterInfo", "chosen_masters", "cluster_info"]

MASTER_ID = 0


@dataclass(frozen=True, slots=True)
class BrokerPlaces:
    """Addresses of one broker name: the master's, which has id 0, and its slaves'.

    >>> BrokerPlaces("broker-a", "shop", {0: "10.0.0.1:10911"}).master
    '10.0.0.1:10911'
    """

    name: str
    cluster: str
    addresses: Mapping[int, str]

    @property
    def master(self) -> str | None:
        """Address of the master, or None while no master is registered."""
        return self.addresses.get(MASTER_ID)

    @property
    def any_address(self) -> str | None:
        """Address to read from: the master's if it is registered, else a slave's."""
        return self.addresses[min(self.addresses)] if self.addresses else None

    @classmethod
    def from_json(cls, value: object) -> BrokerPlaces:
        """Return the places in an entry of a route or a cluster table."""
        members = Members.of(value)
        table = members.member("brokerAddrs")
        addresses = {as_number(key, table.place): table.text(key) for key in table.values}
        name, cluster = members.text("brokerName"), members.text("cluster")
        return cls(name, cluster, dict(sorted(addresses.items())))


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """All brokers that are registered with the nameservers.

    >>> info = ClusterInfo({"broker-a": BrokerPlaces("broker-a", "shop", {0: "10.0.0.1:10911"})})
    >>> info.clusters
    {'shop': ('broker-a',)}
    """

    brokers: Mapping[str, BrokerPlaces]

    @property
    def clusters(self) -> dict[str, tuple[str, ...]]:
        """Names of each cluster's brokers."""
        names = sorted({places.cluster for places in self.brokers.values()})
        return {
            cluster: tuple(
                name for name, places in self.brokers.items() if places.cluster == cluster
            )
            for cluster in names
        }


def cluster_info(nameservers: Sequence[str]) -> Flow[ClusterInfo]:
    """Return the registered brokers."""
    response = yield from ask_nameserver(nameservers, RequestCode.GET_BROKER_CLUSTER_INFO)
    table = Members(read(response)).member("brokerAddrTable")
    places = {str(name): BrokerPlaces.from_json(table.member(name)) for name in table.values}
    return ClusterInfo(dict(sorted(places.items())))


def chosen_masters(
    nameservers: Sequence[str],
    *,
    cluster: str | None = None,
    brokers: Iterable[str] | None = None,
) -> Flow[dict[str, str]]:
    """Return the masters of a cluster, of the named brokers, or all masters, by broker name."""
    info = yield from cluster_info(nameservers)
    wanted = None if brokers is None else set(brokers)
    chosen = {
        name: places.master
        for name, places in info.brokers.items()
        if places.master is not None
        and (cluster is None or places.cluster == cluster)
        and (wanted is None or name in wanted)
    }
    missing = (wanted or set()) - set(chosen)
    if missing or not chosen:
        what = str(sorted(missing)) if missing else (cluster or "any cluster")
        known = {name: places.cluster for name, places in info.brokers.items()}
        raise NoRoute(
            f"no master of {what} is registered; registered are {known or 'none'}. "
            "Check the names, and that the brokers run and know these nameservers",
            cause="no_broker",
        )
    return chosen
