"""Groups that are too far behind lose the right to consume when the setting is on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire

OnBroker = Callable[[Callable[[], Any]], Any]


def commit(wire: Wire, group: str, offset: int) -> None:
    ext = {"consumerGroup": group, "topic": "t", "queueId": "0", "commitOffset": str(offset)}
    assert wire.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext).code == 0


@pytest.fixture
def groups_behind(wire: Wire) -> Wire:
    """Store ten messages; `slow` has handled one, `quick` nine, `gone` none while offline."""
    for _ in range(10):
        assert wire.send("t", b"x" * 1000).code == 0
    for group, offset in (("slow", 1), ("quick", 9), ("gone", 0)):
        if group != "gone":
            wire.heartbeat(group, "t")
        commit(wire, group, offset)
    return wire


@pytest.mark.parametrize("encoding", ["json"], indirect=True)
@pytest.mark.parametrize(("wanted", "disabled"), [("true", {"slow"}), ("false", set())])
def test_a_group_far_behind_loses_the_right_to_consume(
    cluster: LocalCluster, groups_behind: Wire, on_broker: OnBroker, wanted: str, disabled: set[str]
) -> None:
    (broker,) = cluster.brokers.values()

    def round() -> set[str]:
        broker.config.take(
            {"disableConsumeIfConsumerReadSlowly": wanted, "consumerFallbehindThreshold": "5000"}
        )
        broker.slow_consumers.round()
        groups = broker.groups.groups.values()
        return {group.group_name for group in groups if not group.consume_enable}

    assert on_broker(round) == disabled
    pulled = groups_behind.pull("t", 1, consumerGroup="slow")
    assert (pulled.code == ResponseCode.NO_PERMISSION) is bool(disabled)
    assert groups_behind.pull("t", 9, consumerGroup="quick").code == ResponseCode.SUCCESS
