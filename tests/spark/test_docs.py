"""The snippets of the guide and of the README run unchanged."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from orbitmq import Admin, Message, Producer
from orbitmq.spark.pipelines import Exit, load, run
from orbitmq.spark.pipelines.spec import BUILT_IN
from orbitmq.spark.sink.options import SINK_OPTIONS
from orbitmq.spark.source.options import SOURCE_OPTIONS
from orbitmq.spark.table.options import STORE_OPTIONS
from orbitmq.testing import LocalCluster

pytestmark = pytest.mark.newest_spark

ROOT = Path(__file__).parent.parent.parent
GUIDE = (ROOT / "docs" / "spark.md").read_text()
README = (ROOT / "README.md").read_text()
ADDRESS = "127.0.0.1:9876"


def snippets(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def quiet(*_: object) -> None:
    """A display that shows nothing."""


class Silent:
    progress = say = report = staticmethod(quiet)

    def failed(self, text: str) -> None:
        raise AssertionError(text)


def test_the_pipeline_of_the_readme_works(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    (text,) = snippets(README, "toml")
    file = tmp_path / "large-orders.toml"
    file.write_text(text.replace(ADDRESS, cluster.address))
    with Admin(cluster.address) as admin:
        for topic in ("orders", "large-orders"):
            admin.create_topic(topic, queues=2)
    with Producer(cluster.address, group="docs") as producer:
        for number, amount in (("1", 99.0), ("2", 100.0)):
            producer.send(Message("orders", json.dumps({"id": number, "amount": amount}).encode()))
    assert run(load(file, {}), spark, Silent(), once=True) is Exit.DONE
    large = spark.read.parquet(str(tmp_path / "large-orders")).select("id", "amount").collect()
    assert [tuple(row) for row in large] == [("2", 100.0)]
    reader = spark.read.format("rocketmq").option("nameServer", cluster.address)
    (row,) = reader.option("subscribe", "large-orders").load().collect()
    assert json.loads(bytes(row.body)) == {"id": "2", "amount": 100.0}
    assert row["keys"] == ["2"]


def test_the_python_of_the_guide_runs(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pipeline,) = snippets(README, "toml")
    (tmp_path / "orders.toml").write_text(pipeline.replace(ADDRESS, cluster.address))
    monkeypatch.chdir(tmp_path)
    with Admin(cluster.address) as admin:
        for topic in ("orders", "orders-copy", "large-orders"):
            admin.create_topic(topic, queues=2)
    with Producer(cluster.address, group="docs") as producer:
        producer.send(Message("orders", b'{"id": "9", "amount": 250}'))
    names: dict[str, Any] = {"spark": spark}
    with contextlib.redirect_stdout(io.StringIO()):
        for snippet in snippets(GUIDE, "python"):
            exec(snippet.replace(ADDRESS, cluster.address), names)
    reader = spark.read.format("rocketmq").option("nameServer", cluster.address)
    assert reader.option("subscribe", "orders-copy").load().count() >= 1
    assert spark.read.parquet(str(tmp_path / "large-orders")).where("id = '9'").count() == 1


@pytest.mark.parametrize("text", snippets(GUIDE, "toml"), ids=lambda text: text.split('"')[1])
def test_the_pipeline_files_of_the_guide_are_valid(text: str, tmp_path: Path) -> None:
    file = tmp_path / "guide.toml"
    file.write_text(text)
    assert load(file, {}).spec.kind


def test_the_guide_shows_every_kind_of_pipeline() -> None:
    shown = {text.split('"')[1] for text in snippets(GUIDE, "toml")}
    assert shown == set(BUILT_IN)


def test_the_pipeline_file_of_the_example_is_valid() -> None:
    file = ROOT / "examples" / "orders_pipeline" / "orders_per_minute.toml"
    assert load(file, {"NAMESRV_ADDR": ADDRESS}).spec.kind == "sql"


def test_the_guide_lists_every_option() -> None:
    for options, begin, end in (
        (SOURCE_OPTIONS, "## Reading", "## Columns"),
        (STORE_OPTIONS, "## A store directory as a table", "## Writing"),
        (SINK_OPTIONS, "## Writing", "### Exactly once"),
    ):
        part = GUIDE.partition(begin)[2].partition(end)[0]
        listed = set(re.findall(r"`([\w.]+)`", part))
        assert set(options) - listed == set()
