"""Dead letters that are sent again: one that cannot be stops no other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orbitmq._native import NewMessage
from orbitmq.admin.admin import Admin
from orbitmq.cli.exits import Exit
from orbitmq.testing import LocalCluster
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


def test_a_dead_letter_that_cannot_be_sent_stops_no_other(
    run: Run, cluster: LocalCluster, admin: Admin
) -> None:
    (broker,) = cluster.brokers.values()
    admin.create_topic("%DLQ%unlucky", queues=1)
    admin.create_topic("resent", queues=1)

    async def bury() -> None:
        for body, properties in (
            (b"first", "RETRY_TOPIC\1resent\2odd\1a\1b"),
            (b"", "RETRY_TOPIC\1resent"),
            (b"long", "RETRY_TOPIC\1resent\2p\1" + "v" * 32_730),
            (b"homeless", "RETRY_TOPIC\1no topic !"),
            (b"last", "RETRY_TOPIC\1resent"),
        ):
            message = NewMessage("%DLQ%unlucky", body, properties=properties)
            broker.store.append(message, now_ms=broker.clock())

    cluster.run(bury())
    resend = ("message", "resend", "-g", "unlucky", "--all", "--to", "topic", "-o", "json")
    ran = run(*resend, code=Exit.FAILED)
    assert ran.json["count"] == 2
    places = [one["place"] for one in ran.json["failed"]]
    assert places == [f"%DLQ%unlucky/{broker.config.broker_name}/0/{at}" for at in (1, 2, 3)]
    assert "3 messages cannot be sent again" in ran.err
    sent = broker.store.read("resent", 0, 0, max_messages=10).records()
    assert [record.body for record in sent] == [b"first", b"last"]
    assert sent[0].properties["odd"] == "a\1b"
