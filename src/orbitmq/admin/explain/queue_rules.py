"""Rules for queues of a group that do not move.

A queue is examined if messages wait in it and the group's offset did not change during the
observation. Findings of one kind about one owner are merged into one that names all their queues.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from orbitmq.admin.clients import QueueState, RunningInfo
from orbitmq.admin.explain.findings import Finding, Severity, Verdict, when
from orbitmq.admin.explain.observations import GroupSeen, QueueSeen
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.flags import Permission

__all__ = ["Patience", "queue_findings", "range_findings"]

CACHED_MESSAGES, CACHED_MIB = 1000, 100
"""Limits at which consumers stop pulling a queue, unless they are configured otherwise."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Times after which a message or a queue counts as standing still."""

    stuck_ms: int = 5000
    """For a message, since it was stored or the previous message was done."""
    pull_ms: int = 25_000
    """Between two pulls of a queue that has messages; a long poll ends before that."""
    unowned_ms: int = 30_000
    """For a queue that waits for its next owner: rebalancing takes up to twenty seconds."""


def range_findings(seen: GroupSeen) -> list[Finding]:
    """Return findings about queues that do not contain the group's offset."""
    found = (_out_of_range(seen, queue, state) for queue, state in sorted(seen.queues.items()))
    return _joined([one for one in found if one is not None])


def queue_findings(
    seen: GroupSeen, patience: Patience, blocked: Collection[tuple[Verdict, object]]
) -> list[Finding]:
    """Return findings about queues; `blocked` holds verdicts and brokers of earlier findings."""
    shut = {broker for verdict, broker in blocked if verdict in _SHUTS}
    findings: list[Finding] = []
    behind = 0
    for queue, state in sorted(seen.queues.items()):
        if not state.min_offset <= state.consumer_offset <= state.max_offset:
            continue  # `range_findings` reports it
        if state.lag <= 0 or queue.broker_name in shut or not _is_readable(seen, queue):
            continue
        if queue.topic not in seen.subscriptions and seen.subscriptions:
            continue  # offsets of a topic that is not subscribed any more
        if queue in seen.moved:
            behind += state.lag
            continue
        found = _standing(seen, queue, state, patience)
        if found is not None:
            findings.append(found)
    if behind and not findings:
        text = f"group {seen.group} is behind by {behind:,} messages and is catching up"
        advice = "orbitmq group lag --watch shows how fast"
        evidence = {"lag": behind}
        findings.append(
            Finding(Verdict.CATCHING_UP, Severity.NOTE, seen.group, text, advice, evidence)
        )
    return _joined(findings)


_SHUTS = {Verdict.BROKER_DOWN, Verdict.CONSUMING_DISABLED}


def _is_readable(seen: GroupSeen, queue: MessageQueue) -> bool:
    topic = seen.topics.get(queue.topic)
    if topic is None or not topic.perms:
        return topic is None
    return bool(topic.perms.get(queue.broker_name, 0) & Permission.READ)


def _out_of_range(seen: GroupSeen, queue: MessageQueue, state: QueueSeen) -> Finding | None:
    evidence = {
        "queue": _text(queue),
        "consumerOffset": state.consumer_offset,
        "minOffset": state.min_offset,
        "maxOffset": state.max_offset,
    }
    if state.consumer_offset > state.max_offset:
        return Finding(
            Verdict.OFFSET_AHEAD,
            Severity.FAULT,
            seen.group,
            f"group {seen.group} has offset {state.consumer_offset:,} in {_text(queue)}, which "
            f"ends at {state.max_offset:,}: its offset was set ahead, or the queue was created "
            "again. The group would skip all messages up to its offset",
            f"orbitmq offset reset {seen.group} {queue.topic} --to latest (or to a moment)",
            evidence,
        )
    if state.consumer_offset < state.min_offset:
        lost = state.min_offset - state.consumer_offset
        return Finding(
            Verdict.OFFSET_EXPIRED,
            Severity.FAULT,
            seen.group,
            f"group {seen.group} has offset {state.consumer_offset:,} in {_text(queue)}, whose "
            f"first message is {state.min_offset:,}: {lost:,} messages expired before the group "
            "consumed them",
            "let the group continue at the first message (its members do that by themselves), and "
            "keep messages longer (fileReservedTime) or consume faster",
            evidence,
        )
    return None


