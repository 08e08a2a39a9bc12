"""Rules for groups that do not move; each rule returns findings from the observations.

The first rules are about faults that stop everything. If one of them applies, the affected queues
are not examined one by one, because that would only repeat the fault. A group that moves, or has
nothing to do, has no faults.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from orbitmq._native import Filter
from orbitmq.admin.explain.findings import Finding, Severity, Verdict, when
from orbitmq.admin.explain.observations import Copy, GroupSeen
from orbitmq.admin.explain.queue_rules import Patience, queue_findings, range_findings
from orbitmq.errors import MalformedFilter
from orbitmq.protocol.bodies import Subscription
from orbitmq.protocol.flags import Permission
from orbitmq.protocol.names import RETRY_PREFIX, dlq_topic

__all__ = ["Patience", "diagnose_group", "wants"]

BROADCASTING = "BROADCASTING"
FAULT, NOTE = Severity.FAULT, Severity.NOTE


def diagnose_group(seen: GroupSeen, patience: Patience | None = None) -> list[Finding]:
    """Return the findings about a group; an empty list if it is healthy."""
    patience = patience or Patience()
    findings = [found for rule in (_broker_down, _disabled, _topics) for found in rule(seen)]
    findings += range_findings(seen)
    if not seen.members:
        return [*findings, *_nobody(seen), *_dead_letters(seen)]
    findings += _silent(seen)
    findings += _differ(seen)
    if seen.message_model == BROADCASTING:
        # Every member keeps its own offsets; no broker has them.
        return [*findings, *_nothing_wanted(seen)]
    findings += _too_many(seen)
    blocked = {(one.verdict, one.evidence.get("broker")) for one in findings}
    findings += queue_findings(seen, patience, blocked)
    return [*findings, *_nothing_wanted(seen), *_dead_letters(seen)]


def _broker_down(seen: GroupSeen) -> Iterator[Finding]:
    for broker in seen.brokers:
        if broker.error is not None:
            yield Finding(
                Verdict.BROKER_DOWN,
                FAULT,
                seen.group,
                f"broker {broker.name} ({broker.address}) is registered but does not answer: "
                f"{broker.error}",
                "start it, or look at its log and at the network between it and its clients; its "
                "messages are not consumed until then",
                {"broker": broker.name, "address": broker.address},
            )

    known = {broker.name for broker in seen.brokers}
    held = {queue.broker_name for info in seen.running.values() for queue in info.queues}
    for name in sorted(held - known):
        yield Finding(
            Verdict.BROKER_DOWN,
            FAULT,
            seen.group,
            f"members of group {seen.group} have queues on broker {name}, which is not registered",
            "start it, or look at its log; its messages are not consumed until then",
            {"broker": name},
        )


def _disabled(seen: GroupSeen) -> Iterator[Finding]:
    for broker, config in seen.configs.items():
        if not config.consume_enable:
            yield Finding(
                Verdict.CONSUMING_DISABLED,
                FAULT,
                seen.group,
                f"group {seen.group} may not consume on {broker}: its consumeEnable is false there",
                f"orbitmq group update {seen.group} --consume -b {broker}",
                {"broker": broker},
            )


def _topics(seen: GroupSeen) -> Iterator[Finding]:
    for name, topic in seen.topics.items():
        if name.startswith(RETRY_PREFIX):
            continue
        if not topic.perms:
            yield Finding(
                Verdict.TOPIC_MISSING,
                FAULT,
                seen.group,
                f"group {seen.group} subscribes to topic {name}, which no broker has",
                f"check its name, or create it: orbitmq topic create {name}",
                {"topic": name},
            )
        for broker, perm in topic.perms.items():
            if not perm & Permission.READ:
                yield Finding(
                    Verdict.TOPIC_NOT_READABLE,
                    FAULT,
                    seen.group,
                    f"topic {name} may not be read on {broker}: its permission is {perm} there",
                    f"orbitmq topic perm {name} rw -b {broker}",
                    {"topic": name, "broker": broker, "perm": perm},
                )


def _nobody(seen: GroupSeen) -> Iterator[Finding]:
    lag = sum(max(queue.lag, 0) for queue in seen.queues.values())
    waiting = f"; {lag:,} messages wait for it" if lag else ""
    last = f" It was last configured on {', '.join(seen.configs)}." if seen.configs else ""
    yield Finding(
        Verdict.NOBODY_ONLINE,
        FAULT if lag else NOTE,
        seen.group,
        f"no member of group {seen.group} is connected{waiting}",
        "start its consumers, or check that they use these nameservers, this group name and this "
        f"namespace.{last}",
        {"lag": lag},
    )


def _silent(seen: GroupSeen) -> Iterator[Finding]:
    for client_id in seen.silent:
        yield Finding(
            Verdict.CONSUMER_SILENT,
            FAULT,
            seen.group,
            f"consumer {client_id} is connected but does not answer: its process hangs or is "
            "overloaded; its queues stay with it",
            "check that process, and restart it if necessary",
            {"client": client_id},
        )


def _differ(seen: GroupSeen) -> Iterator[Finding]:
    """Find members with different subscriptions: the latest heartbeat's apply to all members."""
    by_topic: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for client_id, info in seen.running.items():
        own = {one.topic: one for one in info.subscriptions}
        for topic in {one.topic for i in seen.running.values() for one in i.subscriptions}:
            if topic.startswith(RETRY_PREFIX):
                continue
            wanted = own.get(topic)
            text = f"{wanted.expression_type} {wanted.sub_string}" if wanted else "nothing"
            by_topic[topic][text].add(client_id)
    for topic, versions in sorted(by_topic.items()):
        if len(versions) < 2:
            continue
        told = "; ".join(
            f"{', '.join(sorted(clients))} with {text}"
            for text, clients in sorted(versions.items())
        )
        yield Finding(
            Verdict.SUBSCRIPTIONS_DIFFER,
            FAULT,
            seen.group,
            f"the members of group {seen.group} subscribe differently to topic {topic}: {told}. "
            "Brokers apply the one of the latest heartbeat to all, so some members miss messages",
            "give all members of a group the same subscriptions, or give one of them a group of "
            "its own",
            {"topic": topic, "versions": {text: sorted(who) for text, who in versions.items()}},
        )


