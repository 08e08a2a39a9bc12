"""A broker or a nameserver in the foreground, announced in RocketMQ's own words."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orbitmq.cli.running import run

if TYPE_CHECKING:
    from orbitmq.broker.app import Broker
    from orbitmq.config import BrokerConfig, NameserverConfig
    from orbitmq.nameserver import Nameserver

__all__ = ["run_broker", "run_nameserver"]

_log = logging.getLogger(__name__)


def run_broker(config: BrokerConfig, hosts: Sequence[str]) -> None:
    """Run a broker until a signal ends it."""
    # Imported late: a nameserver needs nothing of it.
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
    """Run a nameserver until a signal ends it; `tells_address` prints a line for scripts, too."""
    from orbitmq.nameserver import Nameserver

    def announce(running: Nameserver) -> None:
        _say("The Name Server boot success. serializeType=JSON")
        if tells_address:
            click.echo(f"NAMESRV_ADDR={running.address}")

    place = f"port {config.listen_port}"
    run(lambda: Nameserver(config, hosts=hosts), announce, kind="nameserver", place=place)


def _say(line: str) -> None:
    """Tell whoever waits on stdout, and whoever looks into the log."""
    click.echo(line)
    _log.info("%s", line)
