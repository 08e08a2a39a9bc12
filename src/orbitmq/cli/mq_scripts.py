"""RocketMQ's own programs: ``mqnamesrv``, ``mqbroker``, ``mqadmin`` and ``mqshutdown``.

They have the options and messages of 4.9, so that users can follow documents about RocketMQ here,
above all its quick start. Each is a separate program that runs an ``orbitmq`` command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from orbitmq.cli.core.pipes import EndsQuietly

__all__ = ["mqadmin", "mqbroker", "mqnamesrv", "mqshutdown"]

HELP: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
NOT_RUNNING: Final = 255
"""Exit code of ``exit -1`` in RocketMQ's script."""

_config_file = click.option(
    "-c",
    "--configFile",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings file to read.",
)
_namesrv_addr = click.option(
    "-n", "--namesrvAddr", "namesrv_addr", metavar="ADDRS", help="Nameservers, host:port;host:port."
)
_print_all = click.option(
    "-p", "--printConfigItem", "print_all", is_flag=True, help="Print every setting and exit."
)
_hosts = click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("0.0.0.0",),
    show_default=True,
    help="OrbitMQ's own: address to listen on; may be given several times.",
)


@click.command("mqnamesrv", cls=EndsQuietly, context_settings=HELP)
@_config_file
@_namesrv_addr
@_print_all
@_hosts
def _mqnamesrv(
    config_file: Path | None, namesrv_addr: str | None, print_all: bool, hosts: tuple[str, ...]
) -> None:
    """Run a nameserver, as RocketMQ's mqnamesrv; -n is accepted and ignored."""
    from orbitmq.config import NameserverConfig

    config = NameserverConfig.load(config_file, lets_pass="anything")
    if config_file is not None:
        config.config_store_path = str(config_file)
        click.echo(f"load config properties file OK, {config_file}")
    if print_all:
        _print(config.as_properties())
        return
    from orbitmq.cli.core.logs import log_to_file
    from orbitmq.cli.core.process import run_nameserver

    log_to_file("namesrv.log")
    run_nameserver(config, hosts)


@click.command("mqbroker", cls=EndsQuietly, context_settings=HELP)
@_config_file
@_namesrv_addr
@_print_all
@click.option(
    "-m",
    "--printImportantConfig",
    "print_important",
    is_flag=True,
    help="Print only the important settings and exit.",
)
@_hosts
def _mqbroker(
    config_file: Path | None,
    namesrv_addr: str | None,
    print_all: bool,
    print_important: bool,
    hosts: tuple[str, ...],
) -> None:
    """Run a broker, as RocketMQ's mqbroker."""
    from orbitmq.config import BrokerConfig

    config = BrokerConfig.load(config_file, lets_pass="anything")
    if namesrv_addr is not None:
        config.namesrv_addr = namesrv_addr
    config.settle()
    if print_all or print_important:
        _print(config.as_properties(important=not print_all))
        return
    from orbitmq.cli.core.logs import log_to_file
    from orbitmq.cli.core.process import run_broker

    own = f"{config.broker_name}_{config.broker_id}" if config.isolate_log_enable else ""
    log_to_file("broker.log", below=own)
    run_broker(config, hosts)


def _print(settings: dict[str, str]) -> None:
    click.echo("".join(f"{key}={value}\n" for key, value in settings.items()), nl=False)


def mqnamesrv() -> NoReturn:
    """Run ``mqnamesrv``."""
    _run(_mqnamesrv)


def mqbroker() -> NoReturn:
    """Run ``mqbroker``."""
    _run(_mqbroker)


def _run(command: click.Command) -> NoReturn:
    """Run a command; a wrong command line prints the help and ends with code 1, as in Java.

    Java's programs start even with settings that they cannot parse; these end with code 2.
    """
    # Imported late: the help does not need these modules.
    from orbitmq.cli.core.exits import ExitCode, fail
    from orbitmq.errors import ConfigError

    try:
        sys.exit(command.main(prog_name=command.name, standalone_mode=False))
    except click.UsageError as error:
        context = error.ctx or click.Context(command, info_name=command.name)
        click.echo(f"{error.format_message()}\n\n{command.get_help(context)}", err=True)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ConfigError as error:
        fail(str(error), ExitCode.NOT_STARTED)
    sys.exit(1)


def mqadmin() -> None:
    """Run ``mqadmin``; without arguments it lists its commands."""
    from orbitmq.cli import main

    main(["mqadmin", *(sys.argv[1:] or ["--help"])], prog_name="orbitmq")


def mqshutdown() -> NoReturn:
    """Send SIGTERM to all brokers, or to all nameservers, of this user on this machine."""
    from orbitmq.cli.core.pid_files import Kind, running_servers

    names: dict[str, tuple[Kind, str]] = {
        "broker": ("broker", "mqbroker"),
        "namesrv": ("nameserver", "mqnamesrv"),
    }
    if len(sys.argv) != 2 or sys.argv[1] not in names:
        click.echo("Useage: mqshutdown broker | namesrv")
        sys.exit(1)
    kind, name = names[sys.argv[1]]
    running = running_servers()
    servers = [server for server in running if server.kind == kind]
    if not servers:
        click.echo(f"No {name} running.")
        if any(server.kind == "up" for server in running):
            click.echo("orbitmq up runs, which is both in one: orbitmq stop up ends it.", err=True)
        sys.exit(NOT_RUNNING)
    pids = " ".join(str(server.pid) for server in servers)
    click.echo(f"The {name}({pids}) is running...")
    for server in servers:
        if (pidfd := server.ask_to_end()) is not None:
            os.close(pidfd)
    click.echo(f"Send shutdown request to {name}({pids}) OK")
    sys.exit(0)
