"""The committed golden bytes equal those that Apache RocketMQ's classes write today.

The program is compiled and run against the real jars; its files must equal the committed ones.
Of entries with compressed bytes, which depend on the zlib at hand, only the other fields are
compared.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
COMMITTED = HERE / "bytes"
FILES = sorted(path.name for path in COMMITTED.glob("*.json"))

# Fields that hold compressed bytes in an entry marked as not deterministic.
COMPRESSED = {"body", "record", "list", "compressed"}


@pytest.fixture(scope="module")
def regenerated(java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("golden")
    run = subprocess.run(
        ["sh", str(HERE / "regenerate.sh"), str(java_peer_jars), str(out)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return out


def entries(path: Path) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return [
        {
            name: value
            for name, value in entry.items()
            if entry.get("deterministic", True) or name not in COMPRESSED
        }
        for entry in loaded
    ]


def test_the_program_writes_the_committed_set_of_files(regenerated: Path) -> None:
    assert sorted(path.name for path in regenerated.iterdir()) == FILES
    assert len(FILES) == 8


@pytest.mark.parametrize("name", FILES)
def test_java_still_writes_these_bytes(regenerated: Path, name: str) -> None:
    written, committed = entries(regenerated / name), entries(COMMITTED / name)
    assert [entry["name"] for entry in written] == [entry["name"] for entry in committed]
    for ours, theirs in zip(committed, written, strict=True):
        assert ours == theirs
