"""Pipelines on a real cluster: topics in, topics and tables out."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from orbitmq import (
    Admin,
    Message,
    NewMessage,
    OrbitError,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
)
from orbitmq.errors import BadPipeline
from orbitmq.spark.pipelines import Exit, Report, Workspace, build, load, run, run_plan
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.recording import Recorder, stop_after
from tests.spark.topics import count_in


@pytest.fixture
def run_file(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> Callable[[str], tuple[Exit, Recorder]]:
    """Run a pipeline text against the shared cluster, once."""

    def run_text(text: str) -> tuple[Exit, Recorder]:
        file = tmp_path / "pipeline.toml"
        file.write_text(text)
        recorder = Recorder()
        loaded = load(file, {"NAMESRV_ADDR": cluster.address})
        return run(loaded, spark, recorder, once=True), recorder

    return run_text


@pytest.fixture(scope="module")
def producer(cluster: LocalCluster) -> Iterator[Producer]:
    with Producer(cluster.address, group="pipeline-tests") as running:
        yield running


def send(producer: Producer, topic: str, *values: Any) -> None:
    for value in values:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        producer.send(Message(topic, body))


def received(spark: SparkSession, cluster: LocalCluster, topic: str) -> list[Any]:
    reader = spark.read.format("rocketmq").option("nameServer", cluster.address)
    rows = reader.option("subscribe", topic).load().select("body", "tags", "keys").collect()
    return [(json.loads(bytes(row.body)), row.tags, row["keys"]) for row in rows]


Run = Callable[[str], tuple[Exit, Recorder]]


def test_two_topics_and_a_table_are_joined_into_a_topic_and_parquet(
    spark: SparkSession,
    cluster: LocalCluster,
    tmp_path: Path,
    new_topic: NewTopic,
    producer: Producer,
    run_file: Run,
) -> None:
    orders, payments, paid = new_topic(cluster), new_topic(cluster), new_topic(cluster)
    spark.createDataFrame([("tea", "drinks")], "product STRING, category STRING").write.parquet(
        str(tmp_path / "products")
    )
    text = f"""
kind = "sql"
checkpoint = "state"
[source.orders]
topic = "{orders}"
decode = "json"
schema = "id INT, product STRING, at TIMESTAMP"
watermark = {{ column = "at", delay = "1 hour" }}
options = {{ startingOffsets = "earliest" }}
[source.payments]
topic = "{payments}"
decode = "json"
schema = "order INT, amount DOUBLE, at TIMESTAMP"
watermark = {{ column = "at", delay = "1 hour" }}
options = {{ startingOffsets = "earliest" }}
[source.products]
format = "parquet"
path = "products"
[[step]]
name = "paid"
sql = '''
SELECT o.id, p.amount, o.product FROM orders o JOIN payments p
ON o.id = p.order AND p.at BETWEEN o.at AND o.at + INTERVAL 10 MINUTES'''
[[step]]
name = "named"
sql = '''
SELECT category AS tags, array(string(id)) AS keys, id, amount
FROM paid JOIN products USING (product)'''
[[sink]]
topic = "{paid}"
[[sink]]
format = "parquet"
path = "out"
of = "paid"
"""
    at = "2026-01-05T09:00:00Z"
    send(
        producer, orders, {"id": 1, "product": "tea", "at": at}, {"id": 2, "product": "?", "at": at}
    )
    send(producer, payments, {"order": 1, "amount": 2.5, "at": at})
    code, recorder = run_file(text)
    assert recorder.failures == []
    assert code is Exit.DONE
    send(producer, payments, {"order": 2, "amount": 4.0, "at": at}, b"no json")
    code, recorder = run_file(text)
    assert recorder.failures == []
    assert code is Exit.DONE
    assert received(spark, cluster, paid) == [({"id": 1, "amount": 2.5}, "drinks", ["1"])]
    out = spark.read.parquet(str(tmp_path / "out")).orderBy("id").collect()
    assert [tuple(row) for row in out] == [(1, 2.5, "tea"), (2, 4.0, "?")]
    assert {batch.lag for batch in recorder.batches if batch.rows} == {0}


def test_a_schema_is_inferred_and_bad_bodies_are_marked(
    spark: SparkSession,
    cluster: LocalCluster,
    tmp_path: Path,
    new_topic: NewTopic,
    producer: Producer,
    run_file: Run,
) -> None:
    topic = new_topic(cluster)
    text = f"""
