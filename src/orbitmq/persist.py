"""Crash-safe small files: each save writes the whole file and keeps the previous version.

The procedure is RocketMQ's, so either system reads the other's files: the new content goes to
``<file>.tmp``, the old content is copied to ``<file>.bak``, then ``.tmp`` takes the file's place. A
crash at any point leaves a whole file under the name or a whole ``.bak``. Unlike Java, `save` also
flushes the directory: without that a power cut may bring the old file back after `save` returned.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from orbitmq.errors import UnreadableFile

__all__ = ["backup_of", "load", "save"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


def backup_of(path: Path) -> Path:
    """Return the path of the previous version."""
    return path.with_name(path.name + ".bak")


def save(path: Path, content: bytes) -> None:
    """Replace a file's content; directories are made as needed."""
    _make_directory(path.parent)
    fresh = path.with_name(path.name + ".tmp")
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    with fresh.open("wb") as file:
        if mode is not None:  # passwords stay with those who could read them before
            os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        previous = path.read_bytes()
    except FileNotFoundError:
        pass
    else:
        backup = backup_of(path)
        backup.touch()
        if mode is not None:
            backup.chmod(mode)
        backup.write_bytes(previous)
    fresh.replace(path)
    _flush_directory(path.parent)


def _make_directory(directory: Path) -> None:
    if not directory.is_dir():
        _make_directory(directory.parent)
        directory.mkdir(exist_ok=True)
        _flush_directory(directory.parent)


def _flush_directory(directory: Path) -> None:
    """Bring the names in a directory to disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load(path: Path, parse: Callable[[bytes], T]) -> T | None:
    """Read a file, or its ``.bak`` if it is missing, empty or broken; None if neither exists.

    `parse` raises any exception for content it cannot parse. If both files are broken this raises
    `UnreadableFile`, because a start without their content could lose it for good.
    """
    failure: Exception | None = None
    for candidate in (path, backup_of(path)):
        try:
            content = candidate.read_bytes()
        except FileNotFoundError:
            continue
        if not content.strip():
            continue
        try:
            value = parse(content)
        except Exception as error:
            _log.warning("cannot read %s: %s", candidate, error)
            failure = failure or error
        else:
            if candidate != path:
                _log.warning("%s is missing, empty or broken, taking %s", path, candidate.name)
            return value
    if failure is not None:
        raise UnreadableFile(f"{path} cannot be read: {failure}") from failure
    return None
