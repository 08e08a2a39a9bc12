"""Findings of `check` in the files of each kind, without a cluster and without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orbitmq.errors import BadPipeline
from orbitmq.spark.pipelines import Workspace, parse
from orbitmq.spark.pipelines.spec import local_path
from orbitmq.spark.pipelines.sql import _given_schema
from orbitmq.spark.pipelines.sql.spec import SourceSpec

pytestmark = pytest.mark.newest_spark

ADDRESS = "127.0.0.1:9876"
GOOD: dict[str, dict[str, Any]] = {
    "archive": {"path": "a", "source": {"topic": "orders"}},
    "replay": {"source": {"topic": "orders"}, "sink": {"topic": "again"}},
    "dead-letters": {"groups": ["billing"], "redrive": {"ledger": "l", "to": "elsewhere"}},
    "trace": {"source": {"topic": "traces"}},
}


def said(kind: str, server: str | None = ADDRESS, **changed: Any) -> list[str]:
    tree = {"kind": kind, **GOOD.get(kind, {}), **changed}
    if server is not None:
        tree["name_server"] = server
    try:
        parse(tree, file=Path("x.toml"), environment={})
    except BadPipeline as error:
        return [line.removeprefix("x.toml: ") for line in error.mistakes]
    return []


def with_options(**options: Any) -> dict[str, Any]:
    return {"topic": "orders", "options": options}


@pytest.mark.parametrize("kind", GOOD)
def test_good_files_have_no_mistakes(kind: str) -> None:
    assert said(kind) == []
    assert "name_server: is needed" in said(kind, None)[0]


@pytest.mark.parametrize(
    ("kind", "changed", "expected"),
    [
        ("archive", {"source": with_options(startingOffset="x")}, "did you mean startingOffsets?"),
        ("archive", {"source": with_options(bogus=1)}, "source.options: the rocketmq"),
        ("archive", {"source": with_options(maxOffsetsPerTrigger="many")}, "is a whole number"),
        ("archive", {"source": with_options(subscribe="x")}, "say topic or pattern in place of"),
        (
            "sql",
            {
                "source": {"orders": with_options(subscribe="x")},
                "trigger": "batch",
                "sink": [{"format": "noop"}],
            },
            "source.orders.options: say topic or pattern in place of",
        ),
        (
            "sql",
            {
                "source": {"s": {"format": "rocketmq-store", "path": "p", "stream": True}},
                "checkpoint": "c",
                "sink": [{"format": "noop"}],
            },
            "source.s.stream: a store is read once; follow the topic instead",
        ),
        (
            "sql",
            {
                "source": {"orders": {"topic": "orders"}},
                "trigger": "batch",
                "step": [{"name": "none", "sql": " "}],
                "sink": [{"format": "noop"}],
            },
            "step[0].sql: is empty",
        ),
        (
            "sql",
            {
                "source": {"orders": {"topic": "orders"}},
                "checkpoint": "c",
                "sink": [{"format": "noop", "name": "../../elsewhere"}],
            },
            "sink[0].name: '../../elsewhere' is no name for a checkpoint's directory",
        ),
        (
            "sql",
            {
                "source": {"orders": {"topic": "orders"}},
                "checkpoint": "",
                "sink": [{"format": "noop"}],
            },
            "checkpoint: is needed, but not there",
        ),
        ("replay", {"rate": float("nan")}, "rate: is a number above 0, not nan"),
        ("replay", {"speed": float("inf")}, "speed: is a number above 0, not inf"),
        ("replay", {"sink": {"topic": "x", "mark": "KEYS"}}, "sink.mark: 'KEYS' is no property of"),
        ("trace", {"percentiles": [0]}, "percentiles[0]: 0.0 is not above 0 and at most 100"),
        ("replay", {"start": "2026-01-02", "end": "2026-01-01"}, "end: 2026-01-01 is not after"),
        ("replay", {"start": 5, "end": 5}, "end: 5 is not after start, 5"),
        ("replay", {"start": "soon"}, "start: 'soon' is neither epoch milliseconds nor a time"),
        ("replay", {"source": with_options(bogus=1)}, "source.options: the rocketmq"),
        ("replay", {"source": {"store": "s", "options": {"bogus": 1}}}, "source.options: format "),
        ("replay", {"sink": {"topic": "x y z"}}, "sink: option topic: 'x y z' is not a topic's"),
        ("replay", {"sink": {"options": {"bogus": 1}}}, "sink: the rocketmq sink has no option"),
        ("dead-letters", {"redrive": {"ledger": "l", "to": "no topic !"}}, "redrive.to: 'no topic"),
        (
            "dead-letters",
            {"redrive": {"ledger": "l", "options": {"bogus": 1}}},
            "redrive.options: the rocketmq sink has no option",
        ),
        ("dead-letters", {"options": {"bogus": 1}}, "options: the rocketmq"),
        ("trace", {"source": with_options(bogus=1)}, "source.options: the rocketmq"),
        ("trace", {"plot": "trace.jpg"}, "plot: 'trace.jpg' must end in .html, .svg or .png"),
        ("trace", {"plot": "s3a://bucket/t.html"}, "plot: 's3a://bucket/t.html' must be a local"),
        ("audit", {"path": "hdfs://n/store"}, "path: 'hdfs://n/store' must be a local file"),
        (
            "sql",
            {
                "source": {"o": {"topic": "t", "decode": "avro", "schema_file": "http://h/o.avsc"}},
                "trigger": "batch",
                "sink": [{"format": "noop"}],
            },
            "source.o.schema_file: 'http://h/o.avsc' must be a local file",
        ),
        ("trace", {"source": with_options(startingOffsets="latest")}, "a batch would be empty"),
    ],
)
def test_mistakes_are_found_before_anything_starts(
    kind: str, changed: dict[str, Any], expected: str
) -> None:
    (line,) = said(kind, **changed)
    assert expected in line


@pytest.mark.parametrize("name", ["nameServer", "NAMESERVER", "namesrvAddr"])
def test_name_server_may_be_given_as_an_option(name: str) -> None:
    server = {name: "10.0.0.1:9876"}
    read = {"source": with_options(**server)}
    for top in (None, ADDRESS):
        assert said("archive", top, **read) == []
        assert said("trace", top, **read) == []
        assert said("dead-letters", top, options=server) == []
        assert said("replay", top, **read, sink={"options": server}) == []
        assert said("sql", top, source={"o": with_options(**server)}, **SQL) == []


SQL: dict[str, Any] = {"checkpoint": "c", "sink": [{"format": "noop"}]}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b", "/pipelines/a/b"),
        ("/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("FILE://localhost/a/b", "/a/b"),
        ("file:a", "/pipelines/a"),
    ],
)
def test_local_paths_may_be_file_urls(path: str, expected: str) -> None:
    assert str(local_path(path, Path("/pipelines"))) == expected


def test_the_schema_file_may_be_a_url(tmp_path: Path) -> None:
    (tmp_path / "o.avsc").write_text("the schema")
    source = SourceSpec(topic=("t",), decode="avro", schema_file=f"file://{tmp_path}/o.avsc")
    no_spark: Any = None
    assert _given_schema(source, Workspace(no_spark, Path("/nowhere"))) == "the schema"
