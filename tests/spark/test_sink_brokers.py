"""Repeated checks of a cluster's features by a sink, and results that end a query."""

from __future__ import annotations

import logging
from typing import Literal

import pytest

from orbitmq.errors import ConfigError, NoRoute, OrbitError
from orbitmq.spark.options import ConnectionOptions
from orbitmq.spark.sink import brokers as sink_brokers
from orbitmq.spark.sink.options import SinkOptions
from orbitmq.testing import LocalCluster


class Answers:
    """A cluster with prepared answers and simulated time."""

    def __init__(self) -> None:
        self.fault: OrbitError | None = None
        self.now = 1000.0
        self.back_at: float | None = None

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds
        if self.back_at is not None and self.now >= self.back_at:
            self.fault = None

    def __call__(self, _options: SinkOptions, _columns: frozenset[str]) -> tuple[str, ...]:
        if self.fault is not None:
            raise self.fault
        return ("broker-a",)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    made = Answers()
    monkeypatch.setattr(sink_brokers, "_ask_cluster", made)
    monkeypatch.setattr(sink_brokers, "_checked", {})
    monkeypatch.setattr(sink_brokers, "CHECK_AGAIN_S", 0.0)
    monkeypatch.setattr(sink_brokers, "_clock", made.clock)
    monkeypatch.setattr(sink_brokers, "_pause", made.pause)
    return made


def check() -> tuple[str, ...]:
    given = {"nameServer": "127.0.0.1:1", "topic": "orders", "secretKey": "Passw0rd"}
    options = SinkOptions.of(given | {"accessKey": "spark"})
    return sink_brokers.check_cluster(options, frozenset({"body", "deliverAt"}))


def test_an_absent_broker_does_not_end_a_running_query(
    answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    answers.fault = NoRoute("broker-a is away, said Passw0rd", cause="no_broker")
    with pytest.raises(NoRoute):
        check()
    answers.fault = None
    assert check() == ("broker-a",)
    answers.fault = NoRoute("broker-a is away, said Passw0rd", cause="no_broker")
    with caplog.at_level(logging.WARNING):
        assert check() == ("broker-a",)
    assert "broker-a is away" in caplog.text
    assert "Passw0rd" not in caplog.text


def test_the_first_check_of_a_process_waits_for_a_restarting_broker(
    answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    answers.fault = NoRoute("no broker is registered, said Passw0rd", cause="no_broker")
    answers.back_at = answers.now + 30
    with caplog.at_level(logging.WARNING):
        assert check() == ("broker-a",)
    assert answers.now <= 1031
    (told,) = caplog.messages
    assert "no broker is registered" in told
    assert "Passw0rd" not in told


def test_an_absent_broker_ends_the_query_after_the_timeout(answers: Answers) -> None:
    answers.fault = NoRoute("no broker is registered", cause="no_broker")
    with pytest.raises(NoRoute):
        check()
    assert 1119 <= answers.now <= 1120  # retryTimeoutMs


@pytest.mark.parametrize("cause", ["no_topic", "no_nameserver", "no_permission"])
def test_other_errors_are_not_waited_for(
    answers: Answers, cause: Literal["no_topic", "no_nameserver", "no_permission"]
) -> None:
    answers.fault = NoRoute("it does not exist", cause=cause)
    with pytest.raises(NoRoute):
        check()
    assert answers.now == 1000


def test_a_joining_broker_without_a_needed_feature_ends_the_query(answers: Answers) -> None:
    assert check() == ("broker-a",)
    answers.fault = ConfigError("column deliverAt needs brokers that deliver at a time")
    with pytest.raises(ConfigError, match="deliver at a time"):
        check()


@pytest.mark.parametrize("topic", ["orders", None])
def test_a_topic_is_not_reported_missing_without_registered_brokers(topic: str | None) -> None:
    with LocalCluster(brokers=0) as nameserver, pytest.raises(NoRoute) as caught:
        sink_brokers.ask_brokers(ConnectionOptions((nameserver.address,)), topic)
    assert caught.value.cause == "no_broker"
