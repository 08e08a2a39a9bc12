"""Exit codes of all commands, and the code of each error.

| Code | Meaning |
| --- | --- |
| 0 | done; for checks: everything is in order |
| 1 | refused or failed |
| 2 | nothing was started: the command line, a file or a setting is wrong |
| 3 | checked and not in order: `explain` found a fault, or a check failed |
| 4 | ended by a signal before it was done |
| 5 | the topic, group, message, broker or account does not exist |
| 6 | no answer: nameservers or brokers cannot be reached |
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import Final, NoReturn

import click

__all__ = [
    "EXIT_CODES_HELP",
    "ExitCode",
    "NotStarted",
    "NothingFound",
    "exit_code_for_errors",
    "exit_of",
    "fail",
]

_LOCKING: Final = {threading.Condition.__enter__.__code__, threading.Condition.__exit__.__code__}
_AGAIN_S: Final = 0.001
_TICK_S: Final = 0.25


class ExitCode(IntEnum):
    """Exit codes of the commands."""

    DONE = 0
    FAILED = 1
    NOT_STARTED = 2
    NOT_IN_ORDER = 3
    INTERRUPTED = 4
    NOT_FOUND = 5
    NOBODY_ANSWERS = 6


EXIT_CODES_HELP: Final = (
    "Exit codes: 0 done or in order, 1 refused or failed, 2 wrong command line or settings, "
    "3 checked and not in order, 4 ended by a signal, 5 not found, 6 no server answers."
)


class NotStarted(click.ClickException):
    """A setting or a file is wrong, so nothing was started."""

    exit_code = ExitCode.NOT_STARTED


class NothingFound(Exception):
    """The object that a command needs does not exist."""


def fail(text: str, code: ExitCode) -> NoReturn:
    """Print an error to stderr and exit with a code."""
    click.echo(f"Error: {text}", err=True)
    sys.exit(code)


@contextmanager
def _asked_to_end() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the enclosed code cleanly and with an exit code.

    Both raise `KeyboardInterrupt` at any place of the main thread, as Python does for Ctrl-C.
    Two moments need more care:

    - The main thread enters or leaves a condition. An exception would leave the condition's lock
      taken: the background thread would wait for the lock, and the command for that thread,
      for ever. So the exception is delayed until the thread has left this code.
    - The main thread is about to read, but not in the system call yet. Python only records the
      signal and handles it after the read, which may never end. A timer interrupts the read, so
      that Python handles the recorded signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    is_asked = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal is_asked
        is_asked = is_asked or number != signal.SIGALRM
        if is_asked and frame is not None and frame.f_code in _LOCKING:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S, _TICK_S)
        elif is_asked:
            is_asked = False
            raise KeyboardInterrupt

    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGALRM}
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        numbers.remove(signal.SIGINT)  # keep ignoring Ctrl-C in a background job of a shell
    before = {number: signal.signal(number, stop) for number in numbers}
    signal.setitimer(signal.ITIMER_REAL, _TICK_S, _TICK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def exit_code_for_errors() -> Iterator[None]:
    """Turn errors of a cluster into a line on stderr and an exit code."""
    # Imported late: the help of a command needs no error classes.
    from orbitmq.errors import OrbitError

    try:
        with _asked_to_end():
            yield
    except (NothingFound, OrbitError) as error:
        fail(str(error), exit_of(error))
    except KeyboardInterrupt:
        fail("interrupted", ExitCode.INTERRUPTED)


def exit_of(error: BaseException) -> ExitCode:
    """Return the exit code of an error; all commands use the same code."""
    from orbitmq.errors import (
        BrokerRefused,
        ConfigError,
        NoRoute,
        NoSuchGroup,
        RemotingError,
        SendFailed,
    )

    match error:
        case NothingFound() | NoSuchGroup():
            return ExitCode.NOT_FOUND
        case NoRoute():
            return _OF_ROUTES.get(error.cause, ExitCode.NOT_FOUND)
        case RemotingError():
            return ExitCode.NOBODY_ANSWERS
        case ConfigError():
            return ExitCode.NOT_STARTED
        case BrokerRefused() if error.code in _NOT_THERE:
            return ExitCode.NOT_FOUND
        case SendFailed() if error.__cause__ is not None:
            return exit_of(error.__cause__)
        case _:
            return ExitCode.FAILED


_OF_ROUTES: Final = {
    "no_nameserver": ExitCode.NOBODY_ANSWERS,
    "no_permission": ExitCode.FAILED,
    "refused": ExitCode.FAILED,
}
"""Causes of `NoRoute` other than a missing topic or broker."""

_NOT_THERE: Final = frozenset({17, 22, 26, 206})
"""TOPIC_NOT_EXIST, QUERY_NOT_FOUND, SUBSCRIPTION_GROUP_NOT_EXIST, CONSUMER_NOT_ONLINE."""
