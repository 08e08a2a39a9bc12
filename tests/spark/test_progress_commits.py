"""Offsets of a group: committed concurrently, with pauses after refusals."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from orbitmq import Admin
from orbitmq.errors import BrokerBusy
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.remoting.router import Refused
from orbitmq.spark.options import ConnectionOptions
from orbitmq.spark.progress_commits import LEAVE_ALONE_S, ProgressCommits
from orbitmq.spark.source.batch_reader import losses_of
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import reader, refusing
from tests.spark.test_pulling import WatchedCluster

GROUP = "shown"
TRIGGER_S = 0.01


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def view(cluster: LocalCluster) -> Iterator[WatchedCluster]:
    connection = ConnectionOptions(
        (cluster.address,), access_key="AK-hidden", secret_key="SK-hidden"
    )
    made = WatchedCluster(connection, GROUP)
    yield made
    made.close()


def committed(cluster: LocalCluster, topic: str) -> list[int]:
    with Admin(cluster.address) as admin:
        offsets = admin.committed_offsets(GROUP, topic)
    return [offsets[queue] for queue in sorted(offsets)]


def test_all_queues_are_committed_concurrently(
    cluster: LocalCluster, view: WatchedCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=64)
    clock = Clock()
    commits = ProgressCommits(view, clock)
    for offset in (5, 7):
        commits.report({MessageQueue(topic, "broker-a", n): offset for n in range(64)})
        assert committed(cluster, topic) == [offset] * 64
    (link,) = view.made  # One connection for both.
    assert max(link.under_way) == 64
    clock.now += 300  # The broker has closed it meanwhile.
    link.close()
    commits.report({MessageQueue(topic, "broker-a", 0): 9})
    assert committed(cluster, topic)[0] == 9
    commits.close()


def test_a_refused_topic_is_paused_and_logged_once(
    cluster: LocalCluster,
    view: WatchedCluster,
    new_topic: NewTopic,
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused, taken = new_topic(cluster, queues=8), new_topic(cluster, queues=1)
    clock = Clock()
    commits = ProgressCommits(view, clock)
    minutes, last = 1, 0
    text = f"topic {refused} is not for accessKey=AK-hidden"
    refusal = Refused(ResponseCode.NO_PERMISSION, text)  # The text of an ACL refusal.
    code = RequestCode.UPDATE_CONSUMER_OFFSET
    with (
        refusing(cluster, code, refused, refusal) as asked,
        caplog.at_level(logging.INFO, "orbitmq.spark"),
    ):
        for last in range(int(minutes * 60 / TRIGGER_S)):
            where = {MessageQueue(refused, "broker-a", n): last for n in range(8)}
            # Another topic of the same broker is not affected.
            commits.report(where | {MessageQueue(taken, "broker-a", 0): last // 1000})
            clock.now += TRIGGER_S
    assert 2 <= asked[refused] <= 8 + minutes * 60 / LEAVE_ALONE_S
    assert committed(cluster, taken) == [last // 1000]
    (warning,) = caplog.records
    assert f"progress of {GROUP} in topic '{refused}' on broker broker-a" in warning.message
    assert "hidden" not in caplog.text
    clock.now += LEAVE_ALONE_S
    with caplog.at_level(logging.INFO, "orbitmq.spark"):
        commits.report({MessageQueue(refused, "broker-a", n): last for n in range(8)})
    assert committed(cluster, refused) == [last] * 8
    assert "shown again" in caplog.text
    commits.close()


def test_an_absent_broker_is_paused_for_all_topics(
    view: WatchedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    commits = ProgressCommits(view, Clock())
    for _ in range(100):
        commits.report({MessageQueue(topic, "nowhere", 0): 1 for topic in ("one", "two")})
    assert len(caplog.records) == 1
    commits.close()


def test_errors_of_a_task_are_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    options = {"accessKey": "AK-hidden", "secretKey": "SK-hidden"}
    stream = reader("127.0.0.1:1", subscribe="t", fetchOffset__retryIntervalMs=0, **options)
    losses = losses_of(stream.options)
    with caplog.at_level(logging.INFO, "orbitmq.spark"):
        losses.had_trouble(BrokerBusy(2, "busy with accessKey=AK-hidden"))
    assert "busy with accessKey=********" in caplog.text


def test_progress_is_committed_at_once_after_a_broker_restart(
    new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalCluster() as own:
        topic = new_topic(own, queues=1)
        view = WatchedCluster(ConnectionOptions((own.address,)), GROUP)
        commits = ProgressCommits(view, Clock())
        queue = MessageQueue(topic, "broker-a", 0)
        commits.report({queue: 0})
        own.stop_broker("broker-a")
        own.start_broker("broker-a")
        with caplog.at_level(logging.WARNING):
            commits.report({queue: 0, MessageQueue(topic, "broker-a", 1): 0})
        commits.close()
        view.close()
    assert not [each for each in caplog.records if each.name.startswith("orbitmq.spark")]
