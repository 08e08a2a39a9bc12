"""ARCHITECTURE.md says why each dependency is there."""

import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parent.parent


def _dependencies() -> Iterator[str]:
    for manifest in [*ROOT.glob("crates/*/Cargo.toml"), *ROOT.glob("fuzz/Cargo.toml")]:
        tables = tomllib.loads(manifest.read_text())
        for table in ("dependencies", "dev-dependencies", "build-dependencies"):
            yield from tables.get(table, {})
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists: list[list[str]] = [
        project["project"]["dependencies"],
        project["build-system"]["requires"],
        *project["project"].get("optional-dependencies", {}).values(),
        *project["dependency-groups"].values(),
    ]
    for text in chain.from_iterable(lists):
        yield re.split(r"[\s<>=!~;\[]", text)[0]


def test_every_dependency_has_its_reason() -> None:
    table = (ROOT / "ARCHITECTURE.md").read_text().partition("## Dependencies")[2]
    explained = set(re.findall(r"`([\w-]+)`", table))
    wanted = {name for name in _dependencies() if not name.startswith("orbitmq-")}
    assert wanted <= explained, f"without a reason: {sorted(wanted - explained)}"
