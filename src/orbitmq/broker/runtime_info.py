"""State of a broker for GET_BROKER_RUNTIME_INFO, the source of ``brokerStatus``.

All values are texts. The keys are Java's, so that mqadmin, dashboards and exporters can parse them.
Some keys describe parts that this broker does not have. Its requests do not wait in queues of
thread pools (but sends wait for the disk under sync flush). Its messages are in their queues before
they are acknowledged. Such keys have the value that means "nothing waits".
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from orbitmq._native import Store
from orbitmq.broker.overload import UnflushedSends
from orbitmq.broker.read.lag import ConsumeStats
from orbitmq.broker.state.stats import BrokerStats
from orbitmq.broker.write.delay import DelayService
from orbitmq.config import BrokerConfig
from orbitmq.protocol.features import FEATURES, FEATURES_KEY
from orbitmq.protocol.flags import Version

__all__ = ["RuntimeInfo", "readable_size"]

NO_POOL_BUFFERS = 2**31 - 1
UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


@dataclass(slots=True)
class RuntimeInfo:
    """Gathers the table from the parts of a broker."""

    config: BrokerConfig
    store: Store
    stats: BrokerStats
    delay: DelayService
    progress: ConsumeStats
    clock: Callable[[], int]
    unflushed: UnflushedSends | None
    """Sends that wait for the disk; None unless sends are answered only after a flush."""

    def table(self) -> dict[str, str]:
        """Return the whole table of keys and values."""
        return {
            "brokerVersionDesc": Version.DESCRIPTION,
            "brokerVersion": str(Version.V4_9_7),
            FEATURES_KEY: ",".join(FEATURES),
            **self._counters(),
            **self._today(),
            **self._queues(),
            **self._log(),
            **self._disk(),
            **{
                f"scheduleMessageOffset_{level}": f"{delivered},{end}"
                for level, (delivered, end) in self.delay.progress().items()
            },
        }

    def _counters(self) -> dict[str, str]:
        stats = self.stats
        puts = max(stats.put_times, 1)
        times = stats.put_times_ms
        return {
            "bootTimestamp": str(stats.boot_ms),
            "runtime": _duration(self.clock() - stats.boot_ms),
            "startAcceptSendRequestTimeStamp": str(
                self.config.start_accept_send_request_time_stamp
            ),
            "putMessageTimesTotal": str(puts),
            "putMessageFailedTimes": str(stats.put_failed),
            "putMessageSizeTotal": str(stats.put_bytes),
            "putMessageAverageSize": str(stats.put_bytes / puts),
            "putMessageDistributeTime": times.distribution() or "null",
            "putMessageEntireTimeMax": str(times.slowest_ms),
            "getMessageEntireTimeMax": str(stats.slowest_get_ms),
            "putLatency99": f"{times.percentile_ms(0.99):.2f}",
            "putLatency999": f"{times.percentile_ms(0.999):.2f}",
            "dispatchMaxBuffer": "0",
            "putTps": stats.per_second("put"),
            "getFoundTps": stats.per_second("found"),
            "getMissTps": stats.per_second("missed"),
            "getTotalTps": stats.per_second("pulls"),
            "getTransferedTps": stats.per_second("got"),
        }

    def _today(self) -> dict[str, str]:
        stats = self.stats
        return {
            "msgPutTotalYesterdayMorning": str(stats.yesterday_morning.put),
            "msgPutTotalTodayMorning": str(stats.today_morning.put),
            "msgPutTotalTodayNow": str(stats.put_times),
            "msgGetTotalYesterdayMorning": str(stats.yesterday_morning.got),
            "msgGetTotalTodayMorning": str(stats.today_morning.got),
            "msgGetTotalTodayNow": str(stats.got_messages),
        }

    def _queues(self) -> dict[str, str]:
        config = self.config
        table = {}
        for name, capacity in (
            ("send", config.send_thread_pool_queue_capacity),
            ("pull", config.pull_thread_pool_queue_capacity),
            ("query", config.query_thread_pool_queue_capacity),
        ):
            table[f"{name}ThreadPoolQueueSize"] = "0"
            table[f"{name}ThreadPoolQueueCapacity"] = str(capacity)
            table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        if self.unflushed is not None:
            table["sendThreadPoolQueueSize"] = str(len(self.unflushed))
            waited_ms = int(self.unflushed.oldest_waited_ms)
            table["sendThreadPoolQueueHeadWaitTimeMills"] = str(waited_ms)
        table["EndTransactionQueueSize"] = "0"
        capacity = config.end_transaction_pool_queue_capacity
        table["EndTransactionThreadPoolQueueCapacity"] = str(capacity)
        return table

    def _log(self) -> dict[str, str]:
        store = self.store
        begin, end = store.min_physical_offset, store.max_physical_offset
        earliest = self.progress.stored_at_physical(begin) if begin >= 0 else -1
        return {
            "commitLogMinOffset": str(begin),
            "commitLogMaxOffset": str(end),
            "dispatchBehindBytes": "0",
            "pageCacheLockTimeMills": "0",
            "earliestMessageTimeStamp": str(earliest),
            "remainTransientStoreBufferNumbs": str(NO_POOL_BUFFERS),
            "remainHowManyDataToFlush": readable_size(max(end - store.flushed_offset, 0)),
        }

    def _disk(self) -> dict[str, str]:
        root = self.config.store_path_root_dir
        usage = shutil.disk_usage(root)
        log = self.config.commit_log_path
        ratio = str(_used_ratio(root))
        return {
            "commitLogDirCapacity": (
                f"Total : {readable_size(usage.total)}, Free : {readable_size(usage.free)}."
            ),
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{log}": ratio,
            "consumeQueueDiskRatio": ratio,
        }


def _used_ratio(path: str) -> float:
    """Return the used share of the disk as a fraction, rounded up to a whole per cent."""
    disk = os.statvfs(path)
    used = disk.f_blocks - disk.f_bfree
    whole = used + disk.f_bavail
    return math.ceil(used * 100 / whole) / 100 if whole else -1.0


def _duration(millis: int) -> str:
    minutes, seconds = divmod(millis // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def readable_size(count: int) -> str:
    """Return a number of bytes as a text with a unit, such as ``1.5 MiB``."""
    if count < 1024:
        return f"{count} B"
    power = min(int(math.log(count, 1024)), len(UNITS))
    return f"{count / 1024**power:.1f} {UNITS[power - 1]}"
