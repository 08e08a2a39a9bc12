"""What the files of all kinds of pipelines have in common, and how a file is read.

A file is one pipeline::

    kind = "sql"                        # decides what else may stand here
    name = "orders-per-minute"          # the file's own name unless given
    name_server = "127.0.0.1:9876"      # for every source and sink that names none; or NAMESRV_ADDR

    [spark]
    master = "local[*]"                 # --master wins
    conf = { "spark.sql.shuffle.partitions" = 4 }

Paths are taken relative to the file, so that a pipeline does the same wherever it is started from.
`load` finds every mistake that can be found without Spark, all in one go.
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
    """A length of time such as ``5 seconds``, ``10 minutes`` or ``200 ms``."""

    ms: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a text; ValueError says what it should have been."""
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
    """A moment as ISO 8601 or epoch milliseconds; TOML and YAML have such values of their own, too.

    >>> Moment.parse(date(2026, 11, 16)), Moment.parse(1767225600000)
    ('2026-11-16', '1767225600000')
    """

    __slots__ = ()
    accepts: ClassVar = (str, int, date)

    @classmethod
    def parse(cls, value: str | int | date) -> Self:
        """Take a value as it is; `check` says whether it is a moment."""
        return cls(value.isoformat() if isinstance(value, date) else value)

    def check(self, mistakes: Mistakes, key: str) -> int | None:
        """Return it in epoch milliseconds, None if it is none; without a zone it is UTC's.

        Not while it is read: a table with a value that cannot be read is not looked at further.
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
        """Settings of Spark begin with its name."""
        for name in self.conf:
            if not name.startswith("spark."):
                mistakes.add(f"{key}.conf.{name}", "settings of Spark begin with 'spark.'")


@dataclass(frozen=True, kw_only=True)
class PipelineSpec:
    """What every pipeline's file has; a kind adds its own keys by inheritance."""

    kind: str
    name: str = ""
    name_server: str | None = None
    spark: SparkSpec = field(default_factory=SparkSpec)


@dataclass(frozen=True)
class Loaded:
    """A pipeline as its file has it: checked, with the secrets it must not show."""

    spec: PipelineSpec
    file: Path
    secrets: Secrets

    @property
    def directory(self) -> Path:
        """Where relative paths of the file start."""
        return self.file.parent


def load(file: Path | str, environment: Mapping[str, str] = os.environ) -> Loaded:
    """Read a file and check all of it; raises `BadPipeline` with every mistake."""
    file = Path(file)
    mistakes = Mistakes(file.name)
    try:
        text = file.read_text(encoding="utf-8-sig")  # some editors begin a file with a BOM
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
    """Check tables that are there already, as `load` does; `file` is what messages speak of."""
    # Here, as kinds build on this module.

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
    """Return a path or URL of a file in `directory` as Spark can take it from anywhere."""
    return path if _SCHEME.match(path) else str(directory / path)


def local_path(path: str, directory: Path) -> Path:
    """Return a path or ``file:`` URL of a file in `directory` for what is read and written here,
    without Spark; ValueError for any other URL."""
    scheme = _SCHEME.match(path)
    if scheme is None:
        return directory / path
    if scheme[0].lower() != "file:":
        raise ValueError(f"{path!r} must be a local file, not one of {scheme[0]}")
    return directory / path_of(path)


def check_local(mistakes: Mistakes, key: str, path: str | None) -> None:
    """Note a path that `local_path` would not take."""
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
            json.dumps(tree, default=str, skipkeys=True)  # a ValueError for what contains itself
            return tree
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _refuse_twice(node: Any) -> None:
    """Refuse keys that are there twice, of which YAML would take the last; before keys are merged
    (``<<``), as one's own may take the place of a merged one."""
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


# ---- The kinds of pipelines there are, and what each consists of
#
# A kind is a spec class (what its file may say) and a build function (what is then done). The
# build function gets the checked spec and a `Workspace`, plans everything on the workspace's Spark
# session without starting it, and returns the plan: `Streams` to start, or a `Job` to run. Spark's
# analysis of every query therefore happens before the first one starts.
#
# The kinds that come with OrbitMQ stand in one table and are imported when used: the module has a
# name ``KIND``. Others are registered by the program that brings them.

S = TypeVar("S", bound=PipelineSpec)

BUILT_IN: Final = {
    "sql": "Spark SQL over topics and tables, to topics, Parquet or the console",
    "archive": "topics to Parquet, by topic, day and hour",
    "replay": "an archive, a store directory or a time range of a topic to a topic",
    "dead-letters": "a report on dead letters, and the redrive of chosen ones",
    "trace": "latencies and failures out of the message trace",
    "audit": "a store directory, every record and entry of it checked",
}
"""Every kind that OrbitMQ brings; its module has the same name with underscores."""


@dataclass(frozen=True)
class Kind(Generic[S]):
    """One kind of pipeline."""

    name: str
    spec: type[S]
    build: Callable[[S, Workspace], Streams | Job]


_registered: dict[str, Kind[Any]] = {}


def register_kind(kind: Kind[Any]) -> None:
    """Add a kind of one's own; its name must be free."""
    if kind.name in BUILT_IN or _registered.get(kind.name, kind) != kind:
        raise ValueError(f"there is a kind of pipeline called {kind.name!r} already")
    _registered[kind.name] = kind


def kind_names() -> list[str]:
    """Return the names of all kinds."""
    return [*BUILT_IN, *_registered]


def find_kind(name: str) -> Kind[Any] | None:
    """Return a kind; None if there is no such."""
    if name not in BUILT_IN:
        return _registered.get(name)
    module = importlib.import_module(f"{__package__}.{name.replace('-', '_')}")
    kind = module.KIND
    assert isinstance(kind, Kind)
    return kind
