"""Display of a run: undecodable bodies, and an idle stream."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from orbitmq.spark.pipelines import Exit, Workspace, build, parse, run, run_plan
from orbitmq.spark.pipelines.progress import BatchProgress
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.recording import Recorder, stop_after
from tests.spark.source_fixtures import send

pytestmark = pytest.mark.newest_spark

BODIES = ['{"id": 1}', '{"id": 2}', "no JSON", '{"id": "three"}', '{"id": 4}']
BAD = 2
IDLE_EVERY = "spark.sql.streaming.noDataProgressEventInterval"
LIMIT_S = 120


@pytest.fixture
def tree(cluster: LocalCluster, new_topic: NewTopic) -> dict[str, Any]:
    """A pipeline with two sinks over a topic, some of whose messages cannot be decoded."""
    topic = new_topic(cluster, queues=2)
    send(cluster, topic, BODIES)
    source = {
        "topic": topic,
        "decode": "json",
        "schema": "id INT",
        "options": {"startingOffsets": "earliest"},
    }
    join = "SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.id = b.id"
    return {
        "kind": "sql",
        "name_server": cluster.address,
        "checkpoint": "state",
        "source": {"orders": source},
        "step": [{"name": "pairs", "sql": join}],
        "sink": [
            {"name": "ids", "format": "parquet", "path": "ids", "of": "orders"},
            {"name": "pairs", "format": "parquet", "path": "pairs"},
        ],
    }


def run_tree(
    spark: SparkSession, directory: Path, tree: dict[str, Any], *, once: bool = False
) -> Recorder:
    recorder = Recorder()
    loaded = parse(tree, file=directory / "test.toml", environment={})
    assert (run(loaded, spark, recorder, once=once), recorder.failures) == (Exit.DONE, [])
    return recorder


def test_a_stream_counts_undecodable_bodies(
    spark: SparkSession, cluster: LocalCluster, tree: dict[str, Any], tmp_path: Path
) -> None:
    recorder = run_tree(spark, tmp_path, tree, once=True)
    shown = {each.query: each.undecoded for each in recorder.batches}
    assert shown == {"ids": BAD, "pairs": BAD}
    (report,) = recorder.reports
    assert report.facts == {"undecoded": {"ids": BAD, "pairs": BAD}}
    assert sorted(report.notes) == [f"{name}: 2 rows could not be decoded" for name in shown]
    assert spark.read.parquet(str(tmp_path / "ids")).count() == len(BODIES), "the rows are there"
    # The next run counts only what it reads, over all of its batches.
    del tree["step"], tree["sink"][1]
    tree["source"]["orders"]["options"]["maxOffsetsPerTrigger"] = "1"
    send(cluster, tree["source"]["orders"]["topic"], ["bad", '{"id": 5}', "bad", "bad"])
    recorder = run_tree(spark, tmp_path, tree, once=True)
    assert max(each.undecoded or 0 for each in recorder.batches) == 3
    assert [each.facts for each in recorder.reports] == [{"undecoded": {"ids": 3}}]


@pytest.mark.parametrize("pushed", ["false", "true"])
def test_a_batch_counts_undecodable_bodies(
    spark: SparkSession, tree: dict[str, Any], tmp_path: Path, pushed: str
) -> None:
    tree["trigger"] = "batch"
    tree["source"]["unread"] = dict(tree["source"]["orders"])
    tree["source"]["orders"]["options"] = {"pushFilters": pushed}
    (report,) = run_tree(spark, tmp_path, tree).reports
    # Filters reach a source only where nothing is counted after it.
    bad = ("orders: 2 rows could not be decoded",) if pushed == "false" else ()
    assert report.notes == ("ids written", "pairs written", *bad)
    assert report.facts == ({"undecoded": {"orders": BAD}} if bad else {})


def test_a_pipeline_without_decoding_reports_no_undecoded_rows(
    spark: SparkSession, tree: dict[str, Any], tmp_path: Path
) -> None:
    orders = tree["source"]["orders"]
    tree["source"] = {"orders": {"topic": orders["topic"], "options": orders["options"]}}
    del tree["step"], tree["sink"][1]
    recorder = run_tree(spark, tmp_path, tree, once=True)
    assert {each.undecoded for each in recorder.batches} == {None}
    assert recorder.reports == []


class Watching(Recorder):
    """Sets an event when an idle query is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = threading.Event()

    def progress(self, progress: BatchProgress) -> None:
        super().progress(progress)
        if progress.rows == 0:
            self.idle.set()


def test_a_restarted_stream_on_an_idle_topic_shows_rates_and_lag(
    spark: SparkSession, tree: dict[str, Any], tmp_path: Path
) -> None:
    del tree["step"], tree["sink"][1]
    run_tree(spark, tmp_path, tree, once=True)
    before = spark.conf.get(IDLE_EVERY)
    assert before is not None
    spark.conf.set(IDLE_EVERY, "1s")
    try:
        recorder = Watching()
        loaded = parse(tree, file=tmp_path / "test.toml", environment={})
        workspace = Workspace(spark, tmp_path)
        plan = build(loaded, workspace)
        with stop_after(recorder.idle, workspace):
            assert run_plan(plan, workspace, recorder) is Exit.DONE
    finally:
        spark.conf.set(IDLE_EVERY, before)
    assert recorder.idle.is_set(), "nothing was shown"
    shown = recorder.batches[0]
    assert shown.idle
    assert (shown.query, shown.rows, shown.input_rows_per_s, shown.lag) == ("ids", 0, 0.0, 0)
    assert len(recorder.batches) == 1, "the same figures are not shown again"
