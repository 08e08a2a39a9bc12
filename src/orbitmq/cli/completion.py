"""``orbitmq completion``: scripts that complete commands, options, topics and groups."""

from __future__ import annotations

import click

__all__ = ["completion"]

HOW = {
    "bash": 'eval "$(orbitmq completion bash)"        # in ~/.bashrc',
    "zsh": 'eval "$(orbitmq completion zsh)"         # in ~/.zshrc',
    "fish": "orbitmq completion fish | source         # in ~/.config/fish/config.fish",
}


@click.command(short_help="Print the completion script of a shell")
@click.argument("shell", type=click.Choice(list(HOW)))
def completion(shell: str) -> None:
    """Print a shell script that completes commands, options, topics and groups.

    Names of topics and groups come from the cluster that the command line, the environment or a
    file names.

    \b
    Examples:
      eval "$(orbitmq completion bash)"        # in ~/.bashrc
      eval "$(orbitmq completion zsh)"         # in ~/.zshrc
      orbitmq completion fish | source         # in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from orbitmq.cli import main

    kind = get_completion_class(shell)
    assert kind is not None, "click knows all three"
    click.echo(kind(main, {}, "orbitmq", "_ORBITMQ_COMPLETE").source())
