"""Bit flags and version numbers of the wire and of the files."""

from __future__ import annotations

__all__ = [
    "CommandFlag",
    "MessageFlag",
    "Permission",
    "PullFlag",
    "TopicFlag",
    "Version",
    "version_name",
]


class Version:
    """Version numbers that commands carry."""

    V3_0_7_SNAPSHOT = 28
    """Consumers from here on understand a pushed offset reset."""
    V3_0_11 = 37
    """Brokers from here on register with a wrapped topic table."""
    V3_1_8_SNAPSHOT = 62
    """Consumers from here on tell how they are running."""
    V3_4_9 = 121
    """Clients from here on may set how often a message is retried."""
    V4_9_4 = 401
    """Clients from here on get routes in standard JSON."""
    V4_9_7 = 407
    """What we speak."""
    V5_0_0_SNAPSHOT = 412
    """Brokers from here on may have topics whose queues have holes: compacted ones, batches."""
    DESCRIPTION = "V4_9_7"


class CommandFlag:
    """Bits of a command's flag."""

    ONEWAY = 2
    """A request that wants no response."""


class Permission:
    """Permissions of a topic or a broker."""

    INHERIT = 1
    WRITE = 2
    READ = 4

    @staticmethod
    def text(perm: int) -> str:
        """Return Java's three letters for a permission, such as ``RW-``."""
        return "".join(
            letter if perm & bit else "-"
            for letter, bit in (
                ("R", Permission.READ),
                ("W", Permission.WRITE),
                ("X", Permission.INHERIT),
            )
        )


class MessageFlag:
    """Bits of a message's sysFlag."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_ROLLBACK = 0xC
    TRANSACTION_MASK = 0xC


class PullFlag:
    """Bits of a pull's sysFlag."""

    COMMIT_OFFSET = 1
    SUSPEND = 2
    SUBSCRIPTION = 4
    CLASS_FILTER = 8


class TopicFlag:
    """Bits of a topic's system flag."""

    UNIT = 1
    UNIT_SUB = 2


_FIRST_VERSIONS = (
    *("SNAPSHOT", "ALPHA1", "BETA1", "BETA2", "BETA3", "BETA4", "BETA5"),
    *("BETA6_SNAPSHOT", "BETA6", "BETA7_SNAPSHOT", "BETA7", "BETA8_SNAPSHOT", "BETA8"),
    *("BETA9_SNAPSHOT", "BETA9", "FINAL"),
)
_V3_0_1_SNAPSHOT = 16
_V3_1_0_SNAPSHOT = 46
_V3_2_0_SNAPSHOT = 66


def version_name(version: int) -> str:
    """Return RocketMQ's name for the version of an old client, the number for others.

    The name appears only in errors for clients that are too old for a request.
    """
    if 0 <= version < _V3_0_1_SNAPSHOT:
        return f"V3_0_0_{_FIRST_VERSIONS[version]}"
    if _V3_0_1_SNAPSHOT <= version < _V3_2_0_SNAPSHOT:
        minor, first = (0, 14) if version < _V3_1_0_SNAPSHOT else (1, _V3_1_0_SNAPSHOT)
        patch, is_release = divmod(version - first, 2)
        return f"V3_{minor}_{patch}" + ("" if is_release else "_SNAPSHOT")
    return str(version)
