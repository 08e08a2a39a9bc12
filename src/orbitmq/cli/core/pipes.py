"""Closed output pipes: ``orbitmq topic list | head -1`` ends without an error.

The reader has read enough, so this is a success. If the command has set an exit code, that code
is kept.
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
    """A command that ends quietly when the reader of its output is gone."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the command line, which may print the help."""
        with _ends_with_its_reader():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and flush its output."""
        with _ends_with_its_reader():
            return super().invoke(ctx)


@contextmanager
def _ends_with_its_reader() -> Iterator[None]:
    """End with code 0 when the reader of stdout is gone, without a message of the interpreter."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # else the interpreter flushes and prints an error
    except BrokenPipeError as error:
        if not _drop_unread_output():
            raise  # another pipe is broken, not stdout
        if isinstance(error.__context__, SystemExit):
            raise error.__context__ from None
        sys.exit(0)


@contextmanager
def goes_on_unread() -> Iterator[None]:
    """Leave the enclosed code without an error when the reader of stdout is gone."""
    try:
        yield
    except BrokenPipeError:
        if not _drop_unread_output():
            raise


def _drop_unread_output() -> bool:
    """Redirect stdout to /dev/null if its reader is gone; return True in this case."""
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