def _too_many(seen: GroupSeen) -> Iterator[Finding]:
    """Find members for which a topic has no queue."""
    for name, topic in seen.topics.items():
        if name.startswith(RETRY_PREFIX) or not topic.queues:
            continue
        idle = sorted(
            client_id
            for client_id, info in seen.running.items()
            if any(one.topic == name for one in info.subscriptions)
            and not any(queue.topic == name for queue in info.queues)
        )
        if idle and len(seen.members) > len(topic.queues):
            yield Finding(
                Verdict.MORE_CONSUMERS_THAN_QUEUES,
                FAULT,
                seen.group,
                f"topic {name} has {len(topic.queues)} queues for the {len(seen.members)} members "
                f"of group {seen.group}: {', '.join(idle)} get nothing",
                f"orbitmq topic update {name} --queues {len(seen.members)}, or run fewer consumers",
                {"topic": name, "queues": len(topic.queues), "idle": idle},
            )


def _nothing_wanted(seen: GroupSeen) -> Iterator[Finding]:
    """Find subscriptions that none of the newest messages matches: often a slip in a tag."""
    for name, topic in seen.topics.items():
        subscription = seen.subscriptions.get(name)
        if subscription is None or not topic.newest or name.startswith(RETRY_PREFIX):
            continue
        if not any(wants(subscription, copy) for copy in topic.newest):
            tags = sorted({copy.tags or "none" for copy in topic.newest})
            yield Finding(
                Verdict.NOTHING_WANTED,
                NOTE,
                seen.group,
                f"none of the last {len(topic.newest)} messages of {name} is selected by group "
                f"{seen.group}, which subscribes to {subscription.sub_string!r}; their tags are "
                f"{', '.join(tags)}",
                "check the expression, if the group should get something",
                {"topic": name, "expression": subscription.sub_string, "tags": tags},
            )


RECENT_MS: Final = 3_600_000
"""Age up to which the newest dead letter is a fault; older ones are only a note."""


def _dead_letters(seen: GroupSeen) -> Iterator[Finding]:
    if seen.dead_letters:
        is_recent = seen.now_ms - seen.newest_dead_letter_ms < RECENT_MS
        yield Finding(
            Verdict.HAS_DEAD_LETTERS,
            FAULT if is_recent else NOTE,
            seen.group,
            f"group {seen.group} has given up on {seen.dead_letters:,} messages: they are dead "
            f"letters, the newest stored {when(seen.newest_dead_letter_ms)}",
            f"orbitmq message print {dlq_topic(seen.group)!r} shows them; when their cause is "
            f"fixed: orbitmq message resend --group {seen.group} --all",
            {"count": seen.dead_letters, "newestMs": seen.newest_dead_letter_ms},
        )


# ---- Matching of subscriptions and messages, as in brokers and consumers


def wants(subscription: Subscription, copy: Copy) -> bool:
    """Return True if a subscription selects a message; a malformed filter selects all."""
    if subscription.is_tags:
        if subscription.sub_string.strip() == "*" or not subscription.tags:
            return True
        return copy.tags in subscription.tags
    try:
        return Filter(subscription.sub_string).matches(copy.properties_text)
    except MalformedFilter:
        return True