kind = "sql"
trigger = "batch"
[source.things]
topic = "{topic}"
decode = "json"
[[step]]
name = "seen"
sql = "SELECT a, b.c AS c, _malformed, _topic FROM things"
[[sink]]
format = "parquet"
path = "out"
"""
    code, recorder = run_file(text)
    assert code is Exit.NOT_STARTED
    assert "source.things: no schema can be inferred: none of 0 messages" in recorder.failures[0]
    send(producer, topic, {"a": 1}, {"b": {"c": "x"}}, b"{bad")
    code, recorder = run_file(text)
    assert recorder.failures == []
    assert code is Exit.DONE
    rows = {tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert rows == {(1, None, False, topic), (None, "x", False, topic), (None, None, True, topic)}


def test_a_stopped_stream_leaves_no_lag(
    spark: SparkSession,
    cluster: LocalCluster,
    tmp_path: Path,
    new_topic: NewTopic,
    producer: Producer,
) -> None:
    topic, lookup = new_topic(cluster), new_topic(cluster)
    group = f"{topic}-progress"
    file = tmp_path / "hourly.toml"
    file.write_text(f"""
kind = "sql"
checkpoint = "state"
trigger = "1 hour"
[source.orders]
topic = "{topic}"
decode = "text"
[source.orders.options]
startingOffsets = "earliest"
commitOffsets = "progress"
consumerGroup = "{group}"
[source.known]
topic = "{lookup}"
stream = false
options = {{ endingOffsets = "latest" }}
[[step]]
name = "counted"
sql = "SELECT orders.*, known FROM orders CROSS JOIN (SELECT count(*) AS known FROM known)"
[[sink]]
format = "parquet"
path = "out"
""")
    send(producer, topic, *range(12))
    recorder = Recorder()
    workspace = Workspace(spark, tmp_path)
    plan = build(load(file, {"NAMESRV_ADDR": cluster.address}), workspace)
    # The next trigger, which would report the commit to the source, is an hour away.
    with stop_after(recorder.batch_came, workspace):
        assert run_plan(plan, workspace, recorder) is Exit.DONE
    assert spark.read.parquet(str(tmp_path / "out")).count() == 12
    with Admin(cluster.address) as admin:
        assert sum(admin.committed_offsets(group, topic).values()) == 12
        assert admin.group_lag(group, topic).total == 0


def test_an_option_refused_by_the_connector_is_one_line_with_its_key(
    cluster: LocalCluster, new_topic: NewTopic, run_file: Run
) -> None:
    text = f"""
kind = "sql"
checkpoint = "state"
[source.orders]
topic = "{new_topic(cluster)}"
options = {{ startingOffset = "earliest" }}
[[sink]]
format = "noop"
"""
    with pytest.raises(BadPipeline) as caught:
        run_file(text)
    (line,) = caught.value.mistakes
    assert line.startswith("pipeline.toml: source.orders.options: ")
    assert "startingOffsets" in line
    code, recorder = run_file(
        text.replace('startingOffset = "earliest"', '"fetchOffset.numRetries" = 1').replace(
            'topic = "', 'topic = "no-such-'
        )
    )
    assert code in (Exit.NOT_STARTED, Exit.FAILED)
    (line,) = recorder.failures
    assert "no-such-" in line
    assert "\n" not in line


def test_dead_letters_are_reported_and_go_back_to_their_group_once(
    cluster: LocalCluster, new_topic: NewTopic, producer: Producer, run_file: Run
) -> None:
    logging.getLogger("orbitmq.client").setLevel(logging.CRITICAL)
    topic = new_topic(cluster)
    group = f"{topic}-billing"
    refused, again = threading.Semaphore(0), threading.Semaphore(0)
    seen: list[ReceivedMessage] = []
    consumer = PushConsumer(cluster.address, group=group, consume_from="first")

    @consumer.on(topic)
    def handle(message: ReceivedMessage) -> None:
        if message.get_property("REDRIVEN_FROM"):
            seen.append(message)
            again.release()
            return
        refused.release()
        raise RetryLater.dead_letter("no such customer")

    text = f"""
