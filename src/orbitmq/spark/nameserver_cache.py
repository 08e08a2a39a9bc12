"""Cache of nameserver answers: topics, their routes, registered brokers.

Answers that every trigger needs are cached. The caller passes the allowed age of an answer, because
readers with different options share one `Directory`.

Nameservers are needed to notice changes, not to continue. While no nameserver answers, the last
answer stays valid, as in RocketMQ's own clients; the next request is sent after `ASK_AGAIN_S`. The
nameserver that answered last is tried first. So a nameserver that is down costs one timeout, not
one per trigger.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from orbitmq._native import Command
from orbitmq.errors import NoRoute, RemotingError
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.members import Members
from orbitmq.protocol.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
)
from orbitmq.rpc.namespace import unwrap, wrap
from orbitmq.rpc.route_table import Nameservers, TopicRoute
from orbitmq.spark.options import ConnectionOptions

__all__ = ["Directory"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

ASK_AGAIN_S = 5.0
"""Time to use cached answers only, after no nameserver has answered."""
REPLIES = "_REPLY_TOPIC"


class NameserverCalls(Protocol):
    """Sends one request, without retries; raises for codes other than success and `also`."""

    def __call__(
        self, address: str, code: int, ext: dict[str, str] | None, *, also: Collection[int]
    ) -> Command: ...


@dataclass(slots=True)
class _Kept(Generic[T]):
    value: T
    asked_at: float | None
    """Time of the request; None after `Directory.forget`."""


class Directory:
    """Sends requests to nameservers and caches their answers."""

    def __init__(
        self, connection: ConnectionOptions, ask: NameserverCalls, clock: Callable[[], float]
    ) -> None:
        self._namespace = connection.namespace
        self._nameservers = Nameservers(connection.nameservers, 0)
        self._ask_one = ask
        self._clock = clock
        self._routes: dict[str, _Kept[TopicRoute | None]] = {}
        self._matches: dict[str, _Kept[list[str]]] = {}
        self._silent_until = 0.0
        self._told = False

    def route(self, topic: str, ttl_ms: int) -> TopicRoute | None:
        """Return the route of a topic, None if the nameservers have no such topic."""
        return self._kept(self._routes, topic, ttl_ms, self._find_route)

    def topics_like(self, pattern: str, ttl_ms: int) -> list[str]:
        """Return topics whose whole name matches; system topics only if the pattern names them."""
        return self._kept(self._matches, pattern, ttl_ms, self._find_matches)

    def registered_brokers(self) -> set[str] | None:
        """Return the brokers registered at nameservers; None while no nameserver answers.

        The answer is never cached: an old answer cannot show that a broker has gone.
        """
        if self._clock() < self._silent_until:
            return None
        try:
            response = self._ask(RequestCode.GET_BROKER_CLUSTER_INFO)
        except NoRoute:
            return None
        return set(Members.read(response.body).table("brokerAddrTable"))

    def forget(self) -> None:
        """Expire all cached answers: the next lookup asks a nameserver, if one answers."""
        for route in self._routes.values():
            route.asked_at = None
        for match in self._matches.values():
            match.asked_at = None

    # ---- Requests

    def _kept(
        self, answers: dict[str, _Kept[T]], key: str, ttl_ms: int, find: Callable[[str], T]
    ) -> T:
        kept = answers.get(key)
        if kept is not None and self._holds(kept, ttl_ms):
            return kept.value
        try:
            value = find(key)
        except NoRoute as error:
            if kept is None:
                raise
            if not self._told:
                self._told = True
                _log.warning("continuing with cached routes: %s", error)
            return kept.value
        answers[key] = _Kept(value, self._clock())
        return value

    def _holds(self, kept: _Kept[T], ttl_ms: int) -> bool:
        """Return True if an answer is young enough, or while no nameserver answers."""
        until = 0.0 if kept.asked_at is None else kept.asked_at + ttl_ms / 1000
        return self._clock() < max(until, self._silent_until)

    def _ask(
        self, code: int, ext: dict[str, str] | None = None, also: Collection[int] = ()
    ) -> Command:
        errors = []
        for address in self._nameservers.in_turn():
            try:
                response = self._ask_one(address, code, ext, also=also)
            except RemotingError as error:
                errors.append(str(error))
                continue
            self._nameservers.answered(address)
            self._silent_until, self._told = 0.0, False
            return response
        self._silent_until = self._clock() + ASK_AGAIN_S
        raise NoRoute(
            f"no nameserver answers: {'; '.join(errors)}. Check option nameServer, and that a "
            "nameserver runs there",
            cause="no_nameserver",
        )

    def _find_route(self, topic: str) -> TopicRoute | None:
        response = self._ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": wrap(self._namespace, topic), "acceptStandardJsonOnly": "true"},
            also=(ResponseCode.TOPIC_NOT_EXIST,),
        )
        if response.code != ResponseCode.SUCCESS:
            return None
        return TopicRoute.decode(topic, response.body)

    def _find_matches(self, pattern: str) -> list[str]:
        wanted = re.compile(pattern)
        names = self._names_here(self._topic_list(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
        # Each cluster and broker has a system topic with its own name.
        systems = SYSTEM_TOPICS | self._topic_list(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        return sorted(
            name
            for name in filter(wanted.fullmatch, names)
            if name == pattern or not _is_hidden(name, systems, pattern)
        )

    def _names_here(self, stored: Iterable[str]) -> list[str]:
        """Return the topics of the namespace, without the namespace in their names."""
        namespace = self._namespace
        return [name for each in stored if wrap(namespace, name := unwrap(namespace, each)) == each]

    def _topic_list(self, code: int) -> frozenset[str]:
        return frozenset(Members.read(self._ask(code).body).texts("topicList"))


def _is_hidden(name: str, systems: frozenset[str], pattern: str) -> bool:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return not pattern.startswith(prefix)
    return name in systems or name.lower().startswith(SYSTEM_TOPIC_PREFIX) or name.endswith(REPLIES)
