"""What goes on behind a client: heartbeats, fresh routes, timers, requests from brokers.

An instance belongs to one client object and lives on one event loop; nothing here may be called by
another thread, except where it says so. Brokers learn of the client by its heartbeat and use the
heartbeat's connection for their own requests, which `router` hands out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from orbitmq._native import Command, dumps_lenient
from orbitmq.client.identity import join, leave
from orbitmq.client.presence import SETTLE_S, Presence
from orbitmq.client.settings import ClientSettings, look_up_nameservers
from orbitmq.errors import FAILURES, BrokerRefused, NoRoute, OrbitError, RemotingError
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.remoting.client import RemotingClient
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Router
from orbitmq.rpc.drivers.run_async import perform
from orbitmq.rpc.flow import Flow
from orbitmq.rpc.refusals import access_hint, refusal
from orbitmq.rpc.route_table import Nameservers, RouteTable
from orbitmq.rpc.routes import fetch_route

__all__ = ["ClientInstance", "Repeating"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

HEARTBEAT_TIMEOUT_MS = 3000
UNREGISTER_TIMEOUT_MS = 3000
LOOK_UP_S = 120
"""How often an address server is asked again."""
FIRST_ANNOUNCE_S, MAX_ANNOUNCE_S = 0.05, 1.0
"""Pause before the first and between later announcements to a broker that was lost."""


class Repeating:
    """Work that is done again and again; its errors are logged and do not end it."""

    def __init__(
        self, period_s: float, work: Callable[[], Awaitable[Any]], first_s: float | None = None
    ) -> None:
        self._period_s = period_s
        self._work = work
        self._wake = asyncio.Event()
        delay_s = period_s if first_s is None else first_s
        self._task = asyncio.get_running_loop().create_task(self._run(delay_s))

    def soon(self) -> None:
        """Do the work now, or once more if it is being done."""
        self._wake.set()

    def cancel(self) -> None:
        """Do the work no more."""
        self._task.cancel()

    async def _run(self, delay_s: float) -> None:
        while True:
            try:
                async with asyncio.timeout(delay_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            delay_s = self._period_s
            try:
                await self._work()
            except OrbitError as error:
                name = getattr(self._work, "__qualname__", repr(self._work))
                _log.warning("%s: %s", name, error)
            except FAILURES:
                _log.exception("background work failed and will be tried again")


class ClientInstance:
    """The part of a client that brokers see."""

    def __init__(
        self, settings: ClientSettings, *, stream: bool = False, routes: RouteTable | None = None
    ) -> None:
        self.settings = settings
        self.client_id = settings.make_client_id(stream=stream)
        self.routes = routes or RouteTable(Nameservers(settings.nameservers))
        self.router = Router()
        self.network = RemotingClient(
            self.router,
            hooks=settings.make_hooks(stream=stream),
            tls=settings.make_tls(),
            on_close=self._connection_lost,
        )
        self.broker_versions: dict[str, int] = {}
        """Broker address → the version its last heartbeat answer carried."""
        self.presence = Presence()
        self.brokers_in_use: Callable[[], set[str]] = set
        """Returns the names of brokers that are kept although no route leads to them."""
        self._producers: set[str] = set()
        self._consumers: dict[str, Callable[[], dict[str, Any]]] = {}
        self._rebalances: dict[str, Callable[[], None]] = {}
        self._timers: set[Repeating] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._heartbeat_timer: Repeating | None = None
        self._route_timer: Repeating | None = None
        self._refreshed_at = 0.0
        self._outdated: set[str] = set()
        """Topics whose queues have changed, according to a broker, and are about to be fetched."""
        self._heartbeat_lock = asyncio.Lock()
        self._announcing: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.router.add(self._consumer_ids_changed, [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED])

    # ---- life

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._loop is not None

    async def start(self) -> None:
        """Begin with the background work; nothing is asked of any nameserver or broker yet."""
        if self.settings.looks_up_nameservers:
            try:
                await self._look_up_nameservers()
            except BaseException:
                self._leave_groups()
                raise
            self.every(LOOK_UP_S, self._look_up_nameservers)
        self._loop = asyncio.get_running_loop()
        self.routes.on_new_brokers = self._heartbeat_soon
        self._route_timer = self.every(self.settings.route_refresh_s, self.refresh_routes)
        # Brokers that are known by now will not be new to anybody later.
        first_s = 0 if self.routes.addresses() else None
        self._heartbeat_timer = self.every(
            self.settings.heartbeat_s, self._regular_heartbeat, first_s=first_s
        )

    async def stop(self) -> None:
        """Tell brokers that the client's groups are leaving, and close all connections."""
        self.routes.on_new_brokers = None
        self._loop = None
        for timer in list(self._timers):
            timer.cancel()
        self._timers.clear()
        groups = [("producerGroup", name) for name in self._producers]
        groups += [("consumerGroup", name) for name in self._consumers]
        self._leave_groups()
        await asyncio.gather(
            *(
                self._unregister(address, kind, group)
                for address in self.routes.addresses()
                for kind, group in groups
                # Only to those that have heard of us; a new connection would be for this alone.
                if self.network.open_connection(address) is not None
            )
        )
        for task in list(self._tasks):
            task.cancel()
        await self.network.close()

    def _leave_groups(self) -> None:
        for group in self._producers:
            leave(self, "producer", group)
        for group in self._consumers:
            leave(self, "consumer", group)

    async def _unregister(self, address: str, kind: str, group: str) -> None:
        ext = {"clientID": self.client_id, kind: group}
        try:
            await self.network.invoke(
                address, RequestCode.UNREGISTER_CLIENT, ext=ext, timeout_ms=UNREGISTER_TIMEOUT_MS
            )
        except RemotingError as error:
            _log.debug("%s was not told that %s leaves: %s", address, group, error)

    # ---- groups

    def add_producer(self, group: str) -> None:
        """Have the heartbeat name a producer group."""
        join(self, "producer", group)
        self._producers.add(group)

    def remove_producer(self, group: str) -> None:
        """Have the heartbeat name a producer group no more."""
        leave(self, "producer", group)
        self._producers.discard(group)

    def add_consumer(
        self,
        group: str,
        heartbeat_data: Callable[[], dict[str, Any]],
        rebalance: Callable[[], None] | None = None,
    ) -> None:
        """Have the heartbeat carry what the function returns, one entry of its consumerDataSet.

        `rebalance` is called when brokers say that the group's members have changed.
        """
        join(self, "consumer", group)
        self._consumers[group] = heartbeat_data
        if rebalance is not None:
            self._rebalances[group] = rebalance

    def remove_consumer(self, group: str) -> None:
        """Have the heartbeat name a consumer group no more."""
        leave(self, "consumer", group)
        self._consumers.pop(group, None)
        self._rebalances.pop(group, None)

    async def unregister(self, *, producer_group: str = "", consumer_group: str = "") -> None:
        """Tell all brokers that a group leaves this client, while the client goes on."""
        kind, group = (
            ("producerGroup", producer_group)
            if producer_group
            else ("consumerGroup", consumer_group)
        )
        await asyncio.gather(
            *(self._unregister(address, kind, group) for address in self.routes.addresses())
        )

    # ---- work

    async def run(self, flow: Flow[T]) -> T:
        """Carry out a flow on this client's connections."""
        return await perform(flow, self.network)

    def every(
        self,
        period_s: float,
        work: Callable[[], Awaitable[Any]],
        *,
        first_s: float | None = None,
    ) -> Repeating:
        """Do something every so often until the instance stops, first after `first_s`."""
        timer = Repeating(period_s, work, first_s)
        self._timers.add(timer)
        return timer

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do something beside; it is cancelled when the instance stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("background work failed", exc_info=error)

    def rebalance_soon(self) -> None:
        """Wake the rebalance of every consumer of this client."""
        for rebalance in list(self._rebalances.values()):
            rebalance()

    def _consumer_ids_changed(self, request: Command, _connection: Connection) -> None:
        topic = (request.ext or {}).get("orbitTopic")
        if topic is None or topic not in self.routes.watched:
            self.rebalance_soon()
        elif topic not in self._outdated and self.is_running:
            self._outdated.add(topic)
            self.spawn(self._queues_changed(topic))

    async def _queues_changed(self, topic: str) -> None:
        """Fetch the route of a topic whose queues a broker has changed, then rebalance."""
        self._outdated.discard(topic)
        try:
            await self.run(fetch_route(self.routes, topic))
        except OrbitError as error:
            _log.warning(
                "topic %s has other queues now, but its route cannot be fetched; "
                "next try in %.0f s: %s",
                topic,
                self.settings.route_refresh_s,
                error,
            )
        self.rebalance_soon()

    # ---- routes and heartbeats

    async def _look_up_nameservers(self) -> None:
        addresses = await asyncio.to_thread(look_up_nameservers, self.settings)
        if set(addresses) != set(self.routes.nameservers.addresses):
            _log.info("nameservers are %s", ", ".join(addresses))
            self.routes.nameservers.replace(addresses)

    async def refresh_routes(self) -> None:
        """Ask for the routes of all watched topics again."""
        for topic in list(self.routes.watched):
            try:
                await self.run(fetch_route(self.routes, topic))
            except NoRoute as error:
                if error.cause != "refused":
                    raise
                _log.warning("the route of %s stays as it was: %s", topic, error)

    def refresh_routes_soon(self) -> None:
        """Ask for routes before their time, but not more than once a second; for any thread."""
        loop, timer = self._loop, self._route_timer
        now = time.monotonic()
        if loop is not None and timer is not None and now - self._refreshed_at >= 1:
            self._refreshed_at = now
            loop.call_soon_threadsafe(timer.soon)

    async def _regular_heartbeat(self) -> None:
        self.routes.drop_unrouted_brokers(self.brokers_in_use())
        await self.heartbeat()

    def _heartbeat_soon(self) -> None:
        """Any thread may call this."""
        loop = self._loop
        if loop is not None and self._heartbeat_timer is not None:
            loop.call_soon_threadsafe(self._heartbeat_timer.soon)

    def _connection_lost(self, connection: Connection) -> None:
        # A broker forgets a client together with its connection; nobody else might notice.
        address = self.network.address_of(connection)
        if address is not None:
            self.look_for(address)

    def look_for(self, address: str) -> None:
        """Announce this client to a broker that was lost, again and again until it is back."""
        if self._loop is None or not self._is_known(address):
            return
        if self.presence.lost(address):
            _log.info("broker %s is lost: looking for it", address)
        if address not in self._announcing:
            self._announcing.add(address)
            self.spawn(self._announce(address))

    def check(self, broker_name: str) -> None:
        """Look for the master of a broker if there is no connection to it."""
        address = self.routes.master(broker_name)
        if address is not None and self.network.open_connection(address) is None:
            self.look_for(address)

    def _is_known(self, address: str) -> bool:
        """Return True if the client has groups that a broker must know, and a route to it."""
        has_groups = bool(self._producers or self._consumers)
        return has_groups and address in self.routes.addresses(masters_only=not self._consumers)

    async def _announce(self, address: str) -> None:
        pause_s = FIRST_ANNOUNCE_S
        try:
            while self.presence.is_away(address) and self._is_known(address):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_ANNOUNCE_S)
                await self._beat(address, self._heartbeat_body())
        finally:
            self._announcing.discard(address)

    def _heartbeat_body(self) -> bytes:
        return dumps_lenient(
            {
                "clientID": self.client_id,
                "consumerDataSet": [describe() for describe in self._consumers.values()],
                "producerDataSet": [{"groupName": name} for name in sorted(self._producers)],
            }
        )

    async def heartbeat(self) -> BrokerRefused | None:
        """Tell brokers which groups this client has: masters, or all brokers if it consumes.

        Returns what one has against us if all have something against who we are.
        """
        async with self._heartbeat_lock:
            if not self._producers and not self._consumers:
                return None
            body = self._heartbeat_body()
            addresses = self.routes.addresses(masters_only=not self._consumers)
            refusals = await asyncio.gather(*(self._beat(address, body) for address in addresses))
            return refusals[0] if refusals and all(refusals) else None

    async def _beat(self, address: str, body: bytes) -> BrokerRefused | None:
        try:
            response = await self.network.invoke(
                address, RequestCode.HEART_BEAT, body=body, timeout_ms=HEARTBEAT_TIMEOUT_MS
            )
        except RemotingError as error:
            level = logging.DEBUG if self.presence.is_away(address) else logging.WARNING
            _log.log(level, "no heartbeat to %s: %s", address, error)
            self.look_for(address)
            return None
        self._answers(address)
        if response.code == ResponseCode.SUCCESS:
            self.broker_versions[address] = response.version
            return None
        refused = refusal(response, address)
        _log.warning("a heartbeat was %s", refused)
        return refused if access_hint(response.remark) else None

    def _answers(self, address: str) -> None:
        """Note that a broker is there; shares are looked after once it has been back for long."""
        away_s = self.presence.back(address)
        if away_s is None:
            return
        _log.info("broker %s is back after %.1f s and knows this client", address, away_s)
        self.rebalance_soon()
        if self._loop is not None:
            self._loop.call_later(SETTLE_S, self.rebalance_soon)
