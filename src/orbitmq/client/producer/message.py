"""Outgoing messages: checks, ids, compression of bodies, and the text of properties.

The request of a send (code 310, for a batch 320, for a reply 325) has one-letter fields: ``a``
group, ``b`` topic, ``c`` and ``d`` the template of a missing topic and its number of queues,
``e`` queue, ``f`` sysFlag, ``g`` time of birth, ``h`` flag, ``i`` properties, ``j`` and ``l``
reconsume times and their limit, ``k`` unit mode, ``m`` batch, ``n`` broker.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from orbitmq._native import UniqueIds, compress, compression_flags
from orbitmq.client.settings import local_ip
from orbitmq.errors import BadMessage
from orbitmq.message import Message
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import MessageFlag
from orbitmq.protocol.names import (
    AUTO_CREATE_TOPIC,
    NOT_ALLOWED_TO_SEND,
    RETRY_PREFIX,
    topic_name_fault,
)
from orbitmq.rpc.namespace import wrap

__all__ = [
    "REDRIVEN_LIMIT",
    "OutgoingMessage",
    "SendPolicy",
    "make_outgoing",
    "make_unique_id",
    "more_properties",
    "present_ids",
    "properties_text",
]

MAX_PROPERTIES_BYTES = 32767
ID_BYTES = len("UNIQ_KEY\1\2WAIT\1false") + 32
"""Bytes of the properties that the id and WAIT take."""

REDRIVEN_LIMIT = "16"
"""Maximum of attempts (field ``l``) of a message that is sent back to a group.

A broker compares the limit once with the attempts of the message, which are 0. Without the limit,
the group's `retryMaxTimes` would apply: if that is 0, the message would be a dead letter again at
once.
"""

_known_topics: set[str] = set()
"""Topic names that passed the check, so that each is checked only once."""


@dataclass(slots=True, kw_only=True)
class SendPolicy:
    """Sending policy of a producer; the defaults are RocketMQ's."""

    timeout_ms: float = 3000
    """Budget of all attempts together."""
    retry_times: int = 2
    """Number of attempts that may follow the first."""
    retry_codes: frozenset[int] = frozenset(
        {
            ResponseCode.TOPIC_NOT_EXIST,
            ResponseCode.SERVICE_NOT_AVAILABLE,
            ResponseCode.SYSTEM_ERROR,
            ResponseCode.NO_PERMISSION,
            ResponseCode.NO_BUYER_ID,
            ResponseCode.NOT_IN_CURRENT_UNIT,
        }
    )
    """Refusals after which another broker is tried."""
    retry_when_not_stored_ok: bool = False
    """True to try another broker if a message was accepted but is not stored safely yet."""
    max_message_bytes: int = 4 << 20
    compress_over_bytes: int = 4096
    codec: Literal["zlib", "lz4", "zstd"] = "zlib"
    compress_level: int = 5
    template_topic: str = AUTO_CREATE_TOPIC
    queue_nums: int = 4
    """Number of queues of a topic that is created by its first message."""
    unit_mode: bool = False


class OutgoingMessage:
    """Message or batch that is ready to be sent to any queue of its topic."""

    __slots__ = ("batch_size", "body", "code", "ext", "message_id", "original", "topic")

    def __init__(
        self,
        code: int,
        topic: str,
        body: bytes,
        ext: dict[str, str],
        message_id: str,
        original: Message,
        batch_size: int = 0,
    ) -> None:
        self.code = code
        self.topic = topic
        self.body = body
        self.ext = ext
        self.message_id = message_id
        self.original = original
        self.batch_size = batch_size

    def ext_for(self, queue: MessageQueue) -> dict[str, str]:
        """Return the request's fields for one queue."""
        ext = self.ext.copy()
        ext["e"] = str(queue.queue_id)
        ext["n"] = queue.broker_name
        return ext


