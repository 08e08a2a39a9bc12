"""What a cluster said, as values; nothing here has an opinion."""

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
    """A broker that is registered."""

    name: str
    address: str
    error: str | None = None
    """Why it does not answer, if it does not."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A message as it is stored somewhere."""

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
    """A topic a group wants: what may be done with it, by broker; nothing if it does not exist."""

    name: str
    perms: Mapping[str, int]
    queues: tuple[MessageQueue, ...]
    """Those that may be read."""
    newest: tuple[Copy, ...] = ()
    """Some of its last messages."""


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """How far a group is in a queue, and what it has to do next."""

    consumer_offset: int
    min_offset: int
    max_offset: int
    head: Copy | None = None
    """The message at the group's offset, if that was looked up."""

    @property
    def lag(self) -> int:
        """How many messages wait."""
        return self.max_offset - self.consumer_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    """All that was seen of a group."""

    group: str
    now_ms: int
    brokers: tuple[BrokerSeen, ...] = ()
    configs: Mapping[str, SubscriptionGroup] = field(default_factory=dict)
    """How it is set up, by broker."""
    members: tuple[Member, ...] = ()
    message_model: str = "CLUSTERING"
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    """What brokers take it to want: what its latest heartbeat said."""
    running: Mapping[str, RunningInfo] = field(default_factory=dict)
    """What its members say, by client id."""
    silent: tuple[str, ...] = ()
    """Members that did not answer in time."""
    topics: Mapping[str, TopicSeen] = field(default_factory=dict)
    queues: Mapping[MessageQueue, QueueSeen] = field(default_factory=dict)
    moved: frozenset[MessageQueue] = frozenset()
    """Queues in which its offset changed while it was looked at."""
    dead_letters: int = 0
    newest_dead_letter_ms: int = 0
    """When the last of them was stored."""

    @property
    def is_known(self) -> bool:
        """Whether anybody has heard of it."""
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
    """A message as one group has to do with it."""

    seen: GroupSeen
    committed: int | None = None
    """The group's offset in the message's queue; None if it has none."""
    retries: tuple[Copy, ...] = ()
    """Copies in the group's retry topic, or on their way there."""
    retry_offsets: Mapping[MessageQueue, int] = field(default_factory=dict)
    dead_letters: tuple[Copy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSeen:
    """All that was seen of a message, wherever copies of it are."""

    message_id: str
    now_ms: int
    topic: str | None = None
    found: Copy | None = None
    """The message where consumers find it."""
    scheduled: tuple[Copy, ...] = ()
    """Copies that wait for a delay level."""
    timers: tuple[Copy, ...] = ()
    """Copies that wait for a time."""
    halves: tuple[Copy, ...] = ()
    discarded: tuple[Copy, ...] = ()
    ended_halves: frozenset[int] = frozenset()
    """Offsets of half messages that were committed or rolled back."""
    broker_of_id: str | None = None
    """The address in its id, if the id is one that a broker gives."""
    brokers: tuple[BrokerSeen, ...] = ()
    log_begins_at: int | None = None
    """The first offset of that broker's log."""
    offset_of_id: int | None = None
    delay_levels_ms: tuple[int, ...] = ()
    check_max: int = 15
    check_interval_ms: int = 60_000
    groups: Mapping[str, GroupView] = field(default_factory=dict)
    group_asked: str | None = None
