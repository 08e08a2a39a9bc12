"""``orbitmq up``: runs nameserver and broker in one process."""

from __future__ import annotations

from pathlib import Path

import click

from orbitmq.cli.core.logs import set_up_logging
from orbitmq.cli.core.process import run

__all__ = ["up"]


@click.command(short_help="Run nameserver and broker in one process, on one port")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("orbitmq-data"),
    show_default=True,
    help="Directory of the message store; an existing store of RocketMQ can be used.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=9876, show_default=True)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; with 0.0.0.0 consider --set aclEnable=true, since other machines "
    "can connect.",
)
@click.option(
    "-s",
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Broker setting, with RocketMQ's name; may be given several times.",
)
@click.pass_obj
def up(verbosity: int, data: Path, port: int, host: str, settings: tuple[str, ...]) -> None:
    """Run nameserver and broker in one process until SIGTERM or Ctrl-C.

    Nameserver and broker share one port, so clients need only this address as their nameserver.
    Topics are created by the first message sent to them.

    \b
    Examples:
      orbitmq up
      orbitmq up --data /srv/rocketmq/store --host 0.0.0.0
      orbitmq up --set flushDiskType=SYNC_FLUSH
    """
    # This command runs in a terminal, so log only warnings and errors unless -v is given.
    set_up_logging(verbosity - 1)
    # Imported late: the help needs no event loop.
    from orbitmq.cluster import Standalone

    pairs = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.BadParameter(
                f"{setting!r} is not of the form KEY=VALUE", param_hint="--set"
            )
        pairs[key.strip()] = value.strip()

    def announce(running: Standalone) -> None:
        address = running.address
        click.echo(f"OrbitMQ is up: nameserver and broker on {address}, messages in {data}")
        click.echo()
        click.echo("Any RocketMQ 4.x client can send and receive:")
        click.echo(f'  Java     producer.setNamesrvAddr("{address}");')
        click.echo(f'  Go       producer.WithNameServer([]string{{"{address}"}})')
        click.echo(f"  tools    mqadmin clusterList -n {address}")

    run(
        lambda: Standalone(data, host=host, port=port, settings=pairs),
        announce,
        kind="up",
        place=str(data.resolve()),
    )
