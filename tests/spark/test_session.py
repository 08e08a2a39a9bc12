"""The session helper: the settings it adds, those it keeps, and its messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from orbitmq.spark.pipelines import load
from orbitmq.spark.pipelines.spark_session import has_local_checkpoints
from orbitmq.spark.session import TUNED, session, tuned


def test_given_settings_are_never_overridden() -> None:
    key = TUNED[0].key
    settings, added = tuned("local[2]", {key: "false", "spark.executor.memory": "2g"})
    assert settings[key] == "false"
    assert key not in {tuning.key for tuning in added}
    assert settings["spark.executor.memory"] == "2g"
    assert {tuning.key for tuning in added} == {tuning.key for tuning in TUNED} - {key}


def test_no_local_checkpoint_settings_on_a_cluster() -> None:
    _, added = tuned("spark://host:7077")
    assert added
    assert not any(tuning.only_local for tuning in added)


def test_no_local_checkpoint_settings_on_other_file_systems(tmp_path: Path) -> None:
    _, added = tuned("local[2]", local_checkpoints=False)
    assert added
    assert not any(tuning.only_local for tuning in added)
    text = 'kind = "archive"\nname_server = "127.0.0.1:9"\n[source]\ntopic = "orders"\n'
    for place, is_local in {
        'path = "archive"': True,
        'path = "file:/var/archive"': True,
        'path = "s3a://bucket/archive"': False,
        'path = "s3a://bucket/archive"\ncheckpoint = "state"': True,
        'path = "archive"\ncheckpoint = "hdfs://host/state"': False,
    }.items():
        file = tmp_path / "archive.toml"
        file.write_text(f"{place}\n{text}")
        assert has_local_checkpoints(load(file).spec) is is_local, place


def test_an_existing_session_is_not_changed(spark: SparkSession) -> None:
    said: list[str] = []
    assert session("another", say=said.append) is spark
    assert said == ["there is a session already, its settings stay as they are"]


def test_every_tuned_setting_is_accepted_by_spark_and_reported() -> None:
    program = """
import sys, tempfile
from orbitmq.spark.session import TUNED, session
said = []
spark = session("t", master="local[1]", settings={"spark.ui.enabled": "false"}, say=said.append)
assert len(said) == len(TUNED), said
for tuning in TUNED:
    assert spark.conf.get(tuning.key) == tuning.value, tuning
with tempfile.TemporaryDirectory() as path:
    stream = spark.readStream.format("rate").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", path)
    query.trigger(once=True).start().awaitTermination(60)
spark.stop()
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=150, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["fine"], done.stdout + done.stderr
