"""Registration of a broker and its topics with all nameservers."""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from orbitmq._native import Command, body_crc, compress, dumps_lenient
from orbitmq.broker.queue_notices import QueueNotices
from orbitmq.broker.state.topics import TopicTable
from orbitmq.config import BrokerConfig
from orbitmq.errors import FAILURES, NoRoute, OrbitError
from orbitmq.protocol.bodies import DataVersion, TopicConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import Permission
from orbitmq.protocol.members import Members
from orbitmq.remoting.address import look_up
from orbitmq.remoting.client import RemotingClient
from orbitmq.remoting.hooks import RequestHook

__all__ = ["NameserverLookUp", "Registrar", "compressed_body", "plain_body"]

_log = logging.getLogger(__name__)

FIRST_AFTER_S = 10.0
UNREGISTER_TIMEOUT_MS = 3000
PAUSE_FACTOR = 10
MAX_PAUSE_S = 1.0


class Registrar:
    """Registers the broker with all nameservers: after each change of topics, and periodically."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        address: Callable[[], str],
        notices: QueueNotices,
        *,
        any_host: bool,
        tls: ssl.SSLContext | None = None,
        hooks: Sequence[RequestHook] = (),
    ) -> None:
        self._config = config
        self._topics = topics
        self._address = address
        self._notices = notices
        self._any_host = any_host
        self._client = RemotingClient(hooks=hooks, tls=tls)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._periodic: asyncio.Task[None] | None = None
        self._is_due = False
        self._soon: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Register with all nameservers, now and periodically."""
        if self._config.asks_address_server:
            look_up = NameserverLookUp(self._config)
            await look_up.ask()
            self._spawn(self._follow(look_up))
        await self._try_to_register()
        self._periodic = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        await asyncio.sleep(FIRST_AFTER_S)
        while True:
            if self._config.force_register or await self._is_news_to_somebody():
                await self._try_to_register()
            period_ms = min(max(self._config.register_name_server_period, 10_000), 60_000)
            await asyncio.sleep(period_ms / 1000)

    async def _follow(self, look_up: NameserverLookUp) -> None:
        """Register again whenever the address server returns other nameservers."""
        while True:
            await asyncio.sleep(look_up.next_s)
            if await look_up.ask():
                await self._try_to_register()

    async def _try_to_register(self) -> None:
        """Register; log a failure (unreadable answer, full disk), as a later round tries again."""
        try:
            await self.register()
        except FAILURES:
            _log.exception("registration with the name servers failed, the next round tries again")

    async def stop(self) -> None:
        """Unregister from all nameservers and close the connections to them."""
        if self._periodic is not None:
            self._periodic.cancel()
        await asyncio.gather(
            *(self._unregister(address) for address in self._config.nameservers),
            return_exceptions=True,
        )
        for task in self._tasks:
            task.cancel()
        await self._client.close()

    def soon(self) -> None:
        """Register with all nameservers in the background.

        A registration contains all topics, and any client may create a topic. Therefore only one
        registration runs at a time. A pause of `PAUSE_FACTOR` times its duration follows (at most
        `MAX_PAUSE_S`), so that registrations take about a tenth of the time.
        """
        self._is_due = True
        if self._soon is None:
            self._soon = self._spawn(self._register_while_due())

    async def _register_while_due(self) -> None:
        try:
            while self._is_due:
                self._is_due = False
                began = time.monotonic()
                await self._try_to_register()
                await asyncio.sleep(min(PAUSE_FACTOR * (time.monotonic() - began), MAX_PAUSE_S))
        finally:
            self._soon = None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def register(self) -> None:
        """Register all topics with all nameservers at once.

        A registration always contains every topic. A nameserver that has been away would take a
        part of the topics for the whole table of this version. It would then ignore the rest.
        """
        published = self._notices.take()
        body = self._body()
        ext = self._identity() | {
            "haServerAddr": self._config.ha_address,
            "compressed": "true" if self._config.compressed_register else "false",
            "bodyCrc32": str(body_crc(body)),
        }
        if self._any_host:
            ext["orbitAnyHost"] = "true"
        taken: list[Command] = []
        try:
            answers = await asyncio.gather(
                *(self._register_with(address, ext, body) for address in self._config.nameservers)
            )
            taken += [answer for answer in answers if answer is not None]
        finally:
            if taken:
                self._notices.published(published)
            else:
                self._notices.put_back(published)
        if taken:
            self._take(taken[0])

    def _identity(self) -> dict[str, str]:
        return {
            "brokerName": self._config.broker_name,
            "brokerAddr": self._address(),
            "clusterName": self._config.broker_cluster_name,
            "brokerId": str(self._config.broker_id),
        }

    def _body(self) -> bytes:
        table = self._topics.as_json()
        own = self._config.broker_permission
        if own & (Permission.READ | Permission.WRITE) != Permission.READ | Permission.WRITE:
            table["topicConfigTable"] = {
                name: TopicConfig(
                    name, topic["readQueueNums"], topic["writeQueueNums"], own
                ).as_json()
                for name, topic in table["topicConfigTable"].items()
            }
        return compressed_body(table) if self._config.compressed_register else plain_body(table)

    async def _is_news_to_somebody(self) -> bool:
        """Return True if a nameserver lacks this version of the topics.

        The request to each nameserver also keeps this broker registered there. A nameserver that
        does not answer counts as one that lacks the version.
        """
        answers = await asyncio.gather(
            *(self._is_news_to(address) for address in self._config.nameservers)
        )
        return any(answers)

    async def _is_news_to(self, address: str) -> bool:
        ours = self._topics.version
        try:
            answer = await self._client.invoke(
                address,
                RequestCode.QUERY_DATA_VERSION,
                ext=self._identity(),
                body=dumps_lenient(ours.as_json()),
                timeout_ms=self._config.register_broker_timeout_mills,
            )
            if answer.code != ResponseCode.SUCCESS:
                return True
            if (answer.ext or {}).get("changed", "").lower() == "true" or not answer.body:
                return True
            return DataVersion.from_json(Members.read(answer.body)) != ours
        except FAILURES as error:
            _log.warning(
                "cannot query the topic version of name server %s, registering again: %s",
                address,
                error,
            )
            return True

    async def _register_with(
        self, address: str, ext: dict[str, str], body: bytes
    ) -> Command | None:
        timeout_ms = self._config.register_broker_timeout_mills
        try:
            answer = await self._client.invoke(
                address, RequestCode.REGISTER_BROKER, ext=ext, body=body, timeout_ms=timeout_ms
            )
        except OrbitError as error:
            _log.warning(
                "registration with name server %s failed, the next round tries again: %s",
                address,
                error,
            )
            return None
        if answer.code != ResponseCode.SUCCESS:
            _log.warning(
                "name server %s rejected the registration, the next round tries again: %s",
                address,
                answer.remark,
            )
            return None
        _log.info("register broker[%d]to name server %s OK", self._config.broker_id, address)
        return answer

    def _take(self, answer: Command) -> None:
        """Mark the topics that the answer of a nameserver lists as ordered."""
        table = Members.read(answer.body).table("table") if answer.body else None
        if table:
            self._topics.set_order(set(table))

    async def _unregister(self, address: str) -> None:
        try:
            await self._client.invoke(
                address,
                RequestCode.UNREGISTER_BROKER,
                ext=self._identity(),
                timeout_ms=UNREGISTER_TIMEOUT_MS,
            )
        except OrbitError as error:
            _log.info(
                "cannot unregister from name server %s, going on with the shutdown: %s",
                address,
                error,
            )


