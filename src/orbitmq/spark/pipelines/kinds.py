"""The kinds of pipelines there are, and what each consists of.

A kind is a spec class (what its file may say) and a build function (what is then done). The
build function gets the checked spec and a `Workspace`, plans everything on the workspace's Spark
session without starting it, and returns the plan: `Streams` to start, or a `Job` to run.
Spark's analysis of every query therefore happens before the first one starts.

The kinds that come with OrbitMQ stand in one table and are imported when used: the module has
a name ``KIND``. Others are registered by the program that brings them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from orbitmq.spark.pipelines.spec import PipelineSpec

if TYPE_CHECKING:
    from orbitmq.spark.pipelines.plan import Job, Streams
    from orbitmq.spark.pipelines.workspace import Workspace

__all__ = ["BUILT_IN", "Kind", "find_kind", "kind_names", "register_kind"]

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
