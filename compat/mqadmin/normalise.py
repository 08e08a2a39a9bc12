"""The complete list of permitted differences between two brokers in the same state.

==================  ===============================================================================
addresses           the broker's and the nameserver's are BROKER and NS, ports of clients are PORT
directories         the side's own is DIR, that of its accounts HOME
objects             those that Java prints by their place in memory: @N
ids by offset       the host and port in them is HOST; the offset stays
times               of this decade's second half, as text or milliseconds: TIME; those that the
                    tests chose, in 2023, stay
ids of the tool     messages mqadmin sends itself have ids made of the time: ID
rates and delays    TPS, round trips, the age of the oldest message, the disk's fill: N
order               of lines, where Java prints in the order of a hash table
settings            those in `OF_THE_SUITE`, which the Java broker is given to be fast, and those
                    that name directories and ports
state               those in `OF_THE_MOMENT`, of the process, its disk or its clock
==================  ===============================================================================
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compat.mqadmin.sides import Side

__all__ = ["OF_THE_MOMENT", "OF_THE_SUITE", "neutral", "table"]

_RULES = [
    (re.compile(r"\b7F000001[0-9A-F]{8}([0-9A-F]{16})\b"), r"HOST\1"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\b20(2[4-9]|[3-9]\d)-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?"), "TIME"),
    (re.compile(r"\b1(7[1-9]|[89]\d)\d{10}\b"), "TIME"),
    (re.compile(r"(SEND_OK +|\bmsgId=)[0-9A-F]{32,}"), r"\1ID"),
    (re.compile(r"PlainAccessConfig@[0-9a-f]+"), "PlainAccessConfig@N"),
    (re.compile(r"\brt=\d+ms"), "rt=N"),
    (re.compile(r"Avg RT: \S+"), "Avg RT: N"),
    (re.compile(r"(?m)^(\S+ +\d+ +true +)\d+$"), r"\1N"),  # checkMsgSendRT
    (re.compile(r"(?m)^(DefaultCluster +\S+ +)\d+\.\d\d( +\d+ +\d+ *)$"), r"\1N\2"),  # clusterRT
    # clusterList: TPS, age of the oldest message, disk
    (re.compile(r"(?m) +\d+\.\d\d\((\d+),\d+ms\) +\d+\.\d\d\((\d+),\d+ms\) +\d+ +\S+ \S+$"), r" N"),
    # statsAll: TPS in and out, and the counts of a day, which brokers sample every ten seconds
    (re.compile(r"(?m)( +\d+) +\d+\.\d\d +\d+\.\d\d +\d+ +\d+$"), r"\1 N N N N"),
]

OF_THE_SUITE = {
    *("cleanFileForciblyEnable", "deleteWhen", "diskMaxUsedSpaceRatio", "fileReservedTime"),
    *("maxTransferBytesOnMessageInDisk", "maxTransferBytesOnMessageInMemory"),
    *("maxTransferCountOnMessageInDisk", "maxTransferCountOnMessageInMemory"),
    # Ports, directories, addresses
    *("brokerIP2", "haListenPort", "listenPort", "rocketmqHome", "storePathCommitLog"),
    *("storePathRootDir", "kvConfigPath", "configStorePath"),
    # Java makes it a multiple of the need of its bloom filter at the start.
    "bitMapLengthConsumeQueueExt",
    # OrbitMQ's own.
    *("timerMaxDelaySec", "aclEnable", "aclStrict", "deduplicationWindowMs"),
    *("deduplicationMaxIds", "deduplicationSnapshotInterval"),
    *("lostMemberGraceMillis", "startMemberGraceMillis"),
}

OF_THE_MOMENT = {
    *("bootTimestamp", "runtime", "commitLogDirCapacity", "commitLogDiskRatio"),
    *("commitLogDiskRatio_DIR", "consumeQueueDiskRatio", "remainHowManyDataToFlush"),
    *("putMessageEntireTimeMax", "getMessageEntireTimeMax", "putLatency99", "putLatency999"),
    *("putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferedTps"),
    # Values of the last full minute, and of the work in progress.
    *("putMessageDistributeTime", "dispatchBehindBytes", "pageCacheLockTimeMills"),
    # -1 in Java until the log holds 8 MiB.
    "earliestMessageTimeStamp",
}


def neutral(printed: str, side: Side) -> str:
    """Return the output without the parts specific to one side."""
    text = printed.replace(side.broker, "BROKER").replace(side.nameserver, "NS")
    text = text.replace(str(side.home), "HOME").replace(str(side.directory), "DIR")
    for pattern, words in _RULES:
        text = pattern.sub(words, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def table(printed: str, separator: str) -> dict[str, str]:
    """Read ``key = value`` lines."""
    pairs = (line.split(separator, 1) for line in printed.splitlines() if separator in line)
    return {key.strip(): value.strip() for key, value in pairs}
