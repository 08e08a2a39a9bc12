"""Settings of consumers, with RocketMQ's limits and with defaults that suit Python."""

from __future__ import annotations

import dataclasses
import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypedDict

from orbitmq.client.consumer.assignment import (
    AllocateStrategy,
    Averagely,
    AveragelyByCircle,
    ConsistentHash,
)
from orbitmq.client.consumer.offsets import StartRule
from orbitmq.client.consumer.process_queue import CacheLimits
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import ConfigError
from orbitmq.remoting.tls import Tls

__all__ = [
    "ConsumeFrom",
    "ConsumerOptions",
    "ConsumerSettings",
    "Nameservers",
    "check_group",
    "sort_options",
]

MAX_GROUP_LENGTH = 255
RESERVED_GROUP = "DEFAULT_CONSUMER"
_GROUP = re.compile(r"[%|a-zA-Z0-9_-]+")
DEFAULT_MAX_RECONSUME_TIMES = 16


def check_group(group: str) -> str:
    """Return a group's name; raises `ConfigError` for a name that brokers would reject."""
    if not group or not group.strip():
        raise ConfigError("a consumer needs a group: pass group='...'")
    if len(group) > MAX_GROUP_LENGTH:
        raise ConfigError(f"group {group[:40]}… is longer than {MAX_GROUP_LENGTH} characters")
    if not _GROUP.fullmatch(group):
        raise ConfigError(f"group {group!r}: only letters, digits and _ - % | are allowed")
    if group == RESERVED_GROUP:
        raise ConfigError(f"group {RESERVED_GROUP} is RocketMQ's own; choose another name")
    return group


ConsumeFrom = Literal["earliest", "latest", "last", "first", "end"] | int | datetime
"""Start of a new group: an end of its queues, or a time."""


@dataclass(slots=True, kw_only=True)
class ConsumerSettings:
    """Settings that all kinds of consumers share."""

    group: str
    broadcast: bool = False
    """True if every member gets every message; each member keeps its offsets in its own file."""
    consume_from: ConsumeFrom = "last"
    """Start of a group that has never consumed: ``earliest``, ``latest``, ``last`` or a time.

    ``last`` is RocketMQ's rule: the end of a queue, but the first message of a young queue, whose
    first message is still in memory. ``latest`` is the end of every queue that exists at the start.
    ``latest`` and a time also apply to young queues. ``first`` is another name of ``earliest``,
    ``end`` of ``latest``.
    """
    strategy: AllocateStrategy | str = "AVG"
    """Rule by which the members of the group share the queues; it must be the same for all members.
    An object of a class in `orbitmq.client.consumer.assignment`, or ``AVG``, ``AVG_BY_CIRCLE``,
    ``CONSISTENT_HASH``."""
    concurrency: int = 20
    """Number of threads, or tasks, that handle messages at the same time."""
    pull_batch_size: int = 1024
    """Maximum number of messages per pull; Apache's brokers return at most 32 by default."""
    pull_interval_ms: float = 0
    max_cached_messages: int = 4096
    """Limit of the messages of one queue that the consumer holds."""
    max_cached_bytes: int = 64 << 20
    """Limit of the bytes of one queue that the consumer holds."""
    max_cached_messages_of_topic: int | None = None
    """Limit of the messages of one topic that the consumer holds: RocketMQ's
    ``pullThresholdForTopic``. Each queue of the topic in this consumer gets an equal part, which
    replaces `max_cached_messages`. None means no such limit."""
    max_cached_bytes_of_topic: int | None = None
    """Limit of the bytes of one topic that the consumer holds: RocketMQ's
    ``pullThresholdSizeForTopic`` (in MiB there). Each queue of the topic in this consumer gets an
    equal part, which replaces `max_cached_bytes`. None means no such limit."""
    max_cached_messages_of_all: int | None = None
    """Limit of the messages of all queues that the consumer holds; each queue gets an equal part.
    None means no such limit."""
    max_cached_bytes_of_all: int | None = None
    """Limit of the bytes of all queues that the consumer holds; each queue gets an equal part.
    None means no such limit."""
    max_span: int = 16_384
    """Limit of the distance between the offsets of one queue that are being handled."""
    max_reconsume_times: int = -1
    """Number of retries before a message becomes a dead letter; -1 means 16, or no limit for
    ordered messages."""
    suspend_ms: int = 1000
    """Time for which an ordered queue waits before the retry of a message."""
    consume_timeout_s: float = 900
    """Time after which an unordered message is retried although its handler is still running. The
    message is sent back to the broker, so another consumer may get it."""
    trace: bool | str = False
    """True to record each handler call, for tools; a string is the name of the topic that gets the
    records. Only push consumers call handlers; other consumers reject this setting."""
    stop_timeout_s: float = 30
    """Time for which `close` waits for running handlers."""
    suspend_pull_ms: int = 15_000
    """Time for which a broker may hold a pull that finds no messages."""
    pull_timeout_ms: int = 30_000
    error_delay_ms: float = 1000
    """Pause before the next pull of a queue after a failed pull."""
    rebalance_s: float = 20
    lock_s: float = 20
    offset_directory: Path | str | None = None
    """Directory of a broadcast consumer's offset files; None means ``~/.rocketmq_offsets``."""

    def __post_init__(self) -> None:
        check_group(self.group)
        for name, low, high in (
            ("concurrency", 1, 1000),
            ("pull_batch_size", 1, 65_535),
            ("max_cached_messages", 1, 65_535),
            ("max_span", 1, 65_535),
            ("max_cached_bytes", 1, 1 << 40),
            ("pull_interval_ms", 0, 65_535),
            ("max_cached_messages_of_topic", 1, 6_553_500),
            ("max_cached_bytes_of_topic", 1, 1 << 40),
            ("max_cached_messages_of_all", 1, 1 << 40),
            ("max_cached_bytes_of_all", 1, 1 << 40),
        ):
            value = getattr(self, name)
            if value is None and name.endswith(("_of_topic", "_of_all")):
                continue
            if not low <= value <= high:
                raise ConfigError(f"{name} must lie between {low} and {high}, it is {value}")
        if self.pull_timeout_ms < self.suspend_pull_ms:
            raise ConfigError("pull_timeout_ms must not be less than suspend_pull_ms")
        StartRule.of(self.consume_from)
        _ = self.allocate_strategy

    @property
    def start_rule(self) -> StartRule:
        """Rule for the start of queues without a committed offset."""
        return StartRule.of(self.consume_from)

    @property
    def message_model(self) -> str:
        """Name of the message model in heartbeats."""
        return "BROADCASTING" if self.broadcast else "CLUSTERING"

    @property
    def send_back_limit(self) -> int:
        """Maximum number of retries of a message that is sent back."""
        limit = self.max_reconsume_times
        return DEFAULT_MAX_RECONSUME_TIMES if limit < 0 else limit

    @property
    def allocate_strategy(self) -> AllocateStrategy:
        """Rule by which the members of the group share the queues."""
        if not isinstance(self.strategy, str):
            return self.strategy
        known: list[AllocateStrategy] = [Averagely(), AveragelyByCircle(), ConsistentHash()]
        for strategy in known:
            if strategy.name == self.strategy:
                return strategy
        names = ", ".join(strategy.name for strategy in known)
        raise ConfigError(f"no strategy is called {self.strategy!r}; there are {names}")

    def limits(self, *, ordered: bool, queues: int = 1, of_topic: int = 1) -> CacheLimits:
        """Return the cache limits of one queue.

        `queues` is the number of this consumer's queues in all topics, `of_topic` in the queue's
        own topic. Ordered queues need no limit of the span.
        """
        return CacheLimits(
            _share(
                self.max_cached_messages,
                (self.max_cached_messages_of_topic, of_topic),
                (self.max_cached_messages_of_all, queues),
            ),
            _share(
                self.max_cached_bytes,
                (self.max_cached_bytes_of_topic, of_topic),
                (self.max_cached_bytes_of_all, queues),
            ),
            None if ordered else self.max_span,
        )


