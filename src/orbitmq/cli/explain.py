"""``orbitmq explain``: why a group is not moving, and where a message is, in plain words."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from orbitmq.cli.asking import Exit, Verb, reaches
from orbitmq.cli.exits import NothingFound
from orbitmq.cli.explaining import finding_table, in_words
from orbitmq.cli.printing import Output, present, say
from orbitmq.cli.progress import progress, waiting
from orbitmq.cli.values import group_argument, topic_argument

if TYPE_CHECKING:
    from orbitmq.admin.explain.findings import Finding
    from orbitmq.cli.asking import Place

__all__ = ["explain"]

_OPTIONS = [
    click.option("--watch-s", type=float, default=1.0, show_default=True, help="How long to look."),
    click.option(
        "--patience",
        "patience_s",
        type=float,
        default=5.0,
        show_default=True,
        help="Seconds a message may take before its consumer counts as stuck.",
    ),
    click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table"),
]


@click.group(short_help="Say where a message is, or why a group is not moving")
def explain() -> None:
    """Say in plain words where a message is, or why a group is not moving, and what to do next.

    \b
    Examples:
      orbitmq explain group billing
      orbitmq explain message 7F0000010000… --topic orders
      orbitmq explain key orders 42

    Ends with code 0 if all is in order, 3 if something is not, 5 if there is no such group.
    """


def _explains(function: Any) -> Any:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@explain.command("group", cls=Verb, short_help="Say why a group is not moving")
@group_argument()
@_explains
@reaches
def group_command(
    place: Place, group: str, watch_s: float, patience_s: float, output: Output
) -> None:
    """Say why a group is not moving; "healthy" if it is.

    \b
    Example:
      orbitmq explain group billing
    """
    from orbitmq.admin.explain.group_rules import diagnose_group

    with place.admin() as admin:
        with waiting("Looking"):
            seen = admin.group_seen(group, watch_ms=watch_s * 1000)
        if not seen.is_known and not any(one.error for one in seen.brokers):
            raise NothingFound(f"no broker has heard of group {group}")
        _say(diagnose_group(seen, _patience(patience_s)), output, f"group {group} is healthy")


@explain.command("message", cls=Verb, short_help="Say where a message is")
@click.argument("message_id")
@click.option("-t", "--topic", help="Its topic; needed if the id is its producer's.")
@click.option("-g", "--group", help="Only this group; else all that consume the topic.")
@_explains
@reaches
def message_command(
    place: Place,
    message_id: str,
    topic: str | None,
    group: str | None,
    watch_s: float,
    patience_s: float,
    output: Output,
) -> None:
    """Say where a message is, for each group that consumes its topic.

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
    _say(findings, output, "")


@explain.command("key", cls=Verb, short_help="Say where the messages with a key are")
@topic_argument()
@click.argument("key")
@click.option("-g", "--group", help="Only this group; else all that consume the topic.")
@click.option(
    "--limit", type=click.IntRange(1), default=3, show_default=True, help="Newest so many."
)
@_explains
@reaches
def key_command(
    place: Place,
    topic: str,
    key: str,
    group: str | None,
    limit: int,
    watch_s: float,
    patience_s: float,
    output: Output,
) -> None:
    """Say where the messages of TOPIC that have KEY are.

    \b
    Example:
      orbitmq explain key orders 42
    """
    with place.admin() as admin:
        found = admin.messages_by_key(topic, key)
        if not found:
            raise NothingFound(f"no message of {topic} has the key {key}")
        findings: list[Finding] = []
        newest = found[-limit:]
        for message in progress(newest, len(newest), "Looking"):
            findings += admin.explain_message(
                message.message_id,
                topic,
                group=group,
                patience=_patience(patience_s),
                watch_ms=watch_s * 1000,
            )
    _say(findings, output, "")


def _patience(stuck_s: float) -> Any:
    from orbitmq.admin.explain.queue_rules import Patience

    usual = Patience()
    factor = stuck_s * 1000 / usual.stuck_ms
    return Patience(
        round(usual.stuck_ms * factor),
        round(usual.pull_ms * factor),
        round(usual.unowned_ms * factor),
    )


def _say(findings: list[Finding], output: Output, when_none: str) -> None:
    from orbitmq.admin.explain.findings import has_fault

    if output == "json":
        present(finding_table(findings), output)
    else:
        say(in_words(findings) or when_none)
    sys.exit(Exit.NOT_IN_ORDER if has_fault(findings) else Exit.DONE)
