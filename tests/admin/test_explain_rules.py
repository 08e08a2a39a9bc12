"""The rules of explaining, without a cluster: what was seen goes in, findings come out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orbitmq.admin.clients import QueueState, RunningInfo
from orbitmq.admin.explain.findings import Severity, Verdict
from orbitmq.admin.explain.group_rules import diagnose_group
from orbitmq.admin.explain.message_rules import diagnose_message
from orbitmq.admin.explain.observations import (
    BrokerSeen,
    Copy,
    GroupSeen,
    GroupView,
    MessageSeen,
    QueueSeen,
    TopicSeen,
)
from orbitmq.admin.groups import Member
from orbitmq.protocol.bodies import MessageQueue, Subscription, SubscriptionGroup

NOW = 1_700_000_000_000
QUEUE = MessageQueue("T", "a", 0)
MEMBER = Member("c1", "10.0.0.9:1", "JAVA", 407)
ALL = Subscription.of_tags("T", "*")


def copy(offset: int = 5, *, age_ms: int = 600_000, **fields: Any) -> Copy:
    return Copy("T", QUEUE, offset, "M", "O", NOW - age_ms, NOW - age_ms, **fields)


def held(count: int = 0, *, pulled_ago_ms: int = 10, locked: bool = False) -> QueueState:
    return QueueState(5, 5, 5 + count, count, 0, False, locked, NOW - pulled_ago_ms, NOW - 60_000)


def running(state: QueueState | None = None, **properties: str) -> RunningInfo:
    queues = {QUEUE: state or held()}
    return RunningInfo("c1", properties, (ALL,), queues, {})


def group(**changes: Any) -> GroupSeen:
    """A group that is behind by five and moving."""
    seen = GroupSeen(
        group="g",
        now_ms=NOW,
        brokers=(BrokerSeen("a", "10.0.0.1:1"),),
        configs={"a": SubscriptionGroup("g")},
        members=(MEMBER,),
        subscriptions={"T": ALL},
        running={"c1": running()},
        topics={"T": TopicSeen("T", {"a": 6}, (QUEUE,))},
        queues={QUEUE: QueueSeen(5, 0, 10, copy())},
        moved=frozenset({QUEUE}),
    )
    return replace(seen, **changes)


def verdicts(seen: GroupSeen) -> list[Verdict]:
    return [one.verdict for one in diagnose_group(seen)]


STILL: dict[str, Any] = {"moved": frozenset()}


def test_a_group_that_is_up_to_date_is_silent() -> None:
    assert diagnose_group(group(queues={QUEUE: QueueSeen(10, 0, 10)}, **STILL)) == []


@pytest.mark.parametrize(
    ("hours_ago", "severity"), [(0, Severity.FAULT), (2, Severity.NOTE), (5000, Severity.NOTE)]
)
def test_dead_letters_are_a_fault_when_they_are_new_and_a_remark_when_they_are_old(
    hours_ago: int, severity: Severity
) -> None:
    newest_ms = NOW - hours_ago * 3_600_000 - 1000
    seen = group(queues={QUEUE: QueueSeen(10, 0, 10)}, dead_letters=1, **STILL)
    (finding,) = diagnose_group(replace(seen, newest_dead_letter_ms=newest_ms))
    assert (finding.verdict, finding.severity) == (Verdict.HAS_DEAD_LETTERS, severity)
    assert finding.evidence == {"count": 1, "newestMs": newest_ms}


def test_a_group_that_moves_is_no_fault() -> None:
    (finding,) = diagnose_group(group())
    assert (finding.verdict, finding.severity) == (Verdict.CATCHING_UP, Severity.NOTE)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"members": (), "running": {}}, Verdict.NOBODY_ONLINE),
        (
            {"configs": {"a": SubscriptionGroup("g", consume_enable=False)}},
            Verdict.CONSUMING_DISABLED,
        ),
        ({"topics": {"T": TopicSeen("T", {}, ())}}, Verdict.TOPIC_MISSING),
        ({"topics": {"T": TopicSeen("T", {"a": 2}, ())}}, Verdict.TOPIC_NOT_READABLE),
        ({"brokers": (BrokerSeen("a", "10.0.0.1:1", "gone"),)}, Verdict.BROKER_DOWN),
        ({"running": {}, "silent": ("c1",)}, Verdict.CONSUMER_SILENT),
        ({"queues": {QUEUE: QueueSeen(5, 7, 10)}}, Verdict.OFFSET_EXPIRED),
        ({"queues": {QUEUE: QueueSeen(50, 7, 10)}}, Verdict.OFFSET_AHEAD),
        ({"running": {"c1": running(held(3))}}, Verdict.STUCK_ON_MESSAGE),
        ({"running": {"c1": running(held(1000))}}, Verdict.FLOW_CONTROLLED),
        (
            {"running": {"c1": running(held(9), pullThresholdForQueue="9")}},
            Verdict.FLOW_CONTROLLED,
        ),
        ({"running": {"c1": running(held(pulled_ago_ms=60_000))}}, Verdict.NOT_PULLING),
        (
            {"running": {"c1": running(held(3), PROP_CONSUMEORDERLY="true")}},
            Verdict.NOT_LOCKED,
        ),
        (
            {"running": {"c1": RunningInfo("c1", {}, (ALL,), {}, {})}},
            Verdict.QUEUE_WITHOUT_OWNER,
        ),
        (
            {"running": {"c1": RunningInfo("c1", {"PROP_CONSUMEORDERLY": "true"}, (ALL,), {}, {})}},
            Verdict.NOT_LOCKED,
        ),
    ],
)
def test_one_fault_gives_one_verdict(changes: dict[str, Any], verdict: Verdict) -> None:
    findings = diagnose_group(group(**STILL | changes))
    assert [one.verdict for one in findings] == [verdict]
    assert findings[0].severity is Severity.FAULT
    assert findings[0].advice


def test_a_message_that_has_only_just_come_is_no_fault() -> None:
    young = {QUEUE: QueueSeen(5, 0, 10, copy(age_ms=100))}
    assert verdicts(group(queues=young, running={"c1": running(held(3))}, **STILL)) == []
    unowned = {"c1": RunningInfo("c1", {}, (ALL,), {}, {})}
    assert verdicts(group(queues=young, running=unowned, **STILL)) == []


def test_a_locked_queue_may_take_its_time() -> None:
    ordered = running(held(0, locked=True), PROP_CONSUMEORDERLY="true")
    assert verdicts(group(running={"c1": ordered}, **STILL)) == []


def test_two_subscriptions() -> None:
    other = RunningInfo("c2", {}, (Subscription.of_tags("T", "x"),), {}, {})
    findings = diagnose_group(group(running={"c1": running(), "c2": other}))
    assert findings[0].verdict is Verdict.SUBSCRIPTIONS_DIFFER
    assert findings[0].evidence["versions"] == {"TAG *": ["c1"], "TAG x": ["c2"]}


def test_a_queue_on_a_broker_that_is_gone() -> None:
    gone = MessageQueue("T", "z", 0)
    info = replace(running(), queues={QUEUE: held(), gone: held()})
    findings = diagnose_group(group(running={"c1": info}))
    assert findings[0].verdict is Verdict.BROKER_DOWN
    assert findings[0].evidence["broker"] == "z"


def test_consumers_of_a_broadcast_have_offsets_of_their_own() -> None:
    assert verdicts(group(message_model="BROADCASTING", **STILL)) == []


def test_stuck_queues_of_one_consumer_are_told_once() -> None:
    second = MessageQueue("T", "a", 1)
    info = replace(running(held(2)), queues={QUEUE: held(2), second: held(2)})
    queues = {QUEUE: QueueSeen(5, 0, 10, copy()), second: QueueSeen(5, 0, 10, copy())}
    (finding,) = diagnose_group(group(running={"c1": info}, queues=queues, **STILL))
    assert len(finding.evidence["queues"]) == 2


# ---- messages


def message(**changes: Any) -> MessageSeen:
    found = copy()
    view = GroupView(seen=group(), committed=6)
    seen = MessageSeen(message_id="M", now_ms=NOW, topic="T", found=found, groups={"g": view})
    return replace(seen, **changes)


def of(**changes: Any) -> list[Verdict]:
    return [one.verdict for one in diagnose_message(message(**changes))]


def test_consumed() -> None:
    (finding,) = diagnose_message(message())
    assert (finding.verdict, finding.severity) == (Verdict.CONSUMED, Severity.OK)


def test_waiting_comes_with_the_reason() -> None:
    moving = GroupView(seen=group(), committed=5)
    assert of(groups={"g": moving}) == [Verdict.WAITING, Verdict.CATCHING_UP]
    stuck = GroupView(seen=group(running={"c1": running(held(3))}, **STILL), committed=5)
    findings = diagnose_message(message(groups={"g": stuck}))
    assert [one.verdict for one in findings] == [Verdict.WAITING, Verdict.STUCK_ON_MESSAGE]
    assert findings[0].severity is Severity.FAULT


def retry(times: int, topic: str = "SCHEDULE_TOPIC_XXXX", level: int = 2) -> Copy:
    queue = MessageQueue(topic, "a", level)
    properties = {"REAL_TOPIC": "%RETRY%g"}
    return Copy(topic, queue, 7, "M", "O", NOW, NOW, properties=properties, reconsume_times=times)


def test_retries() -> None:
    view = GroupView(seen=group(), committed=6, retries=(retry(1), retry(2)))
    seen = message(groups={"g": view}, delay_levels_ms=(1000, 5000, 10_000))
    (finding,) = diagnose_message(seen)
    assert finding.verdict is Verdict.RETRYING
    assert finding.evidence == {"group": "g", "try": 2, "of": 16, "untilMs": NOW + 10_000}


def test_a_retry_that_went_well_is_consumed() -> None:
    delivered = retry(1, "%RETRY%g", 0)
    view = GroupView(seen=group(), committed=6, retries=(delivered,))
    assert of(groups={"g": view}) == [Verdict.RETRYING]
    done = replace(view, retry_offsets={delivered.queue: 8})
    assert of(groups={"g": done}) == [Verdict.CONSUMED]


def test_filters() -> None:
    tags = group(subscriptions={"T": Subscription.of_tags("T", "x || y")})
    assert of(groups={"g": GroupView(seen=tags, committed=6)}) == [Verdict.FILTERED_BY_TAG]
    sql = Subscription("T", "price > 10", expression_type="SQL92")
    view = GroupView(seen=group(subscriptions={"T": sql}), committed=6)
    assert of(groups={"g": view}) == [Verdict.FILTERED_BY_SQL]
    dear = copy(properties_text="price\x0111\x02")
    assert of(groups={"g": view}, found=dear) == [Verdict.CONSUMED]


def test_half_messages() -> None:
    half = replace(copy(), properties={"PGROUP": "p", "TRANSACTION_CHECK_TIMES": "3"})
    (finding,) = diagnose_message(message(found=None, halves=(half,), groups={}))
    assert finding.verdict is Verdict.HALF_MESSAGE
    assert finding.evidence["checks"] == 3
    assert "waits for check 4 of 15" in finding.text
    ended = frozenset({half.offset})
    assert of(found=None, halves=(half,), ended_halves=ended, groups={}) == [Verdict.ROLLED_BACK]
    assert of(found=None, halves=(half,), discarded=(half,), groups={}) == [Verdict.DISCARDED]


def test_gone() -> None:
    up = BrokerSeen("a", "10.0.0.1:1")
    place: dict[str, Any] = {
        "found": None,
        "groups": {},
        "broker_of_id": up.address,
        "offset_of_id": 10,
    }
    assert of(**place, brokers=(up,), log_begins_at=100) == [Verdict.EXPIRED]
    assert of(**place, brokers=(up,), log_begins_at=0) == [Verdict.NOT_FOUND]
    down = replace(up, error="gone")
    assert of(**place, brokers=(down,)) == [Verdict.BROKER_DOWN]
    assert of(**place, topic=None, brokers=()) == [Verdict.BROKER_DOWN]


def test_a_delay_that_is_over_is_a_fault() -> None:
    waiting = replace(retry(0), properties={"REAL_TOPIC": "T"}, stored_ms=NOW - 60_000)
    seen = message(found=None, groups={}, scheduled=(waiting,), delay_levels_ms=(1, 1, 1000))
    (finding,) = diagnose_message(seen)
    assert (finding.verdict, finding.severity) == (Verdict.DELAYED, Severity.FAULT)
