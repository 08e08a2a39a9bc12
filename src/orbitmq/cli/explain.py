"""``orbitmq explain``: explains why a group makes no progress, and where a message is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from orbitmq.cli.core.exits import NothingFound
from orbitmq.cli.core.findings import finding_table, findings_of_messages, in_words, place_in_words
from orbitmq.cli.core.options import ExitCode, Verb, reaches
from orbitmq.cli.core.printing import Output, present, say
from orbitmq.cli.core.progress import progress, waiting
from orbitmq.cli.core.values import group_argument, topic_argument

if TYPE_CHECKING:
    from orbitmq._native import ReceivedMessage
    from orbitmq.admin.explain.findings import Finding
    from orbitmq.cli.core.options import ClusterOptions

__all__ = ["explain"]

_OPTIONS = [
    click.option(
        "--watch-s",
        type=float,
        default=1.0,
        show_default=True,
        help="Seconds to observe the group's progress.",
    ),
    click.option(
        "--patience",
        "patience_s",
        type=float,
        default=5.0,
        show_default=True,
        help="Seconds of handling a message after which its consumer counts as stuck.",
    ),
    click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table"),
]


@click.group(short_help="Explain where a message is, or why a group makes no progress")
def explain() -> None:
    """Explain where a message is, or why a group makes no progress, and what to do next.

    \b
    Examples:
      orbitmq explain group billing
      orbitmq explain message 7F0000010000… --topic orders
      orbitmq explain key orders 42

    The exit code is 0 without a fault, 3 with a fault, 5 if the group or message does not exist.
    """


def _explains(function: Any) -> Any:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@explain.command("group", cls=Verb, short_help="Explain why a group makes no progress")
@group_argument()
@_explains
@reaches
def group_command(
    place: ClusterOptions, group: str, watch_s: float, patience_s: float, output: Output
) -> None:
    """Explain why a consumer group makes no progress; prints "healthy" if it has no fault.

    \b
    Example:
      orbitmq explain group billing
    """
    from orbitmq.admin.explain.findings import has_fault
    from orbitmq.admin.explain.group_rules import diagnose_group

    with place.admin() as admin:
        with waiting("Looking"):
            seen = admin.group_seen(group, watch_ms=watch_s * 1000)
        if not seen.is_known and not any(one.error for one in seen.brokers):
            raise NothingFound(f"no broker has heard of group {group}")
        findings = diagnose_group(seen, _patience(patience_s))
        if output == "table" and not has_fault(findings):
            say(f"group {group} is healthy")
        _say(findings, output)


@explain.command("message", cls=Verb, short_help="Explain where a message is")
@click.argument("message_id")
@click.option("-t", "--topic", help="Topic of the message; required for ids assigned by producers.")
@click.option("-g", "--group", help="Check only this group instead of all that consume the topic.")
@_explains
@reaches
def message_command(
    place: ClusterOptions,
    message_id: str,
    topic: str | None,
    group: str | None,
    watch_s: float,
    patience_s: float,
    output: Output,
) -> None:
    """Explain where a message is, for each group that consumes its topic.

    \b
    Example:
      orbitmq explain message 7F0000010000… --topic orders --group billing
    """
    with place.admin() as admin, waiting("Looking"):
        findings = admin.explain_message(
            message_id,
            topic,
            group=group,
            patience=_patience(patience_s),
            watch_ms=watch_s * 1000,
        )
    _say(findings, output)


@explain.command("key", cls=Verb, short_help="Explain where the messages with a key are")
@topic_argument()
@click.argument("key")
@click.option("-g", "--group", help="Check only this group instead of all that consume the topic.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Number of newest messages to explain.",
)
@_explains
@reaches
def key_command(
    place: ClusterOptions,
    topic: str,
    key: str,
    group: str | None,
    limit: int,
    watch_s: float,
    patience_s: float,
    output: Output,
) -> None:
    """Explain where the messages of TOPIC with KEY are, and which groups have consumed them.

    The newest message is printed last. Each message is shown with its broker, queue and offset,
    the time when it was stored, its keys and its id.

    \b
    Example:
      orbitmq explain key orders 42
    """
    with place.admin() as admin:
        found = admin.messages_by_key(topic, key)
        if not found:
            raise NothingFound(f"no message of {topic} has the key {key}")
        findings: list[Finding] = []
        told: list[tuple[ReceivedMessage, list[Finding]]] = []
        newest = found[-limit:]
        for message in progress(newest, len(newest), "Looking"):
            of_message = admin.explain_message(
                message.message_id,
                topic,
                group=group,
                patience=_patience(patience_s),
                watch_ms=watch_s * 1000,
            )
            findings += of_message
            told.append((message, of_message))
    if output == "json":
        present(findings_of_messages(told), output)
    else:
        older = len(found) - len(newest)
        more = f"; {older} older: --limit {len(found)} shows them" if older else ""
        say(f"{len(found)} messages of {topic} have the key {key}{more}")
        for message, of_message in told:
            say(f"\n{place_in_words(message)}\n{in_words(of_message)}")
    sys.exit(_exit(findings))


def _patience(stuck_s: float) -> Any:
    from orbitmq.admin.explain.queue_rules import Patience

    usual = Patience()
    factor = stuck_s * 1000 / usual.stuck_ms
    return Patience(
        round(usual.stuck_ms * factor),
        round(usual.pull_ms * factor),
        round(usual.unowned_ms * factor),
    )


def _say(findings: list[Finding], output: Output) -> None:
    if output == "json":
        present(finding_table(findings), output)
    elif findings:
        say(in_words(findings))
    sys.exit(_exit(findings))


def _exit(findings: list[Finding]) -> ExitCode:
    """Return the exit code for findings; for a missing message it is that of `message get`."""
    from orbitmq.admin.explain.findings import Verdict, has_fault

    if findings and all(one.verdict is Verdict.NOT_FOUND for one in findings):
        return ExitCode.NOT_FOUND
    return ExitCode.NOT_IN_ORDER if has_fault(findings) else ExitCode.DONE
