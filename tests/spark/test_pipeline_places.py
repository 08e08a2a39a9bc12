"""Pipelines on a standalone cluster, and as a project of Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from orbitmq import Admin, Consumer, Message, Producer
from orbitmq.spark.pipelines.declarative import write_project
from orbitmq.testing import LocalCluster
from tests.spark.quick_start import EXECUTOR_FLAGS
from tests.spark.standalone import StandaloneCluster

pytestmark = pytest.mark.newest_spark

LIMIT_S = 240
PIPELINE = f"""
kind = "sql"
checkpoint = "state"
[spark.conf]
"spark.ui.enabled" = false
"spark.driver.host" = "127.0.0.1"
"spark.cores.max" = 2
"spark.executor.extraJavaOptions" = "{EXECUTOR_FLAGS}"
[source.orders]
topic = "SOURCE"
decode = "json"
schema = "id INT"
options = {{ startingOffsets = "earliest" }}
[[step]]
name = "doubled"
sql = "SELECT id * 2 AS twice FROM orders"
[[sink]]
topic = "TARGET"
"""


def bodies(cluster: LocalCluster, topic: str, wanted: int) -> list[bytes]:
    """Return the bodies in a topic, once it has the expected number."""
    found: list[bytes] = []
    with Consumer(cluster.address, topic, group=f"{topic}-reader", consume_from="first") as reader:
        while len(found) < wanted and (messages := reader.poll(timeout_s=10)):
            found += [message.body for message in messages]
    return found


@pytest.mark.timeout(400)
def test_the_same_file_runs_on_a_standalone_cluster(
    cluster: LocalCluster, spark_cluster: StandaloneCluster, tmp_path: Path
) -> None:
    source, target = "standalone-orders", "standalone-doubled"
    with Admin(cluster.address) as admin:
        for topic in (source, target):
            admin.create_topic(topic, queues=4)
    with Producer(cluster.address, group="p") as producer:
        for number in range(20):
            producer.send(Message(source, json.dumps({"id": number}).encode()))
    file = tmp_path / "doubled.toml"
    file.write_text(PIPELINE.replace("SOURCE", source).replace("TARGET", target))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "orbitmq.cli", "pipeline", "run", str(file)),
            *("--once", "--master", spark_cluster.url, "--output", "json"),
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "NAMESRV_ADDR": cluster.address, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(event.get("rows", 0) for event in events) == 20
    twice = sorted(json.loads(body)["twice"] for body in bodies(cluster, target, 20))
    assert twice == [2 * number for number in range(20)]


@pytest.mark.timeout(600)
def test_a_new_project_runs_and_continues_in_the_next_run(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    source, target = "project-orders", "project-large"
    with Admin(cluster.address) as admin:
        for topic in (source, target):
            admin.create_topic(topic, queues=2)
    project = tmp_path / "shop"
    write_project(project, topic=source, target=target, name_server=cluster.address)

    def run(*orders: tuple[str, float]) -> None:
        with Producer(cluster.address, group="p") as producer:
            for number, amount in orders:
                order = {"id": number, "product": "tea", "amount": amount}
                producer.send(Message(source, json.dumps(order).encode()))
        scripts = [Path(pyspark.__file__).parent / "bin", Path(sys.executable).parent]
        places = os.pathsep.join([*map(str, scripts), os.environ["PATH"]])
        kept = {key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"}
        done = subprocess.run(
            [str(project / "run")],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            env={**kept, "PATH": places},
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run(("1", 4.5), ("2", 100.0))
    assert [json.loads(body)["id"] for body in bodies(cluster, target, 1)] == ["2"]
    run(("3", 250.0))
    # The second run has sent only new rows: order 2 is not repeated.
    sent = [json.loads(body)["id"] for body in bodies_again(cluster, target)]
    assert sorted(sent) == ["2", "3"]
    assert view(project) == {"product": "tea", "orders": 3, "amount": 354.5}


def bodies_again(cluster: LocalCluster, topic: str) -> list[bytes]:
    """Return everything in a topic, read by a new group."""
    with Admin(cluster.address) as admin:
        wanted = sum(ends.max_offset for ends in admin.topic_ends(topic).values())
    found: list[bytes] = []
    with Consumer(cluster.address, topic, group=f"{topic}-again", consume_from="first") as reader:
        while len(found) < wanted and (messages := reader.poll(timeout_s=10)):
            found += [message.body for message in messages]
    return found


def view(project: Path) -> dict[str, object]:
    """Return the one row of the materialised view, from its files."""
    import pyarrow.parquet as pq

    (row,) = pq.read_table(project / "warehouse" / "orders_by_product").to_pylist()
    found: dict[str, object] = row
    return found
