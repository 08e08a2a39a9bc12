"""Background work of a client: heartbeats, fresh routes, timers, requests from brokers.

An instance belongs to one client object and runs on one event loop. Other threads may call only the
methods whose docstrings allow it. A broker registers the client when it receives a heartbeat, and
sends its own requests over the heartbeat's connection; `router` dispatches these requests.
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
"""Seconds between two requests to the address server."""
FIRST_ANNOUNCE_S, MAX_ANNOUNCE_S = 0.05, 1.0
"""Pause before the first heartbeat to a lost broker; it doubles up to the maximum."""


class Repeating:
    """Periodic work; its errors are logged and do not end the repetition."""

    def __init__(
        self, period_s: float, work: Callable[[], Awaitable[Any]], first_s: float | None = None
    ) -> None:
        self._period_s = period_s
        self._work = work
        self._wake = asyncio.Event()
        delay_s = period_s if first_s is None else first_s
        self._task = asyncio.get_running_loop().create_task(self._run(delay_s))

    def soon(self) -> None:
        """Run the work now, or once more if it is running."""
        self._wake.set()

    def cancel(self) -> None:
        """Stop the repetition."""
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
                _log.warning("background work %s failed and will be tried again: %s", name, error)
            except FAILURES:
                _log.exception("background work failed and will be tried again")


class ClientInstance:
    """Client id, groups, routes, connections and background work of one client."""

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
        """Broker address → version in the last answer to a heartbeat."""
        self.presence = Presence()
        self.brokers_in_use: Callable[[], set[str]] = set
        """Returns the names of brokers to keep although no route contains them."""
        self._producers: set[str] = set()
        self._consumers: dict[str, Callable[[], dict[str, Any]]] = {}
        self._rebalances: dict[str, Callable[[], None]] = {}
        self._timers: set[Repeating] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._heartbeat_timer: Repeating | None = None
        self._route_timer: Repeating | None = None
        self._refreshed_at = 0.0
        self._outdated: set[str] = set()
        """Topics whose queues a broker reported as changed; their routes are being fetched."""
        self._heartbeat_lock = asyncio.Lock()
        self._announcing: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.router.add(self._consumer_ids_changed, [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED])

    # ---- start and stop

    @property
    def is_running(self) -> bool:
        """True if the instance was started and not stopped."""
        return self._loop is not None

    async def start(self) -> None:
        """Start the background work; `start` itself sends no request to nameservers or brokers."""
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
        # `on_new_brokers` is not called for brokers in the table already: send heartbeats at once.
        first_s = 0 if self.routes.addresses() else None
        self._heartbeat_timer = self.every(
            self.settings.heartbeat_s, self._regular_heartbeat, first_s=first_s
        )

    async def stop(self) -> None:
        """Unregister the client's groups at the brokers, and close all connections."""
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
                # Only over open connections: without one, a broker has no registration.
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
            _log.debug(
                "broker %s did not take the unregistration of group %s: %s", address, group, error
            )

    # ---- groups

    def add_producer(self, group: str) -> None:
        """Add a producer group to the heartbeat."""
        join(self, "producer", group)
        self._producers.add(group)

    def remove_producer(self, group: str) -> None:
        """Remove a producer group from the heartbeat."""
        leave(self, "producer", group)
        self._producers.discard(group)

    def add_consumer(
        self,
        group: str,
        heartbeat_data: Callable[[], dict[str, Any]],
        rebalance: Callable[[], None] | None = None,
    ) -> None:
        """Add a consumer group to the heartbeat.

        `heartbeat_data` returns the group's entry in the heartbeat's consumerDataSet. `rebalance`
        is called when a broker reports that the group's members have changed.
        """
        join(self, "consumer", group)
        self._consumers[group] = heartbeat_data
        if rebalance is not None:
            self._rebalances[group] = rebalance

    def remove_consumer(self, group: str) -> None:
        """Remove a consumer group from the heartbeat."""
        leave(self, "consumer", group)
        self._consumers.pop(group, None)
        self._rebalances.pop(group, None)

    async def unregister(self, *, producer_group: str = "", consumer_group: str = "") -> None:
        """Unregister a group of this client at all brokers; the client keeps running."""
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
        """Run a flow on this client's connections."""
        return await perform(flow, self.network)

    def every(
        self,
        period_s: float,
        work: Callable[[], Awaitable[Any]],
        *,
        first_s: float | None = None,
    ) -> Repeating:
        """Run `work` every `period_s` seconds until the instance stops, first after `first_s`."""
        timer = Repeating(period_s, work, first_s)
        self._timers.add(timer)
        return timer

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task that is cancelled when the instance stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("background task failed", exc_info=error)

    def rebalance_soon(self) -> None:
        """Start a rebalance of every consumer of this client."""
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
                "the queues of topic %s have changed, but its route cannot be fetched; "
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
            _log.info("the address server returned other nameservers: %s", ", ".join(addresses))
            self.routes.nameservers.replace(addresses)

    async def refresh_routes(self) -> None:
        """Fetch the routes of all watched topics again."""
        for topic in list(self.routes.watched):
            try:
                await self.run(fetch_route(self.routes, topic))
            except NoRoute as error:
                if error.cause != "refused":
                    raise
                _log.warning(
                    "nameserver refused the route of topic %s; the previous route stays in use: %s",
                    topic,
                    error,
                )

    def refresh_routes_soon(self) -> None:
        """Refresh the routes ahead of time, at most once a second; any thread may call this."""
        loop, timer = self._loop, self._route_timer
        now = time.monotonic()
        if loop is not None and timer is not None and now - self._refreshed_at >= 1:
            self._refreshed_at = now
            loop.call_soon_threadsafe(timer.soon)

    async def _regular_heartbeat(self) -> None:
        self.routes.drop_unrouted_brokers(self.brokers_in_use())
        await self.heartbeat()

    def _heartbeat_soon(self) -> None:
        """Send a heartbeat ahead of time; any thread may call this."""
        loop = self._loop
        if loop is not None and self._heartbeat_timer is not None:
            loop.call_soon_threadsafe(self._heartbeat_timer.soon)

    def _connection_lost(self, connection: Connection) -> None:
        # A broker removes a client when its connection closes; no other event may report the loss.
        address = self.network.address_of(connection)
        if address is not None:
            self.look_for(address)

    def look_for(self, address: str) -> None:
        """Send heartbeats to a broker that was lost, repeatedly, until it is back."""
        if self._loop is None or not self._is_known(address):
            return
        if self.presence.lost(address):
            _log.info(
                "connection to broker %s is lost; heartbeats are repeated until it is back", address
            )
        if address not in self._announcing:
            self._announcing.add(address)
            self.spawn(self._announce(address))

    def check(self, broker_name: str) -> None:
        """Call `look_for` with the master of a broker if no connection to it is open."""
        address = self.routes.master(broker_name)
        if address is not None and self.network.open_connection(address) is None:
            self.look_for(address)

    def _is_known(self, address: str) -> bool:
        """Return True if the client has groups to register and a route to the broker."""
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
        """Send this client's groups to masters, or to all brokers if the client consumes.

        Returns the first refusal if every broker rejects the account or its rights, else None.
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
            _log.log(
                level,
                "heartbeat to broker %s failed and is repeated until it is back: %s",
                address,
                error,
            )
            self.look_for(address)
            return None
        self._answers(address)
        if response.code == ResponseCode.SUCCESS:
            self.broker_versions[address] = response.version
            return None
        refused = refusal(response, address)
        _log.warning("broker rejected the heartbeat: %s", refused)
        return refused if access_hint(response.remark) else None

    def _answers(self, address: str) -> None:
        """Record a broker's answer; if the broker was lost, rebalance now and after `SETTLE_S`."""
        away_s = self.presence.back(address)
        if away_s is None:
            return
        _log.info(
            "broker %s is back after %.1f s and has registered this client; rebalancing",
            address,
            away_s,
        )
        self.rebalance_soon()
        if self._loop is not None:
            self._loop.call_later(SETTLE_S, self.rebalance_soon)
