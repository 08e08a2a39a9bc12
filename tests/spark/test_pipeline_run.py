"""Running pipelines: planned before the start, stopped between batches, with exit codes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from orbitmq.errors import BadPipeline
from orbitmq.spark.pipelines import (
    Exit,
    Job,
    Report,
    Workspace,
    build,
    parse,
    run,
    run_plan,
    runner,
)
from orbitmq.spark.pipelines.progress import BatchProgress
from tests.spark.recording import Recorder, stop_after


def run_tree(
    spark: SparkSession, directory: Path, tree: dict[str, Any], *, once: bool = False
) -> tuple[Exit, Recorder]:
    recorder = Recorder()
    loaded = parse({"kind": "sql", **tree}, file=directory / "test.toml", environment={})
    return run(loaded, spark, recorder, once=once), recorder


def lines(directory: Path, *bodies: str) -> str:
    """Write a directory of JSON lines, the simplest source of a stream."""
    source = directory / "in"
    source.mkdir(exist_ok=True)
    (source / f"{len(list(source.iterdir()))}.json").write_text("\n".join(bodies))
    return str(source)


def stream_of_lines(directory: Path, *bodies: str) -> dict[str, Any]:
    return {
        "format": "json",
        "path": lines(directory, *bodies),
        "stream": True,
        "schema": "id INT, product STRING",
    }


def test_a_stream_catches_up_and_continues_in_the_next_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    tree = {
        "checkpoint": "state",
        "source": {"orders": stream_of_lines(tmp_path, '{"id": 1, "product": "tea"}')},
        "step": [{"name": "upper", "sql": "SELECT id, upper(product) AS product FROM orders"}],
        "sink": [{"format": "parquet", "path": "out"}],
    }
    code, recorder = run_tree(spark, tmp_path, tree, once=True)
    assert (code, recorder.failures) == (Exit.DONE, [])
    assert [batch.rows for batch in recorder.batches] == [1]
    lines(tmp_path, '{"id": 2, "product": "milk"}', '{"id": 3, "product": "jam"}')
    code, recorder = run_tree(spark, tmp_path, tree, once=True)
    assert code is Exit.DONE
    assert [batch.rows for batch in recorder.batches] == [2]
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, "TEA"), (2, "MILK"), (3, "JAM")]


def test_the_order_of_sinks_in_the_file_does_not_matter(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A checkpoint continued with another sink's files would lose the rows of both."""
    first: dict[str, Any] = {"format": "parquet", "path": "first"}
    second: dict[str, Any] = {"format": "parquet", "path": "second"}
    source = stream_of_lines(tmp_path, '{"id": 0}')

    def run_sinks(*sinks: dict[str, Any]) -> None:
        tree = {"checkpoint": "state", "source": {"orders": source}, "sink": list(sinks)}
        code, recorder = run_tree(spark, tmp_path, tree, once=True)
        assert (code, recorder.failures) == (Exit.DONE, [])

    def ids(path: str) -> list[int]:
        return sorted(row.id for row in spark.read.parquet(str(tmp_path / path)).collect())

    run_sinks(first)
    lines(tmp_path, '{"id": 1}')
    with pytest.raises(BadPipeline, match="'parquet-0' already; name all but the one whose"):
        run_sinks(second, first)
    run_sinks({**second, "name": "second"}, {"format": "noop"}, first)
    assert (ids("first"), ids("second")) == ([0, 1], [0, 1])
    # Named as when it was the second sink of the file.
    (tmp_path / "state" / "parquet-0").rename(tmp_path / "state" / "parquet-1")
    lines(tmp_path, '{"id": 2}')
    run_sinks(first)
    assert ids("first") == [0, 1, 2]
    assert not (tmp_path / "state" / "parquet-0").exists()
    (tmp_path / "state" / "parquet-7").mkdir()
    tree = {"checkpoint": "state", "source": {"orders": source}, "sink": [first]}
    code, recorder = run_tree(spark, tmp_path, tree, once=True)
    assert code is Exit.NOT_STARTED
    assert "sink[0]: needs a name: its checkpoint may be any of parquet-1" in recorder.failures[0]


def test_errors_of_spark_are_reported_with_their_key_before_the_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    tree = {
        "checkpoint": "state",
        "source": {"orders": stream_of_lines(tmp_path, '{"id": 1}')},
        "step": [
            {"name": "good", "sql": "SELECT id FROM orders"},
            {"name": "bad", "sql": "SELECT idd FROM good"},
        ],
        "sink": [{"format": "parquet", "path": "out", "of": "good"}],
    }
    code, recorder = run_tree(spark, tmp_path, tree, once=True)
    assert code is Exit.NOT_STARTED
    (line,) = recorder.failures
    assert line.startswith("test.toml: step[1] (bad): ")
    assert "`idd`" in line
    assert "\n" not in line
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "out").exists()


