"""Rules for the location of a message: with consumers, on its way to them, or lost to them.

A message is first searched where consumers find it. If it is missing there, it may wait for its
time or be the first half of a transaction. It may also be discarded, expired, or never stored.
If it is there, its state in each group that consumes its topic follows from the group's offset,
filter, retries and dead letters.
"""

from __future__ import annotations

from collections.abc import Iterator

from orbitmq.admin.explain.findings import Finding, Severity, Verdict, has_fault, when
from orbitmq.admin.explain.group_rules import diagnose_group, wants
from orbitmq.admin.explain.observations import Copy, GroupView, MessageSeen
from orbitmq.admin.explain.queue_rules import Patience
from orbitmq.protocol.names import (
    RETRY_PREFIX,
    TRANS_CHECK_MAX_TIME_TOPIC,
    Property,
    retry_topic,
)

__all__ = ["diagnose_message"]

FAULT, NOTE, OK = Severity.FAULT, Severity.NOTE, Severity.OK


def diagnose_message(seen: MessageSeen, patience: Patience | None = None) -> list[Finding]:
    """Return findings about the location of a message, for every group concerned."""
    if seen.found is None:
        return [_not_there(seen)]
    if not seen.groups:
        text = f"message {seen.message_id} is in {_place(seen.found)}, but no group consumes it"
        advice = f"start a consumer of {seen.found.topic}, or look: orbitmq message get"
        return [Finding(Verdict.NOBODY_CONSUMES, NOTE, seen.message_id, text, advice)]
    return [
        finding
        for group, view in sorted(seen.groups.items())
        for finding in _for_group(seen, seen.found, group, view, patience or Patience())
    ]


# ---- messages that consumers cannot find


def _not_there(seen: MessageSeen) -> Finding:
    held = [copy for copy in seen.timers if _due_of_timer(copy) > seen.now_ms]
    delayed = [one for one in seen.scheduled if not _real_topic(one).startswith(RETRY_PREFIX)]
    if held or delayed:
        return _delayed(seen, held or delayed, is_timer=bool(held))
    if seen.discarded:
        text = (
            f"message {seen.message_id} was the first half of a transaction, and its producer "
            f"never sent an outcome: it was discarded {when(seen.discarded[-1].stored_ms)}"
        )
        advice = (
            "fix the producer's check of transactions; the message is still in topic "
            f"{TRANS_CHECK_MAX_TIME_TOPIC}"
        )
        return Finding(Verdict.DISCARDED, FAULT, seen.message_id, text, advice)
    if seen.halves:
        return _half(seen, max(seen.halves, key=lambda copy: copy.offset))
    return _gone(seen)


def _delayed(seen: MessageSeen, copies: list[Copy], *, is_timer: bool) -> Finding:
    copy = copies[-1]
    due_ms = _due_of_timer(copy) if is_timer else _due_of_level(seen, copy)
    text = (
        f"message {seen.message_id} is held back for topic {_real_topic(copy)} until {when(due_ms)}"
    )
    late = seen.now_ms - due_ms
    if late > 10_000:
        return Finding(
            Verdict.DELAYED,
            FAULT,
            seen.message_id,
            f"{text}, which is in the past: its broker does not deliver delayed messages",
            "check the broker's log, its clock and its messageDelayLevel",
            {"dueMs": due_ms, "lateMs": late},
        )
    advice = "nothing to do: its sender requested the delay"
    return Finding(Verdict.DELAYED, NOTE, seen.message_id, text, advice, {"dueMs": due_ms})


