"""The ``orbitmq`` command: data on stdout, messages for people on stderr.

Each command has its own file; this file only lists them. A command's file is imported when the
command is used, so that starting one command does not load the others.
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
        "nameserver": "Run a nameserver; show and change running nameservers",
        "broker": "Run a broker; show and change running brokers",
        "stop": "Stop servers started by up, broker or nameserver",
    },
    "Messages": {
        "produce": "Send lines or files as messages",
        "consume": "Print messages as a member of a group",
        "tail": "Print new messages of a topic, without a group",
        "message": "Find, print, send and resend messages",
    },
    "Administration": {
        "explain": "Explain where a message is, or why a group makes no progress",
        "topic": "Create, change, show and delete topics",
        "group": "Create, change, show and delete consumer groups; show their lag",
        "offset": "Show and change the offsets of consumer groups",
        "producer": "Show connected producers",
        "cluster": "Show clusters and their brokers",
        "acl": "Show and change ACL accounts",
    },
    "More": {
        "bench": "Measure a cluster under load",
        "pipeline": "Run data pipelines between topics and tables on Spark",
        "mqadmin": "Run commands of RocketMQ's mqadmin by their names",
        "completion": "Print the completion script of a shell",
    },
}
"""All commands by section, with their short help; a command's file has its name."""


class Commands(EndsQuietly, click.Group):
    """Group of the commands in `COMMANDS` whose files exist."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table: first the commands that a new user needs."""
        return [name for section in COMMANDS.values() for name in section if _is_there(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's file and return the command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(importlib.import_module(f"{__name__}.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lists of commands without importing any of them."""
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
    epilog="'orbitmq COMMAND --help' describes a command. The environment variable NAMESRV_ADDR "
    f"(host:port;host:port) is the default of --namesrv. {EXIT_CODES_HELP}",
)
@click.version_option(__version__, "-V", "--version", message="orbitmq %(version)s")
@click.option("-v", "--verbose", count=True, help="Write debug logs to stderr as well.")
@click.option(
    "-q",
    "--quiet",
    count=True,
    help="Write only warnings and errors to stderr; given twice, only errors.",
)
@click.pass_context
def main(context: click.Context, verbose: int, quiet: int) -> None:
    """OrbitMQ: a message system that speaks Apache RocketMQ 4.9 on the wire and on disk.

    \b
    First steps:
      orbitmq up                              a whole RocketMQ on 127.0.0.1:9876
      orbitmq produce orders < lines.txt      each line becomes a message
      orbitmq tail orders --from earliest     print the messages
      orbitmq group lag                       show how far consumers are behind
    """
    # Imported late: the help needs no logging.
    from orbitmq.cli.core.logs import set_up_logging

    context.obj = verbose - quiet
    set_up_logging(context.obj)
