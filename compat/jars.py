"""The jars of the real Apache RocketMQ, 4.9.7 and 5.4.0, fetched by checksum.

A lock file for each release names every jar with its SHA-256; nothing else is ever put on the class
path of a Java peer of that release, and the releases never share one. A jar comes from the first of
these that has it with the right checksum:

1. the cache, `.jars/` in the repository root (`ORBITMQ_JARS` names another directory), with a
   directory of its own for each release but 4.9.7;
2. the local Maven repository, `~/.m2/repository`;
3. Maven Central over HTTPS (`MAVEN_CENTRAL` names a mirror).

A download goes to a temporary name and is renamed only after its checksum held, so the cache never
holds half a jar and several processes may fill it at once. Maven itself is not needed, nor anything
outside the standard library.

    python compat/jars.py            # fetches what is missing of all, prints the directory
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY_ROOT = Path(__file__).resolve().parent.parent
LOCK_FILE = Path(__file__).resolve().with_name("jars.lock")
"""Apache RocketMQ 4.9.7: broker, nameserver, client and tools."""
LOCK_FILE_5_4 = Path(__file__).resolve().with_name("jars-5.4.0.lock")
"""Apache RocketMQ 5.4.0: broker and nameserver."""
MAVEN_CENTRAL = "https://repo.maven.apache.org/maven2"
DOWNLOAD_ATTEMPTS = 5
DOWNLOAD_TIMEOUT_S = 60
PARALLEL_DOWNLOADS = 8


class JarError(Exception):
    """A jar could not be fetched, or its checksum differs from the lock file."""


@dataclass(frozen=True)
class Jar:
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def maven_path(self) -> str:
        """The path below the root of any Maven repository, local or remote."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file_name}"

    def matches(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except OSError:
            return False


def read_lock(lock_file: Path = LOCK_FILE) -> list[Jar]:
    jars = []
    for number, line in enumerate(lock_file.read_text().splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            coordinates, sha256 = line.split()
            group, artifact, version = coordinates.split(":")
        except ValueError:
            raise JarError(
                f"{lock_file}:{number}: expected 'group:artifact:version sha256', found {line!r}"
            ) from None
        jars.append(Jar(group, artifact, version, sha256))
    return jars


def jars_directory(lock_file: Path = LOCK_FILE) -> Path:
    configured = os.environ.get("ORBITMQ_JARS")
    cache = Path(configured) if configured else REPOSITORY_ROOT / ".jars"
    return cache / lock_file.stem.removeprefix("jars").removeprefix("-")


@contextmanager
def _arriving(jar: Jar, directory: Path) -> Iterator[Path]:
    """A temporary path; becomes the jar when the block ends well and the checksum holds."""
    handle, name = tempfile.mkstemp(dir=directory, prefix=f".{jar.artifact}-", suffix=".tmp")
    os.close(handle)
    path = Path(name)
    try:
        yield path
        if not jar.matches(path):
            raise JarError(f"{jar.file_name}: checksum is not the locked one")
        path.chmod(0o644)
        path.replace(directory / jar.file_name)
    finally:
        path.unlink(missing_ok=True)


def _download(jar: Jar, directory: Path) -> None:
    base = os.environ.get("MAVEN_CENTRAL", MAVEN_CENTRAL).rstrip("/")
    url = f"{base}/{jar.maven_path}"
    last_error: Exception | None = None
    for attempt in range(DOWNLOAD_ATTEMPTS):
        if attempt:
            time.sleep(
                2 ** (attempt - 1)
            )  # A refused or interrupted transfer: wait before the next attempt.
        try:
            with (
                _arriving(jar, directory) as path,
                urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as response,
                path.open("wb") as file,
            ):
                shutil.copyfileobj(response, file)
            return
        except (OSError, JarError, urllib.error.URLError) as error:
            last_error = error
            if isinstance(error, urllib.error.HTTPError) and error.code in (401, 403, 404, 410):
                break
    raise JarError(f"{url}: {last_error}") from last_error


def _obtain(jar: Jar, directory: Path) -> None:
    if jar.matches(directory / jar.file_name):
        return
    local = Path.home() / ".m2" / "repository" / jar.maven_path
    if jar.matches(local):
        with _arriving(jar, directory) as path:
            shutil.copyfile(local, path)
        return
    _download(jar, directory)


def fetch(lock_file: Path = LOCK_FILE) -> Path:
    """Make every jar of a lock file present and return the directory they are in."""
    directory = jars_directory(lock_file)
    directory.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(PARALLEL_DOWNLOADS) as pool:
        for _ in pool.map(lambda jar: _obtain(jar, directory), read_lock(lock_file)):
            pass
    return directory


def class_path(directory: Path, lock_file: Path = LOCK_FILE) -> str:
    """Return the locked jars by name: a stray jar in the directory never reaches a peer."""
    return os.pathsep.join(str(directory / jar.file_name) for jar in read_lock(lock_file))


if __name__ == "__main__":
    try:
        fetch(LOCK_FILE_5_4)
        print(fetch())
    except JarError as error:
        sys.exit(f"jars: {error}")
