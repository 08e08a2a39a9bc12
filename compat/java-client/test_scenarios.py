"""The official Java client against a cluster of two brokers, one scenario a test.

The Java side checks what needs Java's types and fails with its stack; what is left to see here is
how fast things were and which words a refusal had.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pytest

from compat.java_client import AGAINST_JAVA, COMPRESSION, JavaClient

if TYPE_CHECKING:
    from compat.java_client import Cluster

ON_TIME_MS = 900
"""A broker that only scans held pulls takes seconds; a busy machine takes hundreds of ms."""
DELAY_LEVELS_MS = {"1": 1000, "2": 2000, "6": 3000}
ILLEGAL = (
    "the message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit 4194304B, msg properties length limit 32KB."
)

SCENARIOS = (
    "send_sync",
    "send_async",
    "send_oneway",
    "send_batch",
    "send_selector",
    "send_creates_topic",
    "push_concurrently",
    "push_orderly",
    "push_broadcast",
    "push_tags",
    "push_sql",
    "transactions",
    "members_are_told",
    "pull_classic",
    "pull_long_poll",
    "pull_balanced",
    "lite_subscribe",
    "lite_assign",
    "query_by_key",
    "query_by_time",
    "new_group_begins",
    "reset_by_commit",
    "reset_offline",
    "reset_online",
    "request_reply",
    "trace",
    "running_info",
)


def test_headers_have_the_chosen_encoding(client: JavaClient, encoding: str) -> None:
    assert client.play("encoding") == encoding


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_succeeds(client: JavaClient, scenario: str) -> None:
    client.play(scenario)


def test_delayed_messages_come_when_they_are_due(client: JavaClient) -> None:
    late_ms = client.play("delay", levels=DELAY_LEVELS_MS)["late_ms"]
    assert len(late_ms) == 30
    assert min(late_ms) >= -1, sorted(late_ms)
    assert statistics.median(late_ms) < ON_TIME_MS, sorted(late_ms)


@pytest.mark.skipif(AGAINST_JAVA, reason="4.9.7 does not know them")
def test_messages_come_at_the_requested_time(client: JavaClient) -> None:
    late_ms = client.play("timers")
    assert len(late_ms) == 3
    assert min(late_ms.values()) >= -1, late_ms
    assert max(late_ms.values()) <= 5000, late_ms


def test_an_invalid_selector_is_refused_when_subscribing(client: JavaClient) -> None:
    assert "java.lang.RuntimeException: 'NULL' cannot be compared." in client.play("bad_sql")


def test_a_waiting_consumer_receives_messages_at_once(client: JavaClient) -> None:
    # Long polls: a broker that only scanned held pulls would take seconds.
    assert client.play("push_latency")["median_ms"] < 900


def test_bodies_beyond_4_mib_are_refused(client: JavaClient) -> None:
    assert client.play("body_of_4_mib").startswith(ILLEGAL)


def test_bodies_are_compressed_and_read_by_the_other_side(
    client: JavaClient, encoding: str
) -> None:
    assert client.play("compressed_body") == COMPRESSION[encoding]


def test_properties_beyond_32_kb_are_refused(client: JavaClient) -> None:
    assert client.play("properties_of_32_kb").startswith(ILLEGAL)


def test_invalid_topic_names_are_refused(client: JavaClient) -> None:
    assert client.play("unicode_topic") == {
        "Überweisung-支付": "1 The specified topic contains illegal characters, "
        "allowing only ^[%|a-zA-Z0-9_-]+$",
        "long": "1 The specified topic is longer than topic max length.",
        "": "1 The specified topic is blank.",
        "SCHEDULE_TOPIC_XXXX": "16 Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden.",
    }


def test_a_message_is_found_by_its_id(client: JavaClient) -> None:
    refusal = client.play("query_by_id")
    assert refusal == "1 can not find message by the offset, 17592186044415"


def test_orderly_members_lock_their_queues(impatient_client: JavaClient) -> None:
    impatient_client.play("orderly_locks")


@pytest.mark.parametrize(
    "scenario", ["retry_to_dead_letters", "orderly_to_dead_letters", "send_back_by_hand"]
)
def test_a_redelivery_scenario_succeeds(impatient_client: JavaClient, scenario: str) -> None:
    impatient_client.play(scenario)


@pytest.mark.parametrize("scenario", ["broker_restarts", "broker_joins_and_leaves"])
def test_a_scenario_succeeds_while_brokers_stop_and_start(
    impatient_client: JavaClient, cluster: Cluster, scenario: str
) -> None:
    wishes = {"stop_broker": cluster.stop_broker, "start_broker": cluster.start_broker}
    impatient_client.play(scenario, wishes=wishes, limit_ms=240_000)
