"""The ``orbitmq`` command: data on stdout, talk on stderr.

One file per command; this one only lists them. A command's file is imported when the command is
used, so that starting one does not pay for the others.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Final

import click

from orbitmq import __version__
from orbitmq.cli.logs import set_up_logging

__all__ = ["main"]

COMMANDS: Final = {
    "up": "Run nameserver and broker in one process, on one port",
    "nameserver": "Run a nameserver",
    "broker": "Run a broker",
    "pipeline": "Run data pipelines between topics and tables on Spark",
}
"""Every command with its one line; the file of each is named after it."""


class Commands(click.Group):
    """The commands of `COMMANDS` whose files are there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List them in the order of the table, which is that of a user's first day."""
        return [name for name in COMMANDS if find_spec(f"{__name__}.{name}") is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's file and take the command out of it."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(importlib.import_module(f"{__name__}.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list without importing a single command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="'orbitmq COMMAND --help' tells all about a command. NAMESRV_ADDR names the nameservers "
    "(host:port;host:port) wherever none are given.",
)
@click.version_option(__version__, "-V", "--version", message="orbitmq %(version)s")
@click.option("-v", "--verbose", count=True, help="Say more on stderr.")
@click.option("-q", "--quiet", count=True, help="Say less on stderr; twice: errors only.")
@click.pass_context
def main(context: click.Context, verbose: int, quiet: int) -> None:
    """OrbitMQ: a message system that speaks Apache RocketMQ 4.9 on the wire and on disk."""
    context.obj = verbose - quiet
    set_up_logging(context.obj)
