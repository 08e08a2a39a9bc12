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
from orbitmq.cli.core.exits import EXIT_CODES_HELP
from orbitmq.cli.core.pipes import EndsQuietly

__all__ = ["main"]

COMMANDS: Final = {
    "Run": {
        "up": "Run nameserver and broker in one process, on one port",
        "nameserver": "Run a nameserver; look at nameservers and change them",
        "broker": "Run a broker; look at brokers and change them",
        "stop": "Stop what up, broker or nameserver has started",
    },
    "Messages": {
        "produce": "Send lines or files as messages",
        "consume": "Print messages as a member of a group",
        "tail": "Print messages as they come, without a group",
        "message": "Find, print, send and send back messages",
    },
    "Look and change": {
        "explain": "Say where a message is, or why a group is not moving",
        "topic": "Create, change, look at and delete topics",
        "group": "Create, change, look at and delete consumer groups; their lag",
        "offset": "Look at and move the offsets of consumer groups",
        "producer": "Look at connected producers",
        "cluster": "Look at clusters and their brokers",
        "acl": "Look at and change accounts",
    },
    "More": {
        "bench": "Measure a cluster under load",
        "pipeline": "Run data pipelines between topics and tables on Spark",
        "mqadmin": "All commands of RocketMQ's mqadmin, by its names",
        "completion": "Print the completion script of a shell",
    },
}
"""Every command with its one line, in sections; the file of each is named after it."""


class Commands(EndsQuietly, click.Group):
    """The commands of `COMMANDS` whose files are there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List them in the order of the table, which is that of a user's first day."""
        return [name for section in COMMANDS.values() for name in section if _is_there(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's file and take the command out of it."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(importlib.import_module(f"{__name__}.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lists without importing a single command."""
        width = max(len(name) for name in self.list_commands(ctx))
        for title, section in COMMANDS.items():
            rows = [(name.ljust(width), text) for name, text in section.items() if _is_there(name)]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _is_there(name: str) -> bool:
    return find_spec(f"{__name__}.{name}") is not None


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="'orbitmq COMMAND --help' tells all about a command. NAMESRV_ADDR names the nameservers "
    f"(host:port;host:port) wherever none are given. {EXIT_CODES_HELP}",
)
@click.version_option(__version__, "-V", "--version", message="orbitmq %(version)s")
@click.option("-v", "--verbose", count=True, help="Say more on stderr.")
@click.option("-q", "--quiet", count=True, help="Say less on stderr; twice: errors only.")
@click.pass_context
def main(context: click.Context, verbose: int, quiet: int) -> None:
    """OrbitMQ: a message system that speaks Apache RocketMQ 4.9 on the wire and on disk.

    \b
    First steps:
      orbitmq up                              a whole RocketMQ on 127.0.0.1:9876
      orbitmq produce orders < lines.txt      each line becomes a message
      orbitmq tail orders --from earliest     look at them
      orbitmq group lag                       how far consumers are
    """
    # Imported late: the help logs nothing.
    from orbitmq.cli.core.logs import set_up_logging

    context.obj = verbose - quiet
    set_up_logging(context.obj)
