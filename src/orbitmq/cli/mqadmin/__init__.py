"""``orbitmq mqadmin``: the commands of RocketMQ's mqadmin, with its names and option letters.

Each command is translated into an ``orbitmq`` command and prints its answer: the same facts as
mqadmin, but in our tables (or with ``--output json``). `mqadmin.table` lists the translations.
"""

from __future__ import annotations

from typing import Final

import click

from orbitmq.cli.mqadmin.options import Alias
from orbitmq.cli.mqadmin.table import ALIASES, OTHER_NAMES

__all__ = ["mqadmin", "translate"]


_BY_LOWER: Final = {name.lower(): name for name in (*ALIASES, *OTHER_NAMES)}
"""Names by lower case, because mqadmin ignores the case of command names."""


class Aliases(click.Group):
    """Group with a command for each alias."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in mqadmin's order."""
        return list(ALIASES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of an alias, which parses its own arguments."""
        if cmd_name == "help":
            return help_command
        cmd_name = _BY_LOWER.get(cmd_name.lower(), cmd_name)
        alias = ALIASES.get(OTHER_NAMES.get(cmd_name, cmd_name))
        if alias is None:
            return None

        @click.command(
            cmd_name,
            short_help=alias.in_words,
            add_help_option=False,
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )
        @click.pass_context
        def run(context: click.Context) -> None:
            if {"-h", "--help"} & set(context.args):
                click.echo(usage(cmd_name, alias))
                return
            _run(context, translate(cmd_name, alias, context.args))

        run.help = f"{alias.in_words}: {' '.join(alias.verb)}"
        return run

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each name with its description."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, alias.in_words) for name, alias in ALIASES.items()])


@click.group(cls=Aliases, short_help="All commands of RocketMQ's mqadmin, by its names")
def mqadmin() -> None:
    """Run commands of RocketMQ's mqadmin 4.9.7, with its option letters.

    \b
    Examples:
      orbitmq mqadmin topicList -n 127.0.0.1:9876
      orbitmq mqadmin consumerProgress -g billing
      orbitmq mqadmin updateTopic -h           # lists the options and their translations
    """


@click.command("help", short_help="Describe a command")
@click.argument("name", required=False)
@click.pass_context
def help_command(context: click.Context, name: str | None) -> None:
    """Describe a command, as its -h does; without a name, list all commands."""
    group = context.parent
    assert group is not None
    if name is None:
        click.echo(mqadmin.get_help(group))
        return
    name = _BY_LOWER.get(name.lower(), name)
    alias = ALIASES.get(OTHER_NAMES.get(name, name))
    if alias is None:
        raise click.UsageError(f"The sub command {name} not exist.", group)
    click.echo(usage(name, alias))


def translate(name: str, alias: Alias, words: list[str]) -> list[str]:
    """Return the ``orbitmq`` command line for one of mqadmin.

    Raises `click.UsageError` for arguments that mqadmin would reject.
    """
    given, ours = _read(name, alias, words)
    missing = [
        f"-{option.letter}"
        for option in alias.options
        if option.required and not given.get(option.letter)
    ]
    if missing:
        raise click.UsageError(f"mqadmin {name} needs {', '.join(missing)}; see -h.")
    if alias.special is not None:
        return [*alias.special(given), *ours]
    before: list[str] = []
    behind: list[str] = []
    for option in alias.options:
        value = given.get(option.letter)
        if value is not None:
            (before if option.is_argument else behind).extend(option.ours(value))
    return [*alias.verb, *before, *behind, *ours]


def _read(name: str, alias: Alias, words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return mqadmin's options by letter, and arguments for ``orbitmq`` (-n, -o json …)."""
    known = {f"-{option.letter}": option for option in alias.options}
    known |= {f"--{option.name}": option for option in alias.options}
    given: dict[str, str] = {}
    ours: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option = known.get(word)
        if option is not None:
            if option.takes_value:
                if not rest:
                    raise click.UsageError(f"{word} of mqadmin {name} needs a value.")
                given[option.letter] = rest.pop(0).strip()
            else:
                given[option.letter] = "true"
        elif word in ("-n", "--namesrvAddr"):
            ours += ["--namesrv", rest.pop(0) if rest else ""]
        elif word.startswith("--") or word == "-o":
            ours += [word, *([rest.pop(0)] if rest and not rest[0].startswith("-") else [])]
        else:
            raise click.UsageError(f"mqadmin {name} has no option {word}; see -h.")
    return given, ours


def usage(name: str, alias: Alias) -> str:
    """Return the help of an alias."""
    lines = [f"mqadmin {name}: {alias.in_words}", f"here: orbitmq {' '.join(alias.verb)} …", ""]
    for option in alias.options:
        words = f"-{option.letter}, --{option.name}" + (" VALUE" if option.takes_value else "")
        lines.append(f"  {words:<40} {option.meaning()}{' (needed)' if option.required else ''}")
    lines.append(f"  {'-n, --namesrvAddr VALUE':<40} --namesrv")
    return "\n".join(lines)


def _run(context: click.Context, words: list[str]) -> None:
    """Run an ``orbitmq`` command in place of the alias."""
    root = context.find_root()
    command = root.command
    assert isinstance(command, click.Group)
    noun = command.get_command(root, words[0])
    assert isinstance(noun, click.Command), words
    with noun.make_context(words[0], words[1:], parent=root) as inner:
        inner.obj = root.obj
        noun.invoke(inner)