kind = "dead-letters"
groups = ["{group}"]
[select]
where = "array_contains(keys, 'k1')"
"""
    redrive = '[redrive]\nledger = "ledger"\n'
    with consumer:
        for number in range(2):
            producer.send(Message(topic, b"%d" % number, keys=[f"k{number}"], tags="t"))
        for _ in range(2):
            assert refused.acquire(timeout=30)
        wait_for_dead_letters(cluster, group, 2)
        code, recorder = run_file(text)
        assert recorder.failures == []
        assert code is Exit.DONE
        (row,) = recorder.reports[0].tables[0].as_dicts()
        assert (row["originTopic"], row["group"], row["messages"]) == (topic, group, 1)
        assert row["cause"] == "refused by its consumer at the first try"
        code, recorder = run_file(text + redrive + "dry_run = true\n")
        assert recorder.reports[0].facts == {"messages": 1, "redriven": 0}
        code, recorder = run_file(text + redrive)
        assert recorder.failures == []
        assert code is Exit.DONE
        assert recorder.reports[0].facts == {"messages": 1, "redriven": 1}
        assert again.acquire(timeout=30)
        code, recorder = run_file(text + redrive)
        assert recorder.reports[0].facts == {"messages": 1, "redriven": 0}
    (message,) = seen
    assert (message.topic, message.body, message.tags) == (topic, b"1", "t")
    assert message.keys == ("k1",)


def test_dead_letters_of_all_groups_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "dead.toml"
    with LocalCluster() as own:
        (broker,) = own.brokers.values()
        with Admin(own.address) as admin:
            for group in ("billing", "shipping"):
                admin.create_topic(f"%DLQ%{group}", queues=1)
        for group, topic in (("billing", "orders"), ("shipping", "orders"), ("shipping", "boxes")):
            broker.store.append(
                NewMessage(
                    f"%DLQ%{group}",
                    b"dead",
                    queue_id=0,
                    born_timestamp=1,
                    born_host=("127.0.0.1", 1),
                    store_host=("127.0.0.1", 1),
                    properties={"RETRY_TOPIC": topic},
                )
            )

        def report(more: str) -> Report:
            file.write_text('kind = "dead-letters"\n' + more)
            recorder = Recorder()
            code = run(load(file, {"NAMESRV_ADDR": own.address}), spark, recorder)
            assert (code, recorder.failures) == (Exit.DONE, [])
            return recorder.reports[0]

        everything = report("")
        healthy = report('groups = ["mail", "billing"]\n[redrive]\nledger = "l"\ndry_run = true\n')
        none = report('groups = ["mail"]\n[redrive]\nledger = "l"\n')
    rows = everything.tables[0].as_dicts()
    found = {(row["group"], row["originTopic"]): row["messages"] for row in rows}
    assert found == {("billing", "orders"): 1, ("shipping", "orders"): 1, ("shipping", "boxes"): 1}
    assert everything.notes == ()
    assert healthy.facts == {"messages": 1, "redriven": 0}
    assert healthy.notes[0] == "group mail has no dead letters"
    assert (none.facts, none.notes[0]) == ({"messages": 0, "redriven": 0}, healthy.notes[0])


def test_redrive_of_a_group_without_retries_fills_its_retry_topic(
    cluster: LocalCluster, new_topic: NewTopic, run_file: Run
) -> None:
    topic = new_topic(cluster)
    group = f"{topic}-once"
    (broker,) = cluster.brokers.values()
    with Admin(cluster.address) as admin:
        admin.create_group(group, retry_max_times=0)
        for name in (f"%DLQ%{group}", f"%RETRY%{group}"):
            admin.create_topic(name, queues=1)
    for number in range(3):
        properties = {"RETRY_TOPIC": topic}
        letter = NewMessage(f"%DLQ%{group}", b"%d" % number, queue_id=0, properties=properties)
        broker.store.append(letter, now_ms=broker.clock())
    text = f"""
