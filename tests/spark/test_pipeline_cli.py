"""``orbitmq pipeline`` as processes: one-line mistakes, exit codes, signals, JSON, no secrets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.pipeline_commands import ENDLESS, QUIET, command, running
from tests.spark.topics import produce

pytestmark = pytest.mark.newest_spark

SECRET = "hunter2hunter2"


def orbitmq(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
    )


def test_every_mistake_is_one_line_with_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('kind = "sql"\ntriger = "1 s"\n')
    done = orbitmq("pipeline", "run", str(file))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "bad.toml: triger: unknown key; did you mean 'trigger'?",
        "bad.toml: source: is needed, but not there",
        "bad.toml: sink: is needed, but not there",
    ]


def test_check_shows_the_parsed_file_without_secrets(tmp_path: Path) -> None:
    file = tmp_path / "good.toml"
    text = ENDLESS.replace('note = "${NOTE_SECRET:-x}"', 'secretKey = "${THE_SECRET}"')
    file.write_text(text)
    done = orbitmq("pipeline", "check", str(file), "--output", "json", THE_SECRET=SECRET)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["source"]["numbers"]["options"]["secretKey"] == "***"
    assert SECRET not in done.stdout + done.stderr
    assert orbitmq("pipeline", "check", str(file), THE_SECRET=SECRET).stdout == (
        "good.toml: a pipeline of kind 'sql', without mistakes\n"
    )


def test_check_reports_in_one_line_when_spark_does_not_start(tmp_path: Path) -> None:
    file = tmp_path / "good.toml"
    file.write_text(ENDLESS)
    done = orbitmq("pipeline", "check", str(file), "--plan", "--master", "bogus://x")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("Error: Spark does not start: ")
    assert "Traceback" not in done.stderr


def test_a_missing_pyspark_is_reported_in_one_line(tmp_path: Path) -> None:
    """An interpreter without pyspark, as after installing the wheel without its extra."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'pyspark'\", name='pyspark')"
    )
    file = tmp_path / "good.toml"
    file.write_text(ENDLESS)
    done = orbitmq("pipeline", "run", str(file), PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith("pip install 'WHEEL[spark]'")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_a_signal_ends_a_stream_with_code_0(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "endless.toml"
    file.write_text(ENDLESS)
    with running(file) as process:
        assert process.stdout is not None
        events = []
        for line in process.stdout:
            events.append(json.loads(line))
            if events[-1].get("rows"):
                break
        os.killpg(process.pid, number)
        events += [json.loads(line) for line in process.stdout]
        assert process.wait(60) == 0, process.stderr and process.stderr.read()
    assert events[-1] == {"event": "ended", "exit_code": 0}
    batches = [event for event in events if event["event"] == "progress"]
    assert {"query", "batch_id", "rows", "lag", "duration_ms", "watermark"} <= batches[0].keys()
    metadata = tmp_path / "out" / "_spark_metadata"
    written = {int(name.name) for name in metadata.iterdir() if name.name.isdigit()}
    committed = {int(name.name) for name in (tmp_path / "state/parquet-0/commits").glob("[0-9]*")}
    assert written == committed, "the last batch was cut off"


def test_a_stream_to_the_console_is_printed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"product": "tea"}\n{"product": "milk"}\n')
    file = tmp_path / "shown.toml"
    file.write_text(f"""
kind = "sql"
checkpoint = "state"
{QUIET}
[source.orders]
format = "json"
path = "in"
stream = true
schema = "product STRING"
[[sink]]
format = "console"
""")
    done = orbitmq("pipeline", "run", str(file), "--once")
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ") for line in done.stdout.splitlines() if line.startswith("|")]
    assert sorted(rows) == ["milk", "product", "tea"]
    assert "set spark.sql.session.timeZone=UTC: " in done.stderr


def test_a_failure_is_one_line_with_exit_code_1(tmp_path: Path) -> None:
    file = tmp_path / "failing.toml"
    step = '[[step]]\nname = "s"\nsql = "SELECT raise_error(\'too bad\') AS x FROM numbers"\n'
    file.write_text(ENDLESS + step)
    done = orbitmq("pipeline", "run", str(file))
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert "too bad" in error


def test_readers_closed_by_a_limit_print_no_traceback(
    cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    """A schema is inferred from the first messages, and the console shows the first rows."""
    topic = new_topic(cluster, queues=1)
    produce(cluster, topic, (b'{"id": %d, "text": "%s"}' % (n, b"x" * 1000) for n in range(12_000)))
    file = tmp_path / "first.toml"
    file.write_text(f"""
kind = "sql"
name_server = "{cluster.address}"
trigger = "batch"
{QUIET}
[source.orders]
topic = "{topic}"
decode = "json"
[[step]]
name = "ids"
sql = "SELECT id FROM orders"
[[sink]]
format = "console"
options = {{ numRows = 2 }}
""")
    done = orbitmq("pipeline", "run", str(file))
    assert done.returncode == 0, done.stderr
    assert [line.strip("| ") for line in done.stdout.splitlines() if line[0] == "|"] == [
        *("id", "0", "1")
    ]
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_init_writes_a_project_once(tmp_path: Path) -> None:
    place = tmp_path / "shop"
    done = orbitmq("pipeline", "init", str(place), "--topic", "payments")
    assert done.returncode == 0
    assert all(Path(line).is_file() for line in done.stdout.splitlines())
    assert '"subscribe", "payments"' in (place / "transformations/orders.py").read_text()
    again = orbitmq("pipeline", "init", str(place))
    assert again.returncode == 1
    assert "is not empty" in again.stderr
