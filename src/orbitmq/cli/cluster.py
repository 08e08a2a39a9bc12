"""``orbitmq cluster``: brokers of clusters, their state, and exports of both to files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from orbitmq.cli.core.options import ExitCode, Verb, admin_command, reaches
from orbitmq.cli.core.printing import Column, Done, Output, OutputTable, present, watch
from orbitmq.cli.core.progress import progress
from orbitmq.cli.core.values import BROKER, CLUSTER, brokers_at
from orbitmq.cli.group.show import is_internal

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin
    from orbitmq.cli.core.options import ClusterOptions

__all__ = ["EXPORTS", "cluster"]


@click.group(short_help="Show clusters and their brokers")
def cluster() -> None:
    """Show clusters, their brokers and the brokers' state; check that they accept messages."""


@cluster.command("list", cls=Verb, short_help="List clusters and brokers")
@admin_command()
def list_command(admin: Admin) -> OutputTable:
    """List all registered brokers by cluster.

    \b
    Example:
      orbitmq cluster list
    """
    rows = [
        {"cluster": places.cluster, "broker": name, "brokerId": number, "address": address}
        for name, places in admin.cluster_info().brokers.items()
        for number, address in places.addresses.items()
    ]
    columns = [
        Column("cluster", "Cluster"),
        Column("broker", "Broker"),
        Column("brokerId", "Id", "number"),
        Column("address", "Address"),
    ]
    return OutputTable(columns, rows)


@cluster.command("status", cls=Verb, short_help="Show the state of all brokers")
@click.option(
    "-m", "--more", is_flag=True, help="Also show the message counts of today and yesterday."
)
@admin_command(watched=True)
def status_command(admin: Admin, more: bool) -> OutputTable:
    """Show versions, message rates and disk usage of all brokers.

    A broker that does not answer is listed with "no" in the column Answers.

    \b
    Examples:
      orbitmq cluster status
      orbitmq cluster status --watch --every 5
    """
    from orbitmq.errors import OrbitError

    rows = []
    brokers = admin.cluster_info().brokers
    for name, places in progress(brokers.items(), len(brokers), "Brokers"):
        for number, address in places.addresses.items():
            row: dict[str, Any] = {
                "cluster": places.cluster,
                "broker": name,
                "brokerId": number,
                "address": address,
            }
            try:
                row |= {"answers": True, **_numbers(admin.broker_runtime_info(address))}
            except OrbitError:
                row["answers"] = False
            rows.append(row)
    columns = [
        Column("cluster", "Cluster"),
        Column("broker", "Broker"),
        Column("brokerId", "Id", "number"),
        Column("address", "Address"),
        Column("version", "Version"),
        Column("answers", "Answers"),
        Column("inPerSecond", "In/s", "rate"),
        Column("outPerSecond", "Out/s", "rate"),
        Column("diskPercent", "Disk %", "rate"),
        Column("hoursKept", "Hours", "rate"),
    ]
    if more:
        columns += [
            Column("inToday", "In today", "number"),
            Column("outToday", "Out today", "number"),
            Column("inYesterday", "In yesterday", "number"),
            Column("outYesterday", "Out yesterday", "number"),
        ]
    return OutputTable(columns, rows, note=time.strftime("%H:%M:%S"))


def _numbers(info: dict[str, str]) -> dict[str, Any]:
    """Return the values of a broker's runtime info under the keys of our columns."""

    def first(key: str) -> float:
        return float((info.get(key) or "0").split()[0] if info.get(key, "").strip() else 0)

    def whole(key: str) -> int:
        return int(info.get(key) or 0)

    earliest = whole("earliestMessageTimeStamp")
    kept = (time.time() * 1000 - earliest) / 3_600_000 if earliest > 0 else None
    return {
        "version": info.get("brokerVersionDesc"),
        "inPerSecond": first("putTps"),
        "outPerSecond": first("getTransferredTps") or first("getTransferedTps"),
        "diskPercent": round(100 * float(info.get("commitLogDiskRatio") or 0), 2),
        "hoursKept": None if kept is None else round(kept, 2),
        "inToday": whole("msgPutTotalTodayNow") - whole("msgPutTotalTodayMorning"),
        "outToday": whole("msgGetTotalTodayNow") - whole("msgGetTotalTodayMorning"),
        "inYesterday": whole("msgPutTotalTodayMorning") - whole("msgPutTotalYesterdayMorning"),
        "outYesterday": whole("msgGetTotalTodayMorning") - whole("msgGetTotalYesterdayMorning"),
    }


