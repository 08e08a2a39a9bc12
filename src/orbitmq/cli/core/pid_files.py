"""Pid files: list the servers of this user on this machine, and stop them.

    ~/.orbitmq/run/broker-myhost-4711.pid      (or in $ORBITMQ_RUN_DIR)
      4711
      broker
      /home/me/store
      stopping                               (after the first signal)

A server holds an fcntl lock on its file as long as it lives, and the kernel returns the holder of
a lock. So the file of a killed process is recognised as stale, even if another process has its
number by now. Stale files are deleted when they are found. A signal is sent to a pidfd that was
opened while the lock was held, so it always reaches the holder. A server that is already stopping
gets no further signal, because a second signal would end it at once.
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
"""Order of stopping: a broker unregisters at its nameservers, so these stop last."""

STOPPING: Final = "stopping"
_FLOCK: Final = struct.Struct("hhqqi4x")
"""struct flock of 64-bit Linux: type, whence, start, length, pid."""


def run_directory() -> Path:
    """Return the directory of the pid files."""
    given = os.environ.get("ORBITMQ_RUN_DIR")
    return Path(given) if given else Path.home() / ".orbitmq" / "run"


class PidFile:
    """The pid file of this process."""

    def __init__(self, kind: Kind, place: str) -> None:
        directory = run_directory()
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = directory / f"{kind}-{socket.gethostname()}-{os.getpid()}.pid"
        self._file = _locked(self._path)
        self._file.write(f"{os.getpid()}\n{kind}\n{place}\n")
        self._file.flush()

    def note_stopping(self) -> None:
        """Record in the file that the process has received a signal."""
        self._file.write(f"{STOPPING}\n")
        self._file.flush()

    def remove(self) -> None:
        """Delete the file and release its lock."""
        self._path.unlink(missing_ok=True)
        self._file.close()


@contextmanager
def announced(kind: Kind, place: str) -> Iterator[Callable[[], None]]:
    """Write the pid file of this process; log a warning if that fails.

    Yields a function that the process calls when a signal has arrived.
    """
    file: PidFile | None = None
    try:
        running_servers()  # deletes stale files
        file = PidFile(kind, place)
    except OSError as error:
        _log.warning("no pid file, so that orbitmq stop will not find this process: %s", error)
    try:
        yield (lambda: None) if file is None else file.note_stopping
    finally:
        if file is not None:
            file.remove()


def _locked(path: Path) -> IO[str]:
    """Open and lock a file; try again if another process deletes it meanwhile."""
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
    """A running server."""

    kind: Kind
    pid: int
    place: str
    """The store directory, or the port."""
    path: Path

    def ask_to_end(self) -> int | None:
        """Send SIGTERM unless the server is stopping already.

        Returns a pidfd to wait for, or None if the process has ended. The caller closes the pidfd.
        """
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        try:
            with self.path.open("rb+") as file:
                if _holder(file) != self.pid:
                    raise ProcessLookupError  # the file belongs to another process by now
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
        """Wait until the process of a pidfd has ended; return False after the timeout."""
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(max(0, round(timeout_s * 1000))))


def running_servers() -> list[RunningServer]:
    """Return the running servers in the order of `KINDS`; delete the files of dead ones."""
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
        return None  # closing a second handle of our own file would release its lock
    try:
        with path.open("rb+") as file:
            holder = _holder(file)
            if holder is None:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
                return None
            _pid, kind, place, *_stopping = file.read().decode().splitlines()
    except (OSError, ValueError):
        return None  # deleted meanwhile, not written yet, or not a pid file of OrbitMQ
    known = next((one for one in KINDS if one == kind), None)
    if known is None or holder <= 0:  # the process is not visible from here, as from a container
        return None
    return RunningServer(known, holder, place, path)


def _holder(file: IO[bytes]) -> int | None:
    """Return the process id of the holder of a file's lock, or None without a lock."""
    question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, question))
    return None if kind == fcntl.F_UNLCK else int(pid)
