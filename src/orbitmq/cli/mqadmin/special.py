"""Translations of mqadmin's commands whose options select the command or whose defaults differ.

Each function takes the given options by letter and returns the whole ``orbitmq`` command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click

__all__ = [
    "account",
    "by_id",
    "clean_log",
    "clean_queues",
    "clean_topics",
    "delete_group",
    "export",
    "order",
    "set_of_broker",
    "set_of_nameserver",
    "watched_status",
]

Given = Mapping[str, str]
EXPORT_DIRECTORY = "/tmp/rocketmq/export"
"""Default directory of mqadmin."""


def _where(given: Given) -> list[str]:
    words = []
    if "b" in given:
        words += ["--broker", given["b"]]
    if "c" in given:
        words += ["--cluster", given["c"]]
    return words


def delete_group(given: Given) -> list[str]:
    """Delete a group, but keep its offsets unless -r is true, as mqadmin does."""
    words = ["group", "delete", given["g"]]
    if "c" in given:
        words += ["--cluster", given["c"]]
    return words if given.get("r", "").lower() == "true" else [*words, "--keep-offsets"]


def account(given: Given) -> list[str]:
    """Change an account; without -m it loses the admin flag, as with mqadmin."""
    words = ["acl", "set", given["a"], "--account-secret", given["s"], *_where(given)]
    ours = {"w": "--from", "i": "--topics", "u": "--groups", "t": "--topic", "g": "--group"}
    for letter, option in ours.items():
        words += [option, given[letter]] if letter in given else []
    is_admin = given.get("m", "").lower() == "true"
    return [*words, "--admin" if is_admin else "--no-admin"]


def set_of_broker(given: Given) -> list[str]:
    """Change a setting of brokers."""
    return ["broker", "config", *_where(given), "--set", f"{given['k']}={given['v']}"]


def set_of_nameserver(given: Given) -> list[str]:
    """Change a setting of nameservers."""
    return ["nameserver", "config", "--set", f"{given['k']}={given['v']}"]


def by_id(given: Given) -> list[str]:
    """Show a message, send it again, or have a consumer handle it."""
    topic = ["--topic", given["t"]] if "t" in given else []
    if given.get("s", "").lower() == "true":
        return ["message", "resend", given["i"], *topic]
    if "g" in given and "d" in given:
        words = ["message", "consume-directly", given["i"], *topic]
        return [*words, "--group", given["g"], "--client", given["d"]]
    return ["message", "get", given["i"], *topic]


def watched_status(given: Given) -> list[str]:
    """Show the status of clusters once, or with -i repeatedly."""
    words = ["cluster", "status", *(["--more"] if "m" in given else [])]
    return [*words, "--watch", "--every", given["i"]] if "i" in given else words


def order(given: Given) -> list[str]:
    """Show, fix or release the queues of an ordered topic."""
    words = ["topic", "order", given["t"]]
    match given["m"]:
        case "get":
            return words
        case "delete":
            return [*words, "--delete"]
        case "put" if "v" in given:
            return [*words, "--set", given["v"]]
        case "put":
            raise click.UsageError("mqadmin updateOrderConf -m put needs -v.")
        case method:
            raise click.UsageError(f"mqadmin updateOrderConf -m {method}: put, get or delete.")


def _clean(verb: str, given: Given) -> list[str]:
    """Clean one broker or a cluster; by default the cluster DefaultCluster, as mqadmin does."""
    where = _where(given) or ["--cluster", "DefaultCluster"]
    nameservers = ["--namesrv", given["n"]] if "n" in given else []
    return ["broker", verb, *where, *nameservers]


def clean_queues(given: Given) -> list[str]:
    """Delete consume queues without messages."""
    return _clean("clean-queues", given)


def clean_log(given: Given) -> list[str]:
    """Delete log files that have expired."""
    return _clean("clean-log", given)


def clean_topics(given: Given) -> list[str]:
    """Delete unused topics."""
    return _clean("clean-topics", given)


def export(what: str) -> Callable[[Given], list[str]]:
    """Return the translation of an export, whose -f names a directory instead of a file."""

    def words(given: Given) -> list[str]:
        directory = given.get("f", EXPORT_DIRECTORY).rstrip("/")
        made = ["cluster", "export", what, *_where(given), "--to", f"{directory}/{what}.json"]
        return [*made, "--special"] if what == "metadata" and "s" in given else made

    return words
