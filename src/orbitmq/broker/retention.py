"""Schedule of the deletion of expired files."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from orbitmq._native import Store
from orbitmq.broker.state.stats import BrokerStats
from orbitmq.config import BrokerConfig

__all__ = ["Retention"]

_log = logging.getLogger(__name__)

HOUR_MS = 3_600_000
FORCE_RATIO = 0.85
WARN_RATIO = 0.90
MANUAL_ROUNDS = 20


class Retention:
    """Starts deletion by hour, by disk usage or by request; the store deletes the files."""

    def __init__(
        self, config: BrokerConfig, store: Store, stats: BrokerStats, clock: Callable[[], int]
    ) -> None:
        self._config = config
        self._store = store
        self._stats = stats
        self._clock = clock
        self._manual_rounds = 0

    def request(self) -> None:
        """Make the next rounds delete expired files at any hour."""
        self._manual_rounds = MANUAL_ROUNDS

    def is_due(self) -> bool:
        """Return True if expired files are deleted in this hour, or a request for it is pending."""
        hour = time.strftime("%H", time.localtime(self._clock() / 1000))
        hours = [part.strip() for part in self._config.delete_when.split(";")]
        return self._manual_rounds > 0 or hour in hours

    def run(self) -> None:
        """Run one round of deletion, and log what was deleted or that the disk is nearly full."""
        due = self.is_due()
        self._manual_rounds = max(0, self._manual_rounds - 1)
        may_force = self._config.clean_file_forcibly_enable
        cleaned = self._store.clean(
            now_ms=self._clock(),
            due=due,
            reserved_ms=self._config.file_reserved_time * HOUR_MS,
            max_used_ratio=min(max(self._config.disk_max_used_space_ratio, 10), 95) / 100,
            force_ratio=FORCE_RATIO if may_force else 2.0,
            warn_ratio=WARN_RATIO,
        )
        self._stats.disk_used_ratio = cleaned.used_ratio
        if cleaned.log_files or cleaned.queue_files or cleaned.index_files:
            _log.info(
                "deleted %d log files, %d queue files, %d index files (disk %.0f %% full)",
                cleaned.log_files,
                cleaned.queue_files,
                cleaned.index_files,
                cleaned.used_ratio * 100,
            )
        if cleaned.used_ratio > WARN_RATIO and not cleaned.log_files:
            # The first sentence is Java's own, for operators who search logs for it.
            _log.error(
                "disk space will be full soon, but delete file failed. The disk of %s is %.0f %% "
                "full; sends are refused until it is at most %.0f %% full, and %s. Free space on "
                "that disk%s.",
                self._fuller_directory(),
                cleaned.used_ratio * 100,
                WARN_RATIO * 100,
                "no log file is left to delete but the one being written"
                if may_force
                else "cleanFileForciblyEnable=false keeps log files that have not expired",
                "" if may_force else " or set cleanFileForciblyEnable=true",
            )

    def _fuller_directory(self) -> Path:
        """Return the store directory, or its commit log if that is on a fuller disk."""
        return max(
            Path(self._config.store_path_root_dir), self._config.commit_log_path, key=_used_share
        )


def _used_share(path: Path) -> float:
    """Return the used share of the disk that `path` is on."""
    disk = shutil.disk_usage(path)
    return disk.used / disk.total if disk.total else 0.0
