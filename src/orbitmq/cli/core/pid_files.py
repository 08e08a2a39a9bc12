"""Pid files: which servers of this user run on this machine, and how to end one of them.

    ~/.orbitmq/run/broker-myhost-4711.pid      (or in $ORBITMQ_RUN_DIR)
      4711
      broker
      /home/me/store
      stopping                               (once it has been told to end)

A server holds an fcntl lock on its file as long as it lives, and the kernel tells whose lock it is.
So a file that a killed process has left behind names nobody, even if its number belongs to somebody
else by now; it is deleted when it is found. A signal goes to a pidfd that was opened while the lock
was held, and therefore to the holder and to no stranger. One that is stopping is only waited for: a
second signal would end it there and then.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import select
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal

__all__ = ["KINDS", "Kind", "RunningServer", "announced", "run_directory", "running_servers"]

_log = logging.getLogger(__name__)

Kind = Literal["up", "broker", "nameserver"]
KINDS: Final[tuple[Kind, ...]] = ("broker", "up", "nameserver")
"""In the order in which they are ended: a broker takes leave of its nameservers."""

STOPPING: Final = "stopping"
_FLOCK: Final = struct.Struct("hhqqi4x")
"""struct flock of 64-bit Linux: type, whence, start, length, pid."""


def run_directory() -> Path:
    """Return where the pid files are."""
    given = os.environ.get("ORBITMQ_RUN_DIR")
    return Path(given) if given else Path.home() / ".orbitmq" / "run"


class PidFile:
    """The file of this process."""

    def __init__(self, kind: Kind, place: str) -> None:
        directory = run_directory()
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = directory / f"{kind}-{socket.gethostname()}-{os.getpid()}.pid"
        self._file = _locked(self._path)
        self._file.write(f"{os.getpid()}\n{kind}\n{place}\n")
        self._file.flush()

    def note_stopping(self) -> None:
        """Tell others that a signal has come already."""
        self._file.write(f"{STOPPING}\n")
        self._file.flush()

    def remove(self) -> None:
        """Delete the file, and let go of it."""
        self._path.unlink(missing_ok=True)
        self._file.close()


@contextmanager
def announced(kind: Kind, place: str) -> Iterator[Callable[[], None]]:
    """Let others find this process by its pid file; one that cannot be written is a warning.

    Gives a function to be called when a signal has come.
    """
    file: PidFile | None = None
    try:
        running_servers()  # deletes what others have left behind
        file = PidFile(kind, place)
    except OSError as error:
        _log.warning("no pid file, so that orbitmq stop will not find this process: %s", error)
    try:
        yield (lambda: None) if file is None else file.note_stopping
    finally:
        if file is not None:
            file.remove()


def _locked(path: Path) -> IO[str]:
    """Open a file and lock it; not one that somebody deletes at the same time."""
    while True:
        file = path.open("a+", encoding="utf-8")
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file.fileno()).st_nlink:
                file.truncate(0)
                return file
        except OSError:
            file.close()
            raise
        file.close()


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that runs."""

    kind: Kind
    pid: int
    place: str
    """Its store directory, or its port."""
    path: Path

    def ask_to_end(self) -> int | None:
        """Send SIGTERM, unless it is stopping; returns a pidfd to wait with, None when it is gone.

        The caller closes the pidfd.
        """
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        try:
            with self.path.open("rb+") as file:
                if _holder(file) != self.pid:
                    raise ProcessLookupError  # another process by now
                if STOPPING.encode() not in file.read().splitlines()[3:]:
                    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        except (FileNotFoundError, ProcessLookupError):
            os.close(pidfd)
            return None
        except BaseException:
            os.close(pidfd)
            raise
        return pidfd

    @staticmethod
    def has_ended(pidfd: int, timeout_s: float) -> bool:
        """Wait until the process of a pidfd has ended; False when the time is over."""
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(max(0, round(timeout_s * 1000))))


def running_servers() -> list[RunningServer]:
    """Find the servers that run, in the order of `KINDS`; files of dead ones are deleted."""
    found = []
    host = socket.gethostname()
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(run_directory().glob(f"*-{host}-*.pid")):
            server = _read(path)
            if server is not None:
                found.append(server)
    return sorted(found, key=lambda one: (KINDS.index(one.kind), one.pid))


def _read(path: Path) -> RunningServer | None:
    if path.name.endswith(f"-{os.getpid()}.pid"):
        return None  # to close a file of this process would let go of its lock
    try:
        with path.open("rb+") as file:
            holder = _holder(file)
            if holder is None:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
                return None
            _pid, kind, place, *_stopping = file.read().decode().splitlines()
    except (OSError, ValueError):
        return None  # gone meanwhile, about to be written, or no file of ours
    known = next((one for one in KINDS if one == kind), None)
    if known is None or holder <= 0:  # a process that cannot be seen from here, as in a container
        return None
    return RunningServer(known, holder, place, path)


def _holder(file: IO[bytes]) -> int | None:
    """Return whose lock is on a file; None if there is none."""
    question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, question))
    return None if kind == fcntl.F_UNLCK else int(pid)
