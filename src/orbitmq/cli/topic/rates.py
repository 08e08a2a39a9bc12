"""Verbs that show message rates of topics and time test messages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from orbitmq.cli.core.options import ExitCode, Verb, admin_command, reaches
from orbitmq.cli.core.printing import Column, Output, OutputTable, present
from orbitmq.cli.core.progress import progress
from orbitmq.cli.core.values import topic_argument

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin
    from orbitmq.cli.core.options import ClusterOptions

__all__ = ["VERBS"]


@click.command("send-check", cls=Verb, short_help="Send test messages and time them")
@topic_argument()
@click.option(
    "--amount",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Number of test messages.",
)
@click.option(
    "--size",
    type=click.IntRange(1),
    default=128,
    show_default=True,
    help="Bytes of each test message's body.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@reaches
def send_check_command(
    place: ClusterOptions, topic: str, amount: int, size: int, output: Output
) -> None:
    """Send test messages to all queues of a topic and show the duration of each send.

    Consumers of the topic receive the test messages. The exit code is 3 if a message failed.

    \b
    Example:
      orbitmq topic send-check orders --amount 20
    """
    from orbitmq.cli.core.send_test import CHECK_COLUMNS, timed_sends

    rows = timed_sends(place, topic, amount, size)
    took = [row["tookMs"] for row in rows[1:]] or [rows[0]["tookMs"]]
    note = f"on average {sum(took) / len(took):.1f} ms, without the first"
    present(OutputTable(CHECK_COLUMNS, rows, note=note), output)
    if not all(row["ok"] for row in rows):
        raise SystemExit(ExitCode.NOT_IN_ORDER)


@click.command("stats", cls=Verb, short_help="Show message rates of topics and groups")
@topic_argument(required=False)
@click.option(
    "-a",
    "--active",
    is_flag=True,
    help="Show only topics and groups with messages in the last day.",
)
@admin_command(watched=True)
def stats_command(admin: Admin, topic: str | None, active: bool) -> OutputTable:
    """Show rates and daily counts of messages sent to topics and pulled by their groups.

    \b
    Examples:
      orbitmq topic stats
      orbitmq topic stats orders --watch
    """
    masters = [one.master for one in admin.cluster_info().brokers.values() if one.master]
    names = [topic] if topic else [n for n in admin.topic_names() if not n.startswith("%")]
    rows = []
    for name in progress(names, len(names), "Topics"):
        sent = _summed(admin, masters, "TOPIC_PUT_NUMS", name)
        groups: list[str | None] = [*admin.groups_of_topic(name)] or [None]
        for group in groups:
            key = f"{name}@{group}"
            taken = _summed(admin, masters, "GROUP_GET_NUMS", key) if group else (0.0, 0)
            lag = max(admin.group_lag(group, name).total, 0) if group else None
            rows.append(
                {
                    "topic": name,
                    "group": group,
                    "lag": lag,
                    "inPerSecond": sent[0],
                    "outPerSecond": taken[0],
                    "inLastDay": sent[1],
                    "outLastDay": taken[1],
                }
            )
    rows = [row for row in rows if not active or row["inLastDay"] or row["outLastDay"]]
    columns = [
        Column("topic", "Topic"),
        Column("group", "Group"),
        Column("lag", "Lag", "number"),
        Column("inPerSecond", "In/s", "rate"),
        Column("outPerSecond", "Out/s", "rate"),
        Column("inLastDay", "In, day", "number"),
        Column("outLastDay", "Out, day", "number"),
    ]
    return OutputTable(columns, rows, note=time.strftime("%H:%M:%S"))


def _summed(admin: Admin, masters: list[str], name: str, key: str) -> tuple[float, int]:
    counters = [admin.counter(address, name, key) for address in masters]
    there = [one for one in counters if one is not None]
    return sum(one.per_second for one in there), sum(one.last_day for one in there)


VERBS: Final = (stats_command, send_check_command)
