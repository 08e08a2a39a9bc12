"""Runs a server, an object with `start` and `stop`, until a signal arrives.

SIGTERM and SIGINT stop the server cleanly and the command ends with code 0. A second signal ends
the process at once. A failed start prints one line and ends with code 1, or with code 2 if a
setting is wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import re
import resource
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import click
import uvloop

from orbitmq.cli.core.exits import NotStarted
from orbitmq.cli.core.pid_files import Kind, announced
from orbitmq.cli.core.pipes import goes_on_unread
from orbitmq.errors import ConfigError, OrbitError
from orbitmq.memory import keep_freed_memory

if TYPE_CHECKING:
    from orbitmq.broker.app import Broker
    from orbitmq.config import BrokerConfig, NameserverConfig
    from orbitmq.nameserver import Nameserver

__all__ = ["App", "run", "run_broker", "run_nameserver"]

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class App(Protocol):
    """A server that can be started and stopped."""

    async def start(self) -> None:
        """Start serving."""

    async def stop(self) -> None:
        """Release all resources; harmless after a failed start."""


A = TypeVar("A", bound=App)


def run(make: Callable[[], A], announce: Callable[[A], None], *, kind: Kind, place: str) -> None:
    """Create an app on the event loop, start and announce it, and stop it on a signal.

    `kind` and `place` (the directory or port) are written to the pid file for `orbitmq stop`.
    """
    _allow_many_connections()
    keep_freed_memory()
    new_loop = uvloop.new_event_loop
    with announced(kind, place) as stopping, asyncio.Runner(loop_factory=new_loop) as runner:
        try:
            runner.run(_run(make, announce, stopping))
        except ConfigError as error:
            raise NotStarted(str(error)) from error
        except (OSError, OrbitError) as error:
            raise click.ClickException(explain(error)) from error


def _allow_many_connections() -> None:
    """Raise the limit of file descriptors to its maximum; shells start programs with few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(
    make: Callable[[], A], announce: Callable[[A], None], stopping: Callable[[], None]
) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()

    def stop() -> None:
        told.set()
        for number in STOP_SIGNALS:  # a second signal ends the process at once
            loop.remove_signal_handler(number)
        with contextlib.suppress(OSError):  # the disk may be full
            stopping()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        app = make()
        try:
            await app.start()
            with goes_on_unread():
                announce(app)
            await told.wait()
        finally:
            await app.stop()
    finally:
        # A loop that is closed with its handlers installed leaves them behind in the process.
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


def explain(error: Exception) -> str:
    """Return one line that explains why an app did not start."""
    if isinstance(error, OSError):
        place = re.search(r"\('([^']*)', (\d+)", str(error))
        where = f"{place[1]}:{place[2]}" if place else "the address"
        if error.errno == errno.EADDRINUSE:
            return f"{where} is already in use; another process listens there"
        if error.errno == errno.EADDRNOTAVAIL:
            return f"cannot listen on {where}: this machine has no such address"
        if error.errno == errno.EACCES and place:
            return f"cannot listen on {where}: permission denied"
    return str(error)


# ---- Broker and nameserver in the foreground, announced with RocketMQ's own lines

_log = logging.getLogger(__name__)


def run_broker(config: BrokerConfig, hosts: Sequence[str]) -> None:
    """Run a broker until a signal ends it."""
    # Imported late: a nameserver does not need the broker's modules.
    from orbitmq.broker.app import Broker

    def announce(_running: Broker) -> None:
        line = f"The broker[{config.broker_name}, {config.address}] boot success. "
        line += "serializeType=JSON"
        if config.namesrv_addr:
            line += f" and name server is {config.namesrv_addr}"
        _say(line)

    place = str(Path(config.store_path_root_dir).resolve())
    run(lambda: Broker(config, hosts=hosts), announce, kind="broker", place=place)


def run_nameserver(
    config: NameserverConfig, hosts: Sequence[str], *, tells_address: bool = False
) -> None:
    """Run a nameserver until a signal ends it.

    `tells_address` also prints its address in a line for scripts.
    """
    from orbitmq.nameserver import Nameserver

    def announce(running: Nameserver) -> None:
        _say("The Name Server boot success. serializeType=JSON")
        if tells_address:
            click.echo(f"NAMESRV_ADDR={running.address}")

    place = f"port {config.listen_port}"
    run(lambda: Nameserver(config, hosts=hosts), announce, kind="nameserver", place=place)


def _say(line: str) -> None:
    """Print a line on stdout, for scripts that wait for it, and write it to the log."""
    click.echo(line)
    _log.info("%s", line)
