"""Admin operations against every kind of broker."""

from __future__ import annotations

import pytest

from compat.java_client import Cluster
from compat.python_client.shared import Java, Way, await_true, count
from orbitmq.admin.admin import Admin
from orbitmq.admin.async_admin import AsyncAdmin
from orbitmq.errors import NoRoute
from orbitmq.protocol.bodies import MessageQueue


def test_topics_and_groups_are_created_changed_and_deleted(
    cluster: Cluster, way: Way, topic: str, group: str
) -> None:
    with way(Admin, AsyncAdmin)(cluster.address) as admin:
        assert topic in admin.topic_names()
        assert len(admin.topic_route(topic).subscribe_queues) == 4
        admin.update_topic(topic, queues=3, brokers=["broker-b"])
        counts = {name: one.write_queue_nums for name, one in admin.topic_configs(topic).items()}
        assert counts == {"broker-a": 2, "broker-b": 3}
        admin.create_group(group, retry_max_times=5)
        assert admin.group_configs()[group]["broker-a"].retry_max_times == 5
        assert admin.group_members(group) is None
        admin.delete_group(group)
        assert group not in admin.group_configs()
        admin.delete_topic(topic)
        assert topic not in admin.topic_names()
        with pytest.raises(NoRoute):
            admin.topic_route(topic)


def test_brokers_return_their_settings_and_state(cluster: Cluster, way: Way) -> None:
    with way(Admin, AsyncAdmin)(cluster.address) as admin:
        info = admin.cluster_info()
        assert sorted(info.brokers) == ["broker-a", "broker-b"]
        address = info.brokers["broker-a"].master
        assert admin.broker_config(address)["brokerName"] == "broker-a"
        version = admin.broker_runtime_info(address)["brokerVersionDesc"]
        assert version in ("V4_9_7", "V5_4_0")


def test_offsets_and_messages_are_queried(
    cluster: Cluster, way: Way, topic: str, group: str, java: Java
) -> None:
    sent = [{"text": str(n), "keys": f"k{n} all", "sharding": 0} for n in range(10)]
    ids = java("send_list", topic=topic, messages=sent)
    with way(Admin, AsyncAdmin)(cluster.address) as admin:
        queue = MessageQueue(topic, "broker-a", 0)
        await_true("all are stored", lambda: count(admin, topic) == 10)
        assert admin.topic_ends(topic)[queue].max_offset == 10
        await_true("all are indexed", lambda: len(admin.messages_by_key(topic, "all")) == 10)

        admin.create_group(group)  # 5.x accepts no offsets of unknown groups.
        admin.set_offsets(group, {queue: 4})
        assert admin.committed_offsets(group, topic)[queue] == 4
        assert admin.group_lag(group, topic).queues[queue].lag == 6
        assert group in admin.groups_of_topic(topic)
        assert admin.reset_offsets(group, topic, "earliest")[queue] == 0
        assert admin.committed_offsets(group, topic)[queue] == 0
        assert admin.reset_offsets(group, topic, "latest")[queue] == 10
        stored = admin.message_by_id(topic, ids[7])
        assert admin.offsets_at(topic, stored.store_timestamp)[queue] <= 7

        assert stored.body == b"7"
        by_place = admin.message_by_id(topic, stored.offset_id)
        assert (by_place.message_id, by_place.queue) == (ids[7], queue)
        assert [one.body for one in admin.messages_by_key(topic, "k3")] == [b"3"]
        assert admin.messages_by_key(topic, "none") == []
