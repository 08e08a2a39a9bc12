"""Observations of a cluster: its answers as values, without judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orbitmq.admin.clients import RunningInfo
from orbitmq.admin.groups import Member
from orbitmq.protocol.bodies import MessageQueue, Subscription, SubscriptionGroup

__all__ = [
    "BrokerSeen",
    "Copy",
    "GroupSeen",
    "GroupView",
    "MessageSeen",
    "QueueSeen",
    "TopicSeen",
]


@dataclass(frozen=True, slots=True)
class BrokerSeen:
    """A registered broker."""

    name: str
    address: str
    error: str | None = None
    """Reason why the broker does not answer; None if it answers."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A stored copy of a message."""

    topic: str
    queue: MessageQueue
    offset: int
    message_id: str
    offset_id: str
    stored_ms: int
    born_ms: int
    tags: str | None = None
    keys: tuple[str, ...] = ()
    properties_text: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    reconsume_times: int = 0


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """A topic of a subscription: its permissions by broker, which are empty for a missing topic."""

    name: str
    perms: Mapping[str, int]
    queues: tuple[MessageQueue, ...]
    """Queues that may be read."""
    newest: tuple[Copy, ...] = ()
    """Some of the topic's last messages."""


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """Offset of a group in a queue, ends of the queue, and the next message to consume."""

    consumer_offset: int
    min_offset: int
    max_offset: int
    head: Copy | None = None
    """Message at the group's offset, if it was fetched."""

    @property
    def lag(self) -> int:
        """Number of messages that wait."""
        return self.max_offset - self.consumer_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    """All observations of a group."""

    group: str
    now_ms: int
    brokers: tuple[BrokerSeen, ...] = ()
    configs: Mapping[str, SubscriptionGroup] = field(default_factory=dict)
    """Configuration of the group, by broker."""
    members: tuple[Member, ...] = ()
    message_model: str = "CLUSTERING"
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    """Subscriptions of the group on brokers, which are those of its latest heartbeat."""
    running: Mapping[str, RunningInfo] = field(default_factory=dict)
    """States that members report, by client id."""
    silent: tuple[str, ...] = ()
    """Members that did not answer in time."""
    topics: Mapping[str, TopicSeen] = field(default_factory=dict)
    queues: Mapping[MessageQueue, QueueSeen] = field(default_factory=dict)
    moved: frozenset[MessageQueue] = frozenset()
    """Queues in which the group's offset changed during the observation."""
    dead_letters: int = 0
    newest_dead_letter_ms: int = 0
    """Time at which the newest dead letter was stored."""

    @property
    def is_known(self) -> bool:
        """True if a broker has a configuration, members or offsets of the group."""
        return bool(self.configs or self.members or self.queues)

    def owner(self, queue: MessageQueue) -> RunningInfo | None:
        """Return the member that has a queue."""
        for info in self.running.values():
            state = info.queues.get(queue)
            if state is not None and not state.is_dropped:
                return info
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A message from the view of one group."""

    seen: GroupSeen
    committed: int | None = None
    """Offset of the group in the message's queue; None without one."""
    retries: tuple[Copy, ...] = ()
    """Copies in the group's retry topic, or on their way there."""
    retry_offsets: Mapping[MessageQueue, int] = field(default_factory=dict)
    dead_letters: tuple[Copy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSeen:
    """All observations of a message and its copies."""

    message_id: str
    now_ms: int
    topic: str | None = None
    found: Copy | None = None
    """Message in its topic, where consumers find it."""
    scheduled: tuple[Copy, ...] = ()
    """Copies that wait for a delay level."""
    timers: tuple[Copy, ...] = ()
    """Copies that wait for a delivery time."""
    halves: tuple[Copy, ...] = ()
    discarded: tuple[Copy, ...] = ()
    ended_halves: frozenset[int] = frozenset()
    """Offsets of half messages that were committed or rolled back."""
    broker_of_id: str | None = None
    """Address in the message id, if it is a broker's id."""
    brokers: tuple[BrokerSeen, ...] = ()
    log_begins_at: int | None = None
    """First offset in the log of the broker of `broker_of_id`."""
    offset_of_id: int | None = None
    delay_levels_ms: tuple[int, ...] = ()
    check_max: int = 15
    check_interval_ms: int = 60_000
    groups: Mapping[str, GroupView] = field(default_factory=dict)
    group_asked: str | None = None