kind = "dead-letters"
groups = ["{group}"]
[redrive]
ledger = "ledger"
"""
    for redriven in (3, 0):
        code, recorder = run_file(text)
        assert (code, recorder.failures) == (Exit.DONE, [])
        assert recorder.reports[0].facts == {"messages": 3, "redriven": redriven}
        assert count_in(cluster, f"%RETRY%{group}") == 3
        assert count_in(cluster, f"%DLQ%{group}") == 3


def wait_for_dead_letters(cluster: LocalCluster, group: str, wanted: int) -> None:
    """The consumer answers before the broker has stored the last dead letter."""
    waiting = threading.Event()
    with Admin(cluster.address) as admin:
        for _ in range(300):
            with contextlib.suppress(OrbitError):  # The topic does not exist yet.
                ends = admin.topic_ends(f"%DLQ%{group}")
                if sum(queue.max_offset for queue in ends.values()) >= wanted:
                    return
            waiting.wait(0.1)
    raise AssertionError("no dead letters came")


def test_the_trace_becomes_tables_and_a_plot(
    cluster: LocalCluster, tmp_path: Path, new_topic: NewTopic, run_file: Run
) -> None:
    logging.getLogger("orbitmq.client").setLevel(logging.CRITICAL)
    topic, traces = new_topic(cluster), new_topic(cluster)
    group = f"{topic}-billing"
    done = threading.Semaphore(0)
    with Producer(cluster.address, group="traced-shop", trace=traces) as producer:
        for number in range(20):
            producer.send(Message(topic, b"%d" % number))
    consumer = PushConsumer(cluster.address, group=group, consume_from="first", trace=traces)

    @consumer.on(topic)
    def handle(message: ReceivedMessage) -> None:
        done.release()
        if message.body == b"7":
            raise RetryLater.dead_letter("unlucky")

    with consumer:
        for _ in range(20):
            assert done.acquire(timeout=30)
    where = f'plot = "file://{tmp_path}/p/trace.html"\ntables = "out"\n'
    code, recorder = run_file(f'kind = "trace"\n{where}source = {{ topic = "{traces}" }}\n')
    assert recorder.failures == []
    assert code is Exit.DONE
    (report,) = recorder.reports
    assert report.facts == {"sends": 20, "tries": 20}
    tables = {table.title: table.as_dicts() for table in report.tables}
    (sending,) = tables["sending, ms"]
    assert (sending["topic"], sending["producerGroup"], sending["messages"]) == (
        topic,
        "traced-shop",
        20,
    )
    (delivery,) = tables["delivery, ms"]
    assert (delivery["topic"], delivery["group"]) == (topic, group)
    assert delivery["p50"] <= delivery["p95"] <= delivery["p99"] <= delivery["max"]
    (failed,) = tables["consumers that failed"]
    assert (failed["group"], failed["tries"], failed["failed"]) == (group, 20, 1)
    assert len(tables["slowest messages"]) == 20
    assert report.files[-1] == str(tmp_path / "p" / "trace.html")
    assert "<svg" in (tmp_path / "p" / "trace.html").read_text()
    assert (tmp_path / "out" / "consumptions").is_dir()