@cluster.command("send-check", cls=Verb, short_help="Time sends to every broker")
@CLUSTER
@click.option(
    "--amount",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Number of test messages per broker.",
)
@click.option(
    "--size",
    type=click.IntRange(1),
    default=128,
    show_default=True,
    help="Bytes of each test message's body.",
)
@click.option("-w", "--watch", "is_watched", is_flag=True, help="Repeat the check.")
@click.option(
    "--every",
    "every_s",
    type=float,
    default=10.0,
    show_default=True,
    help="Seconds between two checks of --watch.",
)
@click.option("--times", type=click.IntRange(1), help="Number of checks of --watch.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@reaches
def send_check_command(
    place: ClusterOptions,
    cluster: str | None,
    amount: int,
    size: int,
    is_watched: bool,
    every_s: float,
    times: int | None,
    output: Output,
) -> None:
    """Send test messages to each broker and show their average duration.

    The messages go to the topic with the broker's name, which no application consumes. The exit
    code is 3 if a broker did not accept a message.

    \b
    Examples:
      orbitmq cluster send-check
      orbitmq cluster send-check --amount 10 --watch --every 30
    """
    from orbitmq.cli.core.send_test import timed_sends

    with place.admin() as admin:
        names = list(brokers_at(admin, None, cluster))
    failures: list[str] = []

    def look() -> OutputTable:
        rows = []
        for name in names:
            sends = timed_sends(place, name, amount, size, broker=name)
            took = [one["tookMs"] for one in sends if one["ok"]]
            failed = len(sends) - len(took)
            failures.extend([name] if failed else [])
            average = round(sum(took) / len(took), 3) if took else None
            rows.append({"broker": name, "sent": len(took), "failed": failed, "averageMs": average})
        columns = [
            Column("broker", "Broker"),
            Column("sent", "Sent", "number"),
            Column("failed", "Failed", "number"),
            Column("averageMs", "ms", "rate"),
        ]
        return OutputTable(columns, rows)

    if is_watched:
        watch(look, output, every_s, times)
    else:
        present(look(), output)
    if failures:
        raise SystemExit(ExitCode.NOT_IN_ORDER)


@cluster.command("export", cls=Verb, short_help="Write settings or numbers to a file")
@click.argument("what", type=click.Choice(["metadata", "configs", "metrics"]))
@CLUSTER
@BROKER
@click.option("--to", "file", type=click.Path(dir_okay=False, path_type=Path), required=True)
@click.option(
    "--special", is_flag=True, help="Also write retry topics and dead letter topics (metadata)."
)
@admin_command()
def export_command(
    admin: Admin, what: str, cluster: str | None, broker: str | None, file: Path, special: bool
) -> Done:
    """Write data of brokers to a JSON file.

    "metadata" writes topics and groups, "configs" the main settings, "metrics" the runtime info.

    \b
    Examples:
      orbitmq cluster export metadata --to metadata.json
      orbitmq cluster export configs -c DefaultCluster --to configs.json
    """

    value = EXPORTS[what](admin, brokers_at(admin, broker, cluster), special)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return Done(f"{what} are in {file}", {"what": what, "file": str(file)})


@cluster.command("monitor", cls=Verb, short_help="Explain all groups without progress")
@click.option(
    "--every",
    "every_s",
    type=float,
    default=60.0,
    show_default=True,
    help="Seconds between two checks of all groups.",
)
@click.option("--times", type=click.IntRange(1), help="Number of checks; endless by default.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@reaches
def monitor_command(
    place: ClusterOptions, every_s: float, times: int | None, output: Output
) -> None:
    """Check all consumer groups repeatedly, and explain why groups make no progress.

    Groups without problems are not printed. `orbitmq explain group` checks a single group once.

    \b
    Examples:
      orbitmq cluster monitor
      orbitmq cluster monitor --every 10 --times 1 -o json
    """
    from orbitmq.cli.core.findings import finding_table
    from orbitmq.cli.group.show import is_internal

    with place.admin() as admin:

        def look() -> OutputTable:
            groups = [name for name in admin.group_configs() if not is_internal(name)]
            looked_at = progress(groups, len(groups), "Groups")
            return finding_table([one for name in looked_at for one in admin.explain_group(name)])

        watch(look, output, every_s, times)


# ---- Contents of `cluster export`: topics and groups, settings, numbers

KEPT_SETTINGS: Final = (
    *("brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime"),
    *("filterServerNums", "flushDiskType", "maxMessageSize", "messageDelayLevel"),
    *("msgTraceTopicName", "slaveReadEnable", "traceOn", "traceTopicEnable"),
    *("useTLS", "autoCreateTopicEnable", "autoCreateSubscriptionGroup"),
)
"""Broker settings that define a cluster; the other settings tune it."""


def _is_wanted(name: str, special: bool) -> bool:
    return special or not name.startswith(("%RETRY%", "%DLQ%"))


def metadata(admin: Admin, brokers: Mapping[str, str], special: bool) -> dict[str, Any]:
    """Return the configurations of topics and groups on the brokers."""
    topics: dict[str, Any] = {}
    names = [name for name in admin.topic_names() if _is_wanted(name, special)]
    for name in progress(names, len(names), "Topics"):
        configs = admin.topic_configs(name)
        chosen = {one: configs[one].as_json() for one in brokers if one in configs}
        if chosen:
            topics[name] = chosen
    groups: dict[str, Any] = {}
    for name, of_broker in admin.group_configs().items():
        chosen = {one: of_broker[one].as_json() for one in brokers if one in of_broker}
        if chosen and not is_internal(name):
            groups[name] = chosen
    return {"topics": topics, "groups": groups}


def configs(admin: Admin, brokers: Mapping[str, str], _special: bool) -> dict[str, Any]:
    """Return the `KEPT_SETTINGS` of brokers."""
    found = {}
    for name, address in progress(brokers.items(), len(brokers), "Brokers"):
        settings = admin.broker_config(address)
        found[name] = {key: settings[key] for key in sorted(KEPT_SETTINGS) if key in settings}
    return {"nameservers": list(admin.settings.nameservers), "brokers": found}


def metrics(admin: Admin, brokers: Mapping[str, str], _special: bool) -> dict[str, Any]:
    """Return the runtime info of brokers, and the numbers of topics and groups."""
    found = {}
    for name, address in progress(brokers.items(), len(brokers), "Brokers"):
        info = admin.broker_runtime_info(address)
        found[name] = dict(sorted(info.items()))
    return {"brokers": found, "topics": len(admin.topic_names()), "groups": _group_count(admin)}


def _group_count(admin: Admin) -> int:
    return sum(not is_internal(name) for name in admin.group_configs())


EXPORTS: Final[Mapping[str, Callable[[Any, Mapping[str, str], bool], dict[str, Any]]]] = {
    "metadata": metadata,
    "configs": configs,
    "metrics": metrics,
}
