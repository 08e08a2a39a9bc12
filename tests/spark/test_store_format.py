"""``format("rocketmq-store")``, and `read_store`: a store directory as a Spark table, both ways."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    LessThan,
    LessThanOrEqual,
)

from orbitmq.errors import ConfigError, OrbitError
from orbitmq.spark import read_store
from orbitmq.spark.schema import message_schema
from orbitmq.spark.table.format import PushingStoreReader, RocketMQStoreSource, StoreReader, narrow
from orbitmq.spark.table.options import StoreOptions
from orbitmq.storelog import QueueWishes, Selection, StoreLog
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.small_stores import (
    COUNT,
    STEP_MS,
    T0,
    body,
    fill,
    flip_byte_of,
    log_files,
    message,
    open_small,
    overwrite,
)


def table(spark: SparkSession, path: Path, **options: object) -> DataFrame:
    reader = spark.read.format("rocketmq-store")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load(str(path))


RowsOf = Callable[..., DataFrame]
REFUSED = (PySparkException, OrbitError)
"""Raised in the process that plans for Spark, or in this one."""


@pytest.fixture(params=[table, read_store], ids=["format", "read_store"])
def rows_of(request: pytest.FixtureRequest) -> RowsOf:
    """Read a store through the format or through `read_store`."""
    way: RowsOf = request.param
    return way


def numbers(rows: DataFrame) -> list[int]:
    return sorted(int(row.body.split()[1]) for row in rows.select("body").collect())


def test_all_columns_and_all_rows_are_read(
    spark: SparkSession, store: Path, rows_of: RowsOf
) -> None:
    rows = rows_of(spark, store, brokerName="broker-a")
    assert rows.schema == message_schema()
    row = rows.where("msgId = 'U7'").collect()[0]
    assert (row.topic, row.brokerName, row.queueId, row.queueOffset) == ("odd", "broker-a", 1, 1)
    assert (row.tags, row.keys, bytes(row.body)) == ("tag1", ["k7", "ten7"], body(7))
    assert row.properties["shop"] == "Zürich ☕"
    assert row.bornHost == "10.9.8.7:4007"
    assert rows.select(F.unix_millis("storeTimestamp")).agg({"*": "count"}).collect()[0][0] == COUNT
    assert numbers(rows) == list(range(COUNT))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"topics": "odd, absent"}, range(1, COUNT, 2)),
        ({"subscribe": "odd"}, range(1, COUNT, 2)),
        ({"topicPattern": "e.*"}, range(0, COUNT, 2)),
        ({"queues": '{"odd":[1]}'}, range(3, COUNT, 4)),
        ({"assign": '{"odd":{"broker-a":[1]}}'}, range(3, COUNT, 4)),
        ({"startTime": T0 + 290 * STEP_MS}, range(290, COUNT)),
        ({"endTime": "2023-11-14T22:15:00Z"}, range(10)),
        (
            {
                "queues": '{"even":[0]}',
                "startingOffsets": '{"even":{"0":10}}',
                "endingOffsets": '{"even":{"broker-a":{"0":12}}}',
            },
            [40, 44],
        ),
        ({"topics": "even,odd", "keys": "U7,k12"}, [7, 12]),
        ({"splits": 17, "prune": "false"}, range(COUNT)),
        ({"columns": "body", "minPartitions": 3, "startingOffsets": "earliest"}, range(COUNT)),
    ],
)
def test_options_select_messages(
    spark: SparkSession,
    store: Path,
    rows_of: RowsOf,
    options: dict[str, object],
    expected: range | list[int],
) -> None:
    assert numbers(rows_of(spark, store, **options)) == list(expected)


def test_splits_become_tasks_with_the_chosen_columns(
    spark: SparkSession, store: Path, rows_of: RowsOf
) -> None:
    rows = rows_of(spark, store, splits=5, columns="queueOffset,topic")
    assert rows.rdd.getNumPartitions() == 5
    assert rows.columns == ["queueOffset", "topic"]


def test_a_schema_chooses_columns(spark: SparkSession, store: Path) -> None:
    chosen = spark.read.format("rocketmq-store").schema("body binary, tags string")
    assert chosen.load(str(store)).columns == ["body", "tags"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option path is missing"),
        ({"path": "x", "topics": "a", "topicPattern": "b"}, "one of the options topics"),
        (
            {"path": "x", "columns": "body,bodies"},
            "messages have no column 'bodies'",
        ),
        ({"path": "x", "queues": "[0]"}, 'option queues is JSON such as {"orders"'),
        ({"path": "x", "startingOffsets": '{"a":{"0":"x"}}'}, "option startingOffsets is JSON"),
        ({"path": "x", "endingOffsets": '{"a":{"0":-7}}'}, "offsets are 0 or more"),
        ({"path": "x", "splits": "0"}, "option splits is 1 or more"),
        ({"path": "x", "failOnCorruption": "maybe"}, "option failOnCorruption is true or false"),
        ({"path": "x", "table": "tables"}, "option table is messages or damages"),
        ({"path": "x", "splitz": "a"}, "has no option 'splitz'; did you mean splits?"),
        (
            {"path": "hdfs://names/store"},
            "format rocketmq-store reads directories of this machine, not 'hdfs://names/store'",
        ),
        ({"path": "x", "commitLogPath": "y,s3a:/z"}, "of this machine, not 's3a:/z'"),
    ],
)
def test_wrong_options_are_refused_in_one_line(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("[", r"\[").replace("?", r"\?")):
        StoreOptions.of(options)


def test_an_unusable_directory_or_time_is_refused_before_tasks_start(
    spark: SparkSession, store: Path, tmp_path: Path, rows_of: RowsOf
) -> None:
    with pytest.raises(REFUSED, match="neither epoch milliseconds"):
        rows_of(spark, store, startTime="tomorrow").collect()
    with pytest.raises(REFUSED, match="no commit log here"):
        rows_of(spark, tmp_path).collect()
    with pytest.raises(REFUSED, match=f"there is no directory {tmp_path}/absent"):
        rows_of(spark, tmp_path / "absent").collect()


def test_a_directory_may_be_a_url(spark: SparkSession, store: Path) -> None:
    for url in (f"file://{store}", f"file:{store}", f"FILE://localhost{store}"):
        logs = f"file:{store}/commitlog"
        rows = spark.read.format("rocketmq-store").option("commitLogPath", logs).load(url)
        assert rows.count() == COUNT
        assert read_store(spark, url, commitLogPath=logs).count() == COUNT


def test_an_unknown_column_is_refused(spark: SparkSession, store: Path) -> None:
    with pytest.raises(PySparkException, match="messages have no column"):
        spark.read.format("rocketmq-store").schema("price int").load(str(store)).collect()


def test_a_damaged_message_fails_the_query_or_is_listed(
    spark: SparkSession, tmp_path: Path, rows_of: RowsOf
) -> None:
    path = fill(tmp_path / "store", 60)
    flip_byte_of(path, 41)
    end = StoreLog(path).snapshot.log_end
    overwrite(log_files(path)[0], end, b"torn")
    with pytest.raises(PySparkException, match="failOnCorruption=false reads on behind it"):
        rows_of(spark, path).collect()
    rows = rows_of(spark, path, failOnCorruption="false", splits=4)
    assert numbers(rows) == [number for number in range(60) if number != 41]
    damages = {row.kind: row for row in table(spark, path, table="damages").collect()}
    assert set(damages) == {"damage", "torn-tail"}
    damage, tail = damages["damage"], damages["torn-tail"]
    assert (damage.topic, damage.queueId, damage.queueOffset) == ("odd", 0, 10)
    assert "checksum" in damage.reason
    assert damage.file == str(log_files(path)[0])
    assert (tail.physicalOffset, tail.length) == (end, 4)


def test_every_damage_is_listed(spark: SparkSession, tmp_path: Path) -> None:
    path = fill(tmp_path / "store", COUNT)
    hurt = range(20, 270)
    for number in hurt:
        flip_byte_of(path, number)
    listed = table(spark, path, table="damages", splits=1).collect()
    expected = sorted(("even" if n % 2 == 0 else "odd", n // 2 % 2, n // 4) for n in hurt)
    assert sorted((row.topic, row.queueId, row.queueOffset) for row in listed) == expected


def test_a_missing_log_file_fails_the_query_or_is_listed(
    spark: SparkSession, tmp_path: Path, rows_of: RowsOf
) -> None:
    path = fill(tmp_path / "store", COUNT)
    files = log_files(path)
    files[1].unlink()
    with pytest.raises(PySparkException, match=r"restore it.*failOnCorruption=false reads on"):
        rows_of(spark, path, topics="even").collect()
    found = numbers(rows_of(spark, path, failOnCorruption="false", topics="even", splits=5))
    assert found == numbers(
        rows_of(spark, path, failOnCorruption="false", prune="false").where("topic = 'even'")
    )
    assert found[-1] == COUNT - 2
    start, end = int(files[1].name), int(files[2].name)
    for options in ({}, {"topics": "even"}, {"splits": 9, "prune": "false"}):
        (gap,) = table(spark, path, table="damages", **options).collect()
        assert (gap.kind, gap.file, gap.physicalOffset, gap.length) == (
            "gap",
            None,
            start,
            end - start,
        )


def test_python_values_are_options_too(spark: SparkSession, store: Path) -> None:
    rows = read_store(
        *(spark, store),
        queues={"even": [1], "odd": [0, 1]},
        columns=["body"],
        startTime=datetime.fromtimestamp(T0 / 1000, UTC) + timedelta(milliseconds=290 * STEP_MS),
        verifyCrc=False,
        keys=None,
    )
    assert rows.columns == ["body"]
    assert numbers(rows) == [290, 291, 293, 294, 295, 297, 298, 299]
    assert numbers(read_store(spark, store, topics={"odd": [0]})) == list(range(1, COUNT, 4))
    assert numbers(read_store(spark, store, topics={"odd", "even"})) == list(range(COUNT))


def test_no_matching_message_is_an_empty_table(
    spark: SparkSession, store: Path, rows_of: RowsOf
) -> None:
    rows = rows_of(spark, store, topics="absent")
    assert (rows.schema, rows.collect()) == (message_schema(), [])


@pytest.mark.parametrize("options", [{"table": "damages"}, {"pushFilters": True}])
def test_options_of_the_format_are_refused_by_read_store(
    spark: SparkSession, store: Path, options: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match=r'are for spark.read.format\("rocketmq-store"\)'):
        read_store(spark, store, **options)


def test_a_store_cannot_be_read_as_a_stream(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    rows = spark.readStream.format("rocketmq-store").load(str(store))
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(PySparkException, match="is read once, with spark"):
        query.awaitTermination(60)


def test_a_frame_is_read_again_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    path = fill(tmp_path / "store", 20)
    rows = read_store(spark, path)
    with open_small(path) as written:
        written.append(message(20), now_ms=T0 + 20 * STEP_MS)
    assert numbers(rows) == numbers(rows) == list(range(20))
    assert numbers(read_store(spark, path)) == list(range(21))


def test_a_running_store_is_read_as_of_one_moment(spark: SparkSession, tmp_path: Path) -> None:
    with open_small(tmp_path / "store") as written:
        for number in range(100):
            written.append(message(number), now_ms=T0 + number)
        planned = RocketMQStoreSource({"path": str(tmp_path / "store"), "splits": "3"})
        reader = planned.reader(planned.schema())
        rows = table(spark, tmp_path / "store")
        stop = threading.Event()

        def write() -> None:
            number = 100
            while not stop.is_set():
                written.append(message(number), now_ms=T0 + number)
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            read: list[Any] = [batch for part in reader.partitions() for batch in reader.read(part)]
            found = numbers(rows)
        finally:
            stop.set()
            writer.join()
    # The plan made before the writer started has not grown.
    assert sum(batch.num_rows for batch in read) == 100
    assert found == list(range(len(found)))
    assert len(found) >= 100


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({}, "topic = 'odd'"),
        ({}, "topic = 'odd' AND queueId = 1 AND queueOffset >= 5 AND queueOffset < 9"),
        ({}, "topic IN ('even', 'absent') AND queueOffset = 12"),
        ({}, "topic = 'odd' AND topic = 'even'"),
        ({"topics": "even,odd"}, "queueId = 0 AND queueOffset > 70"),
        ({"queues": '{"even":[1]}'}, "queueId IN (0, 1) AND queueOffset <= 3"),
        (
            {"topics": "even", "startingOffsets": '{"even":{"0":10}}'},
            "queueOffset >= 5 AND queueOffset < 12",
        ),
        ({"topicPattern": "e.*"}, "topic = 'odd' OR queueOffset = 3"),
        ({"topicPattern": "e.*"}, "topic IN ('even', 'odd') AND queueId = 1"),
        ({"startingOffsets": '{"even":{"0":10}}'}, "topic = 'odd'"),
        ({"startingOffsets": '{"even":{"0":70}}'}, "topic = 'even' AND queueId < 1"),
        ({}, "storeTimestamp BETWEEN '2023-11-14T22:20:00Z' AND '2023-11-14T22:25:00Z'"),
        ({"startTime": T0 + 100 * STEP_MS}, "storeTimestamp <= timestamp_millis(1700001200000)"),
        ({}, "tags = 'tag1' AND topic = 'even'"),
    ],
)
def test_pushed_filters_find_the_same_messages(
    spark: SparkSession, store: Path, options: dict[str, object], condition: str
) -> None:
    plain = table(spark, store, **options).where(condition)
    pushed = table(spark, store, pushFilters="true", **options).where(condition)
    assert numbers(pushed) == numbers(plain)


def test_pushed_filters_are_as_good_as_options(store: Path) -> None:
    def reader(**options: str) -> DataSourceReader:
        source = RocketMQStoreSource({"path": str(store), "splits": "1", **options})
        return source.reader(source.schema())

    pushed = reader(pushFilters="true")
    assert isinstance(pushed, PushingStoreReader)
    noon = datetime(2023, 11, 14, 22, 20, tzinfo=UTC)
    filters: list[Filter] = [
        EqualTo(("topic",), "odd"),
        EqualTo(("queueOffset",), 3),
        LessThan(("storeTimestamp",), noon),
        EqualTo(("tags",), "tag1"),
    ]
    assert list(pushed.pushFilters(filters)) == filters, "Spark looks again"
    by_options = reader(
        queues='{"odd":[0,1]}',
        startingOffsets='{"odd":{"0":3,"1":3}}',
        endingOffsets='{"odd":{"0":4,"1":4}}',
        endTime=str(int(noon.timestamp() * 1000) + 1),
    )
    assert isinstance(by_options, StoreReader)
    assert pushed.plan.splits == by_options.plan.splits
    assert pickle.loads(pickle.dumps(pushed)).plan == pushed.plan, "tasks get the plan"


def test_a_directory_is_planned_once_for_pushed_filters(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def count(name: str) -> None:
        method = getattr(StoreLog, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            looks.append(name)
            return method(*arguments, **named)

        monkeypatch.setattr(StoreLog, name, counted)

    count("__init__")
    count("plan")
    source = RocketMQStoreSource({"path": str(store), "pushFilters": "true"})
    reader = source.reader(source.schema())
    assert isinstance(reader, PushingStoreReader)
    reader.pushFilters([EqualTo(("topic",), "odd")])
    reader.partitions()
    pickle.dumps(reader)
    assert looks == ["__init__", "plan"]


def test_filters_only_narrow_the_selection() -> None:
    def topics(given: QueueWishes | None, *filters: Filter) -> QueueWishes | None:
        return narrow(Selection(topics=given), list(filters)).topics

    of_a, of_b = EqualTo(("topic",), "A"), EqualTo(("topic",), "B")
    queue_1, fourth = EqualTo(("queueId",), 1), EqualTo(("queueOffset",), 4)
    assert topics(None, of_a) == {"A": None}
    assert topics(None, queue_1, fourth) is None
    # A queue without files may have messages that it does not list yet.
    assert topics(None, of_a, fourth) == {"A": {-1: (4, 5)}}
    assert topics(None, of_a, queue_1) == {"A": {1: (0, 2**63 - 1)}}
    assert topics({"A": {-1: (0, 9), 0: (3, 9)}}, of_b) == {}
    assert topics({"A": {-1: (0, 9), 0: (3, 9)}}, queue_1, fourth) == {"A": {1: (4, 5)}}
    assert topics({"A": {0: (3, 9)}}, queue_1) == {"A": {}}
    assert topics({"A": {0: (3, 9)}}, EqualNullSafe(("queueOffset",), None)) == {"A": {0: (3, 9)}}
    assert topics({"A": {0: (3, 9)}}, fourth, LessThan(("queueOffset",), 4)) == {"A": {0: (4, 4)}}
    assert topics({"A": {0: (3, 9)}}, EqualTo(("queueId",), -1)) == {"A": {}}
    assert topics({"A": None}, GreaterThan(("queueOffset",), 2**63 - 1)) == {
        "A": {-1: (2**63 - 1, 2**63 - 1)}
    }
    for ms in range(1_700_000_000_000, 1_700_000_001_000):
        moment = datetime.fromtimestamp(ms // 1000, UTC) + timedelta(milliseconds=ms % 1000)
        narrowed = narrow(Selection(), [LessThanOrEqual(("storeTimestamp",), moment)])
        assert narrowed.end_ms == ms + 1


def test_the_formats_are_found_without_registration(
    spark: SparkSession, store: Path, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    fresh = spark.newSession()  # A session in which register was not called.
    assert numbers(table(fresh, store, topics="odd")) == list(range(1, COUNT, 2))
    topic = new_topic(cluster)
    rows = fresh.createDataFrame([("hello",)], "body string")
    options = {"nameServer": cluster.address, "topic": topic}
    rows.write.format("rocketmq").mode("append").options(**options).save()
    (row,) = fresh.read.format("rocketmq").options(**options).load().collect()
    assert bytes(row.body) == b"hello"
