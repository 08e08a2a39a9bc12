"""The broker as a whole: the only module that creates all parts and connects them."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from orbitmq.acl.control import MADE_ADMIN, AccessControl
from orbitmq.acl.editor import AccountEditor
from orbitmq.acl.files import RELOAD_S, AccountFiles
from orbitmq.acl.rules import BROKER_RULES
from orbitmq.broker.handlers.admin.access import AccessAdminHandlers
from orbitmq.broker.handlers.admin.clients import ClientAdminHandlers
from orbitmq.broker.handlers.admin.groups import GroupAdminHandlers
from orbitmq.broker.handlers.admin.offsets import OffsetAdminHandlers
from orbitmq.broker.handlers.admin.settings import ConfigAdminHandlers, StatsAdminHandlers
from orbitmq.broker.handlers.admin.store import StoreAdminHandlers
from orbitmq.broker.handlers.admin.topics import KEPT_WITHOUT_CONFIG, TopicAdminHandlers
from orbitmq.broker.handlers.bulk_read import BulkReadHandlers
from orbitmq.broker.handlers.consumers import ConsumerHandlers
from orbitmq.broker.handlers.pull import PullHandlers
from orbitmq.broker.handlers.queries import QueryHandlers
from orbitmq.broker.handlers.replies import ReplyHandlers
from orbitmq.broker.handlers.send import SendHandlers, nobody
from orbitmq.broker.handlers.send_back import SendBackHandlers
from orbitmq.broker.handlers.send_once import SendOnceHandlers
from orbitmq.broker.handlers.transactions import TransactionHandlers
from orbitmq.broker.open_store import open_store
from orbitmq.broker.overload import FlowControl, FlowControlledRouter
from orbitmq.broker.periodic import PeriodicTasks
from orbitmq.broker.queue_notices import QueueNotices
from orbitmq.broker.read.lag import PERIOD_MS, ConsumeStats, SlowConsumers
from orbitmq.broker.read.long_poll import HeldPulls
from orbitmq.broker.read.pull_filter import PullFilterResolver
from orbitmq.broker.registration import Registrar
from orbitmq.broker.retention import Retention
from orbitmq.broker.runtime_info import RuntimeInfo
from orbitmq.broker.state.awaited_members import AwaitedMembers
from orbitmq.broker.state.bloom import BloomSize
from orbitmq.broker.state.clients import EXPIRY_MS, ConsumerClients, ProducerClients
from orbitmq.broker.state.files import TableFiles
from orbitmq.broker.state.filters import ConsumerFilters
from orbitmq.broker.state.groups import GroupTable
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.broker.state.queue_locks import QueueLocks
from orbitmq.broker.state.stats import BrokerStats
from orbitmq.broker.state.topics import TopicTable
from orbitmq.broker.transactions.check import TransactionCheck
from orbitmq.broker.write.acks import FlushAcks
from orbitmq.broker.write.dedup import Deduplication
from orbitmq.broker.write.delay import DelayService
from orbitmq.broker.write.delivery_time import DeliveryTimePolicy
from orbitmq.broker.write.timers import TimedWriter, TimerService
from orbitmq.broker.write.writer import MessageWriter
from orbitmq.config import BrokerConfig, delay_levels_ms
from orbitmq.config.address import resolved
from orbitmq.errors import FAILURES
from orbitmq.protocol.bodies import MessageQueue, TopicConfig
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.hooks import RequestHook
from orbitmq.remoting.limits import ServerLimits
from orbitmq.remoting.router import Router
from orbitmq.remoting.server import Server
from orbitmq.remoting.tls import ServerTls, own_connections_context
from orbitmq.threads import in_thread

__all__ = ["Broker"]

_log = logging.getLogger(__name__)

CLIENT_SCAN_MS = 10_000
AWAITED_SCAN_MS = 500
FILTER_SAVE_MS = 10_000
TIMER_SAVE_MS = 1000
LEAST_MESSAGE_LIMIT = 10
"""Least maxMessageSize that takes effect when a request changes the setting, as in Java."""
VIP_DISTANCE = 2
"""Distance of the broker's second port, the fast one, below its first."""


