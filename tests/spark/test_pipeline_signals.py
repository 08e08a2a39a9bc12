"""Signals to all processes of ``orbitmq pipeline run``, which leave no process behind.

Every process of a run writes to the same stderr, so that has its end when the last of them has.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger

from orbitmq.errors import ConfigError
from orbitmq.spark.pipelines import load
from orbitmq.spark.pipelines import spark_session as sessions
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.pipeline_commands import ENDLESS, QUIET, members, running
from tests.spark.topics import produce

pytestmark = pytest.mark.newest_spark

LIMIT_S = 60


@pytest.mark.parametrize(
    ("number", "sign"),
    [
        (signal.SIGTERM, "Using Spark's default log4j profile"),
        (signal.SIGINT, "Setting Spark log level"),
    ],
    ids=["before the gateway", "before the session"],
)
def test_a_signal_while_spark_starts_ends_with_code_4(
    tmp_path: Path, number: signal.Signals, sign: str
) -> None:
    file = tmp_path / "endless.toml"
    file.write_text(ENDLESS)
    with running(file) as process:
        assert process.stderr is not None
        assert any(sign in line for line in process.stderr), "it has ended by itself"
        os.killpg(process.pid, number)
        said, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 4, errors
    assert [json.loads(line) for line in said.splitlines()] == [
        {"event": "said", "text": "stopped before the start"},
        {"event": "ended", "exit_code": 4},
    ]
    assert "Traceback" not in errors


def test_sigterm_to_every_process_stops_only_the_command(
    tmp_path: Path, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    """As a service manager sends it; here the command receives it last, after one more batch."""
    topic = new_topic(cluster, queues=1)
    file = tmp_path / "copy.toml"
    file.write_text(f"""
kind = "sql"
checkpoint = "state"
trigger = "0 seconds"
name_server = "{cluster.address}"
{QUIET}
[source.orders]
topic = "{topic}"
options = {{ startingOffsets = "earliest" }}
[[sink]]
format = "parquet"
path = "out"
""")
    with running(file) as process:
        assert process.stdout is not None

        def wait_for_rows() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                if json.loads(line).get("rows"):
                    return
            raise AssertionError(process.stderr and process.stderr.read())

        produce(cluster, topic, [b"before"])
        wait_for_rows()
        others = [pid for pid in members(process.pid) if pid != process.pid]
        assert len(others) > 2, "the Java machine, Spark's Python daemon and its workers"
        for pid in others:
            os.kill(pid, signal.SIGTERM)
        produce(cluster, topic, [b"after"])
        wait_for_rows()
        process.terminate()
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, errors
    # Spark's own workers may log that their JVM is gone; the command may not.
    assert "py4j" not in errors


def test_spark_does_not_log_failed_queries_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("no Spark is needed for this")

    file = tmp_path / "endless.toml"
    file.write_text(ENDLESS)
    names = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
    loggers = [PySparkLogger.getLogger(name) for name in names]
    for logger in loggers:
        monkeypatch.setattr(logger, "disabled", False)
    monkeypatch.setattr(sessions, "session", fail)
    with pytest.raises(ConfigError):
        sessions.open_session(load(file), threading.Event())
    assert not any(logger.isEnabledFor(logging.ERROR) for logger in loggers)
