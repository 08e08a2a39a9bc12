"""``orbitmq stop``: stops servers on this machine."""

from __future__ import annotations

import os
from typing import Any

import click

from orbitmq.cli.core.exits import ExitCode, fail
from orbitmq.cli.core.pid_files import KINDS, RunningServer, running_servers
from orbitmq.cli.core.printing import Done, Output, present

__all__ = ["stop"]


@click.command(short_help="Stop servers started by up, broker or nameserver")
@click.argument("kind", type=click.Choice(sorted(KINDS)), required=False)
@click.option("--pid", type=int, help="Stop only the server with this process id.")
@click.option("--all", "every", is_flag=True, help="Stop all servers, brokers first.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Largest time to wait until each server has ended.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def stop(kind: str | None, pid: int | None, every: bool, timeout_s: float, output: Output) -> None:
    """Stop servers of this user on this machine, and wait until they have ended.

    Servers are found by their pid files in ~/.orbitmq/run or ORBITMQ_RUN_DIR. If several servers
    run, name one or use --all.

    \b
    Exit codes: 0 all servers have ended, 1 a server has not ended in time, 2 several servers run
    and none was named, 5 no server runs.

    \b
    Examples:
      orbitmq stop
      orbitmq stop broker --timeout 300
      orbitmq stop --pid 4711
      orbitmq stop --all
    """
    servers = [
        one
        for one in running_servers()
        if (kind is None or one.kind == kind) and (pid is None or one.pid == pid)
    ]
    if not servers:
        wanted = " ".join([kind or "server", *([f"with process id {pid}"] if pid else [])])
        fail(f"no {wanted} of this user runs here", ExitCode.NOT_FOUND)
    if len(servers) > 1 and not every:
        listed = "".join(f"\n  --pid {one.pid}: {_described(one)}" for one in servers)
        fail(f"{len(servers)} servers run; say which one, or --all:{listed}", ExitCode.NOT_STARTED)
    late = [server for server in servers if not _ended(server, timeout_s)]
    if late:
        which = ", ".join(f"{_described(one)} (process {one.pid})" for one in late)
        fail(f"still at work after {timeout_s:g} s: {which}; it goes on stopping", ExitCode.FAILED)
    stopped: list[dict[str, Any]] = [
        {"kind": one.kind, "pid": one.pid, "place": one.place} for one in servers
    ]
    text = "\n".join(f"stopped {_described(one)} (process {one.pid})" for one in servers)
    present(Done(text, {"stopped": stopped}), output)


def _described(server: RunningServer) -> str:
    return f"{server.kind}, {server.place}"


def _ended(server: RunningServer, timeout_s: float) -> bool:
    """Send SIGTERM to a server and wait; return True if it has ended."""
    pidfd = server.ask_to_end()
    if pidfd is None:
        return True
    try:
        return RunningServer.has_ended(pidfd, timeout_s)
    finally:
        os.close(pidfd)
