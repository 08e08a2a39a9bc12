"""``orbitmq nameserver``: run one, or look at those that run."""

from __future__ import annotations

from pathlib import Path

import click

from orbitmq.cli.exits import NotStarted
from orbitmq.cli.nameserver_verbs import VERBS
from orbitmq.config import NameserverConfig, format_properties
from orbitmq.errors import ConfigError

__all__ = ["nameserver"]


@click.group(
    invoke_without_command=True, short_help="Run a nameserver; look at nameservers and change them"
)
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read RocketMQ's namesrv.conf; changes made by requests are written back to it.",
)
@click.option("-p", "--port", type=click.IntRange(0, 65535), help="Port, 9876 unless configured.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("0.0.0.0",),
    show_default=True,
    help="Address to listen on; may be given several times.",
)
@click.option("--print-config", is_flag=True, help="Print every setting as key=value and exit.")
@click.pass_context
def nameserver(
    context: click.Context,
    config_file: Path | None,
    port: int | None,
    hosts: tuple[str, ...],
    print_config: bool,
) -> None:
    """Run a nameserver until SIGTERM or Ctrl-C; or, with a command, look at those that run.

    Brokers register with every nameserver there is, clients ask any of them; nameservers do not
    know of each other.

    \b
    Examples:
      orbitmq nameserver
      orbitmq nameserver -c conf/namesrv.conf
      orbitmq nameserver --host 127.0.0.1 -p 19876
      orbitmq nameserver config
    """
    if context.invoked_subcommand is not None:
        return
    try:
        config = NameserverConfig.load(config_file)
    except ConfigError as error:
        raise NotStarted(str(error)) from error
    if config_file is not None:
        config.config_store_path = str(config_file)
    if port is not None:
        config.listen_port = port
    if print_config:
        click.echo(format_properties(dict(sorted(config.as_properties().items()))), nl=False)
        return
    # Imported late: the help and the settings need no event loop.
    from orbitmq.cli.servers import run_nameserver

    if config_file is not None:
        click.echo(f"load config properties file OK, {config_file}")
    run_nameserver(config, hosts, tells_address=True)


for _verb in VERBS:
    nameserver.add_command(_verb)
