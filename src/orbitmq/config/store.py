"""Settings of the message store, and the parser of its delay levels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from orbitmq.config.settings import Settings, fixed, idle, live, refused, warned
from orbitmq.errors import ConfigError

__all__ = ["DEFAULT_DELAY_LEVELS", "StoreSettings", "delay_levels_ms"]

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

NO_DLEDGER: Final = idle("`enableDLegerCommitLog` is refused")
NO_REPLICATION: Final = idle("there is no replication yet")
NO_QUEUE_EXTENSION: Final = idle("queues are written without extension files")
NO_POOL: Final = idle("there is no transient pool; see `transientStorePoolEnable`")
PAGES_AHEAD: Final = idle("pages are always prepared ahead of the writer")
DELETES_AT_ONCE: Final = idle("expired files are deleted by a thread, without a pause")
READERS_KEEP_FILES: Final = idle(
    "a file can be deleted while it is read; its readers keep their mapping"
)
DELIVERS_IN_ORDER: Final = idle("messages of a delay level are always delivered in order")
NOT_IN_JAVA: Final = idle("4.9.7 does not read it either")
NO_LIGHT_QUEUES: Final = refused(
    "there are no light queues, and the queues named in INNER_MULTI_DISPATCH would get no "
    "messages; leave the setting out, or run Apache RocketMQ"
)

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DELAY = re.compile(r"([+-]?[0-9]+)([smhd])")


def delay_levels_ms(text: str) -> list[int]:
    """Parse ``messageDelayLevel``: numbers with a unit, separated by one blank, level 1 first."""
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
    """Settings of the message store: files, flushes, limits and retention."""

    # Files; the sizes must equal those with which the directory was written
    store_path_root_dir: str = fixed(
        says="Directory of the message store.",
        factory=lambda: str(Path.home() / "store"),
        otherwise="`~/store`",
        important=True,
    )
    store_path_commit_log: str | None = fixed(
        None,
        # A store that finds no log in `commitlog` creates one, and deletes the existing queues.
        refused(
            "the log is read and written in `commitlog` of the store directory; move it there, "
            "or make that a link to it, and leave the setting out",
            when=lambda settings: not settings.has_log_in_its_place,
        ),
        important=True,
    )
    store_path_d_ledger_commit_log: str | None = fixed(
        None, NO_DLEDGER, key="storePathDLedgerCommitLog", important=True
    )
    read_only_commit_log_store_paths: str | None = fixed(
        None,
        refused(
            "move these files to `commitlog` of the store directory, and leave the setting out",
            when=lambda settings: bool(settings.read_only_commit_log_store_paths),
        ),
    )
    mapped_file_size_commit_log: int = fixed(
        1 << 30, "Bytes of a commit log file; must match the existing files."
    )
    mapped_file_size_consume_queue: int = fixed(
        6_000_000, "Bytes of a consume queue file; must match the existing files."
    )
    mapped_file_size_consume_queue_ext: int = fixed(50_331_648, NO_QUEUE_EXTENSION)
    enable_consume_queue_ext: bool = fixed(
        False,
        warned(
            "queues are written without extension files; filters look at the messages, which "
            "finds the same ones and reads more"
        ),
    )
    bit_map_length_consume_queue_ext: int = fixed(64, NO_QUEUE_EXTENSION)
    max_hash_slot_num: int = fixed(
        5_000_000, "Hash slots of an index file; must match the existing files."
    )
    max_index_num: int = fixed(
        20_000_000, "Entries of an index file; must match the existing files."
    )
    message_index_enable: bool = live(
        True,
        "Messages are indexed, so that they can be found by key.",
        read_at_start=True,
        important=True,
    )
    message_index_safe: bool = live(
        False, idle("recovery always brings the index up to date"), important=True
    )

    # Writing and flushing
    flush_disk_type: str = fixed(
        "ASYNC_FLUSH",
        "With SYNC_FLUSH a send is answered after the message is on disk.",
        choices=("ASYNC_FLUSH", "SYNC_FLUSH"),
        important=True,
    )
    flush_interval_commit_log: int = live(
        500,
        "Milliseconds between flushes of the commit log.",
        read_at_start=True,
        important=True,
    )
    commit_interval_commit_log: int = live(200, NO_POOL, important=True)
    flush_commit_log_timed: bool = live(
        True,
        idle("the log is flushed at its interval, or at once if a send waits for the disk"),
        important=True,
    )
    flush_interval_consume_queue: int = live(
        1000, "Milliseconds between flushes of the consume queues.", read_at_start=True
    )
    flush_commit_log_least_pages: int = live(
        4, "Least number of unflushed pages for a flush of the commit log.", read_at_start=True
    )
    commit_commit_log_least_pages: int = live(4, NO_POOL)
    flush_least_pages_when_warm_maped_file: int = live(4096, PAGES_AHEAD)
    flush_consume_queue_least_pages: int = live(
        2, "Least number of unflushed pages for a flush of a consume queue.", read_at_start=True
    )
    flush_commit_log_thorough_interval: int = live(
        10_000,
        "Milliseconds after which the commit log is flushed with fewer pages, too.",
        read_at_start=True,
    )
    commit_commit_log_thorough_interval: int = live(200, NO_POOL)
    flush_consume_queue_thorough_interval: int = live(
        60_000,
        "Milliseconds after which queues and index are flushed and the checkpoint is written.",
        read_at_start=True,
    )
    sync_flush_timeout: int = live(
        5000,
        "Milliseconds that a send waits for the disk before the answer FLUSH_DISK_TIMEOUT.",
        read_at_start=True,
    )
    use_reentrant_lock_when_put_message: bool = live(
        True, idle("there is one kind of lock around appends")
    )
    warm_maped_file_enable: bool = live(False, PAGES_AHEAD)
    os_page_cache_busy_time_out_mills: int = live(
        1000,
        "Under SYNC_FLUSH: milliseconds of the longest wait for the disk above which sends are "
        "rejected.",
        long=True,
    )
    transient_store_pool_enable: bool = fixed(
        False,
        warned(
            "messages are written to the page cache at once; there is no pool between that a "
            "killed process would lose"
        ),
        important=True,
    )
    transient_store_pool_size: int = fixed(5, NO_POOL)
    fast_fail_if_no_buffer_in_store_pool: bool = live(False, NO_POOL)
    debug_lock_enable: bool = live(False, idle("waiting for the lock around appends is not logged"))
    put_msg_index_hight_water: int = live(600_000, NOT_IN_JAVA)

    # Timed messages; this setting has RocketMQ 5's name
    timer_max_delay_sec: int = live(
        40 * 86_400, "Name of RocketMQ 5: largest delay of a timed message, in seconds."
    )

    # Exactly-once senders
    deduplication_window_ms: int = live(
        7 * 86_400_000,
        "OrbitMQ's own: milliseconds after which ids of an idle exactly-once sender expire.",
        long=True,
    )
    deduplication_max_ids: int = live(
        4_000_000, "OrbitMQ's own: largest number of ids of exactly-once senders kept in memory."
    )
    deduplication_snapshot_interval: int = fixed(
        30_000, "OrbitMQ's own: milliseconds between snapshots of these ids."
    )

    # Limits of one message, one read, one query
    max_message_size: int = live(
        4 << 20, "Largest body of a message in bytes; larger are rejected."
    )
    max_msgs_num_batch: int = live(64, "Largest number of messages returned by a query by key.")
    default_query_max_num: int = live(
        32, "Largest number of messages returned by a query by unique message id."
    )
    max_transfer_bytes_on_message_in_memory: int = live(
        262_144, "Largest response to a pull from memory, in bytes.", important=True
    )
    max_transfer_count_on_message_in_memory: int = live(
        32, "Largest response to a pull from memory, in messages.", important=True
    )
    max_transfer_bytes_on_message_in_disk: int = live(
        65_536, "Largest response to a pull from disk, in bytes.", important=True
    )
    max_transfer_count_on_message_in_disk: int = live(
        8, "Largest response to a pull from disk, in messages.", important=True
    )
    access_message_in_memory_max_ratio: int = live(
        40,
        "Percent of the machine's memory; messages farther behind the end count as on disk.",
        read_at_start=True,
        important=True,
    )

    # Retention
    file_reserved_time: int = live(72, "Hours for which commit log files are kept.", important=True)
    delete_when: str = live(
        "04",
        "Hours of the day at which expired files are deleted, such as `04;16`.",
        important=True,
    )
    disk_max_used_space_ratio: int = live(
        75, "Used percent of the disk above which expired files are deleted at any hour."
    )
    clean_file_forcibly_enable: bool = live(
        True,
        "Above 85 % of the disk the oldest files are deleted even if they have not expired.",
        important=True,
    )
    clean_resource_interval: int = live(
        10_000, "Milliseconds between searches for files to delete.", read_at_start=True
    )
    delete_commit_log_files_interval: int = live(100, DELETES_AT_ONCE)
    delete_consume_queue_files_interval: int = live(100, DELETES_AT_ONCE)
    destroy_maped_file_interval_forcibly: int = live(120_000, READERS_KEEP_FILES)
    redelete_hanged_file_interval: int = live(120_000, READERS_KEEP_FILES)
    disk_fall_recorded: bool = live(
        True, "Counts the bytes that each pull is behind, as GROUP_GET_FALL_SIZE."
    )

    # Recovery
    check_crc_on_recover: bool = live(
        True,
        "Recovery verifies the checksums of message bodies.",
        key="checkCRCOnRecover",
        read_at_start=True,
    )
    duplication_enable: bool = fixed(
        False,
        refused(
            "it makes 4.9.7 hold messages back until a copy is confirmed, which nothing confirms; "
            "leave the setting out"
        ),
    )

    # Delayed messages
    message_delay_level: str = fixed(
        DEFAULT_DELAY_LEVELS, "Delay of each level, level 1 first; units s, m, h, d."
    )
    flush_delay_offset_interval: int = live(
        10_000,
        "Milliseconds between writes of the offsets up to which delayed messages were delivered.",
        long=True,
        read_at_start=True,
    )
    enable_schedule_message_stats: bool = live(
        True, idle("messages of the delay levels are always counted")
    )
    enable_schedule_async_deliver: bool = live(False, DELIVERS_IN_ORDER)
    schedule_async_deliver_max_pending_limit: int = live(2000, DELIVERS_IN_ORDER)
    schedule_async_deliver_max_resend_num2_blocked: int = live(3, DELIVERS_IN_ORDER)

    # Replication
    broker_role: str = fixed(
        "ASYNC_MASTER",
        refused(
            "there is no replication yet, so that no message would have a copy; set "
            "brokerRole=ASYNC_MASTER for a broker that is on its own, or run Apache RocketMQ"
        ),
        choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
        important=True,
    )
    slave_timeout: int = live(3000, NO_REPLICATION)
    ha_listen_port: int = fixed(
        10_912, idle("it is always listenPort + 1, in 4.9.7 too"), otherwise="`listenPort` + 1"
    )
    ha_master_address: str | None = fixed(None, NO_REPLICATION, important=True)
    ha_send_heartbeat_interval: int = live(5000, NO_REPLICATION)
    ha_housekeeping_interval: int = live(20_000, NO_REPLICATION)
    ha_transfer_batch_size: int = live(32_768, NO_REPLICATION)
    ha_slave_fallbehind_max: int = live(256 << 20, NO_REPLICATION)
    offset_check_in_slave: bool = live(False, NO_REPLICATION)
    enable_d_leger_commit_log: bool = fixed(
        False,
        refused(
            "there is no replication yet, and a log of DLedger's is another format; leave the "
            "setting out, with a store of its own"
        ),
        key="enableDLegerCommitLog",
    )
    d_leger_group: str | None = fixed(None, NO_DLEDGER, key="dLegerGroup")
    d_leger_peers: str | None = fixed(None, NO_DLEDGER, key="dLegerPeers")
    d_leger_self_id: str | None = fixed(None, NO_DLEDGER, key="dLegerSelfId")
    preferred_leader_id: str | None = fixed(None, NO_DLEDGER)
    enable_batch_push: bool = fixed(False, NO_DLEDGER, shown_as="isEnableBatchPush")

    # Light queues
    enable_lmq: bool = fixed(False, NO_LIGHT_QUEUES)
    enable_multi_dispatch: bool = fixed(False, NO_LIGHT_QUEUES)
    max_lmq_consume_queue_num: int = live(20_000, idle("`enableLmq` is refused"))

    @property
    def commit_log_path(self) -> Path:
        """Directory of the commit log."""
        if self.store_path_commit_log is not None:
            return Path(self.store_path_commit_log)
        return Path(self.store_path_root_dir) / "commitlog"

    @property
    def has_log_in_its_place(self) -> bool:
        """True if the configured commit log is `commitlog` in the store directory."""
        place = Path(self.store_path_root_dir) / "commitlog"
        return self.commit_log_path.resolve() == place.resolve()

    @property
    def delay_levels_ms(self) -> list[int]:
        """Milliseconds of each delay level, level 1 first."""
        return delay_levels_ms(self.message_delay_level)