def wall_clock_ms() -> int:
    """Return the wall-clock time in milliseconds, the unit of the protocol."""
    return time.time_ns() // 1_000_000


class Broker:
    """A broker over one store directory.

    A broker can also serve on the socket of another server:

    - construct the broker with no `hosts` and call `open` with the port of that socket,
    - merge `router` into the router of that server,
    - pass the connections that the server closes to `connection_closed`,
    - call `close_with` with the server, so that nothing is acknowledged after the last save.

    `hooks` are called with each request to a nameserver before it is sent.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        hosts: Sequence[str] = ("0.0.0.0",),
        clock: Callable[[], int] = wall_clock_ms,
        hooks: Sequence[RequestHook] = (),
    ) -> None:
        self.config = config
        self._hooks = tuple(hooks)
        self.clock = clock
        self.flow_control = FlowControl(config)
        self.router: Router = FlowControlledRouter(self.flow_control)
        self._hosts = tuple(hosts)
        self._servers: list[Server] = []
        self._limits = ServerLimits()
        config.tls.read_own_file()
        self.tls = ServerTls.of(config.tls)
        self._housekeeping = PeriodicTasks()
        self._is_open = False

    # ---- Start and stop

    def open(self, port: int) -> None:
        """Open the store and create every part; clients reach this broker at `port`."""
        config, clock = self.config, self.clock
        config.listen_port = port
        self.host = (resolved(config.broker_ip1), port)
        levels = delay_levels_ms(config.message_delay_level)
        self.store = open_store(config, levels)
        config_dir = Path(config.store_path_root_dir) / "config"
        memory_bytes = _physical_memory() * config.access_message_in_memory_max_ratio // 100

        self.stats = BrokerStats(config.broker_cluster_name, clock)
        self.consumers = ConsumerClients()
        self.awaited_members = AwaitedMembers(
            self.consumers,
            clock,
            after_loss_ms=lambda: config.lost_member_grace_millis,
            after_start_ms=lambda: config.start_member_grace_millis,
            on_change=self._members_changed,
        )
        self.queue_notices = QueueNotices(self.consumers, self._notify_of_queues)
        self.topics = TopicTable(
            config, clock, self._topics_changed, self._queues_changed, self._topic_created
        )
        self.groups = GroupTable(
            auto_create=config.auto_create_subscription_group,
            clock=clock,
            on_change=self._groups_changed,
        )
        self.offsets = ConsumerOffsets(self._exists)
        self.producers = ProducerClients()
        self.filters = ConsumerFilters(
            BloomSize.of(
                config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter
            ),
            lambda: config.filter_data_clean_time_span,
            clock,
        )
        self.locks = QueueLocks(
            is_founded=self._queue_exists,
            is_member=lambda group, client_id: client_id in self.awaited_members.ids(group),
        )
        self.retention = Retention(config, self.store, self.stats, clock)
        self.held = HeldPulls(self.store.max_offset)
        self.putting = MessageWriter(
            self.store, self.stats, clock, levels, config.max_message_size, self.held
        )
        self.deduplication = Deduplication(config, self.store, config_dir, clock)
        self.delay = DelayService(self.store, levels, self.putting.put_as_is, clock)
        self.putting.on_scheduled = self.delay.arrived
        self.timers = TimerService(
            self.store,
            self.putting.put_as_is,
            clock,
            lambda: config.file_reserved_time * 3_600_000,
        )
        self.placing = TimedWriter(self.putting, self.timers, DeliveryTimePolicy(config, clock))
        self.acks = (
            FlushAcks(self.store, config.sync_flush_timeout, self.stats.put_times_ms)
            if config.flush_disk_type == "SYNC_FLUSH"
            else None
        )
        self.putting.counts_times = self.acks is None
        self.slow_consumers = SlowConsumers(
            config, self.store, self.groups, self.offsets, self.consumers
        )
        self.flow_control.unflushed = self.acks
        self.flow_control.call_soon = asyncio.get_running_loop().call_soon
        self.registration = Registrar(
            config,
            self.topics,
            lambda: f"{config.broker_ip1}:{config.listen_port}",
            self.queue_notices,
            any_host="brokerIP1" not in config.given,
            tls=own_connections_context(config.tls, use_tls=config.use_tls),
            hooks=self._hooks,
        )
        self.transaction_check = TransactionCheck(
            config, self.store, self.topics, self.offsets, self.producers, self.putting, clock
        )
        self.tables = TableFiles(
            config_dir,
            self.topics,
            self.groups,
            self.offsets,
            self.delay,
            self.filters,
            self.timers,
            self.awaited_members,
            self.store,
        )
        self.tables.load()
        self._fit_offsets()
        self.timers.find_near()
        self.transaction_check.fit_to_store()
        self.query_handlers = QueryHandlers(config, self.store)
        self.accounts = AccountFiles(config.rocketmq_home) if config.acl_enable else None
        self.access = self._make_access_control()
        self._make_handlers(memory_bytes)
        self._make_admin_handlers()
        if self.access is not None:
            self.router.guard(self.access.guard)
        self._is_open = True

    def _make_access_control(self) -> AccessControl | None:
        if self.accounts is None:
            return None
        if not self.config.acl_strict:
            _log.warning(MADE_ADMIN)
        access = AccessControl(
            self.accounts,
            BROKER_RULES,
            strict=self.config.acl_strict,
            message_at=self.query_handlers.message_at,
            is_system=self.topics.is_system,
        )
        self.transaction_check.may_be_asked = access.may_be_asked
        return access

    def _make_handlers(self, memory_bytes: int) -> None:
        config, store, access = self.config, self.store, self.access
        self.send_handlers = SendHandlers(
            config,
            self.topics,
            self.groups,
            self.putting,
            self.placing,
            self.host,
            self.acks,
            self.tables.topic_saver,
        )
        if access is not None and access.is_strict:
            self.send_handlers.half_owner = access.owner
        self.pull_handlers = PullHandlers(
            config,
            store,
            self.topics,
            self.groups,
            PullFilterResolver(config, self.consumers, self.filters),
            self.offsets,
            self.putting,
            self.stats,
            self.host,
            memory_bytes,
            self.held,
        )
        self.consumer_handlers = ConsumerHandlers(
            config,
            store,
            self.topics,
            self.groups,
            self.consumers,
            self.producers,
            self.filters,
            self.offsets,
            self.locks,
            self.awaited_members,
            self.tables.save_offsets,
            self.clock,
            memory_bytes,
        )
        if access is not None and access.is_strict:
            self.consumer_handlers.key_of = access.key_of
        self.pull_handlers.may_commit = self.consumer_handlers.may_commit
        send_back = SendBackHandlers(
            config,
            store,
            self.topics,
            self.groups,
            self.putting,
            self.stats,
            self.host,
            self.tables.topic_saver,
        )
        for family in (
            self.send_handlers,
            self.pull_handlers,
            self.consumer_handlers,
            send_back,
            SendOnceHandlers(
                self.send_handlers,
                self.putting,
                self.deduplication,
                access.owner if access is not None else nobody,
            ),
            ReplyHandlers(self.send_handlers, self.producers),
            self.query_handlers,
            BulkReadHandlers(config, store, self.topics, self.stats),
            TransactionHandlers(
                config,
                store,
                self.putting,
                self.placing,
                self.host,
                self.clock,
                self.acks,
                self.transaction_check,
            ),
        ):
            family.register(self.router)

    def _make_admin_handlers(self) -> None:
        config, store, clock = self.config, self.store, self.clock
        progress = ConsumeStats(
            config.broker_name, store, self.topics, self.offsets, self.consumers, self.stats
        )
        runtime_info = RuntimeInfo(
            config, store, self.stats, self.delay, progress, clock, self.acks
        )
        for family in (
            TopicAdminHandlers(
                config,
                store,
                self.topics,
                self.offsets,
                self.stats,
                self.tables.topic_saver,
                self.registration,
                progress,
            ),
            GroupAdminHandlers(config, self.groups, self.offsets, self.tables.group_saver),
            OffsetAdminHandlers(
                config,
                store,
                self.topics,
                self.groups,
                self.consumers,
                self.offsets,
                self.delay,
                progress,
                clock,
            ),
            ClientAdminHandlers(
                config, store, self.topics, self.consumers, self.producers, self.offsets
            ),
            ConfigAdminHandlers(config, runtime_info, clock, self._settings_changed),
            AccessAdminHandlers(
                config,
                self.accounts,
                None if self.accounts is None else AccountEditor(self.accounts, clock),
            ),
            StatsAdminHandlers(self.stats),
            StoreAdminHandlers(store, self.consumers, self.offsets, self.retention),
        ):
            family.register(self.router)

    async def start(self) -> None:
        """Listen, open the store, and start delivery, cleaning, counters and registration."""
        if self._hosts:
            await self._listen()
        config, every, tables = self.config, self._housekeeping.every, self.tables
        self.delay.start()
        self.timers.start()
        every(1000, self.stats.sample)
        every(PERIOD_MS, self.slow_consumers.round)
        every(config.flush_consumer_offset_interval, tables.save_offsets, first_after_ms=10_000)
        every(config.flush_delay_offset_interval, tables.save_delay_offsets)
        every(FILTER_SAVE_MS, tables.save_filters)
        every(TIMER_SAVE_MS, tables.save_timers)
        every(config.clean_resource_interval, self._clean, first_after_ms=1000)
        every(config.deduplication_snapshot_interval, self.deduplication.save)
        every(CLIENT_SCAN_MS, self._drop_silent_clients)
        every(AWAITED_SCAN_MS, self.consumer_handlers.give_up_awaited)
        every(CLIENT_SCAN_MS, lambda: self.locks.drop_expired(self.clock()))
        if self.accounts is not None:
            every(int(RELOAD_S * 1000), self.accounts.reload)
        if config.broker_role != "SLAVE":
            every(config.transaction_check_interval, self.transaction_check.round)
        if config.registers:
            await self.registration.start()

    async def _listen(self) -> None:
        wanted = port = self.config.listen_port
        server = self._make_server(self.router)
        for host in self._hosts:
            port = await server.listen(host, port)
        self.open(port)
        if wanted > VIP_DISTANCE:
            await self._listen_on_fast_port(port - VIP_DISTANCE)

    async def _listen_on_fast_port(self, port: int) -> None:
        """Listen on the second port, which serves everything but pulls."""
        router = Router(fallback=self.router.fallback)
        router.merge(self.router, without=[RequestCode.PULL_MESSAGE])
        server = self._make_server(router)
        try:
            for host in self._hosts:
                await server.listen(host, port)
        except OSError as error:
            _log.warning("cannot listen on the fast port %d, going on without it: %s", port, error)

    def _make_server(self, router: Router) -> Server:
        idle_s = self.config.server_channel_max_idle_time_seconds
        server = Server(
            router,
            max_idle_s=idle_s,
            on_close=self.connection_closed,
            tls=self.tls,
            limits=self._limits,
        )
        self._servers.append(server)
        return server

    async def stop(self) -> None:
        """Unregister from the nameservers, answer waiting sends, and write everything to disk."""
        if not self._is_open:
            for server in self._servers:
                await server.close()
            return
        self._is_open = False
        await self._housekeeping.stop()
        self.delay.stop()
        self.timers.stop()
        try:
            for last in (self._stop_serving, self.tables.save_all, self.deduplication.save):
                try:
                    await last()
                except FAILURES:
                    _log.exception("step %s of the shutdown failed, going on", last.__name__)
        finally:
            await asyncio.to_thread(self.store.close)

    async def _stop_serving(self) -> None:
        await self.registration.stop()
        self.queue_notices.close()
        self.held.close()
        for server in self._servers:
            await server.close()
        if self.acks is not None:
            self.acks.close()

    def close_with(self, server: Server) -> None:
        """Close `server`, which another part created, when this broker stops."""
        self._servers.append(server)

    # ---- Checks of existence

    def _exists(self, topic: str, group: str, queue_id: int) -> bool:
        config = self.topics.find(topic)
        if config is None:
            return topic in KEPT_WITHOUT_CONFIG and group in self.groups.groups
        queues = max(config.read_queue_nums, config.write_queue_nums)
        return 0 <= queue_id < queues and group in self.groups.groups

    def _queue_exists(self, group: str, queue: MessageQueue) -> bool:
        is_here = queue.broker_name == self.config.broker_name
        return is_here and self._exists(queue.topic, group, queue.queue_id)

    def _fit_offsets(self) -> None:
        """Make the offsets of groups agree with the store; a slave keeps those of its master."""
        if self.config.broker_role == "SLAVE":
            return
        stored = {topic for topic, _ in self.store.queues()}
        self.offsets.drop_unfounded(lambda topic: topic in stored or topic in self.topics.topics)
        self.offsets.fit(self.store.max_offset)

    # ---- Connections and periodic work

    def connection_closed(self, connection: Connection) -> None:
        """Drop the held pulls and the group memberships of a closed connection."""
        if self._is_open:
            self.held.forget(connection)
            self.consumer_handlers.connection_closed(connection)

    def _drop_silent_clients(self) -> None:
        before_ms = self.clock() - EXPIRY_MS
        silent = self.consumers.silent_since(before_ms) | self.producers.silent_since(before_ms)
        for connection in silent:
            _log.warning("closing client %s: no heartbeat for 2 minutes", connection.remote_text)
            self.consumer_handlers.connection_closed(connection)
            connection.close()

    async def _clean(self) -> None:
        # Deleting a file of a gigabyte would block the event loop.
        await in_thread(self.retention.run)

    # ---- Reactions to changes

    def _topics_changed(self, announce: bool) -> None:
        self.tables.topic_saver.changed()
        if announce and self._is_open and self.config.nameservers:
            self.registration.soon()

    def _queues_changed(self, topic: str) -> None:
        if self.topics.find(topic) is None:
            self.stats.lags.forget_topic(topic)
        if self._is_open and self.config.nameservers:
            self.queue_notices.changed(topic)

    def _notify_of_queues(self, group: str, topic: str) -> None:
        self.consumer_handlers.queues_changed(group, topic)

    def _topic_created(self, topic: TopicConfig) -> None:
        """Lower the offsets of an earlier topic of this name to the ends of the new queues."""
        if self.config.broker_role != "SLAVE":
            self.offsets.fit(self.store.max_offset, topic.topic_name)

    def _groups_changed(self) -> None:
        self.tables.group_saver.changed()

    def _members_changed(self) -> None:
        self.tables.member_saver.changed()

    def _settings_changed(self, keys: list[str]) -> None:
        self.groups.auto_create = self.config.auto_create_subscription_group
        if "brokerPermission" in keys:
            self.topics.touch()
        if "maxMessageSize" in keys and self.config.max_message_size >= LEAST_MESSAGE_LIMIT:
            self.store.limit_bodies(self.config.max_message_size)
            self.putting.max_message_size = self.config.max_message_size
        if "fileReservedTime" in keys:
            self.timers.reserved_time_changed()


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
