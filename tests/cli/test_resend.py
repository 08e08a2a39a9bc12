"""Dead letters that are sent again: failures do not stop others, and retries count anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from orbitmq._native import NewMessage, Record
from orbitmq.admin.admin import Admin
from orbitmq.cli.core.exits import ExitCode
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.testing import LocalCluster
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


def test_an_unsendable_dead_letter_does_not_stop_the_others(
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
    ran = run(*resend, code=ExitCode.FAILED)
    assert ran.json["count"] == 2
    places = [one["place"] for one in ran.json["failed"]]
    assert places == [f"%DLQ%unlucky/{broker.config.broker_name}/0/{at}" for at in (1, 2, 3)]
    assert "3 messages cannot be sent again" in ran.err
    sent = broker.store.read("resent", 0, 0, max_messages=10).records()
    assert [record.body for record in sent] == [b"first", b"last"]
    assert sent[0].properties["odd"] == "a\1b"


def test_a_dead_letter_of_a_group_without_retries_goes_back_to_the_group(
    run: Run, cluster: LocalCluster, admin: Admin
) -> None:
    bury(cluster, admin, "patient", b"1", b"2", b"3")
    for round_ in (1, 2):
        assert run("message", "resend", "-g", "patient", "--all", "-o", "json").json["count"] == 3
        assert bodies(cluster, "%DLQ%patient") == [b"1", b"2", b"3"], "no new dead letters"
        assert bodies(cluster, "%RETRY%patient") == [b"1", b"2", b"3"] * round_


def test_a_dead_letter_that_died_again_is_sent_once(
    run: Run, cluster: LocalCluster, admin: Admin
) -> None:
    bury(cluster, admin, "stubborn", b"1", b"2")
    run("message", "resend", "-g", "stubborn", "--all")
    (broker,) = cluster.brokers.values()
    for number, record in enumerate(records(cluster, "%RETRY%stubborn")):
        ext = {"offset": str(record.physical_offset), "group": "stubborn", "delayLevel": "0"}
        with closing(BlockingNetwork()) as network:
            answer = network.invoke(
                broker.config.address, RequestCode.CONSUMER_SEND_MSG_BACK, ext=ext
            )
        assert answer.code == ResponseCode.SUCCESS
        assert len(records(cluster, "%DLQ%stubborn")) == 3 + number
    again = run("message", "resend", "-g", "stubborn", "--all", "-o", "json").json
    assert again["count"] == 2, "each message once, not its first death, too"
    assert bodies(cluster, "%RETRY%stubborn") == [b"1", b"2", b"1", b"2"]
    limit = ("--limit", "1", "--dry-run", "-o", "json")
    listed = run("message", "resend", "-g", "stubborn", "--all", *limit).json
    assert len(listed) == 1


def bury(cluster: LocalCluster, admin: Admin, group: str, *letters: bytes) -> None:
    """Give dead letters to a group that allows no retry."""
    (broker,) = cluster.brokers.values()
    admin.create_group(group, retry_max_times=0)
    admin.create_topic(f"%RETRY%{group}", queues=1)
    admin.create_topic(f"%DLQ%{group}", queues=1)

    async def append() -> None:
        for body in letters:
            message = NewMessage(f"%DLQ%{group}", body, properties="RETRY_TOPIC\1resent")
            broker.store.append(message, now_ms=broker.clock())

    cluster.run(append())


def records(cluster: LocalCluster, topic: str) -> list[Record]:
    (broker,) = cluster.brokers.values()
    return broker.store.read(topic, 0, 0, max_messages=100).records()


def bodies(cluster: LocalCluster, topic: str) -> list[bytes]:
    return [record.body for record in records(cluster, topic)]
