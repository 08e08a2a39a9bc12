"""Common part of all pipeline files, and the reading of a file.

A file declares one pipeline::

    kind = "sql"                        # decides which other keys are possible
    name = "orders-per-minute"          # by default the name of the file
    name_server = "127.0.0.1:9876"      # default for sources and sinks; NAMESRV_ADDR without it

    [spark]
    master = "local[*]"                 # --master takes precedence
    conf = { "spark.sql.shuffle.partitions" = 4 }

Paths are relative to the file, so that a pipeline does the same in every working directory. `load`
finds every mistake that can be found without Spark and reports all of them together.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar

from orbitmq.errors import BadPipeline
from orbitmq.spark.options import path_of
from orbitmq.spark.pipelines.secrets import Secrets
from orbitmq.spark.pipelines.tables import Mistakes, read_table, suggestion
from orbitmq.storelog import parse_time_ms

if TYPE_CHECKING:
    from orbitmq.spark.pipelines.plan import Job, Streams, Workspace

__all__ = [
    "BUILT_IN",
    "Interval",
    "Kind",
    "Loaded",
    "Moment",
    "PipelineSpec",
    "SparkSpec",
    "check_local",
    "find_kind",
    "kind_names",
    "load",
    "local_path",
    "parse",
    "register_kind",
    "resolve",
]

_INTERVAL = re.compile(
    r"\s*(\d+)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?)\s*", re.IGNORECASE
)
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


@dataclass(frozen=True)
class Interval:
    """Length of time such as ``5 seconds``, ``10 minutes`` or ``200 ms``."""

    ms: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a text; a ValueError gives an example of a valid text."""
        found = _INTERVAL.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not a length of time such as '5 seconds'")
        unit = found[2].lower()
        if unit.startswith("milli"):
            unit = "ms"
        return cls(int(found[1]) * _UNITS_MS[unit if unit == "ms" else unit[0]])

    def __str__(self) -> str:
        return f"{self.ms} milliseconds"


class Moment(str):
    """Moment as text: ISO 8601 or epoch milliseconds.

    TOML and YAML have types of their own for both, which `parse` accepts as well.

    >>> Moment.parse(date(2026, 11, 16)), Moment.parse(1767225600000)
    ('2026-11-16', '1767225600000')
    """

    __slots__ = ()
    accepts: ClassVar = (str, int, date)

    @classmethod
    def parse(cls, value: str | int | date) -> Self:
        """Return the value as text, unchecked; `check` reports a text that is not a moment."""
        return cls(value.isoformat() if isinstance(value, date) else value)

    def check(self, mistakes: Mistakes, key: str) -> int | None:
        """Return the moment in epoch milliseconds; note a mistake and return None if invalid.

        A moment without a time zone is in UTC. `parse` does not check this, because a table with a
        value that cannot be parsed gets no further checks.
        """
        try:
            return parse_time_ms(self)
        except ValueError as error:
            mistakes.add(key, str(error))
            return None


