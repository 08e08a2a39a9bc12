"""Files of `orbitmq pipeline init` are valid for any accepted names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

from orbitmq.errors import ConfigError
from orbitmq.spark.pipelines.declarative import write_project

pytestmark = pytest.mark.newest_spark

SERVER = 'one:9876;two"\\:9876'


def texts(file: Path) -> set[object]:
    """Return every literal of a Python file."""
    tree = ast.parse(file.read_text())
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}


@pytest.mark.parametrize("name", ["shop", "yes", "2026", "it's - a 'shop'", '"shop"', "Läden & 😀"])
def test_names_are_quoted_in_the_files_of_a_project(tmp_path: Path, name: str) -> None:
    project = tmp_path / name
    write_project(project, topic="orders%1", target="large|orders", name_server=SERVER)
    spec = yaml.safe_load((project / "spark-pipeline.yml").read_text())
    assert spec["name"] == name
    assert spec["storage"] == f"file://{project}/storage"
    assert {SERVER, "orders%1"} <= texts(project / "transformations/orders.py")
    assert {SERVER, "large|orders"} <= texts(project / "transformations/large_orders.py")


@pytest.mark.parametrize("topic", ['x"y', "a b", "", "a$b"])
def test_an_invalid_topic_name_is_refused(tmp_path: Path, topic: str) -> None:
    for names in ({"topic": topic, "target": "t"}, {"topic": "t", "target": topic}):
        with pytest.raises(ConfigError, match="is not a topic's name"):
            write_project(tmp_path / "shop", name_server="n:1", **names)
    assert not (tmp_path / "shop").exists()


@pytest.mark.parametrize("name", ["a: b", "a #1", "a;b", "a[1]", "100%", "a\nb"])
def test_a_directory_the_metastore_cannot_use_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="which Spark and its metastore do not take in a path"):
        write_project(tmp_path / name, topic="t", target="u", name_server="n:1")
    assert not (tmp_path / name).exists()
