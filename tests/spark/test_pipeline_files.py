"""Values of TOML and YAML other than text: times, merged keys, keys that are not text, a BOM."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.errors import BadPipeline
from orbitmq.spark.pipelines import load
from orbitmq.spark.pipelines.replay import ReplaySpec
from orbitmq.spark.pipelines.sql.spec import SqlSpec

pytestmark = pytest.mark.newest_spark

SQL = """
kind: sql
name_server: 127.0.0.1:9876
checkpoint: state
source: {orders: {topic: orders}}
sink: [{format: noop}]
"""
REPLAY = """
kind: replay
name_server: 127.0.0.1:9876
source: {archive: a}
"""


def mistakes(directory: Path, text: str, name: str = "x.yaml") -> list[str]:
    file = directory / name
    file.write_text(text)
    with pytest.raises(BadPipeline) as caught:
        load(file, {})
    return list(caught.value.mistakes)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.yaml", REPLAY + "start: 2026-11-16T10:00:00Z\nend: 1794823200001\n"),
        ("x.yaml", REPLAY + "start: 2026-11-16 10:00:00\nend: 2026-11-17\n"),
        (
            "x.toml",
            (
                'kind = "replay"\nname_server = "a:1"\nstart = 2026-11-16T11:00:00+01:00\n'
                "end = 2026-11-17\n[source]\narchive = 'a'\n"
            ),
        ),
        (
            "x.toml",
            (
                'kind = "replay"\nname_server = "a:1"\nstart = 1794823200000\n'
                'end = "1794823200001"\n[source]\narchive = "a"\n'
            ),
        ),
    ],
)
def test_times_need_no_quotes(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    spec = load(file, {}).spec
    assert isinstance(spec, ReplaySpec)
    assert spec.start_ms == 1_794_823_200_000
    assert spec.end_ms in (spec.start_ms + 1, spec.start_ms + 14 * 3_600_000)


def test_a_boolean_is_no_time(tmp_path: Path) -> None:
    assert mistakes(tmp_path, REPLAY + "start: true\n") == [
        "x.yaml: start: must be a text, not a boolean (true)"
    ]


def test_a_recursive_file_is_reported_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("kind: sql\na: &a [*a]\n")
    with pytest.raises(BadPipeline, match="is not YAML: Circular reference"):
        load(file, {})


def test_keys_that_are_not_text_are_reported_in_one_line(tmp_path: Path) -> None:
    assert mistakes(tmp_path, SQL + "on: x\n") == [
        "x.yaml: True: a key must be a text: put it into quotes"
    ]
    assert mistakes(tmp_path, SQL + "2026: x\n") == [
        "x.yaml: 2026: a key must be a text: put it into quotes"
    ]


def test_keys_may_be_merged(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("""
kind: sql
name_server: 127.0.0.1:9876
checkpoint: state
source:
  orders: &common
    <<: {topic: merged}
    topic: orders
    decode: text
  payments: {<<: *common, topic: payments}
step: [{name: s, sql: SELECT 1}]
sink: [{format: noop}]
""")
    spec = load(file, {}).spec
    assert isinstance(spec, SqlSpec)
    assert {name: (one.topic, one.decode) for name, one in spec.source.items()} == {
        "orders": (("orders",), "text"),
        "payments": (("payments",), "text"),
    }
    twice = "kind: sql\nsource:\n  a:\n    topic: x\n    topic: y\n"
    assert mistakes(tmp_path, twice) == [
        "x.yaml: is not YAML: the key 'topic' is there twice (line 5)"
    ]


def test_an_option_without_a_value_is_a_mistake(tmp_path: Path) -> None:
    text = SQL.replace("{topic: orders}", "{topic: orders, options: {tags: }}")
    assert mistakes(tmp_path, text) == ["x.yaml: source.orders.options.tags: has no value"]


def test_possible_values_are_listed_without_the_empty_text(tmp_path: Path) -> None:
    text = SQL.replace("{format: noop}", "{format: noop, mode: xyzzy}")
    (line,) = mistakes(tmp_path, text)
    assert line.endswith("'xyzzy' is not possible; there is append, complete, overwrite, update")


@pytest.mark.parametrize("name", ["x.yaml", "x.toml"])
def test_a_byte_order_mark_is_no_mistake(tmp_path: Path, name: str) -> None:
    text = SQL if name == "x.yaml" else 'kind = "audit"\npath = "store"\n'
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert load(tmp_path / name, {}).spec.kind in ("sql", "audit")
