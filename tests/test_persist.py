"""Small files: whole or not at all, and the version before beside them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from orbitmq import persist
from orbitmq.errors import UnreadableFile


def test_a_file_and_the_version_before(tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    persist.save(path, b"1")
    assert not persist.backup_of(path).exists()
    persist.save(path, b"2")
    assert path.read_bytes() == b"2"
    assert persist.backup_of(path).read_bytes() == b"1"
    assert sorted(p.name for p in path.parent.iterdir()) == ["topics.json", "topics.json.bak"]


def test_names_are_on_disk_when_a_save_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is flushed after the file has its name, and so are directories that are new."""
    path = tmp_path / "new" / "config" / "topics.json"
    flushed: list[tuple[str, bool]] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        flushed.append((str(target.relative_to(tmp_path)), path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    persist.save(path, b"1")
    assert flushed == [
        (".", False),
        ("new", False),
        ("new/config/topics.json.tmp", False),
        ("new/config", True),
    ]


def test_nothing_there_is_nothing(tmp_path: Path) -> None:
    assert persist.load(tmp_path / "none", json.loads) is None


@pytest.mark.parametrize("damage", [b"", b" \n", b"{", None])
def test_the_backup_stands_in(
    damage: bytes | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    persist.save(path, b"[1]")
    persist.save(path, b"[2]")
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert persist.load(path, json.loads) == [1]
    assert "taking file.bak" in caplog.text


def test_a_broken_file_without_a_backup_is_not_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"{")
    with pytest.raises(UnreadableFile, match="file cannot be read"):
        persist.load(path, json.loads)
