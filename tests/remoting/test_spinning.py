"""A receiving thread that spins for an answer, and learns when not to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from orbitmq.remoting import busy_wait as patience
from orbitmq.remoting import busy_wait as spinning
from orbitmq.remoting.busy_wait import TRIES, SpinReceiver


class Asked:
    """A socket that counts spinning and sleeping receives, and answers early or late."""

    def __init__(self) -> None:
        self.in_time = True
        self.awake = 0
        self.asleep = 0

    def recv(self, _max_bytes: int, flags: int = 0) -> bytes:
        if not flags:
            self.asleep += 1
            return b"late"
        assert flags == socket.MSG_DONTWAIT
        if self.in_time:
            self.awake += 1
            return b"soon"
        raise BlockingIOError

    def by(self, spin: SpinReceiver) -> bytes:
        return spin.receive(self, 100)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_has_processors_to_spare", True)
    monkeypatch.setattr(spinning, "SPIN_S", 0.0)


def test_an_early_answer_is_received_without_sleeping() -> None:
    sock, spin = Asked(), SpinReceiver()
    assert [sock.by(spin) for _ in range(3)] == [b"soon"] * 3
    assert (sock.awake, sock.asleep) == (3, 0)


def test_a_thread_sleeps_after_several_late_answers() -> None:
    sock, spin = Asked(), SpinReceiver()
    sock.in_time = False
    for _ in range(TRIES):
        assert sock.by(spin) == b"late"
    sock.in_time = True
    assert [sock.by(spin) for _ in range(3)] == [b"late", b"soon", b"soon"]


def test_a_few_late_answers_do_not_end_spinning() -> None:
    sock, spin = Asked(), SpinReceiver()
    sock.in_time = False
    for _ in range(TRIES - 1):
        assert sock.by(spin) == b"late"
    sock.in_time = True
    assert [sock.by(spin) for _ in range(3)] == [b"soon"] * 3


def test_only_one_thread_spins_at_a_time() -> None:
    inside, leave = threading.Event(), threading.Event()

    class Slow(Asked):
        def recv(self, max_bytes: int, flags: int = 0) -> bytes:
            inside.set()
            assert leave.wait(10)
            return super().recv(max_bytes, flags)

    slow, other = Slow(), Asked()
    thread = threading.Thread(target=slow.by, args=(SpinReceiver(),))
    thread.start()
    assert inside.wait(10)
    spin = SpinReceiver()
    assert other.by(spin) == b"late"
    leave.set()
    thread.join()
    assert other.by(spin) == b"soon"


def test_no_thread_spins_when_only_one_processor_is_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "_has_processors_to_spare", False)
    sock, spin = Asked(), SpinReceiver()
    assert [sock.by(spin) for _ in range(3)] == [b"late"] * 3


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_a_spinning_receive_works_on_real_sockets(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    one, other = pair
    other.sendall(b"here already")
    spin = SpinReceiver()
    assert spin.receive(one, 100) == b"here already"
    later = threading.Timer(0.01, other.sendall, (b"later",))
    later.start()
    assert spin.receive(one, 100) == b"later"
    later.join()
    other.close()
    assert spin.receive(one, 100) == b""