def _share(of_queue: int, *limits: tuple[int | None, int]) -> int:
    """Return the smallest part of the common limits, or the queue's own limit if none is set."""
    return min(
        (max(limit // count, 1) for limit, count in limits if limit is not None), default=of_queue
    )


# ---- Keyword arguments of consumers
#
# `ConsumerOptions` lists the settings of a consumer and those of every client, for type checkers
# and editors. `sort_options` separates the two kinds.

Nameservers = str | Iterable[str] | ClientSettings | None

_OWN = {field.name for field in dataclasses.fields(ConsumerSettings)}


class ConsumerOptions(TypedDict, total=False):
    """Keyword arguments of a consumer; see `ConsumerSettings` and `ClientSettings`."""

    broadcast: bool
    consume_from: ConsumeFrom
    strategy: AllocateStrategy | str
    concurrency: int
    pull_batch_size: int
    pull_interval_ms: float
    max_cached_messages: int
    max_cached_bytes: int
    max_cached_messages_of_topic: int
    max_cached_bytes_of_topic: int
    max_cached_messages_of_all: int
    max_cached_bytes_of_all: int
    max_span: int
    max_reconsume_times: int
    suspend_ms: int
    consume_timeout_s: float
    trace: bool | str
    stop_timeout_s: float
    suspend_pull_ms: int
    pull_timeout_ms: int
    error_delay_ms: float
    rebalance_s: float
    lock_s: float
    offset_directory: Path | str
    nameserver_domain: str
    nameserver_subgroup: str
    namespace: str
    access_key: str
    secret_key: str
    security_token: str
    tls: Tls | ssl.SSLContext | bool
    instance_name: str
    unit_name: str
    unit_mode: bool
    client_ip: str
    timeout_ms: float
    route_refresh_s: float
    heartbeat_s: float
    offset_persist_s: float


def sort_options(
    nameservers: Nameservers, group: str, options: Any, *, calls_handlers: bool = False
) -> tuple[ClientSettings, ConsumerSettings]:
    """Return the settings of the client and of the consumer; raises `ConfigError` if invalid.

    `trace` is rejected unless `calls_handlers` is True, because it records calls of handlers.
    """
    own = {name: value for name, value in options.items() if name in _OWN}
    others = {name: value for name, value in options.items() if name not in _OWN}
    settings = ConsumerSettings(group=group, **own)
    if settings.trace and not calls_handlers:
        raise ConfigError(
            "trace records the calls of functions, which only PushConsumer and AsyncPushConsumer "
            "make: leave it out here, or use one of these"
        )
    if settings.broadcast:
        # The name is part of the path of the offset file, so it must be the same after a restart.
        others.setdefault("instance_name", "DEFAULT")
    return ClientSettings.of(nameservers, **others), settings