def test_a_failed_stream_stops_the_others(spark: SparkSession, tmp_path: Path) -> None:
    tree = {
        "checkpoint": "state",
        "source": {"orders": stream_of_lines(tmp_path, '{"id": 1}')},
        "step": [
            {"name": "good", "sql": "SELECT id FROM orders"},
            {"name": "bad", "sql": "SELECT raise_error('no such product') AS x FROM orders"},
        ],
        "sink": [
            {"format": "noop", "of": "good", "name": "g"},
            {"format": "noop", "of": "bad", "name": "b"},
        ],
    }
    code, recorder = run_tree(spark, tmp_path, tree)
    assert code is Exit.FAILED
    (line,) = recorder.failures
    assert "no such product" in line
    assert spark.streams.active == []


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        ("s3a://bucket/state", "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"),
        ("a-file/state", "Parent path is not a directory"),
    ],
)
def test_an_unreachable_path_is_reported_in_one_line(
    spark: SparkSession, tmp_path: Path, checkpoint: str, expected: str
) -> None:
    (tmp_path / "a-file").touch()
    tree = {
        "checkpoint": checkpoint,
        "source": {"orders": stream_of_lines(tmp_path, '{"id": 1}')},
        "sink": [{"format": "noop", "name": "named"}],
    }
    for sink in ({"format": "noop"}, {"format": "noop", "name": "named"}):
        code, recorder = run_tree(spark, tmp_path, tree | {"sink": [sink]}, once=True)
        (line,) = recorder.failures
        assert expected in line
        assert "\n" not in line
        assert code is Exit.NOT_STARTED


def test_a_stop_request_lets_the_batch_finish(spark: SparkSession, tmp_path: Path) -> None:
    """The output has every number that a batch took: the batch was not cut off."""
    recorder = Recorder()
    loaded = parse(
        {
            "kind": "sql",
            "checkpoint": "state",
            "source": {
                "numbers": {"format": "rate", "stream": True, "options": {"rowsPerSecond": 50}}
            },
            "sink": [{"format": "parquet", "path": "out"}],
        },
        file=tmp_path / "test.toml",
        environment={},
    )
    workspace = Workspace(spark, tmp_path)
    plan = build(loaded, workspace)
    with stop_after(recorder.batch_came, workspace):
        assert run_plan(plan, workspace, recorder) is Exit.DONE
    assert spark.streams.active == []
    written = spark.read.parquet(str(tmp_path / "out")).count()
    assert written == sum(batch.rows for batch in recorder.batches) > 0


def test_files_of_another_checkpoint_are_not_continued(spark: SparkSession, tmp_path: Path) -> None:
    tree = {
        "checkpoint": "state",
        "source": {"orders": stream_of_lines(tmp_path, '{"id": 1, "product": "tea"}')},
        "sink": [{"format": "parquet", "path": "out"}],
    }
    code, _ = run_tree(spark, tmp_path, tree, once=True)
    assert code is Exit.DONE
    lines(tmp_path, '{"id": 2, "product": "milk"}')
    code, recorder = run_tree(spark, tmp_path, tree | {"checkpoint": "another"}, once=True)
    assert code is Exit.NOT_STARTED
    assert "sink[0]: " in recorder.failures[0]
    assert "has files of a stream with another checkpoint" in recorder.failures[0]


@pytest.mark.parametrize(
    ("sink", "sql", "told"),
    [
        ({"format": "parqet", "path": "b"}, "SELECT 1 AS a", "sink[1]: [DATA_SOURCE_NOT_FOUND]"),
        ({"format": "json", "path": "b"}, "SELECT 1 AS a, 2 AS A", "two columns called 'a'"),
        ({"topic": "t"}, "SELECT 'x' AS body, 1 AS id", "sink[1]: column 'id' is none that"),
        ({"topic": "t"}, "SELECT 'x' AS body, 1 AS tags", "sink[1]: column 'tags' must be string"),
    ],
)
def test_no_sink_is_written_when_another_one_is_invalid(
    spark: SparkSession, tmp_path: Path, sink: dict[str, Any], sql: str, told: str
) -> None:
    spark.range(3).write.parquet(str(tmp_path / "table"))
    tree = {
        "name_server": "127.0.0.1:1",
        "source": {"numbers": {"format": "parquet", "path": "table"}},
        "step": [{"name": "made", "sql": sql}],
        "sink": [{"format": "parquet", "path": "out", "of": "numbers"}, sink],
    }
    code, recorder = run_tree(spark, tmp_path, tree)
    assert code is Exit.NOT_STARTED
    assert told in recorder.failures[0]
    assert not (tmp_path / "out").exists()