def check_topic(topic: str) -> None:
    """Raise `BadMessage` if a topic name is malformed or closed to clients."""
    if topic in _known_topics:
        return
    fault = topic_name_fault(topic)
    if fault is not None:
        raise BadMessage(f"topic {topic!r}: {fault}")
    if topic in NOT_ALLOWED_TO_SEND:
        raise BadMessage(f"topic {topic!r} is the broker's own; nobody else may send to it")
    if len(_known_topics) < 10_000:
        _known_topics.add(topic)


def check_body(body: bytes, policy: SendPolicy) -> None:
    """Raise `BadMessage` if a body is empty or too large."""
    if not body:
        raise BadMessage("the body is empty, which brokers do not take; send at least one byte")
    if len(body) > policy.max_message_bytes:
        raise BadMessage(
            f"the body has {len(body)} bytes, more than max_message_bytes="
            f"{policy.max_message_bytes}; brokers have a limit of their own (maxMessageSize)"
        )


def properties_text(message: Message, message_id: str, namespace: str | None = None) -> str:
    """Return the text of a message's properties: ``name 1 value 2 name 1 value``."""
    waits = "true" if message.wait_store_ok else "false"
    return f"UNIQ_KEY\1{message_id}\2WAIT\1{waits}{more_properties(message, namespace)}"


def more_properties(message: Message, namespace: str | None = None) -> str:
    """Return the text of all properties but id and WAIT, each with a separator before it."""
    own = message.properties
    system = message.system
    delayed = message.is_delayed
    if not (message.tags or message.keys or own or system or delayed or namespace):
        return ""
    pairs: list[tuple[str, str]] = []
    if message.tags:
        pairs.append(("TAGS", message.tags))
    if message.keys:
        pairs.append(("KEYS", " ".join(message.keys)))
    if message.delay_level > 0:
        pairs.append(("DELAY", str(message.delay_level)))
    if delayed:
        pairs.extend(message.timers().items())
    if namespace:
        pairs.append(("INSTANCE_ID", namespace))
    if own or system:
        for name, value in (own if not system else {**own, **system}).items():
            if not name or not value:
                raise BadMessage(f"property {name!r} is {value!r}; neither may be empty")
            pairs.append((name, value))
    text = "".join([f"\2{name}\1{value}" for name, value in pairs])
    count = len(pairs)
    if text.count("\2") != count or (
        text.count("\1") != count and any("\1" in name for name, _ in pairs)
    ):
        raise BadMessage(
            "tags, keys and properties may not hold the character 2, nor names the character 1"
        )
    if len(text) > MAX_PROPERTIES_BYTES // 4 - ID_BYTES and (
        len(text.encode()) + ID_BYTES > MAX_PROPERTIES_BYTES
    ):
        raise BadMessage(f"tags, keys and properties have more than {MAX_PROPERTIES_BYTES} bytes")
    return text


def make_outgoing(
    message: Message,
    group: str,
    policy: SendPolicy,
    namespace: str | None = None,
    *,
    identity: tuple[str, int] | None = None,
) -> OutgoingMessage:
    """Check a message and return it ready to be sent. The given message is not changed.

    `identity` is the id and the time of birth of a message that already has them.
    """
    topic = wrap(namespace, message.topic) if namespace else message.topic
    if topic not in _known_topics:
        check_topic(topic)
    body = message.body
    size = len(body)
    if not 0 < size <= policy.max_message_bytes:
        check_body(body, policy)
    if identity is None:
        now_ms = time.time_ns() // 1_000_000
        message_id = make_unique_id(now_ms)
    else:
        message_id, now_ms = identity
    sys_flag = 0
    if size >= policy.compress_over_bytes:
        body = compress(body, policy.codec, level=policy.compress_level)
        sys_flag = compression_flags(policy.codec)
    code: int = 310
    reconsume_times, max_reconsume_times = "0", None
    system = message.system
    if system:
        if system.get("TRAN_MSG") == "true":
            sys_flag |= MessageFlag.TRANSACTION_PREPARED
        if system.get("MSG_TYPE") == "reply":
            code = RequestCode.SEND_REPLY_MESSAGE_V2
        if topic.startswith(RETRY_PREFIX):
            reconsume_times = system.get("RECONSUME_TIME", "0")
            max_reconsume_times = system.get("MAX_RECONSUME_TIMES")
            message = _without_reconsume(message)
    ext = request_fields(group, topic, policy, sys_flag, now_ms, message.flag)
    ext["i"] = properties_text(message, message_id, namespace)
    if system:
        ext["j"] = reconsume_times
        if max_reconsume_times is not None:
            ext["l"] = max_reconsume_times
    return OutgoingMessage(code, topic, body, ext, message_id, message)


