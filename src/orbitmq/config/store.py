"""Settings of the message store, and how its delay levels are read."""

from __future__ import annotations

import re
from pathlib import Path

from orbitmq.config.settings import Settings, fixed, live
from orbitmq.errors import ConfigError

__all__ = ["DEFAULT_DELAY_LEVELS", "StoreSettings", "delay_levels_ms"]

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DELAY = re.compile(r"([+-]?[0-9]+)([smhd])")


def delay_levels_ms(text: str) -> list[int]:
    """Read ``messageDelayLevel``: numbers with a unit, one blank between them. Level 1 is first."""
    levels = []
    for item in text.rstrip(" ").split(" "):
        match = _DELAY.fullmatch(item)
        if match is None:
            raise ConfigError(
                f"messageDelayLevel: {item!r} is not a number with one of the units s, m, h, d "
                f"(in {text!r}; one blank stands between two levels)"
            )
        levels.append(int(match[1]) * _UNIT_MS[match[2]])
    return levels


class StoreSettings(Settings):
    """Where messages are kept, for how long, and how eagerly they reach the disk."""

    # Files. Their sizes must be those the directory was written with.
    store_path_root_dir: str = fixed(factory=lambda: str(Path.home() / "store"))
    store_path_commit_log: str | None = fixed(None)
    store_path_d_ledger_commit_log: str | None = fixed(None, key="storePathDLedgerCommitLog")
    read_only_commit_log_store_paths: str | None = fixed(None)
    mapped_file_size_commit_log: int = fixed(1 << 30)
    mapped_file_size_consume_queue: int = fixed(6_000_000)
    mapped_file_size_consume_queue_ext: int = fixed(50_331_648)
    enable_consume_queue_ext: bool = fixed(False)
    bit_map_length_consume_queue_ext: int = fixed(64)
    max_hash_slot_num: int = fixed(5_000_000)
    max_index_num: int = fixed(20_000_000)
    message_index_enable: bool = live(True)
    message_index_safe: bool = live(False)

    # Writing and flushing
    flush_disk_type: str = fixed("ASYNC_FLUSH", choices=("ASYNC_FLUSH", "SYNC_FLUSH"))
    flush_interval_commit_log: int = live(500)
    commit_interval_commit_log: int = live(200)
    flush_commit_log_timed: bool = live(True)
    flush_interval_consume_queue: int = live(1000)
    flush_commit_log_least_pages: int = live(4)
    commit_commit_log_least_pages: int = live(4)
    flush_least_pages_when_warm_maped_file: int = live(4096)
    flush_consume_queue_least_pages: int = live(2)
    flush_commit_log_thorough_interval: int = live(10_000)
    commit_commit_log_thorough_interval: int = live(200)
    flush_consume_queue_thorough_interval: int = live(60_000)
    sync_flush_timeout: int = live(5000)
    use_reentrant_lock_when_put_message: bool = live(True)
    warm_maped_file_enable: bool = live(False)
    os_page_cache_busy_time_out_mills: int = live(1000, long=True)
    transient_store_pool_enable: bool = fixed(False)
    transient_store_pool_size: int = fixed(5)
    fast_fail_if_no_buffer_in_store_pool: bool = live(False)
    debug_lock_enable: bool = live(False)
    put_msg_index_hight_water: int = live(600_000)

    # How far ahead a message may be timed; this setting has RocketMQ 5's name
    timer_max_delay_sec: int = live(40 * 86_400)

    # Exactly-once senders; these settings are OrbitMQ's own
    deduplication_window_ms: int = live(7 * 86_400_000, long=True)
    deduplication_max_ids: int = live(4_000_000)
    deduplication_snapshot_interval: int = fixed(30_000)

    # Limits of one message, one read, one query
    max_message_size: int = live(4 << 20)
    max_msgs_num_batch: int = live(64)
    default_query_max_num: int = live(32)
    max_transfer_bytes_on_message_in_memory: int = live(262_144)
    max_transfer_count_on_message_in_memory: int = live(32)
    max_transfer_bytes_on_message_in_disk: int = live(65_536)
    max_transfer_count_on_message_in_disk: int = live(8)
    access_message_in_memory_max_ratio: int = live(40)

    # Retention
    file_reserved_time: int = live(72)
    """Hours."""
    delete_when: str = live("04")
    disk_max_used_space_ratio: int = live(75)
    clean_file_forcibly_enable: bool = live(True)
    clean_resource_interval: int = live(10_000)
    delete_commit_log_files_interval: int = live(100)
    delete_consume_queue_files_interval: int = live(100)
    destroy_maped_file_interval_forcibly: int = live(120_000)
    redelete_hanged_file_interval: int = live(120_000)
    disk_fall_recorded: bool = live(True)

    # Recovery
    check_crc_on_recover: bool = live(True, key="checkCRCOnRecover")
    duplication_enable: bool = fixed(False)

    # Delayed messages
    message_delay_level: str = fixed(DEFAULT_DELAY_LEVELS)
    flush_delay_offset_interval: int = live(10_000, long=True)
    enable_schedule_message_stats: bool = live(True)
    enable_schedule_async_deliver: bool = live(False)
    schedule_async_deliver_max_pending_limit: int = live(2000)
    schedule_async_deliver_max_resend_num2_blocked: int = live(3)

    # Replication
    broker_role: str = fixed("ASYNC_MASTER", choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"))
    slave_timeout: int = live(3000)
    ha_listen_port: int = fixed(10_912)
    ha_master_address: str | None = fixed(None)
    ha_send_heartbeat_interval: int = live(5000)
    ha_housekeeping_interval: int = live(20_000)
    ha_transfer_batch_size: int = live(32_768)
    ha_slave_fallbehind_max: int = live(256 << 20)
    offset_check_in_slave: bool = live(False)
    enable_d_leger_commit_log: bool = fixed(False, key="enableDLegerCommitLog")
    d_leger_group: str | None = fixed(None, key="dLegerGroup")
    d_leger_peers: str | None = fixed(None, key="dLegerPeers")
    d_leger_self_id: str | None = fixed(None, key="dLegerSelfId")
    preferred_leader_id: str | None = fixed(None)
    enable_batch_push: bool = fixed(False, shown_as="isEnableBatchPush")

    # Light queues
    enable_lmq: bool = fixed(False)
    enable_multi_dispatch: bool = fixed(False)
    max_lmq_consume_queue_num: int = live(20_000)

    @property
    def commit_log_path(self) -> Path:
        """Where the commit log is."""
        if self.store_path_commit_log is not None:
            return Path(self.store_path_commit_log)
        return Path(self.store_path_root_dir) / "commitlog"

    @property
    def delay_levels_ms(self) -> list[int]:
        """The delay of each level, the first being level 1."""
        return delay_levels_ms(self.message_delay_level)
