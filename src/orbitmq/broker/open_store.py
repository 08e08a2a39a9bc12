"""Opens the store with the broker's settings and logs the result of its recovery."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from orbitmq._native import Store, StoreOptions
from orbitmq.config import BrokerConfig

__all__ = ["open_store"]

_log = logging.getLogger(__name__)


def open_store(config: BrokerConfig, levels_ms: Sequence[int]) -> Store:
    """Open the store directory; recovery after a crash is complete when this returns."""
    config.check()
    store = Store.open(config.store_path_root_dir, _options(config, levels_ms), create=True)
    recovery = store.recovery
    how = "normally" if recovery.clean_exit else "abnormally"
    _log.info("last shutdown %s, root dir: %s", how, store.path)
    _log.info(
        "load over in %d ms, and the max phy offset = %d",
        recovery.elapsed_ms,
        recovery.log_end,
    )
    for note in recovery.notes:
        _log.warning("recovery: %s", note)
    return store


def _options(config: BrokerConfig, levels_ms: Sequence[int]) -> StoreOptions:
    return StoreOptions(
        commit_log_file_size=config.mapped_file_size_commit_log,
        consume_queue_file_size=config.mapped_file_size_consume_queue,
        index_enabled=config.message_index_enable,
        index_slots=config.max_hash_slot_num,
        index_entries=config.max_index_num,
        flush="sync" if config.flush_disk_type == "SYNC_FLUSH" else "async",
        flush_interval_ms=config.flush_interval_commit_log,
        flush_least_pages=config.flush_commit_log_least_pages,
        flush_thorough_interval_ms=config.flush_commit_log_thorough_interval,
        queue_flush_interval_ms=config.flush_interval_consume_queue,
        queue_flush_least_pages=config.flush_consume_queue_least_pages,
        checkpoint_interval_ms=config.flush_consume_queue_thorough_interval,
        max_body_bytes=config.max_message_size,
        check_crc_on_recover=config.check_crc_on_recover,
        delay_levels_ms=list(levels_ms),
    )