# ---- Registration bodies
#
# A body is plain JSON or compressed:
#
#     plain       {"filterServerList": [], "topicConfigSerializeWrapper": {dataVersion, topics}}
#
#     compressed  a zlib stream of
#                 i32 length, data version as JSON
#                 i32 number of topics
#                 for each: i32 length, "name readQueues writeQueues perm filterType"
#                 i32 length, filter servers as JSON
#
# The compressed form leaves a topic's order and system flag out, as in 4.9.7.

LEVEL = 9


def plain_body(table: Mapping[str, Any]) -> bytes:
    """Return the JSON form of a table of topics."""
    return dumps_lenient({"filterServerList": [], "topicConfigSerializeWrapper": table})


def compressed_body(table: Mapping[str, Any]) -> bytes:
    """Return the compressed form of a table of topics."""
    topics = table["topicConfigTable"].values()
    parts = [_counted(dumps_lenient(table["dataVersion"])), struct.pack(">i", len(topics))]
    parts += [_counted(_line(topic).encode()) for topic in topics]
    parts.append(_counted(b"[]"))
    return compress(b"".join(parts), "zlib", level=LEVEL)


def _counted(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text


def _line(topic: Mapping[str, Any]) -> str:
    fields = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")
    return " ".join(str(topic[field]) for field in fields)


# ---- Nameserver look-up
#
# A broker whose settings name no nameservers may get them from an address server.

DEFAULT_DOMAIN = "jmenv.tbsite.net"
DEFAULT_SUBGROUP = "nsaddr"
LOOK_AGAIN_S = 120.0
LOOK_AGAIN_SOON_S = 10.0
ADVICE = "Check rmqAddressServerDomain, or set namesrvAddr"


class NameserverLookUp:
    """Queries the address server; `config.nameservers` then returns the nameservers it listed."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    @property
    def next_s(self) -> float:
        """Seconds until the next query; fewer while no nameserver has been found."""
        return LOOK_AGAIN_S if self._config.found_nameservers else LOOK_AGAIN_SOON_S

    async def ask(self) -> bool:
        """Query the address server; return True if its list of nameservers has changed.

        If the address server does not answer, the previous list stays in use.
        """
        config = self._config
        domain = config.rmq_address_server_domain or DEFAULT_DOMAIN
        subgroup = config.rmq_address_server_sub_group or DEFAULT_SUBGROUP
        try:
            found = await asyncio.to_thread(look_up, domain, subgroup, advice=ADVICE)
        except NoRoute as error:
            known = ";".join(config.found_nameservers)
            kept = f"going on with {known}" if known else "not registered yet"
            _log.warning("%s; %s, asking again in %.0f s", error, kept, self.next_s)
            return False
        changed = set(found) != set(config.found_nameservers)
        if changed:
            _log.info("name servers listed by address server %s: %s", domain, ";".join(found))
        config.found_nameservers = list(found)
        return changed