class PlayedQuery:
    """A query in the middle of a batch."""

    isActive = True

    def __init__(self, name: str, stopped: list[str]) -> None:
        self.runId = name
        self.status = {"isTriggerActive": True}
        self._stopped = stopped

    def stop(self) -> None:
        self._stopped.append(self.runId)
        self.isActive = False


class PlayedListener:
    """One query ends its batch when the other has been waited for."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}

    def batches(self, run_id: str) -> int:
        return self.done.get(run_id, 0)

    def wait_batch(self, _run_id: str, _after: int, _timeout_s: float) -> bool:
        self.done["quick"] = 1
        return False


def test_a_slow_stream_does_not_delay_the_stop_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STOP_LIMIT_S", 0.5)
    stopped: list[str] = []
    queries = [PlayedQuery("slow", stopped), PlayedQuery("quick", stopped)]
    runner._stop_after_batch(cast(Any, queries), cast(Any, PlayedListener()))
    assert stopped == ["quick"], "the slow one is stopped by who calls, in the middle of its batch"


def test_a_batch_pipeline_writes_all_its_sinks(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.range(3).write.parquet(str(tmp_path / "table"))
    tree = {
        "source": {"numbers": {"format": "parquet", "path": "table"}},
        "step": [{"name": "doubled", "sql": "SELECT id * 2 AS twice FROM numbers"}],
        "sink": [
            {"format": "json", "path": "out", "mode": "overwrite"},
            {"format": "console"},
        ],
    }
    code, recorder = run_tree(spark, tmp_path, tree)
    assert (code, recorder.failures) == (Exit.DONE, [])
    assert {row.twice for row in spark.read.json(str(tmp_path / "out")).collect()} == {0, 2, 4}
    shown = {line.strip("| ") for line in capsys.readouterr().out.splitlines() if "|" in line}
    assert shown == {"twice", "0", "2", "4"}


@pytest.mark.parametrize(
    ("faults", "expected"), [(0, Exit.DONE), (2, Exit.FAULTS)], ids=["none", "some"]
)
def test_the_exit_code_follows_the_faults_of_a_report(
    spark: SparkSession, tmp_path: Path, faults: int, expected: Exit
) -> None:
    recorder = Recorder()
    job = Job(lambda: Report(faults=faults))
    assert run_plan(job, Workspace(spark, tmp_path), recorder) is expected
    assert recorder.reports == [Report(faults=faults)]


def test_a_stop_request_cancels_a_job(spark: SparkSession, tmp_path: Path) -> None:
    workspace = Workspace(spark, tmp_path)
    spark.udf.register("wait_long", lambda x: __import__("time").sleep(60))
    begun = threading.Event()

    def work() -> Report:
        begun.set()
        spark.range(2).selectExpr("wait_long(id)").collect()
        return Report()

    with stop_after(begun, workspace):
        assert run_plan(Job(work), workspace, Recorder()) is Exit.INTERRUPTED


def test_the_lag_is_summed_over_all_topics() -> None:
    event = """{"id": "x", "name": "orders", "batchId": 3, "timestamp": "t", "numInputRows": 7,
      "inputRowsPerSecond": 70.0, "durationMs": {"triggerExecution": 12},
      "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
      "stateOperators": [{"numRowsTotal": 4}],
      "sources": [
        {"endOffset": {"a": {"b": {"0": 5, "1": 3}}},
         "latestOffset": {"a": {"b": {"0": 9, "1": 3}}}},
        {"endOffset": "{\\"c\\": {\\"b\\": {\\"0\\": 1}}}", "latestOffset": {"c": {"b": {"0": 2}}}},
        {"endOffset": 4, "latestOffset": null}]}"""
    progress = BatchProgress.from_json(event)
    assert progress.lag == 5
    assert (progress.query, progress.rows, progress.duration_ms) == ("orders", 7, 12)
    assert progress.watermark == "2026-01-01T00:00:00.000Z"
    assert progress.state_rows == 4
    assert progress.processed_rows_per_s == 0.0
