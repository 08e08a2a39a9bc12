"""Settings of the broker: its own, the store's, and those of its connections."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Set
from typing import Final

from orbitmq.config.address import local_address
from orbitmq.config.network import ONE_LOOP, ConnectionSettings, ServerSettings
from orbitmq.config.settings import fixed, idle, live, refused, warned
from orbitmq.config.store import NOT_IN_JAVA, StoreSettings, delay_levels_ms
from orbitmq.errors import ConfigError

__all__ = ["BrokerConfig"]

NAMESERVER_KEYS: Final = frozenset(
    {"kvConfigPath", "configStorePath", "productEnvName", "clusterTest", "orderMessageEnable"}
)
"""The keys that only nameservers have; one file for both is no slip."""
_CPUS = os.cpu_count() or 1
_SEND_THREADS = min(_CPUS, 4)
TOO_LONG: Final = "Milliseconds after which {} has waited too long (`brokerFastFailureEnable`)."
NO_QUEUE: Final = idle("requests wait unread in their sockets, not in a queue")
SHOWN_ONLY: Final = idle("requests wait unread in their sockets; `brokerStatus` shows the number")


class BrokerConfig(StoreSettings, ServerSettings, ConnectionSettings):
    """What a broker is started with."""

    # Who and where it is
    rocketmq_home: str | None = fixed(
        says="The directory whose `conf/` holds the accounts of `aclEnable`.",
        factory=lambda: os.environ.get("ROCKETMQ_HOME"),
        otherwise="`$ROCKETMQ_HOME`",
    )
    namesrv_addr: str | None = fixed(
        says="The nameservers to register with, host:port;host:port.",
        factory=lambda: os.environ.get("NAMESRV_ADDR"),
        otherwise="`$NAMESRV_ADDR`",
        important=True,
    )
    listen_port: int = fixed(10_911, "The port to listen on; the fast one is two below.")
    broker_ip1: str = fixed(
        says="The address that clients are told and messages are stored with.",
        factory=local_address,
        otherwise="found out",
        key="brokerIP1",
        important=True,
    )
    broker_ip2: str = fixed(
        says="The address that nameservers are told for replication.",
        factory=local_address,
        otherwise="found out",
        key="brokerIP2",
    )
    broker_name: str = fixed(
        says="The name that routes and message queues carry.",
        factory=lambda: socket.gethostname() or "DEFAULT_BROKER",
        otherwise="the machine's name",
        important=True,
    )
    broker_cluster_name: str = fixed(
        "DefaultCluster", "The cluster that this broker belongs to.", important=True
    )
    broker_id: int = fixed(
        0,
        "Told to nameservers; a master has 0, and every broker here is one.",
        long=True,
        important=True,
    )
    region_id: str = live("DefaultRegion", "A property of every message, and of every answer.")

    # Topics and groups
    broker_permission: int = live(6, "Permits clients to read (4), to write (2), or both.")
    default_topic_queue_nums: int = live(
        8, "Queues of a topic that is created by sending to it.", read_at_start=True
    )
    auto_create_topic_enable: bool = live(
        True, "Sending to an unknown topic creates it.", important=True
    )
    auto_create_subscription_group: bool = live(
        True, "An unknown consumer group is created when it comes.", important=True
    )
    cluster_topic_enable: bool = live(
        True, "The topic named after the cluster may be used.", read_at_start=True
    )
    broker_topic_enable: bool = live(
        True, "The topic named after the broker may be used.", read_at_start=True
    )
    trace_topic_enable: bool = live(
        False,
        "Creates the topic that clients trace messages to.",
        read_at_start=True,
        important=True,
    )
    msg_trace_topic_name: str = fixed(
        "RMQ_SYS_TRACE_TOPIC", "The name of that topic.", important=True
    )
    trace_on: bool = live(True, "Answers to sends say whether clients shall trace.")
    store_reply_message_enable: bool = live(True, "Replies are stored before they are handed on.")

    # Pulling and consuming
    long_polling_enable: bool = live(True, "Pulls that find nothing wait as long as they ask to.")
    short_polling_time_mills: int = live(
        1000, "Without `longPollingEnable`: milliseconds that a pull waits.", long=True
    )
    notify_consumer_ids_changed_enable: bool = live(
        True, "Members of a group are told when one comes or goes."
    )
    lost_member_grace_millis: int = live(
        5000,
        "OrbitMQ's own: milliseconds for which a member of a group whose connection was lost still "
        "counts as a member, so that nobody takes its queues over before it can come back.",
    )
    start_member_grace_millis: int = live(
        35_000,
        "OrbitMQ's own: the same after a start of the broker, for the members it had before. "
        "Java's clients announce themselves twice a minute.",
        read_at_start=True,
    )
    slave_read_enable: bool = live(
        False, "Pulls that are far behind are told to ask a slave, if there is one."
    )
    disable_consume_if_consumer_read_slowly: bool = live(
        False,
        "Every three minutes, a group that is farther behind than `consumerFallbehindThreshold` "
        "in a queue may no longer consume, until `updateSubGroup -s true` allows it again.",
    )
    consumer_fallbehind_threshold: int = live(
        16 << 30, "Bytes of the log that count as far behind.", long=True
    )
    transfer_msg_by_heap: bool = live(
        True, idle("answers are always read into memory and sent from there")
    )
    flush_consumer_offset_interval: int = live(
        5000, "Milliseconds between writes of consumer offsets.", read_at_start=True
    )
    flush_consumer_offset_history_interval: int = live(60_000, NOT_IN_JAVA)

    # Filters
    enable_property_filter: bool = live(False, "Consumers may filter by SQL92.")
    filter_support_retry: bool = live(False, "Retries are filtered by SQL92, too.")
    enable_calc_filter_bit_map: bool = fixed(
        False,
        warned(
            "filters are asked when a message is pulled, not when it is stored; they find the "
            "same ones"
        ),
    )
    expect_consumer_num_use_filter: int = fixed(
        32, "Sizes the Bloom filters in `consumerFilter.json`, for Java to read."
    )
    max_error_rate_of_bloom_filter: int = fixed(
        20, "Sizes the Bloom filters in `consumerFilter.json`, in percent."
    )
    filter_data_clean_time_span: int = live(
        86_400_000, "Milliseconds after which an unused filter is forgotten.", long=True
    )
    filter_server_nums: int = fixed(
        0, warned("no filter servers are started; 4.9.7 has none either. Filter by tags or SQL92")
    )

    # Transactions
    reject_transaction_message: bool = live(
        False, "Refuses the messages of transactions.", important=True
    )
    transaction_time_out: int = live(
        6000, "Milliseconds before a half message is asked about.", long=True, important=True
    )
    transaction_check_max: int = live(
        15, "Questions after which a half message is given up.", important=True
    )
    transaction_check_interval: int = live(
        60_000,
        "Milliseconds between rounds of questions.",
        long=True,
        read_at_start=True,
        important=True,
    )

    # Registration
    register_broker_timeout_mills: int = live(
        6000, "Milliseconds that a nameserver has for its answer."
    )
    register_name_server_period: int = live(
        30_000, "Milliseconds between registrations, from 10 000 to 60 000."
    )
    force_register: bool = live(
        True,
        "With false, nameservers are first asked which version of the topics they know, and are "
        "sent all topics only if one does not know the newest.",
    )
    compressed_register: bool = live(
        False, "Registrations are compressed; a topic's order and flags are left out, as in 4.9.7."
    )
    fetch_namesrv_addr_by_address_server: bool = fixed(
        False,
        "Without `namesrvAddr`: an address server is asked for the nameservers, at start and every "
        "two minutes.",
        important=True,
    )
    rmq_address_server_domain: str | None = fixed(
        None, "The address server, host or host:port.", otherwise="`jmenv.tbsite.net`"
    )
    rmq_address_server_sub_group: str | None = fixed(
        None, "The address server's list to take.", otherwise="`nsaddr`"
    )

    # Flow control
    broker_fast_failure_enable: bool = live(
        True, "A request that has waited too long is answered SYSTEM_BUSY."
    )
    wait_time_mills_in_send_queue: int = live(200, TOO_LONG.format("a send"), long=True)
    wait_time_mills_in_pull_queue: int = live(5000, TOO_LONG.format("a pull"), long=True)
    wait_time_mills_in_heartbeat_queue: int = live(
        31_000, TOO_LONG.format("a heartbeat"), long=True
    )
    wait_time_mills_in_transaction_queue: int = live(
        3000, TOO_LONG.format("the end of a transaction"), long=True
    )
    start_accept_send_request_time_stamp: int = live(
        0, "Sends are refused before this moment, in epoch milliseconds.", long=True
    )
    send_thread_pool_queue_capacity: int = live(
        10_000, "Under SYNC_FLUSH: sends that may wait for the disk; more are refused."
    )
    put_thread_pool_queue_capacity: int = live(10_000, NO_QUEUE)
    pull_thread_pool_queue_capacity: int = live(100_000, SHOWN_ONLY)
    reply_thread_pool_queue_capacity: int = live(10_000, NO_QUEUE)
    query_thread_pool_queue_capacity: int = live(20_000, SHOWN_ONLY)
    client_manager_thread_pool_queue_capacity: int = live(1_000_000, NO_QUEUE)
    consumer_manager_thread_pool_queue_capacity: int = live(1_000_000, NO_QUEUE)
    heartbeat_thread_pool_queue_capacity: int = live(50_000, NO_QUEUE)
    end_transaction_pool_queue_capacity: int = live(100_000, SHOWN_ONLY)

    # Safety and statistics
    acl_enable: bool = fixed(
        False, "Requests must be signed by an account of `plain_acl.yml`.", important=True
    )
    acl_strict: bool = fixed(
        False,
        "OrbitMQ's own: closes what 4.9.7 leaves open to every account (docs/security.md).",
    )
    enable_detail_stat: bool = live(True, idle("sends and pulls are not counted by queue"))
    auto_delete_unused_stats: bool = live(False, "The counters of a topic go when it is deleted.")
    isolate_log_enable: bool = fixed(
        False, "`mqbroker` logs to a directory named after the broker, below `rocketmqlogs`."
    )

    # Threads of a broker that is not built like this one, and what never had an effect in 4.9
    send_message_thread_pool_nums: int = live(
        _SEND_THREADS, ONE_LOOP, otherwise="processors, at most 4"
    )
    put_message_future_thread_pool_nums: int = live(
        _SEND_THREADS, ONE_LOOP, otherwise="processors, at most 4"
    )
    pull_message_thread_pool_nums: int = live(
        16 + 2 * _CPUS, ONE_LOOP, otherwise="16 + 2 per processor"
    )
    process_reply_message_thread_pool_nums: int = live(
        16 + 2 * _CPUS, ONE_LOOP, otherwise="16 + 2 per processor"
    )
    query_message_thread_pool_nums: int = live(8 + _CPUS, ONE_LOOP, otherwise="8 + 1 per processor")
    admin_broker_thread_pool_nums: int = live(16, ONE_LOOP)
    client_manage_thread_pool_nums: int = live(32, ONE_LOOP)
    consumer_manage_thread_pool_nums: int = live(32, ONE_LOOP)
    heartbeat_thread_pool_nums: int = live(
        min(32, _CPUS), ONE_LOOP, otherwise="processors, at most 32"
    )
    end_transaction_thread_pool_nums: int = live(
        max(8 + 2 * _CPUS, 4 * _SEND_THREADS), ONE_LOOP, otherwise="8 + 2 per processor, or more"
    )
    message_store_plug_in: str = fixed(
        "",
        refused(
            "a Java class cannot be loaded here, and messages would not go through it; leave the "
            "setting out, or run Apache RocketMQ"
        ),
    )
    high_speed_mode: bool = live(False, NOT_IN_JAVA)
    commercial_enable: bool = live(True, NOT_IN_JAVA)
    commercial_timer_count: int = live(1, NOT_IN_JAVA)
    commercial_trans_count: int = live(1, NOT_IN_JAVA)
    commercial_big_count: int = live(1, NOT_IN_JAVA)
    commercial_base_count: int = live(1, idle("nobody is billed by the message"))
    max_delay_time: int = live(40, NOT_IN_JAVA)

    found_nameservers: list[str] = dataclasses.field(default_factory=list, init=False, repr=False)
    """Addresses of nameservers that an address server has named."""

    def _elsewhere(self) -> Set[str]:
        """Return RocketMQ's keys that are not ours, those of nameservers among them."""
        return super()._elsewhere() | NAMESERVER_KEYS

    @property
    def nameservers(self) -> list[str]:
        """The addresses to register with."""
        given = [part.strip() for part in (self.namesrv_addr or "").split(";") if part.strip()]
        return given or self.found_nameservers

    @property
    def asks_address_server(self) -> bool:
        """True when an address server is asked for the nameservers."""
        return self.fetch_namesrv_addr_by_address_server and not self.namesrv_addr

    @property
    def registers(self) -> bool:
        """True when there are nameservers to register with, or somebody who names them."""
        return bool(self.nameservers) or self.asks_address_server

    @property
    def address(self) -> str:
        """The address this broker is known by."""
        return f"{self.broker_ip1}:{self.listen_port}"

    @property
    def ha_address(self) -> str:
        """The address its slaves replicate from."""
        return f"{self.broker_ip2}:{self.listen_port + 1}"

    def settle(self) -> None:
        """Make what depends on other settings follow them; refuse what cannot be started.

        To be called once, when file and command line have been read.
        """
        if self.enable_d_leger_commit_log:
            self.broker_id = -1
        elif self.broker_role != "SLAVE":
            self.broker_id = 0
        elif self.broker_id <= 0:
            raise ConfigError("Slave's brokerId must be > 0")
        if not 0 <= self.listen_port <= 65_535:
            raise ConfigError(f"listenPort={self.listen_port} is not a port")
        self.ha_listen_port = self.listen_port + 1
        for address in self.nameservers:
            host, _, port = address.rpartition(":")
            if not host or not port.isdigit():
                raise ConfigError(
                    f"The Name Server Address[{self.namesrv_addr}] illegal, please set it as "
                    'follows, "127.0.0.1:9876;192.168.0.1:9876"'
                )
        delay_levels_ms(self.message_delay_level)