@dataclass(frozen=True, kw_only=True)
class SparkSpec:
    """The table ``[spark]``."""

    master: str | None = None
    conf: dict[str, str] = field(default_factory=dict)

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check that the names of settings begin with ``spark.``."""
        for name in self.conf:
            if not name.startswith("spark."):
                mistakes.add(f"{key}.conf.{name}", "settings of Spark begin with 'spark.'")


@dataclass(frozen=True, kw_only=True)
class PipelineSpec:
    """Keys of every pipeline file; a kind adds its own keys by inheritance."""

    kind: str
    name: str = ""
    name_server: str | None = None
    spark: SparkSpec = field(default_factory=SparkSpec)


@dataclass(frozen=True)
class Loaded:
    """Checked content of a pipeline file, with the secrets that must not be shown."""

    spec: PipelineSpec
    file: Path
    secrets: Secrets

    @property
    def directory(self) -> Path:
        """Directory of the file; relative paths in the file start there."""
        return self.file.parent


def load(file: Path | str, environment: Mapping[str, str] = os.environ) -> Loaded:
    """Read a file and check all of its content; raise `BadPipeline` with every mistake."""
    file = Path(file)
    mistakes = Mistakes(file.name)
    try:
        text = file.read_text(encoding="utf-8-sig")  # some editors write a BOM at the start
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadPipeline([f"{file}: cannot be read: {reason}"]) from error
    tree = _parse_text(file, text, mistakes)
    return parse(tree, file=file, environment=environment, mistakes=mistakes)


def parse(
    tree: Mapping[str, Any],
    *,
    file: Path,
    environment: Mapping[str, str] = os.environ,
    mistakes: Mistakes | None = None,
) -> Loaded:
    """Check tables that a program has already, as `load` does; messages name `file`."""
    mistakes = mistakes or Mistakes(file.name)
    secrets = Secrets()
    filled: dict[str, Any] = secrets.fill_in(dict(tree), environment, mistakes)
    filled.setdefault("name", file.stem)
    if "NAMESRV_ADDR" in environment:
        filled.setdefault("name_server", environment["NAMESRV_ADDR"])
    name = filled.get("kind")
    kind = find_kind(name) if isinstance(name, str) else None
    spec: PipelineSpec | None = None
    if name is None:
        mistakes.add("kind", f"is needed, but not there; one of {', '.join(kind_names())}")
    elif kind is None:
        mistakes.add("kind", f"{name!r} is not possible{suggestion(str(name), kind_names())}")
    else:
        spec = read_table(kind.spec, filled, mistakes)
    mistakes.lines = [secrets.strike_out(line) for line in mistakes.lines]
    mistakes.raise_if_any()
    assert spec is not None
    return Loaded(spec, file.absolute(), secrets)


def resolve(path: str, directory: Path) -> str:
    """Return a path as Spark needs it: a URL unchanged, a relative path below `directory`."""
    return path if _SCHEME.match(path) else str(directory / path)


def local_path(path: str, directory: Path) -> Path:
    """Return a path or ``file:`` URL as a local path; relative paths start in `directory`.

    This is for files that Python reads and writes without Spark. Other URLs raise ValueError.
    """
    scheme = _SCHEME.match(path)
    if scheme is None:
        return directory / path
    if scheme[0].lower() != "file:":
        raise ValueError(f"{path!r} must be a local file, not one of {scheme[0]}")
    return directory / path_of(path)


def check_local(mistakes: Mistakes, key: str, path: str | None) -> None:
    """Note a mistake if `local_path` would reject the path."""
    try:
        local_path(path or "", Path())
    except ValueError as error:
        mistakes.add(key, str(error))


def _parse_text(file: Path, text: str, mistakes: Mistakes) -> dict[str, Any]:
    tree: object
    try:
        if file.suffix == ".toml":
            tree = tomllib.loads(text)
        elif file.suffix in (".yaml", ".yml"):
            tree = _parse_yaml(text)
        else:
            raise BadPipeline([f"{file}: a pipeline's file ends in .toml, .yaml or .yml"])
    except ValueError as error:
        mistakes.add("", f"is not {file.suffix[1:].upper()}: {' '.join(str(error).split())}")
        mistakes.raise_if_any()
        raise
    if not isinstance(tree, dict):
        raise BadPipeline([f"{file.name}: has no keys at its top level"])
    return tree


def _parse_yaml(text: str) -> object:
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            _refuse_twice(node)
            tree = None if node is None else loader.construct_document(node)
            json.dumps(tree, default=str, skipkeys=True)  # ValueError for a recursive tree
            return tree
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _refuse_twice(node: Any) -> None:
    """Raise ValueError for a key that occurs twice, because YAML would take the last one.

    The check runs before keys are merged (``<<``), because a key may replace a merged key.
    """
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if id(node) in seen or node is None or isinstance(node.value, str):
            continue
        seen.add(id(node))
        names = set()
        for item in node.value:
            if not isinstance(item, tuple):
                waiting.append(item)
                continue
            key, value = item
            waiting.append(value)
            if isinstance(key.value, str) and (key.tag, key.value) in names:
                line = key.start_mark.line + 1
                raise ValueError(f"the key '{key.value}' is there twice (line {line})")
            names.add((key.tag, key.value) if isinstance(key.value, str) else id(key))


# ---- Kinds of pipelines
#
# A kind is a spec class (the keys of its file) and a build function (the work). The build function
# gets the checked spec and a `Workspace`. It plans every query on the workspace's Spark session
# without starting one, and returns the plan: `Streams` to start, or a `Job` to run. Spark therefore
# analyses every query before the first query starts.
#
# The table `BUILT_IN` lists the kinds of OrbitMQ. Their modules define ``KIND`` and are imported
# when they are used. A program can register kinds of its own.

S = TypeVar("S", bound=PipelineSpec)

BUILT_IN: Final = {
    "sql": "Spark SQL over topics and tables, to topics, Parquet or the console",
    "archive": "topics to Parquet, by topic, day and hour",
    "replay": "an archive, a store directory or a time range of a topic to a topic",
    "dead-letters": "a report on dead letters, and the redrive of chosen ones",
    "trace": "latencies and failures out of the message trace",
    "audit": "a store directory, every record and entry of it checked",
}
"""Every kind of OrbitMQ, with a description. Its module has the same name with underscores."""


@dataclass(frozen=True)
class Kind(Generic[S]):
    """Kind of pipeline: its name, its spec class and its build function."""

    name: str
    spec: type[S]
    build: Callable[[S, Workspace], Streams | Job]


_registered: dict[str, Kind[Any]] = {}


def register_kind(kind: Kind[Any]) -> None:
    """Register a kind that does not come with OrbitMQ; raise ValueError if the name is taken."""
    if kind.name in BUILT_IN or _registered.get(kind.name, kind) != kind:
        raise ValueError(f"there is a kind of pipeline called {kind.name!r} already")
    _registered[kind.name] = kind


def kind_names() -> list[str]:
    """Return the names of all kinds."""
    return [*BUILT_IN, *_registered]


def find_kind(name: str) -> Kind[Any] | None:
    """Return the kind with this name, or None if no kind has the name."""
    if name not in BUILT_IN:
        return _registered.get(name)
    module = importlib.import_module(f"{__package__}.{name.replace('-', '_')}")
    kind = module.KIND
    assert isinstance(kind, Kind)
    return kind
