"""Exit codes of all commands, and which error is which.

| Code | Meaning |
| --- | --- |
| 0 | done; of a look: all is in order |
| 1 | refused or failed |
| 2 | nothing was started: the command line, a file or a setting is wrong |
| 3 | looked at, and not in order: `explain` found something, a check failed |
| 4 | ended by a signal before it was done |
| 5 | there is no such topic, group, message, broker or account |
| 6 | nobody answers: nameservers or brokers cannot be reached |
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
    """How a command ends."""

    DONE = 0
    FAILED = 1
    NOT_STARTED = 2
    NOT_IN_ORDER = 3
    INTERRUPTED = 4
    NOT_FOUND = 5
    NOBODY_ANSWERS = 6


EXIT_CODES_HELP: Final = (
    "Exit codes: 0 done or in order, 1 refused or failed, 2 wrong command line or settings, "
    "3 looked at and not in order, 4 ended by a signal, 5 no such thing, 6 nobody answers."
)


class NotStarted(click.ClickException):
    """A setting or a file that nothing can be started with."""

    exit_code = ExitCode.NOT_STARTED


class NothingFound(Exception):
    """What a command was asked for is not there."""


def fail(text: str, code: ExitCode) -> NoReturn:
    """End with a line on stderr."""
    click.echo(f"Error: {text}", err=True)
    sys.exit(code)


@contextmanager
def _asked_to_end() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end what is inside in order, and with an exit code.

    They raise `KeyboardInterrupt` wherever the main thread is, as Python does for Ctrl-C, but for
    two moments:

    - While it enters or leaves a condition, whose lock nobody would let go of then: the background
      thread would wait for it, and the command for the background thread, for ever.
    - When it is about to read, but not in the system yet. Python only notes the signal then, and
      acts on it once there is something to read, which may be never. So a timer wakes whoever
      waits, and what was noted comes to pass.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
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
        numbers.remove(signal.SIGINT)  # a command in the background is none of the terminal's
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
    """Turn errors of a cluster into a line on stderr and the exit code that stands for them."""
    # Imported late: the help of a command needs none of them.
    from orbitmq.errors import OrbitError

    try:
        with _asked_to_end():
            yield
    except (NothingFound, OrbitError) as error:
        fail(str(error), exit_of(error))
    except KeyboardInterrupt:
        fail("interrupted", ExitCode.INTERRUPTED)


def exit_of(error: BaseException) -> ExitCode:
    """Return the code that stands for an error, whichever command meets it."""
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
"""Causes of `NoRoute` that are no lack of a topic or a broker."""

_NOT_THERE: Final = frozenset({17, 22, 26, 206})
"""TOPIC_NOT_EXIST, QUERY_NOT_FOUND, SUBSCRIPTION_GROUP_NOT_EXIST, CONSUMER_NOT_ONLINE."""
