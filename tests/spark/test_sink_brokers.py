"""When a sink asks again what its cluster can do, and what of the answer ends a query."""

from __future__ import annotations

import logging

import pytest

from orbitmq.errors import ConfigError, NoRoute, OrbitError
from orbitmq.spark import sink_brokers
from orbitmq.spark.sink_options import SinkOptions


class Answers:
    """A cluster that answers as it is told to."""

    def __init__(self) -> None:
        self.fault: OrbitError | None = None

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
    return made


def check() -> tuple[str, ...]:
    given = {"nameServer": "127.0.0.1:1", "topic": "orders", "secretKey": "Passw0rd"}
    options = SinkOptions.of(given | {"accessKey": "spark"})
    return sink_brokers.check_cluster(options, frozenset({"body", "deliverAt"}))


def test_a_broker_that_is_away_ends_no_query_that_has_begun(
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


def test_a_broker_that_joins_and_breaks_the_promise_ends_it(answers: Answers) -> None:
    assert check() == ("broker-a",)
    answers.fault = ConfigError("column deliverAt needs brokers that deliver at a time")
    with pytest.raises(ConfigError, match="deliver at a time"):
        check()
