"""Settings of the broker, including those of its store and its connections."""

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
"""Keys that only nameservers have; they are valid here, because both may share a file."""
_CPUS = os.cpu_count() or 1
_SEND_THREADS = min(_CPUS, 4)
TOO_LONG: Final = "Milliseconds after which {} is rejected (`brokerFastFailureEnable`)."
NO_QUEUE: Final = idle("requests wait unread in their sockets, not in a queue")
SHOWN_ONLY: Final = idle("requests wait unread in their sockets; `brokerStatus` shows the number")


class BrokerConfig(StoreSettings, ServerSettings, ConnectionSettings):
    """Settings of a broker."""

    # Identity and addresses
    rocketmq_home: str | None = fixed(
        says="Directory whose `conf/` contains the ACL accounts (`aclEnable`).",
        factory=lambda: os.environ.get("ROCKETMQ_HOME"),
        otherwise="`$ROCKETMQ_HOME`",
    )
    namesrv_addr: str | None = fixed(
        says="Nameservers to register with, host:port;host:port.",
        factory=lambda: os.environ.get("NAMESRV_ADDR"),
        otherwise="`$NAMESRV_ADDR`",
        important=True,
    )
    listen_port: int = fixed(10_911, "Port to listen on; the fast port is this number minus 2.")
    broker_ip1: str = fixed(
        says="Address that is sent to clients and stored in messages.",
        factory=local_address,
        otherwise="found out",
        key="brokerIP1",
        important=True,
    )
    broker_ip2: str = fixed(
        says="Address for replication that is sent to nameservers.",
        factory=local_address,
        otherwise="found out",
        key="brokerIP2",
    )
    broker_name: str = fixed(
        says="Name of the broker in routes and message queues.",
        factory=lambda: socket.gethostname() or "DEFAULT_BROKER",
        otherwise="the machine's name",
        important=True,
    )
    broker_cluster_name: str = fixed(
        "DefaultCluster", "Name of the broker's cluster.", important=True
    )
    broker_id: int = fixed(
        0,
        "Id sent to nameservers; always 0, a master, because there is no replication yet.",
        long=True,
        important=True,
    )
    region_id: str = live("DefaultRegion", "Region in every stored message and every response.")

    # Topics and groups
    broker_permission: int = live(6, "Permission of clients: read (4), write (2) or both (6).")
    default_topic_queue_nums: int = live(
        8, "Number of queues of a topic that is created by a send.", read_at_start=True
    )
    auto_create_topic_enable: bool = live(
        True, "A send to an unknown topic creates the topic.", important=True
    )
    auto_create_subscription_group: bool = live(
        True,
        "An unknown consumer group is created at its first use.",
        important=True,
    )
    cluster_topic_enable: bool = live(
        True, "Clients may use the topic with the cluster's name.", read_at_start=True
    )
    broker_topic_enable: bool = live(
        True, "Clients may use the topic with the broker's name.", read_at_start=True
    )
    trace_topic_enable: bool = live(
        False,
        "Creates the topic for message traces of clients.",
        read_at_start=True,
        important=True,
    )
    msg_trace_topic_name: str = fixed(
        "RMQ_SYS_TRACE_TOPIC", "Name of the topic for message traces.", important=True
    )
    trace_on: bool = live(True, "Responses to sends set TRACE_ON, so that clients write traces.")
    store_reply_message_enable: bool = live(
        True, "Reply messages are stored before they are forwarded to the requester."
    )

    # Pulling and consuming
    long_polling_enable: bool = live(
        True, "A pull without messages waits for the time in its request."
    )
    short_polling_time_mills: int = live(
        1000, "Milliseconds that a pull waits if `longPollingEnable` is false.", long=True
    )
    notify_consumer_ids_changed_enable: bool = live(
        True, "Members of a group are notified when a member joins or leaves."
    )
    lost_member_grace_millis: int = live(
        5000,
        "OrbitMQ's own: milliseconds for which a member whose connection was lost still counts as "
        "a member of its group, so that it can reconnect before others take over its queues.",
    )
    start_member_grace_millis: int = live(
        35_000,
        "OrbitMQ's own: the same time after a start of the broker, for the members before it. "
        "Java's clients send a heartbeat twice a minute.",
        read_at_start=True,
    )
    slave_read_enable: bool = live(
        False, "Responses to pulls that are far behind suggest a slave, if there is one."
    )
    disable_consume_if_consumer_read_slowly: bool = live(
        False,
        "Every three minutes, groups that are farther behind than `consumerFallbehindThreshold` "
        "in a queue are blocked from consuming, until `updateSubGroup -s true` allows it again.",
    )
    consumer_fallbehind_threshold: int = live(
        16 << 30, "Bytes of the commit log that count as far behind.", long=True
    )
    transfer_msg_by_heap: bool = live(
        True, idle("answers are always read into memory and sent from there")
    )
    flush_consumer_offset_interval: int = live(
        5000, "Milliseconds between writes of consumer offsets.", read_at_start=True
    )
    flush_consumer_offset_history_interval: int = live(60_000, NOT_IN_JAVA)

    # Filters
    enable_property_filter: bool = live(False, "Consumers may use SQL92 filters.")
    filter_support_retry: bool = live(False, "SQL92 filters are also applied to retries.")
    enable_calc_filter_bit_map: bool = fixed(
        False,
        warned(
            "filters are asked when a message is pulled, not when it is stored; they find the "
            "same ones"
        ),
    )
    expect_consumer_num_use_filter: int = fixed(
        32, "Number of consumers that the Bloom filters in `consumerFilter.json` are sized for."
    )
    max_error_rate_of_bloom_filter: int = fixed(
        20, "Error rate that these Bloom filters are sized for, in percent."
    )
    filter_data_clean_time_span: int = live(
        86_400_000, "Milliseconds after which an unused filter is deleted.", long=True
    )
    filter_server_nums: int = fixed(
        0, warned("no filter servers are started; 4.9.7 has none either. Filter by tags or SQL92")
    )

    # Transactions
    reject_transaction_message: bool = live(
        False, "Half messages of transactions are rejected.", important=True
    )
    transaction_time_out: int = live(
        6000,
        "Milliseconds before the first check of a half message.",
        long=True,
        important=True,
    )
    transaction_check_max: int = live(
        15, "Number of checks after which a half message is discarded.", important=True
    )
    transaction_check_interval: int = live(
        60_000,
        "Milliseconds between two rounds of transaction checks.",
        long=True,
        read_at_start=True,
        important=True,
    )

    # Registration
    register_broker_timeout_mills: int = live(
        6000, "Milliseconds that the broker waits for a nameserver's response."
    )
    register_name_server_period: int = live(
        30_000, "Milliseconds between two registrations, from 10 000 to 60 000."
    )
    force_register: bool = live(
        True,
        "With false, the broker first requests the version of its topics from the nameservers, and "
        "sends all topics only if a nameserver does not have the newest version.",
    )
    compressed_register: bool = live(
        False,
        "Registrations are compressed; they omit the order and the flags of topics, as in 4.9.7.",
    )
    fetch_namesrv_addr_by_address_server: bool = fixed(
        False,
        "Without `namesrvAddr`: the nameservers' addresses are requested from an address server, "
        "at start and every two minutes.",
        important=True,
    )
    rmq_address_server_domain: str | None = fixed(
        None, "Address server, host or host:port.", otherwise="`jmenv.tbsite.net`"
    )
    rmq_address_server_sub_group: str | None = fixed(
        None, "Name of the list at the address server.", otherwise="`nsaddr`"
    )

    # Flow control
    broker_fast_failure_enable: bool = live(
        True, "Requests that have waited too long are rejected with SYSTEM_BUSY."
    )
    wait_time_mills_in_send_queue: int = live(200, TOO_LONG.format("a waiting send"), long=True)
    wait_time_mills_in_pull_queue: int = live(5000, TOO_LONG.format("a waiting pull"), long=True)
    wait_time_mills_in_heartbeat_queue: int = live(
        31_000, TOO_LONG.format("a waiting heartbeat"), long=True
    )
    wait_time_mills_in_transaction_queue: int = live(
        3000, TOO_LONG.format("a waiting end of a transaction"), long=True
    )
    start_accept_send_request_time_stamp: int = live(
        0, "Time before which sends are rejected, in epoch milliseconds.", long=True
    )
    send_thread_pool_queue_capacity: int = live(
        10_000,
        "Largest number of sends that wait for the disk under SYNC_FLUSH; more are rejected.",
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
        False, "Requests must be signed by an ACL account (`plain_acl.yml`).", important=True
    )
    acl_strict: bool = fixed(
        False,
        "OrbitMQ's own: checks rights that 4.9.7 does not check (docs/security.md).",
    )
    enable_detail_stat: bool = live(True, idle("sends and pulls are not counted by queue"))
    auto_delete_unused_stats: bool = live(False, "Deleting a topic also deletes its counters.")
    isolate_log_enable: bool = fixed(
        False, "`mqbroker` logs to a directory with the broker's name below `rocketmqlogs`."
    )

    # Accepted for compatibility and reported by getBrokerConfig, but without effect here
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
    commercial_base_count: int = live(1, idle("there is no billing by message"))
    max_delay_time: int = live(40, NOT_IN_JAVA)

    found_nameservers: list[str] = dataclasses.field(default_factory=list, init=False, repr=False)
    """Addresses of nameservers from the address server."""

    def _elsewhere(self) -> Set[str]:
        """Return RocketMQ's keys that brokers of OrbitMQ lack, including those of nameservers."""
        return super()._elsewhere() | NAMESERVER_KEYS

    @property
    def nameservers(self) -> list[str]:
        """The addresses to register with."""
        given = [part.strip() for part in (self.namesrv_addr or "").split(";") if part.strip()]
        return given or self.found_nameservers

    @property
    def asks_address_server(self) -> bool:
        """True if the nameservers' addresses come from an address server."""
        return self.fetch_namesrv_addr_by_address_server and not self.namesrv_addr

    @property
    def registers(self) -> bool:
        """True if nameservers are configured or come from an address server."""
        return bool(self.nameservers) or self.asks_address_server

    @property
    def address(self) -> str:
        """Address of this broker for clients."""
        return f"{self.broker_ip1}:{self.listen_port}"

    @property
    def ha_address(self) -> str:
        """Address from which slaves replicate."""
        return f"{self.broker_ip2}:{self.listen_port + 1}"

    def settle(self) -> None:
        """Set the values that depend on other settings; raise `ConfigError` for invalid ones.

        To be called once, after file and command line have been read.
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