def _half(seen: MessageSeen, half: Copy) -> Finding:
    group = half.properties.get(Property.PRODUCER_GROUP, "?")
    if any(copy.offset in seen.ended_halves for copy in seen.halves):
        text = f"message {seen.message_id} was rolled back by its producer (group {group})"
        advice = "nothing to do, unless the transaction should have been committed"
        return Finding(Verdict.ROLLED_BACK, NOTE, seen.message_id, text, advice)
    checks = _number(half, Property.TRANSACTION_CHECK_TIMES)
    next_ms = half.stored_ms + seen.check_interval_ms
    text = (
        f"message {seen.message_id} is the first half of a transaction of producer group {group} "
        f"for topic {_real_topic(half)}, stored {when(half.born_ms)}; its outcome is not known. It "
        f"was checked {checks} times and waits for check {checks + 1} of {seen.check_max}, "
        f"about {when(next_ms)}"
    )
    return Finding(
        Verdict.HALF_MESSAGE,
        FAULT,
        seen.message_id,
        text,
        f"make sure that a producer of group {group} is connected and answers checks: "
        f"orbitmq producer members {group} {_real_topic(half)}",
        {"checks": checks, "checkMax": seen.check_max, "producerGroup": group, "nextMs": next_ms},
    )


def _gone(seen: MessageSeen) -> Finding:
    if seen.brokers and all(one.error is not None for one in seen.brokers):
        return Finding(
            Verdict.BROKER_DOWN,
            FAULT,
            seen.message_id,
            "no broker could be queried: "
            + "; ".join(f"{one.name} at {one.address}: {one.error}" for one in seen.brokers),
            "start the brokers, or sign the request with an account that they accept",
        )
    if seen.broker_of_id is not None:
        broker = next((one for one in seen.brokers if one.address == seen.broker_of_id), None)
        if broker is None or broker.error is not None:
            why = "is not registered" if broker is None else f"does not answer: {broker.error}"
            if seen.topic is None or broker is not None:
                return Finding(
                    Verdict.BROKER_DOWN,
                    FAULT,
                    seen.message_id,
                    f"if a broker gave the id {seen.message_id}, the message is on "
                    f"{seen.broker_of_id}, which {why}",
                    "start that broker; or, if a producer gave the id, name the message's topic "
                    "(--topic)",
                    {"address": seen.broker_of_id},
                )
        begins, offset = seen.log_begins_at, seen.offset_of_id
        if begins is not None and offset is not None and offset < begins:
            return Finding(
                Verdict.EXPIRED,
                FAULT,
                seen.message_id,
                f"message {seen.message_id} was at {offset:,} of the log of {seen.broker_of_id}, "
                f"which begins at {begins:,} by now: it has expired",
                "keep messages longer (fileReservedTime)",
                {"logBegins": begins, "offset": offset},
            )
    where = f"in topic {seen.topic}" if seen.topic else "at any broker"
    return Finding(
        Verdict.NOT_FOUND,
        FAULT,
        seen.message_id,
        f"there is no message {seen.message_id} {where}: it was never stored, it is in another "
        "topic, or it has expired",
        "check the id, the topic, and the result of its producer's send",
    )


# ---- messages that consumers can find


def _for_group(
    seen: MessageSeen, found: Copy, group: str, view: GroupView, patience: Patience
) -> Iterator[Finding]:
    subject = f"{seen.message_id} for {group}"
    if view.dead_letters:
        dead = view.dead_letters[-1]
        yield Finding(
            Verdict.DEAD_LETTER,
            FAULT,
            subject,
            f"group {group} has given up on it after {dead.reconsume_times} tries: it is a dead "
            f"letter since {when(dead.stored_ms)}",
            f"fix the cause, then: orbitmq message resend {dead.message_id} --group {group}",
            {"group": group, "tries": dead.reconsume_times, "sinceMs": dead.stored_ms},
        )
        return
    retrying = _retrying(seen, subject, group, view)
    if retrying is not None:
        yield retrying
        return
    is_past = view.committed is not None and found.offset < view.committed
    subscription = view.seen.subscriptions.get(found.topic)
    if subscription is not None and not wants(subscription, found):
        is_tags = subscription.is_tags
        tag = f"its tag is {found.tags!r}" if is_tags else "its properties do not match"
        yield Finding(
            Verdict.FILTERED_BY_TAG if is_tags else Verdict.FILTERED_BY_SQL,
            FAULT,
            subject,
            f"group {group} does not select it: {tag}, the group subscribes to "
            f"{subscription.sub_string!r}",
            "nothing to do if that is intended; else fix the expression, and reset the offset: "
            f"orbitmq offset reset {group} {found.topic} --to {found.stored_ms}",
            {"group": group, "expression": subscription.sub_string, "tags": found.tags},
        )
        return
    if is_past:
        text = (
            f"group {group} is done with it: the group's offset is {view.committed:,} in its queue"
        )
        yield Finding(Verdict.CONSUMED, OK, subject, text, "", {"group": group})
        return
    yield from _waiting(found, subject, group, view, patience)


