"""Flows that fetch a topic's route from nameservers, and diagnose the cause of a missing route.

RocketMQ's clients report every cause as "No route info of this topic". These flows send further
requests until the cause is clear, and raise `NoRoute` with the cause and the remedy.
"""

from __future__ import annotations

from orbitmq._native import Command
from orbitmq.errors import NoRoute, RemotingError
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import Permission
from orbitmq.protocol.members import Members
from orbitmq.protocol.names import AUTO_CREATE_TOPIC
from orbitmq.rpc.flow import Call, Flow
from orbitmq.rpc.pauses import is_away
from orbitmq.rpc.route_table import MASTER_ID, RouteTable, TopicRoute

__all__ = ["ask_nameserver", "fetch_route", "publish_route", "route_or_diagnose"]

ROUTE_TIMEOUT_MS = 3000


def ask_nameserver(
    table: RouteTable,
    code: int,
    ext: dict[str, str] | None = None,
    timeout_ms: float = ROUTE_TIMEOUT_MS,
) -> Flow[Command]:
    """Send a request to one nameserver after the other until one of them answers."""
    failures: list[RemotingError] = []
    lines = []
    for address in table.nameservers.in_turn():
        try:
            response: Command = yield Call(address, code, ext, None, timeout_ms)
        except RemotingError as error:
            failures.append(error)
            lines.append(f"  {address}: {error}")
            continue
        table.nameservers.answered(address)
        return response
    text = "\n".join(lines)
    raise NoRoute(
        f"no nameserver can be reached:\n{text}\n"
        "Check the addresses and that a nameserver listens there (its usual port is 9876; "
        "10911 is a broker's).",
        cause="no_nameserver",
    ) from next((error for error in failures if is_away(error)), failures[-1] if failures else None)


def fetch_route(
    table: RouteTable, topic: str, timeout_ms: float = ROUTE_TIMEOUT_MS
) -> Flow[TopicRoute | None]:
    """Fetch a topic's route and store it in the table.

    Returns None if the topic does not exist. The table then keeps the route it had, because a topic
    may be missing for a moment only.
    """
    ext = {"topic": topic, "acceptStandardJsonOnly": "true"}
    response = yield from ask_nameserver(table, RequestCode.GET_ROUTEINFO_BY_TOPIC, ext, timeout_ms)
    if response.code == ResponseCode.SUCCESS:
        table.apply(topic, response.body)
        return table.route(topic)
    if response.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    where = table.nameservers.in_turn()[0]
    hint = (
        "\nIs that the address of a broker instead of a nameserver?"
        if response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        else ""
    )
    raise NoRoute(
        f"nameserver {where} refused to give the route of topic {topic!r} with code "
        f"{response.code}: {response.remark}{hint}",
        topic=topic,
        cause="refused",
    )


def publish_route(
    table: RouteTable,
    topic: str,
    *,
    template: str = AUTO_CREATE_TOPIC,
    max_queues: int = 4,
    timeout_ms: float = ROUTE_TIMEOUT_MS,
) -> Flow[TopicRoute]:
    """Return a route with queues to send to, from the table or from a nameserver.

    If the topic does not exist but brokers create topics on demand, the route is a borrowed one.
    """
    table.watch(topic)
    route = table.route(topic)
    if route is not None and route.publish_queues:
        return route
    route = yield from fetch_route(table, topic, timeout_ms)
    if route is None:
        lender = yield from fetch_route(table, template, timeout_ms)
        if lender is not None and lender.publish_queues:
            route = lender.borrowed_by(topic, max_queues)
            table.apply(topic, route)
    if route is None or not route.publish_queues:
        table.unwatch(topic)
        raise (yield from _diagnose(table, topic, route, Permission.WRITE, timeout_ms))
    return route


def route_or_diagnose(
    table: RouteTable, topic: str, timeout_ms: float = ROUTE_TIMEOUT_MS
) -> Flow[TopicRoute]:
    """Return a route with queues to read from; raises `NoRoute` with the cause otherwise."""
    route = table.route(topic)
    if route is None or route.is_borrowed or not route.subscribe_queues:
        route = yield from fetch_route(table, topic, timeout_ms)
    if route is None or not route.subscribe_queues:
        raise (yield from _diagnose(table, topic, route, Permission.READ, timeout_ms))
    return route


def _diagnose(
    table: RouteTable, topic: str, route: TopicRoute | None, wanted: int, timeout_ms: float
) -> Flow[NoRoute]:
    """Return the error that explains why a topic has no queues to write or to read."""
    if route is not None:
        return _diagnose_route(topic, route, wanted)
    response = yield from ask_nameserver(
        table, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=timeout_ms
    )
    brokers: list[str] = []
    if response.code == ResponseCode.SUCCESS and response.body:
        brokers = Members.read(response.body).names("brokerAddrTable")
    where = table.nameservers.in_turn()[0]
    if not brokers:
        return NoRoute(
            f"no route to topic {topic!r}: no broker is registered with nameserver {where}. "
            "Start one with this nameserver's address, or wait until it has registered.",
            topic=topic,
            cause="no_broker",
        )
    names = ", ".join(sorted(brokers))
    return NoRoute(
        f"no route to topic {topic!r}: it does not exist on {names}"
        + (
            ", and brokers there do not create topics on demand. Create it "
            "(mqadmin updateTopic, or Admin.create_topic), or set autoCreateTopicEnable=true."
            if wanted == Permission.WRITE
            else ". Create it (mqadmin updateTopic, or Admin.create_topic), or check its name "
            "and namespace."
        ),
        topic=topic,
        cause="no_topic",
    )


def _diagnose_route(topic: str, route: TopicRoute, wanted: int) -> NoRoute:
    verb = "written" if wanted == Permission.WRITE else "read"
    permitted = [data for data in route.queues if data.perm & wanted]
    brokers = ", ".join(data.broker_name for data in permitted or route.queues)
    if not permitted:
        perms = ", ".join(
            f"{data.broker_name}: {Permission.text(data.perm)}" for data in route.queues
        )
        return NoRoute(
            f"no route to topic {topic!r}: it may not be {verb} ({perms}). Change the topic's "
            "permission (mqadmin updateTopicPerm -p 6), or the broker's, if it was wiped.",
            topic=topic,
            cause="no_permission",
        )
    if wanted == Permission.WRITE and not any(
        MASTER_ID in route.brokers.get(data.broker_name, {}) for data in permitted
    ):
        return NoRoute(
            f"no route to topic {topic!r}: no master of {brokers} is registered, and slaves take "
            "no messages. Start the master, or wait until it has registered.",
            topic=topic,
            cause="no_broker",
        )
    return NoRoute(
        f"no route to topic {topic!r}: it has no queues to be {verb} on {brokers}. "
        "Give it some (mqadmin updateTopic -r 8 -w 8).",
        topic=topic,
        cause="no_topic",
    )
