"""Output at a terminal but not in a pipe: progress bars, spinners, redrawn tables."""

from __future__ import annotations

import io
import logging
import os
import pty
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq.admin.admin import Admin
from orbitmq.cli import main
from orbitmq.cli.core import progress as showing
from orbitmq.client.producer.producer import Producer
from orbitmq.message import Message
from tests.cli.conftest import Run, await_true

UP = "\x1b[1A"
"""The cursor goes up a line: something is redrawn in place."""


class Terminal:
    """A pseudo-terminal, and everything written to it."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        self.stream = os.fdopen(theirs, "w", encoding="utf-8")
        self._seen = bytearray()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._ours, 1 << 16)
            except OSError:  # The other end is closed.
                return
            if not data:
                return
            self._seen += data

    @property
    def so_far(self) -> str:
        return bytes(self._seen).decode("utf-8", "replace")

    def close(self) -> str:
        self.stream.close()
        self._reading.join(20)
        os.close(self._ours)
        return self.so_far


@contextmanager
def at_terminal(monkeypatch: pytest.MonkeyPatch, *streams: str) -> Iterator[Terminal]:
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", "100")
        for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            patch.delenv(name, raising=False)
        for stream in streams:
            patch.setattr(sys, stream, terminal.stream)
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        try:
            yield terminal
        finally:
            # A command logs to the present stderr, which will be closed.
            root.handlers[:] = handlers
            root.setLevel(level)


Look = Callable[..., str]


@pytest.fixture
def look(run: Run, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Run a command whose stderr, or the named streams, is a terminal; return its output."""

    def look(*words: str, streams: tuple[str, ...] = ("stderr",), stdin: str = "") -> str:
        with at_terminal(monkeypatch, *streams) as terminal:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            code = main(["-q", *words], standalone_mode=False)
        assert not code, words
        return terminal.close()

    return look


@pytest.fixture(scope="module")
def filled(admin: Admin, producer: Producer) -> str:
    for name in ("filled", "written"):
        admin.create_topic(name, queues=1)
    producer.send_many([Message("filled", b"%d" % n) for n in range(40)])
    admin.create_group("reader")
    for dead in range(3):
        producer.send(Message("%DLQ%reader", b"dead %d" % dead))
    return "filled"


RESEND = ("message", "resend", "-g", "reader", "--all", "--limit", "2")
LONG = {
    "produce": (("produce", "written"), "Sending", "30/?"),
    "message print": (("message", "print", "filled"), "Reading", "/40"),
    "resend": ((*RESEND, "--to", "topic"), "Sending", "2/2"),
    "resend, reading": ((*RESEND, "--dry-run"), "Reading", "2/2"),
    "group lag": (("group", "lag"), "Groups", "1/1"),
    "topic list": (("topic", "list", "--with-groups"), "Topics", "/"),
    "topic stats": (("topic", "stats"), "Topics", "/"),
    "send-check": (("cluster", "send-check", "--amount", "5"), "Sending", "5/5"),
    "cluster status": (("cluster", "status"), "Brokers", "2/2"),
    "bench": (("bench", "-t", "written", "--seconds", "1.2", "--in-flight", "2"), "sent", "/1"),
}


@pytest.mark.parametrize("name", LONG)
def test_long_commands_show_a_progress_bar(look: Look, run: Run, filled: str, name: str) -> None:
    words, what, count = LONG[name]
    stdin = "line\n" * 30
    shown = look(*words, stdin=stdin)
    assert what in shown
    assert count in shown, "how many of how many"
    assert "━" in shown
    piped = run(*words, stdin=stdin)
    assert "━" not in piped.out + piped.err
    assert "\x1b" not in piped.out + piped.err


@pytest.mark.parametrize("what", ["metadata", "configs", "metrics"])
def test_exports_show_a_progress_bar(look: Look, filled: str, tmp_path: Path, what: str) -> None:
    assert "━" in look("cluster", "export", what, "--to", str(tmp_path / "file"))


def test_a_slow_call_shows_a_spinner(
    run: Run, filled: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Moving the offsets of many queues is one call with many requests."""
    reset_offsets = Admin.reset_offsets
    terminals: list[Terminal] = []

    def slow(*given: Any, **named: Any) -> Any:
        await_true("the wheel turns", lambda: "Asking" in terminals[0].so_far)
        return reset_offsets(*given, **named)

    monkeypatch.setattr(showing, "PATIENCE_S", 0.05)
    monkeypatch.setattr(Admin, "reset_offsets", slow)
    with at_terminal(monkeypatch, "stderr") as terminal:
        terminals.append(terminal)
        main(["-q", "offset", "reset", "reader", filled, "--to", "latest"], standalone_mode=False)
    assert "Asking" in terminal.close()
    assert "broker-a" in capsys.readouterr().out


def test_a_spinner_is_delayed_and_replaced_by_a_progress_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(showing, "PATIENCE_S", 0.05)
    with at_terminal(monkeypatch, "stderr") as terminal:
        with showing.waiting("Asking"):
            await_true("the wheel turns", lambda: "Asking" in terminal.so_far)
            assert list(showing.progress(range(3), 3, "Counting")) == [0, 1, 2]
        monkeypatch.setattr(showing, "PATIENCE_S", 60.0)
        began = time.monotonic()
        with showing.waiting("Quick"):
            pass
        assert time.monotonic() - began < 30, "nobody waits for a wheel"
    seen = terminal.close()
    assert "3/3" in seen
    assert "Quick" not in seen


def test_a_watched_table_is_redrawn_in_its_place(look: Look, run: Run, filled: str) -> None:
    words = ("group", "lag", "--watch", "--every", "0.01", "--times", "3")
    shown = look(*words, streams=("stdout", "stderr"))
    assert UP in shown
    assert "reader" in shown
    assert "Groups" not in shown, "no bar beside it"
    piped = run(*words).out
    assert piped.count("reader") == 3
    assert "\x1b" not in piped
