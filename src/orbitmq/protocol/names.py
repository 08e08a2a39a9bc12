"""Reserved names: system topics, prefixes, property names, and the rules for topic names."""

from __future__ import annotations

import re

from orbitmq.protocol.limits import MAX_GROUP_LENGTH

__all__ = [
    "AUTO_CREATE_TOPIC",
    "BENCHMARK_TOPIC",
    "DLQ_PREFIX",
    "FAQ",
    "MAX_TOPIC_LENGTH",
    "NOT_ALLOWED_TO_SEND",
    "OFFSET_MOVED_EVENT",
    "ORDER_TOPIC_CONFIG",
    "RETRY_PREFIX",
    "SCHEDULE_TOPIC",
    "SELF_TEST_TOPIC",
    "SINK_BROKERS",
    "SYSTEM_GROUPS",
    "SYSTEM_GROUP_PREFIX",
    "SYSTEM_TOPICS",
    "SYSTEM_TOPIC_PREFIX",
    "TIMER_TOPIC",
    "TRACE_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "TRANS_HALF_TOPIC",
    "TRANS_OP_HALF_TOPIC",
    "Property",
    "dlq_topic",
    "group_name_fault",
    "group_of_retry_topic",
    "is_storable_topic",
    "reply_topic",
    "retry_topic",
    "topic_name_fault",
]

AUTO_CREATE_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
TRANS_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
TIMER_TOPIC = "rmq_sys_orbit_timers"
"""Holds messages until the time their sender named."""

SYSTEM_TOPICS = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        TRANS_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    }
)
"""Topics of the broker's own, which nobody may create or delete."""

NOT_ALLOWED_TO_SEND = frozenset(
    {
        TIMER_TOPIC,
        SCHEDULE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    }
)
"""Topics only the broker itself writes to."""

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)
"""Consumer groups that exist from the first start."""
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of the nameserver's key-value table that makes topics ordered."""

SINK_BROKERS = "ORBITMQ_SINK_BROKERS"
"""Namespace of that table that has the brokers of each exactly-once sender and topic."""

MAX_TOPIC_LENGTH = 127
FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
"""The tail of many of Java's remarks."""

_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]+")


class Property:
    """Names of the message properties that brokers and clients set or read."""

    KEYS = "KEYS"
    TAGS = "TAGS"
    UNIQUE_KEY = "UNIQ_KEY"
    WAIT = "WAIT"
    DELAY = "DELAY"
    REAL_TOPIC = "REAL_TOPIC"
    REAL_QUEUE_ID = "REAL_QID"
    RETRY_TOPIC = "RETRY_TOPIC"
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
    TRANSACTION = "TRAN_MSG"
    PRODUCER_GROUP = "PGROUP"
    CLUSTER = "CLUSTER"
    MSG_REGION = "MSG_REGION"
    TRACE_ON = "TRACE_ON"
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
    TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
    SCOPE = "ORBIT_BATCH"
    """OrbitMQ's own: sender and batch of a message whose repeats are suppressed."""
    ACCOUNT = "ORBIT_ACCOUNT"
    """OrbitMQ's own: stands for the account of such a sender, or of a half message's."""
    OF_BROKERS = (SCOPE, ACCOUNT)
    """Properties that only brokers write: values from a sender are not believed."""
    PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
    TIMER_DELAY_SECONDS = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
    TIMER_OUT_MS = "TIMER_OUT_MS"
    CHECK_IMMUNITY_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"


def retry_topic(group: str) -> str:
    """Return the retry topic of a group."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the dead-letter topic of a group."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Return the topic of replies in a cluster."""
    return f"{cluster}_REPLY_TOPIC"


def group_of_retry_topic(topic: str) -> str:
    """Return the group of a retry topic."""
    return topic.removeprefix(RETRY_PREFIX)


def is_storable_topic(topic: str) -> bool:
    """Return True if a topic's name fits into a record and is a valid directory name."""
    return (
        topic not in ("", ".", "..")
        and "/" not in topic
        and "\0" not in topic
        and len(topic.encode()) <= MAX_TOPIC_LENGTH
    )


def group_name_fault(group: str) -> str | None:
    """Return the reason why a group name is invalid, or None; Java checks this in clients only.

    A name with control characters would break the properties of messages that are sent back. A name
    with a slash would have a retry topic that cannot be stored.
    """
    if len(group) > MAX_GROUP_LENGTH:
        return f"has {len(group)} characters, must have {MAX_GROUP_LENGTH} at most"
    if any(character < " " or character == "/" for character in group):
        return f"is {group!r}, must have no control characters and no slash"
    return None


def topic_name_fault(topic: str | None) -> str | None:
    """Return Java's error text for an invalid topic name, or None."""
    if topic is None or not topic.strip():
        return "The specified topic is blank."
    if not _TOPIC.fullmatch(topic):
        return "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(topic) > MAX_TOPIC_LENGTH:
        return "The specified topic is longer than topic max length."
    return None
