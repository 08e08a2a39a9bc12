"""A cluster that does not answer at once: asked again for so long, and said once."""

from __future__ import annotations

import logging

import pytest

from orbitmq.errors import BrokerRefused, ConnectionLost
from orbitmq.protocol.codes import ResponseCode
from orbitmq.spark.cluster import Cluster
from orbitmq.spark.options import Connection

CONNECTION = Connection(("127.0.0.1:1",), access_key="reader", secret_key="s3cret")


def test_what_may_help_is_tried_again_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    pauses: list[float] = []
    cluster = Cluster(CONNECTION, "group", retries=3, retry_interval_ms=250, pause=pauses.append)
    tries = 0

    def third_time_lucky() -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionLost(f"no answer from {CONNECTION.nameservers[0]} to s3cret")
        return "found"

    with caplog.at_level(logging.WARNING):
        assert cluster.patiently(third_time_lucky) == "found"
    assert pauses == [0.25, 0.25]
    (said,) = caplog.messages
    assert "up to 3 times" in said
    assert "127.0.0.1:1" in said
    assert "s3cret" not in said


def test_what_does_not_help_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    pauses: list[float] = []
    cluster = Cluster(CONNECTION, "group", pause=pauses.append)
    refusal = BrokerRefused(ResponseCode.NO_PERMISSION, "no", address="127.0.0.1:2")

    def refused() -> None:
        raise refusal

    with caplog.at_level(logging.WARNING), pytest.raises(BrokerRefused):
        cluster.patiently(refused)
    assert not pauses
    assert not caplog.messages


def test_the_last_try_raises_what_it_met() -> None:
    pauses: list[float] = []
    cluster = Cluster(CONNECTION, "group", retries=2, pause=pauses.append)

    def lost() -> None:
        raise ConnectionLost("gone")

    with pytest.raises(ConnectionLost, match="gone"):
        cluster.patiently(lost)
    assert len(pauses) == 2
