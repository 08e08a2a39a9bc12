"""Values of arguments and options: times, brokers, and names with shell completion."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from orbitmq.cli.core.exits import ExitCode, NothingFound, fail

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from orbitmq.admin.admin import Admin

__all__ = [
    "BROKER",
    "CLUSTER",
    "MOMENT",
    "broker_names",
    "brokers_at",
    "check_group",
    "check_taken",
    "group_argument",
    "key_values",
    "moment_ms",
    "parse_moment",
    "topic_argument",
]

_AGO = re.compile(r"-?(\d+)\s*(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_JAVA_TIME = re.compile(r"(\d{4}-\d\d-\d\d)#(\d\d:\d\d:\d\d)[:.](\d{3})")


def parse_moment(text: str, now_ms: int) -> int | Literal["earliest", "latest"]:
    """Parse a point in time in any of its forms.

    >>> parse_moment("1h", now_ms=7_200_000)
    3600000
    >>> parse_moment("latest", now_ms=0)
    'latest'
    """
    text = text.strip()
    if text in ("earliest", "latest"):
        return "earliest" if text == "earliest" else "latest"
    if text == "now":
        return now_ms
    if (ago := _AGO.fullmatch(text)) is not None:
        return now_ms - int(ago[1]) * _UNIT_MS[ago[2]]
    if text.isdigit():
        return int(text)
    if (java := _JAVA_TIME.fullmatch(text)) is not None:
        text = f"{java[1]}T{java[2]}.{java[3]}"
    moment = datetime.fromisoformat(text)  # in this machine's time zone unless the text has one
    return round(moment.timestamp() * 1000)


class _Moment(click.ParamType):  # type: ignore[type-arg]
    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value in ("earliest", "latest"):
            return value
        try:
            return parse_moment(value, time.time_ns() // 1_000_000)
        except ValueError:
            self.fail(
                f"{value!r} is no moment: write earliest, latest, now, 2026-01-31T12:00:00, "
                "2026-01-31#12:00:00:000, epoch milliseconds, or 30m for half an hour ago",
                param,
                ctx,
            )


MOMENT: Final = _Moment()


def moment_ms(moment: int | str | None, *, default: int) -> int:
    """Return a moment as epoch milliseconds: 0 for earliest, the largest time for latest."""
    if moment is None:
        return default
    if isinstance(moment, int):
        return moment
    return 0 if moment == "earliest" else 2**63 - 1


def key_values(texts: Iterable[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` texts."""
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs


def check_taken(place: str, wanted: Mapping[str, str], shown: Mapping[str, str]) -> None:
    """End with an error if a server does not report the changed settings.

    The check is needed because a request with an unknown key or an invalid value changes nothing
    and succeeds.
    """
    wrong = []
    for key, text in wanted.items():
        if key not in shown:
            close = difflib.get_close_matches(key, shown, n=1, cutoff=0.75)
            wrong.append(f"it has no {key}{f', did you mean {close[0]}?' if close else ''}")
        elif not _is_same(text, shown[key]):
            wrong.append(f"{key} is {shown[key]}, {text!r} was not taken")
    if wrong:
        fail(f"{place}: {'; '.join(wrong)}", ExitCode.FAILED)


def _is_same(text: str, shown: str) -> bool:
    if text.strip().lower() == shown.strip().lower():
        return True
    try:
        return float(text) == float(shown)
    except ValueError:
        return False


# ---- Brokers

CLUSTER = click.option(
    "-c", "--cluster", metavar="NAME", help="Name of a cluster: use all its brokers."
)
BROKER = click.option(
    "-b", "--broker", metavar="BROKER", help="Name or address of a single broker to use."
)


def brokers_at(
    admin: Admin, broker: str | None, cluster: str | None, *, whole: bool = True
) -> dict[str, str]:
    """Return the addresses of the chosen brokers by name; without a choice, all masters.

    Commands that change something pass `whole=False`, which makes a choice mandatory.
    """
    if broker is None and cluster is None and not whole:
        raise click.UsageError("Say where: a broker (-b) or a cluster (-c).")
    info = admin.cluster_info()
    if broker is not None and ":" in broker:
        for name, places in info.brokers.items():
            if broker in places.addresses.values():
                return {name: broker}
        return {broker: broker}  # a broker that is not registered can be used by its address
    found = {
        name: places.master
        for name, places in info.brokers.items()
        if places.master is not None
        and (broker is None or name == broker)
        and (cluster is None or places.cluster == cluster)
    }
    if not found:
        known = ", ".join(f"{n} of {p.cluster}" for n, p in info.brokers.items()) or "none"
        raise NothingFound(f"no master of {broker or cluster or 'any broker'}; there are: {known}")
    return found


def broker_names(admin: Admin, broker: str | None, cluster: str | None) -> list[str] | None:
    """Return the names of the chosen brokers, or None for all."""
    is_all = broker is None and cluster is None
    return None if is_all else list(brokers_at(admin, broker, cluster))


def check_group(admin: Admin, group: str) -> None:
    """Raise `NothingFound` for a group unknown to all brokers, so that a typo is an error."""
    from orbitmq.errors import BrokerRefused

    if admin.group_lag(group).queues or admin.group_members(group) is not None:
        return
    try:
        known = group in admin.group_configs()
    except BrokerRefused:
        return  # an account without permission to list groups may use the command all the same
    if not known:
        raise NothingFound(f"no broker knows group {group}")


# ---- Names with shell completion


def topic_argument(name: str = "topic", **settings: Any) -> Callable[[Any], Any]:
    """Return an argument for a topic name, with shell completion."""
    return click.argument(
        name, shell_complete=_complete(lambda admin: admin.topic_names()), **settings
    )


def group_argument(name: str = "group", **settings: Any) -> Callable[[Any], Any]:
    """Return an argument for the name of a consumer group, with shell completion."""
    return click.argument(
        name, shell_complete=_complete(lambda admin: list(admin.group_configs())), **settings
    )


def _complete(
    names: Callable[[Admin], list[str]],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(
        ctx: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from orbitmq.cli.core.options import PLACE_NAMES, ClusterOptions
        from orbitmq.errors import OrbitError

        place = ClusterOptions(**{name: ctx.params[name] for name in PLACE_NAMES})
        try:
            with place.admin() as admin:
                found = names(admin)
        except OrbitError:
            return []
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]

    return complete