def _retrying(seen: MessageSeen, subject: str, group: str, view: GroupView) -> Finding | None:
    if not view.retries:
        return None
    last = max(view.retries, key=lambda copy: (copy.reconsume_times, copy.stored_ms))
    limit = max((one.retry_max_times for one in view.seen.configs.values()), default=16)
    evidence = {"group": group, "try": last.reconsume_times, "of": limit}
    if last.topic == retry_topic(group):
        if last.offset < view.retry_offsets.get(last.queue, 0):
            return None  # that try succeeded, or there would be a later copy
        return Finding(
            Verdict.RETRYING,
            FAULT,
            subject,
            f"group {group} has failed to handle it {last.reconsume_times} times; retry "
            f"{last.reconsume_times} of {limit} is due since {when(last.stored_ms)} and waits in "
            "the group's retry topic",
            f"orbitmq explain group {group} shows why it is not consumed",
            evidence | {"untilMs": last.stored_ms},
        )
    due_ms = _due_of_level(seen, last)
    return Finding(
        Verdict.RETRYING,
        FAULT,
        subject,
        f"group {group} has failed to handle it {last.reconsume_times} times; it is in retry "
        f"{last.reconsume_times} of {limit}, which waits until {when(due_ms)}",
        f"look at the log of the group's consumers: their handler fails on it; retry it at once: "
        f"orbitmq message consume-directly {last.message_id} --topic {seen.topic} --group {group}",
        evidence | {"untilMs": due_ms},
    )


def _waiting(
    found: Copy, subject: str, group: str, view: GroupView, patience: Patience
) -> Iterator[Finding]:
    reasons = [
        one for one in diagnose_group(view.seen, patience) if one.severity is not Severity.OK
    ]
    ahead = found.offset - (view.committed or 0)
    begun = "" if view.committed is not None else "; the group has not consumed this queue yet"
    text = f"it waits for group {group} in {_place(found)}, behind {ahead:,} others{begun}"
    stuck = has_fault(reasons)
    advice = "see why the group does not move, below" if stuck else "wait: the group is moving"
    severity = FAULT if stuck else NOTE
    yield Finding(
        Verdict.WAITING, severity, subject, text, advice, {"group": group, "ahead": ahead}
    )
    yield from reasons


# ---- helpers


def _place(copy: Copy) -> str:
    queue = copy.queue
    return f"queue {queue.queue_id} of {copy.topic} on {queue.broker_name} at {copy.offset:,}"


def _real_topic(copy: Copy) -> str:
    return copy.properties.get(Property.REAL_TOPIC) or copy.topic


def _due_of_timer(copy: Copy) -> int:
    return _number(copy, Property.TIMER_OUT_MS)


def _number(copy: Copy, name: str) -> int:
    """Return the number in a property, or 0 if it is missing or malformed, as in brokers."""
    try:
        return int(copy.properties.get(name) or 0)
    except ValueError:
        return 0


def _due_of_level(seen: MessageSeen, copy: Copy) -> int:
    """Return when a delayed message is due: the schedule topic has a queue for each level."""
    level = copy.queue.queue_id
    delays = seen.delay_levels_ms
    return copy.stored_ms + (delays[level] if level < len(delays) else 0)
