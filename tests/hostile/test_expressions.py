"""SQL expressions designed to cost the broker memory or time."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq._native import dumps_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode
from tests.broker.conftest import Wire
from tests.hostile.conftest import Victim

SQL: dict[str, Any] = {"expressionType": "SQL92"}
ANSWERED: set[int] = {ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY}


def nested_between(levels: int) -> str:
    """Return an expression that doubles with each level if the operand of BETWEEN is copied."""
    text = "a"
    for _ in range(levels):
        text = f"-({text} BETWEEN 1 AND 2)"
    return f"{text} IS NULL"


def heartbeat(wire: Wire, group: str, expressions: list[str]) -> int:
    wanted = [
        {"topic": f"t{n}", "subString": text, "subVersion": 1, "expressionType": "SQL92"}
        for n, text in enumerate(expressions)
    ]
    consumer = {"groupName": group, "subscriptionDataSet": wanted}
    body = dumps_lenient({"clientID": "c", "consumerDataSet": [consumer]})
    return wire.ask(RequestCode.HEART_BEAT, body=body).code


def switch_filters(wire: Wire, on: str) -> None:
    body = f"enablePropertyFilter={on}".encode()
    assert wire.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body).code == 0


@pytest.mark.parametrize("filters", ["false", "true"])
def test_nested_expressions_in_heartbeats_do_not_fill_memory(victim: Victim, filters: str) -> None:
    with victim.keeps(within_mib=50):
        wire = Wire(victim.broker)
        switch_filters(wire, filters)
        for number in range(20):
            assert heartbeat(wire, f"bombs{number}", [nested_between(18)] * 5) == 0
            victim.serves_others()
        switch_filters(wire, "false")
        wire.close()


def test_expensive_expressions_in_pulls_do_not_delay_others(victim: Victim) -> None:
    producer = Wire(victim.broker)
    for _ in range(100):
        producer.send("dear", b"x", properties="a\x011" + "0" * 20_000)
    producer.close()
    with victim.keeps(within_mib=50):
        wire = Wire(victim.broker)
        switch_filters(wire, "true")
        for number in range(100):
            dear = " AND ".join(["a > 5.0"] * 2000) + f" AND a > {number}.0"
            # Messages not matched within the time share are left to the next pulls.
            assert wire.pull("dear", **SQL, subscription=dear).code in ANSWERED
            assert wire.pull("dear", **SQL, subscription=nested_between(18)).code in ANSWERED
        victim.serves_others()
        refused = wire.pull("dear", **SQL, subscription="a" + " OR a" * 100_000)
        assert refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        switch_filters(wire, "false")
        wire.close()
