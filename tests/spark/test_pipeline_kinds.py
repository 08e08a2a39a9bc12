"""Every kind of pipeline on a real Spark cluster: a master, two workers, separate executors.

``sql`` is not among them: `test_pipeline_places` has the command run it there. `read_store` is: its
function travels to the executors.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from orbitmq import Admin, Message, NewMessage, Producer
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.drivers import Driver
from tests.spark.pipelines_driver import Files
from tests.spark.quick_start import EXECUTOR_FLAGS
from tests.spark.small_stores import body, fill, flip_byte_of
from tests.spark.standalone import StandaloneCluster
from tests.spark.topics import bodies_in

pytestmark = pytest.mark.newest_spark

COUNT = 40
"""Messages of each source."""
FAULTS = 3
"""Exit code of a pipeline that has found faults."""


def pipelines(orders: str, again: str, traces: str, group: str) -> dict[str, str]:
    """Return the files by kind of pipeline."""
    return {
        "archive": f'path = "archive"\nsource = {{ topic = "{orders}" }}\n',
        # At a rate: functions sent to the executors send the rows.
        "replay": f"""
rate = 1000.0
topics = ["odd"]
source = {{ store = "store" }}
sink = {{ topic = "{again}" }}
""",
        "audit": 'path = "damaged"\ntasks = 3\n',
        "dead-letters": f'groups = ["{group}"]\n[redrive]\nledger = "ledger"\n',
        "trace": f'plot = "trace.html"\nsource = {{ topic = "{traces}" }}\n',
    }


@pytest.mark.timeout(400)
def test_all_other_kinds_run_on_a_standalone_cluster(
    cluster: LocalCluster, spark_cluster: StandaloneCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    orders, again, traces = (new_topic(cluster, queues=2) for _ in range(3))
    group = f"{orders}-billing"
    with Producer(cluster.address, group="shop", trace=traces) as producer:
        for number in range(COUNT):
            producer.send(Message(orders, b"order %d" % number))
    die(cluster, group, orders)
    fill(tmp_path / "store", COUNT)
    fill(tmp_path / "damaged", COUNT)
    flip_byte_of(tmp_path / "damaged", 11)
    texts = pipelines(orders, again, traces, group)
    files = {kind: tmp_path / f"{kind}.toml" for kind in texts}
    for kind, file in files.items():
        file.write_text(f'kind = "{kind}"\n{texts[kind]}')

    work = Files(
        files=[str(file) for file in files.values()],
        store=str(tmp_path / "store"),
        master=spark_cluster.url,
        name_server=cluster.address,
        settings={
            "spark.executor.memory": "512m",
            "spark.cores.max": "2",
            "spark.executor.extraJavaOptions": EXECUTOR_FLAGS,
        },
    )
    with Driver(work, tmp_path / "driver.log") as driver:
        ended = {kind: driver.wait_for(kind) for kind in files}
        stored = driver.wait_for("stored")
        driver.process.wait(60)

    assert {kind: each["failures"] for kind, each in ended.items()} == {kind: [] for kind in files}
    codes = {kind: each["code"] for kind, each in ended.items()}
    assert codes == {kind: FAULTS if kind == "audit" else 0 for kind in files}
    archived = pq.read_table(tmp_path / "archive" / f"topic={orders}").column("body").to_pylist()
    assert Counter(archived) == bodies_in(cluster, orders)
    assert bodies_in(cluster, again) == Counter(body(number) for number in range(1, COUNT, 2))
    assert set(ended["audit"]["facts"]["findings"]) == {"damaged-record"}
    assert ended["dead-letters"]["facts"] == {"messages": 1, "redriven": 1}
    assert bodies_in(cluster, f"%RETRY%{group}") == Counter([b"dead"])
    assert Counter(stored) == Counter(body(number).decode() for number in range(COUNT))
    assert ended["trace"]["facts"]["sends"] == COUNT
    assert "<svg" in (tmp_path / "trace.html").read_text()


def die(cluster: LocalCluster, group: str, topic: str) -> None:
    """Have a group give up on a message of a topic."""
    with Admin(cluster.address) as admin:
        for prefix in ("%DLQ%", "%RETRY%"):
            admin.create_topic(prefix + group, queues=1)
    host = ("127.0.0.1", 1)
    (broker,) = cluster.brokers.values()
    broker.store.append(
        NewMessage(
            f"%DLQ%{group}",
            b"dead",
            queue_id=0,
            born_timestamp=1,
            born_host=host,
            store_host=host,
            properties={"RETRY_TOPIC": topic},
        )
    )