def request_fields(
    group: str, topic: str, policy: SendPolicy, sys_flag: int, now_ms: int, flag: int
) -> dict[str, str]:
    """Return the request's fields that are the same for every queue, without the properties."""
    return {
        "a": group,
        "b": topic,
        "c": policy.template_topic,
        "d": str(policy.queue_nums),
        "e": "0",
        "f": str(sys_flag),
        "g": str(now_ms),
        "h": str(flag),
        "i": "",
        "j": "0",
        "k": "true" if policy.unit_mode else "false",
        "m": "false",
        "n": "",
    }


def _without_reconsume(message: Message) -> Message:
    """Return the message without the properties that travel as fields of the request."""
    bare = Message(
        message.topic,
        message.body,
        tags=message.tags,
        keys=message.keys,
        delay_level=message.delay_level,
        flag=message.flag,
        wait_store_ok=message.wait_store_ok,
    )
    bare.take_timers(message)
    bare.properties = message.properties
    bare.system = {
        name: value
        for name, value in (message.system or {}).items()
        if name not in ("RECONSUME_TIME", "MAX_RECONSUME_TIMES")
    }
    return bare


# ---- Unique ids of messages
#
# The ids distinguish one message that was sent twice from two messages. An id is the upper-case hex
# of the host's IP (4 bytes), the process id (2), a random number of the process (4), the
# milliseconds since the month began in local time (4) and a counter (2). Tools decode the time from
# the id, so the layout has to be Java's.

_NONE = (UniqueIds(""), 0, 0)
_month = _NONE
"""Id generator of this process, and begin and end of the present month in milliseconds."""


def make_unique_id(now_ms: int | None = None) -> str:
    """Return a new unique id."""
    ids, month_ms = present_ids(now_ms)
    return ids.next(month_ms)


def present_ids(now_ms: int | None = None) -> tuple[UniqueIds, int]:
    """Return the id generator, and the milliseconds since the month began."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    ids, begins_ms, ends_ms = _month
    if not begins_ms <= now < ends_ms:
        ids, begins_ms, _ = _begin_month(now)
    return ids, now - begins_ms


def _begin_month(now_ms: int) -> tuple[UniqueIds, int, int]:
    global _month
    today = datetime.fromtimestamp(now_ms / 1000)  # noqa: DTZ006 - local time is the rule
    first = today.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    next_year, next_month = divmod(first.month, 12)
    following = first.replace(year=first.year + next_year, month=next_month + 1)
    ids = _month[0]
    if _month is _NONE:
        ip = bytes(int(part) for part in local_ip().split("."))
        # Java uses the hash of its class loader, which distinguishes two programs in one process.
        own = random.SystemRandom().getrandbits(32)
        ids = UniqueIds(f"{ip.hex().upper()}{os.getpid() & 0xFFFF:04X}{own:08X}")
    _month = (ids, int(first.timestamp() * 1000), int(following.timestamp() * 1000))
    return _month


def _after_fork_in_child() -> None:
    global _month
    _month = _NONE


os.register_at_fork(after_in_child=_after_fork_in_child)
