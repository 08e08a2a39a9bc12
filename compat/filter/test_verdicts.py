"""SQL92 verdicts: a real 4.9.7 broker and ours get the same messages and the same selectors.

One topic with one queue holds messages with properties made by chance. Every selector is first
shown to both brokers as a client shows it before it begins, then both are asked for the messages it
matches. ``FILTER_SEED=random`` looks for new pairs, a number repeats them, ``FILTER_SELECTORS``
makes them more.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from compat.conftest import MakeCluster
from compat.filter.expressions import Chances
from compat.java_cluster import BrokerSettings
from compat.twin.sides import Request, Side
from orbitmq._native import Command, decode_records, dumps_lenient, encode_properties
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster

SEED = os.environ.get("FILTER_SEED", "92")
SELECTORS = int(os.environ.get("FILTER_SELECTORS", "600"))
MESSAGES = 60
TOPIC, GROUP = "Filtered", "choosers"
SETTINGS = {"enablePropertyFilter": "true", "maxTransferCountOnMessageInMemory": "1000"}
WITH_SUBSCRIPTION = "4"


@pytest.fixture
def sides(make_java_cluster: MakeCluster) -> Iterator[list[Side]]:
    java = make_java_cluster(BrokerSettings(extra=SETTINGS))
    java.start_broker()
    with LocalCluster(settings=SETTINGS) as ours:
        (broker,) = ours.brokers.values()
        both = [
            Side(java.broker, "json", dispatches_later=True),
            Side(broker.config.address, "json", dispatches_later=False),
        ]
        yield both
        for side in both:
            side.close()


class Asking:
    """Sends each request to both brokers, one after the other."""

    def __init__(self, sides: list[Side]) -> None:
        self._sides = sides
        self._opaque = 0

    def __call__(self, request: Request) -> list[Command]:
        self._opaque += 1
        for side in self._sides:
            side.post(request, self._opaque)
        return [side.answer(self._opaque) for side in self._sides]


def send(number: int, properties: dict[str, str]) -> Request:
    ext = {
        "producerGroup": "p",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": encode_properties(properties),
    }
    return Request(RequestCode.SEND_MESSAGE, ext, b"%d" % number, writes=True)


def check(selector: str) -> Request:
    subscription = {"topic": TOPIC, "subString": selector, "expressionType": "SQL92"}
    body = {"clientId": "c", "group": GROUP, "subscriptionData": subscription}
    return Request(RequestCode.CHECK_CLIENT_CONFIG, None, dumps_lenient(body))


def pull(selector: str) -> Request:
    ext = {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": str(MESSAGES),
        "sysFlag": WITH_SUBSCRIPTION,
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": selector,
        "subVersion": "1",
        "expressionType": "SQL92",
    }
    return Request(RequestCode.PULL_MESSAGE, ext)


def matched(answer: Command) -> list[int]:
    return [record.queue_offset for record in decode_records(answer.body)]


def test_both_brokers_select_the_same_messages(sides: list[Side]) -> None:
    seed = random.randrange(1 << 30) if SEED == "random" else int(SEED)
    print(f"FILTER_SEED={seed}")
    ask, chances = Asking(sides), Chances(seed)
    given = [chances.properties() for _ in range(MESSAGES)]
    for number, properties in enumerate(given):
        assert {answer.code for answer in ask(send(number, properties))} == {0}
    seen: Counter[str] = Counter()
    for _ in range(SELECTORS):
        selector = chances.selector()
        if not selector:
            continue  # A pull without an expression is refused, as the twin test shows.
        java, ours = ask(check(selector))
        assert java.code == ours.code, f"{selector!r}: {java.remark!r}, {ours.remark!r}"
        if "java.lang" in (java.remark or ""):
            assert (java.remark or "").split(":")[0] == (ours.remark or "").split(":")[0]
        java, ours = ask(pull(selector))
        assert (java.code, java.remark) == (ours.code, ours.remark), selector
        theirs, mine = matched(java), matched(ours)
        odd = sorted(set(theirs) ^ set(mine))
        assert theirs == mine, f"{selector!r} over {[given[offset] for offset in odd]}"
        seen[
            "refused" if java.code not in (0, ResponseCode.PULL_RETRY_IMMEDIATELY) else "asked"
        ] += 1
        seen["pairs"] += MESSAGES
        seen["matches"] += len(mine)
    assert seen["pairs"] >= 2_000
    assert 0.05 < seen["matches"] / seen["pairs"] < 0.95, "chances that say nothing"