def _standing(
    seen: GroupSeen, queue: MessageQueue, state: QueueSeen, patience: Patience
) -> Finding | None:
    if seen.silent and seen.owner(queue) is None:
        return None  # the owner may be the silent member, which has a finding of its own
    owner = seen.owner(queue)
    age_ms = seen.now_ms - state.head.stored_ms if state.head is not None else None
    if owner is None:
        return _unowned(seen, queue, state, age_ms, patience)
    held = owner.queues[queue]
    client = owner.client_id
    evidence = {"queue": _text(queue), "client": client, "lag": state.lag}
    if owner.properties.get("PROP_CONSUMEORDERLY") == "true" and not held.is_locked:
        return Finding(
            Verdict.NOT_LOCKED,
            Severity.FAULT,
            seen.group,
            f"consumer {client} handles {_text(queue)} in order but does not have its lock: the "
            f"previous owner has not released it; {state.lag:,} messages wait",
            "locks expire after a minute; if this stays, stop the member that still has it",
            evidence,
        )
    if held.cached_count:
        return _held(seen, queue, state, owner, held, patience, evidence)
    silent_ms = seen.now_ms - held.last_pull_ms
    if held.last_pull_ms and silent_ms >= patience.pull_ms:
        return Finding(
            Verdict.NOT_PULLING,
            Severity.FAULT,
            seen.group,
            f"consumer {client} has {_text(queue)} but has not pulled it since "
            f"{when(held.last_pull_ms)}: it is paused or suspended; {state.lag:,} messages wait",
            "resume it, or restart that process",
            evidence | {"lastPullMs": held.last_pull_ms},
        )
    return None


def _unowned(
    seen: GroupSeen, queue: MessageQueue, state: QueueSeen, age_ms: int | None, patience: Patience
) -> Finding | None:
    if not seen.running or (age_ms is not None and age_ms < patience.unowned_ms):
        return None  # the members report no state, or a rebalance is under way
    evidence = {"queue": _text(queue), "lag": state.lag}
    if any(one.properties.get("PROP_CONSUMEORDERLY") == "true" for one in seen.running.values()):
        # A client does not list a queue whose lock was refused.
        return Finding(
            Verdict.NOT_LOCKED,
            Severity.FAULT,
            seen.group,
            f"no member of group {seen.group}, which handles messages in order, gets the lock of "
            f"{_text(queue)}: another client has it; {state.lag:,} messages wait",
            "locks expire after a minute; if this stays, stop the member that still has it",
            evidence,
        )
    return Finding(
        Verdict.QUEUE_WITHOUT_OWNER,
        Severity.FAULT,
        seen.group,
        f"no member of group {seen.group} has {_text(queue)}, where {state.lag:,} messages wait",
        "the members do not agree on how to share queues: check that all subscribe to the topic "
        "and use the same strategy; restarting them assigns the queues again",
        evidence,
    )


def _held(
    seen: GroupSeen,
    queue: MessageQueue,
    state: QueueSeen,
    owner: RunningInfo,
    held: QueueState,
    patience: Patience,
    evidence: dict[str, object],
) -> Finding | None:
    """Return a finding about a queue whose owner has pulled messages but does not finish them."""
    head = state.head
    since = head.stored_ms if head is not None else 0
    if held.last_consume_ms != held.last_pull_ms:
        # Time when the previous message was done; some clients only report that of the pull.
        since = max(since, held.last_consume_ms)
    if seen.now_ms - since < patience.stuck_ms:
        return None
    full = held.cached_count >= _cache_limit(owner) or held.cached_mib >= CACHED_MIB
    which = f"message {head.message_id}" if head is not None else "a message"
    more = f" and holds {held.cached_count:,} more, as many as it may" if full else ""
    text = (
        f"consumer {owner.client_id} is stuck on {which} (offset {state.consumer_offset:,} of "
        f"{_text(queue)}) since {when(since)}{more}; {state.lag:,} messages wait"
    )
    return Finding(
        Verdict.FLOW_CONTROLLED if full else Verdict.STUCK_ON_MESSAGE,
        Severity.FAULT,
        seen.group,
        text,
        f"orbitmq group running-info {seen.group} --client {owner.client_id} --stacks shows what "
        "its threads do; fix or restart the handler, or skip the message: "
        f"orbitmq offset set {seen.group} {queue.topic} -b {queue.broker_name} -q {queue.queue_id} "
        f"{state.consumer_offset + 1} (while it is stopped)",
        evidence
        | {
            "message": head.message_id if head is not None else None,
            "offset": state.consumer_offset,
            "sinceMs": since,
            "cached": held.cached_count,
        },
    )


def _cache_limit(owner: RunningInfo) -> int:
    """Return a consumer's limit of held messages per queue, by Java's name of it or ours."""
    for name in ("pullThresholdForQueue", "max_cached_messages"):
        text = owner.properties.get(name, "")
        if text.isdigit():
            return int(text)
    return CACHED_MESSAGES


def _joined(findings: list[Finding]) -> list[Finding]:
    """Merge findings of one kind with the same client (or no client) into one with all queues."""
    by_key: dict[tuple[object, ...], list[Finding]] = {}
    for one in findings:
        by_key.setdefault((one.verdict, one.evidence.get("client")), []).append(one)
    joined = []
    for same in by_key.values():
        first = same[0]
        queues = [one.evidence["queue"] for one in same if "queue" in one.evidence]
        if len(same) > 1:
            text = f"{first.text} (and likewise {', '.join(queues[1:])})"
            first = replace(first, text=text, evidence=first.evidence | {"queues": queues})
        joined.append(first)
    return joined


def _text(queue: MessageQueue) -> str:
    return f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name}"
