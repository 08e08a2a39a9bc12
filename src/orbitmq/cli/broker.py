"""``orbitmq broker``: run one, or look at those that run."""

from __future__ import annotations

from pathlib import Path

import click

from orbitmq.cli.broker_verbs import VERBS
from orbitmq.cli.exits import NotStarted
from orbitmq.config import BrokerConfig, format_properties
from orbitmq.errors import ConfigError

__all__ = ["broker"]


@click.group(
    invoke_without_command=True, short_help="Run a broker; look at brokers and change them"
)
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read RocketMQ's broker.conf.",
)
@click.option(
    "-n",
    "--namesrv",
    "namesrv_addr",
    metavar="ADDRS",
    help="Nameservers to register with, host:port;host:port. Wins over file and NAMESRV_ADDR.",
)
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
def broker(
    context: click.Context,
    config_file: Path | None,
    namesrv_addr: str | None,
    hosts: tuple[str, ...],
    print_config: bool,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C; or, with a command, look at those that run.

    \b
    Examples:
      orbitmq broker -n 127.0.0.1:9876
      orbitmq broker -c conf/broker.conf
      NAMESRV_ADDR="10.0.0.1:9876;10.0.0.2:9876" orbitmq broker -c conf/broker.conf
      orbitmq broker status -b broker-a
    """
    if context.invoked_subcommand is not None:
        return
    try:
        config = BrokerConfig.load(config_file)
        if namesrv_addr is not None:
            config.namesrv_addr = namesrv_addr
        config.settle()
    except ConfigError as error:
        raise NotStarted(str(error)) from error
    if print_config:
        click.echo(format_properties(dict(sorted(config.as_properties().items()))), nl=False)
        return
    # Imported late: the help and the settings need no event loop.
    from orbitmq.cli.servers import run_broker

    run_broker(config, hosts)


for _verb in VERBS:
    broker.add_command(_verb)
