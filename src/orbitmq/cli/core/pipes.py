"""Output that nobody reads to its end: ``orbitmq topic list | head -1`` ends quietly.

The reader has what it wanted, so that is a success. What a command had to say besides, its exit
code, stays as it is.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

__all__ = ["EndsQuietly", "goes_on_unread"]


class EndsQuietly(click.Command):
    """A command that is done when nobody reads on."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line, which may be a request for help."""
        with _ends_with_its_reader():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and write all that it has printed."""
        with _ends_with_its_reader():
            return super().invoke(ctx)


@contextmanager
def _ends_with_its_reader() -> Iterator[None]:
    """End with code 0 when the reader of stdout is gone, and leave nothing to complain of."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # else the interpreter does it, and complains
    except BrokenPipeError as error:
        if not _drop_unread_output():
            raise  # of another pipe: that is no end
        if isinstance(error.__context__, SystemExit):
            raise error.__context__ from None
        sys.exit(0)


@contextmanager
def goes_on_unread() -> Iterator[None]:
    """Go on behind what is inside when the reader of stdout is gone."""
    try:
        yield
    except BrokenPipeError:
        if not _drop_unread_output():
            raise


def _drop_unread_output() -> bool:
    """Send what is still to be written to stdout nowhere, if its reader is gone; say whether."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    poll = select.poll()
    poll.register(number, 0)
    if not any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0)):
        return False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
    return True
