"""Settings of the broker: its own, the store's, and those of its connections."""

from __future__ import annotations

import os
import socket
from typing import ClassVar

from orbitmq.config.address import local_address
from orbitmq.config.network import ClientSettings, ServerSettings
from orbitmq.config.settings import fixed, live
from orbitmq.config.store import StoreSettings, delay_levels_ms
from orbitmq.errors import ConfigError

__all__ = ["BrokerConfig"]

_CPUS = os.cpu_count() or 1
_SEND_THREADS = min(_CPUS, 4)


class BrokerConfig(StoreSettings, ServerSettings, ClientSettings):
    """What a broker is started with."""

    also_known: ClassVar[frozenset[str]] = frozenset(
        {"rmqAddressServerDomain", "rmqAddressServerSubGroup"}
    )

    # Who and where it is
    rocketmq_home: str | None = fixed(factory=lambda: os.environ.get("ROCKETMQ_HOME"))
    namesrv_addr: str | None = fixed(factory=lambda: os.environ.get("NAMESRV_ADDR"))
    listen_port: int = fixed(10_911)
    broker_ip1: str = fixed(factory=local_address, key="brokerIP1")
    broker_ip2: str = fixed(factory=local_address, key="brokerIP2")
    broker_name: str = fixed(factory=lambda: socket.gethostname() or "DEFAULT_BROKER")
    broker_cluster_name: str = fixed("DefaultCluster")
    broker_id: int = fixed(0, long=True)
    region_id: str = live("DefaultRegion")

    # Topics and groups
    broker_permission: int = live(6)
    default_topic_queue_nums: int = live(8)
    auto_create_topic_enable: bool = live(True)
    auto_create_subscription_group: bool = live(True)
    cluster_topic_enable: bool = live(True)
    broker_topic_enable: bool = live(True)
    trace_topic_enable: bool = live(False)
    msg_trace_topic_name: str = fixed("RMQ_SYS_TRACE_TOPIC")
    trace_on: bool = live(True)
    store_reply_message_enable: bool = live(True)

    # Pulling and consuming
    long_polling_enable: bool = live(True)
    short_polling_time_mills: int = live(1000, long=True)
    notify_consumer_ids_changed_enable: bool = live(True)
    slave_read_enable: bool = live(False)
    disable_consume_if_consumer_read_slowly: bool = live(False)
    consumer_fallbehind_threshold: int = live(16 << 30, long=True)
    transfer_msg_by_heap: bool = live(True)
    flush_consumer_offset_interval: int = live(5000)
    flush_consumer_offset_history_interval: int = live(60_000)

    # Filters
    enable_property_filter: bool = live(False)
    filter_support_retry: bool = live(False)
    enable_calc_filter_bit_map: bool = fixed(False)
    expect_consumer_num_use_filter: int = fixed(32)
    max_error_rate_of_bloom_filter: int = fixed(20)
    filter_data_clean_time_span: int = live(86_400_000, long=True)
    filter_server_nums: int = fixed(0)

    # Transactions
    reject_transaction_message: bool = live(False)
    transaction_time_out: int = live(6000, long=True)
    transaction_check_max: int = live(15)
    transaction_check_interval: int = live(60_000, long=True)

    # Registration
    register_broker_timeout_mills: int = live(6000)
    register_name_server_period: int = live(30_000)
    force_register: bool = live(True)
    compressed_register: bool = live(False)
    fetch_namesrv_addr_by_address_server: bool = fixed(False)

    # Flow control
    broker_fast_failure_enable: bool = live(True)
    wait_time_mills_in_send_queue: int = live(200, long=True)
    wait_time_mills_in_pull_queue: int = live(5000, long=True)
    wait_time_mills_in_heartbeat_queue: int = live(31_000, long=True)
    wait_time_mills_in_transaction_queue: int = live(3000, long=True)
    start_accept_send_request_time_stamp: int = live(0, long=True)
    send_thread_pool_queue_capacity: int = live(10_000)
    put_thread_pool_queue_capacity: int = live(10_000)
    pull_thread_pool_queue_capacity: int = live(100_000)
    reply_thread_pool_queue_capacity: int = live(10_000)
    query_thread_pool_queue_capacity: int = live(20_000)
    client_manager_thread_pool_queue_capacity: int = live(1_000_000)
    consumer_manager_thread_pool_queue_capacity: int = live(1_000_000)
    heartbeat_thread_pool_queue_capacity: int = live(50_000)
    end_transaction_pool_queue_capacity: int = live(100_000)

    # Safety and statistics
    acl_enable: bool = fixed(False)
    acl_strict: bool = fixed(False)
    """OrbitMQ's own: closes what 4.9.7 leaves open (see `orbitmq.remoting.access.rules`)."""
    enable_detail_stat: bool = live(True)
    auto_delete_unused_stats: bool = live(False)
    isolate_log_enable: bool = fixed(False)

    # Threads of a broker that is not built like this one, and what never had an effect in 4.9:
    # kept and shown.
    send_message_thread_pool_nums: int = live(_SEND_THREADS)
    put_message_future_thread_pool_nums: int = live(_SEND_THREADS)
    pull_message_thread_pool_nums: int = live(16 + 2 * _CPUS)
    process_reply_message_thread_pool_nums: int = live(16 + 2 * _CPUS)
    query_message_thread_pool_nums: int = live(8 + _CPUS)
    admin_broker_thread_pool_nums: int = live(16)
    client_manage_thread_pool_nums: int = live(32)
    consumer_manage_thread_pool_nums: int = live(32)
    heartbeat_thread_pool_nums: int = live(min(32, _CPUS))
    end_transaction_thread_pool_nums: int = live(max(8 + 2 * _CPUS, 4 * _SEND_THREADS))
    message_store_plug_in: str = fixed("")
    high_speed_mode: bool = live(False)
    commercial_enable: bool = live(True)
    commercial_timer_count: int = live(1)
    commercial_trans_count: int = live(1)
    commercial_big_count: int = live(1)
    commercial_base_count: int = live(1)
    max_delay_time: int = live(40)

    @property
    def nameservers(self) -> list[str]:
        """The addresses to register with."""
        return [part.strip() for part in (self.namesrv_addr or "").split(";") if part.strip()]

    @property
    def address(self) -> str:
        """The address this broker is known by."""
        return f"{self.broker_ip1}:{self.listen_port}"

    @property
    def ha_address(self) -> str:
        """The address its slaves replicate from."""
        return f"{self.broker_ip2}:{self.ha_listen_port}"

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
