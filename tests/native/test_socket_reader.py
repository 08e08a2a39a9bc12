"""Commands as they arrive on a socket: whole ones only, of every size, however they are cut."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from orbitmq._native import Command, SocketReader
from orbitmq.errors import WireError

LONG_S = 30.0
LARGE = 16 << 10
"""From here on a body is received where it stays."""


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A peer's end of a connection, and ours."""
    theirs, ours = socket.socketpair()
    with theirs, ours:
        yield theirs, ours


def answer(opaque: int, body: bytes) -> Command:
    return Command(0, opaque=opaque, flag=1, remark="FOUND", ext={"count": "7"}, body=body)


def received(reader: SocketReader, ours: socket.socket, got: list[int]) -> None:
    """Note the commands that come, until there is an error."""
    while True:
        got += [command.opaque for command in reader.receive(ours.fileno(), LONG_S)]


def test_commands_of_every_size_come_whatever_they_are_cut_into(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    theirs, ours = ends
    chance = random.Random(7)
    sizes = [0, 1, 100, LARGE - 1, LARGE, LARGE + 1, 0, 1 << 20, 3 << 20, 5, 12 << 20, 0]
    bodies = [chance.randbytes(size) for size in sizes]
    stream = b"".join(answer(number, body).encode() for number, body in enumerate(bodies))

    def send() -> None:
        rest = memoryview(stream)
        while rest:
            piece = chance.choice([1, 7, 1000, LARGE, 100_000, 1 << 20])
            theirs.sendall(rest[:piece])
            rest = rest[piece:]

    sender = threading.Thread(target=send)
    sender.start()
    reader, got = SocketReader(), list[Command]()
    while len(got) < len(bodies):
        came = reader.receive(ours.fileno(), LONG_S)
        assert came, "nothing came in time"
        got += came
    sender.join()
    assert [command.opaque for command in got] == list(range(len(bodies)))
    assert [command.body for command in got] == bodies
    assert {(command.remark, command.get_ext("count")) for command in got} == {("FOUND", "7")}


def test_what_is_not_there_in_time_comes_later(ends: tuple[socket.socket, socket.socket]) -> None:
    theirs, ours = ends
    frame = answer(1, b"x" * (1 << 16)).encode()
    reader = SocketReader()
    began = time.monotonic()
    assert reader.receive(ours.fileno(), 0.05) == []
    assert time.monotonic() - began >= 0.05
    theirs.sendall(frame[:40_000])
    assert reader.receive(ours.fileno(), 0) == []
    theirs.sendall(frame[40_000:])
    (command,) = reader.receive(ours.fileno(), LONG_S)
    assert command.body == b"x" * (1 << 16)


@pytest.mark.parametrize("missing", [0, 1, 30_000, 70_000])
def test_the_end_of_the_stream(ends: tuple[socket.socket, socket.socket], missing: int) -> None:
    theirs, ours = ends
    whole, cut = answer(1, b"whole").encode(), answer(2, b"x" * (1 << 16)).encode()
    theirs.sendall(whole + cut[: max(len(cut) - missing, 0)])
    theirs.close()
    reader, got = SocketReader(), list[int]()
    with pytest.raises(EOFError, match="closed"):
        received(reader, ours, got)
    assert got == ([1, 2] if missing == 0 else [1])


def test_commands_before_a_frame_that_breaks_the_rules_are_given(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    theirs, ours = ends
    good = answer(1, b"x" * 100_000).encode()
    theirs.sendall(good + answer(2, b"small").encode() + b"\xff" * 100)
    reader, got = SocketReader(), list[int]()
    with pytest.raises(WireError, match="not possible") as raised:
        received(reader, ours, got)
    assert got == [1, 2]
    assert raised.value.offset == len(good) + len(answer(2, b"small").encode())
    with pytest.raises(WireError):
        reader.receive(ours.fileno(), LONG_S)


def test_a_broken_header_of_a_large_frame_is_an_error(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    theirs, ours = ends
    frame = bytearray(answer(1, b"x" * 100_000).encode())
    frame[8] = ord("?")  # where the header's JSON begins
    theirs.sendall(frame)
    with pytest.raises(WireError):
        SocketReader().receive(ours.fileno(), LONG_S)


def test_a_closed_socket_is_an_error(ends: tuple[socket.socket, socket.socket]) -> None:
    _, ours = ends
    ours.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        SocketReader().receive(ours.fileno(), LONG_S)


def test_signals_are_heard_while_it_waits(ends: tuple[socket.socket, socket.socket]) -> None:
    class HeardError(Exception):
        pass

    def hear(_number: int, _frame: object) -> None:
        raise HeardError

    _, ours = ends
    before = signal.signal(signal.SIGALRM, hear)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(HeardError):
            SocketReader().receive(ours.fileno(), LONG_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("timeout_s", [-1.0, float("nan"), float("inf"), 1e19, 1e300])
def test_a_timeout_that_is_none(
    ends: tuple[socket.socket, socket.socket], timeout_s: float
) -> None:
    with pytest.raises(ValueError, match="a timeout of"):
        SocketReader().receive(ends[1].fileno(), timeout_s)


def test_other_threads_run_while_it_waits(ends: tuple[socket.socket, socket.socket]) -> None:
    theirs, ours = ends
    reader, got = SocketReader(), list[Command]()

    def receive() -> None:
        with contextlib.suppress(EOFError):
            got.extend(reader.receive(ours.fileno(), LONG_S))

    waiting = threading.Thread(target=receive)
    waiting.start()
    theirs.sendall(answer(3, b"x" * LARGE).encode())  # by this thread, while the other one waits
    waiting.join(LONG_S)
    assert [command.opaque for command in got] == [3]
