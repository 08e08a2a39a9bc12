"""The topics of a broker, and the creation of new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbitmq.broker.state.rows import BadRows, good_rows, saved_version
from orbitmq.config import BrokerConfig
from orbitmq.protocol.bodies import DataVersion, TopicConfig
from orbitmq.protocol.flags import Permission, TopicFlag
from orbitmq.protocol.limits import MAX_QUEUES
from orbitmq.protocol.members import Members
from orbitmq.protocol.names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    OFFSET_MOVED_EVENT,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
    reply_topic,
)

__all__ = ["TopicTable"]

READ_WRITE = Permission.READ | Permission.WRITE
SCHEDULE_QUEUES = 18


class TopicTable:
    """Table of topics by name, with the version that nameservers and slaves compare.

    `on_change` is called after every change; with False if the caller registers with the
    nameservers itself. `on_queues` is called before `on_change`, with the name of a topic whose
    readable queues have changed. `on_new` is called with each new topic.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Callable[[], int],
        on_change: Callable[[bool], None] = lambda _: None,
        on_queues: Callable[[str], None] = lambda _: None,
        on_new: Callable[[TopicConfig], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._on_change = on_change
        self._on_queues = on_queues
        self._on_new = on_new
        self.version = DataVersion()
        self.topics: dict[str, TopicConfig] = {}
        self.own: set[str] = set(SYSTEM_TOPICS)
        for topic in self._built_in():
            self.topics[topic.topic_name] = topic
            self.own.add(topic.topic_name)

    def _built_in(self) -> list[TopicConfig]:
        config = self._config
        everything = READ_WRITE | Permission.INHERIT
        built_in = [
            TopicConfig(SELF_TEST_TOPIC, 1, 1),
            TopicConfig(BENCHMARK_TOPIC, 1024, 1024),
            TopicConfig(
                config.broker_cluster_name,
                perm=everything if config.cluster_topic_enable else Permission.INHERIT,
            ),
            TopicConfig(
                config.broker_name,
                1,
                1,
                perm=everything if config.broker_topic_enable else Permission.INHERIT,
            ),
            TopicConfig(OFFSET_MOVED_EVENT, 1, 1),
            TopicConfig(SCHEDULE_TOPIC, SCHEDULE_QUEUES, SCHEDULE_QUEUES),
            TopicConfig(reply_topic(config.broker_cluster_name), 1, 1),
        ]
        if config.auto_create_topic_enable:
            queues = config.default_topic_queue_nums
            built_in.append(TopicConfig(AUTO_CREATE_TOPIC, queues, queues, everything))
        if config.trace_topic_enable:
            built_in.append(TopicConfig(config.msg_trace_topic_name, 1, 1))
        return built_in

    def find(self, name: str) -> TopicConfig | None:
        """Return the topic with a name, None if there is no such topic."""
        return self.topics.get(name)

    def is_system(self, name: str) -> bool:
        """Return True for a topic of the broker itself, which clients cannot create or delete."""
        return name in self.own or name.startswith(SYSTEM_TOPIC_PREFIX)

    def create_by_send(
        self, name: str, default_topic: str, wanted_queues: int, *, unit_mode: bool
    ) -> TopicConfig | None:
        """Create the unknown topic of a message, if allowed, from the template `default_topic`.

        A retry topic needs no template.
        """
        template = self.topics.get(default_topic)
        may_inherit = self._config.auto_create_topic_enable or default_topic != AUTO_CREATE_TOPIC
        sys_flag = TopicFlag.UNIT if unit_mode else 0
        if may_inherit and template is not None and template.perm & Permission.INHERIT:
            queues = max(0, min(wanted_queues, template.write_queue_nums, MAX_QUEUES))
            return self.put(
                TopicConfig(
                    name,
                    queues,
                    queues,
                    template.perm & ~Permission.INHERIT,
                    template.topic_filter_type,
                    sys_flag,
                )
            )
        if name.startswith(RETRY_PREFIX):
            retry_flag = TopicFlag.UNIT_SUB if unit_mode else 0
            return self.put(TopicConfig(name, 1, 1, topic_sys_flag=retry_flag))
        return None

    def find_or_create(self, name: str, queues: int, *, unit_mode: bool = False) -> TopicConfig:
        """Return a topic that brokers create (retry, dead letters); create it if needed."""
        topic = self.topics.get(name)
        if topic is None:
            sys_flag = TopicFlag.UNIT_SUB if unit_mode else 0
            topic = self.put(TopicConfig(name, queues, queues, topic_sys_flag=sys_flag))
        return topic

    def put(self, topic: TopicConfig, *, announce: bool = True) -> TopicConfig:
        """Create or replace a topic."""
        before = self.topics.get(topic.topic_name)
        if before is None:
            self._on_new(topic)
        self.topics[topic.topic_name] = topic
        # Clients fetch the route of their retry topic anyway, from their first heartbeat on.
        is_new_retry = before is None and topic.topic_name.startswith(RETRY_PREFIX)
        if not is_new_retry and _queues_to_read(before) != _queues_to_read(topic):
            self._on_queues(topic.topic_name)
        self._changed(announce)
        return topic

    def delete(self, name: str) -> bool:
        """Delete a topic. Its messages stay in the log until the log files expire."""
        if self.topics.pop(name, None) is None:
            return False
        self._on_queues(name)
        self._changed()
        return True

    def set_order(self, ordered: set[str]) -> None:
        """Mark the topics in `ordered`, which a nameserver returned, as ordered."""
        changed = False
        for topic in self.topics.values():
            order = topic.topic_name in ordered
            changed |= topic.order != order
            topic.order = order
        if changed:
            self._changed()

    def touch(self) -> None:
        """Increase the version of an unchanged table, so that nameservers accept it again."""
        self._changed()

    def _changed(self, announce: bool = True) -> None:
        self.version = self.version.next(self._clock())
        self._on_change(announce)

    def load(self, value: Members) -> BadRows:
        """Update the table with the rows of a file or of a master; return the bad rows."""
        topics, bad = good_rows(value.table("topicConfigTable"), TopicConfig.from_json)
        self.topics |= topics
        self.version = saved_version(value)
        return bad

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """Copy the table; return a function that converts the copy to the form of `as_json`."""
        version, topics = self.version.as_json(), dict(self.topics)

        def values() -> dict[str, Any]:
            table = {name: topics[name].as_json() for name in sorted(topics)}
            return {"dataVersion": version, "topicConfigTable": table}

        return values

    def as_json(self) -> dict[str, Any]:
        """Return the table in the form of the file and the wire."""
        return self.snapshot()()


def _queues_to_read(topic: TopicConfig | None) -> int:
    return topic.read_queue_nums if topic is not None and topic.is_readable else 0
