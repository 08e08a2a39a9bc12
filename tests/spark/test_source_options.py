"""Options: every mistake is one line that names it, and no secret is ever shown."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from orbitmq import storelog
from orbitmq.errors import ConfigError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.hooks import prepare
from orbitmq.remoting.tls import Tls
from orbitmq.spark import schema as spark_schema
from orbitmq.spark.offsets import EARLIEST, LATEST
from orbitmq.spark.options import ConnectionOptions, Options
from orbitmq.spark.schema import message_schema
from orbitmq.spark.source.data_source import RocketMQSource
from orbitmq.spark.source.options import SOURCE_OPTIONS, SourceOptions
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import frame, send

BASE = {"nameServer": "127.0.0.1:9876", "subscribe": "orders"}


def read(streaming: Any = False, **options: str) -> SourceOptions:
    given = {name.replace("__", "."): text for name, text in options.items()}
    return SourceOptions.of(BASE | given, streaming=streaming)


def test_options_have_their_documented_defaults() -> None:
    options = read()
    assert options.connection.nameservers == ("127.0.0.1:9876",)
    assert options.topics.names == ("orders",)
    assert (options.starting.default, options.ending.default) == (EARLIEST, LATEST)
    assert read(streaming=True).starting.default == LATEST
    assert options.fail_on_data_loss
    assert options.limits.max_delay_ms == 15 * 60_000
    assert options.columns is None
    assert not options.push_filters


def test_option_names_have_several_spellings() -> None:
    options = SourceOptions.of(
        {
            "namesrvaddr": "a:1;b:2",
            "TOPIC": "x, y",
            "FailOnDataLoss": "FALSE",
            "maxTriggerDelay": "2m",
            "maxBytesPerTrigger": "64MB",
            "columns": "BODY,topic",
            "tags": "*",
        },
        streaming=True,
    )
    assert options.connection.nameservers == ("a:1", "b:2")
    assert options.topics.names == ("x", "y")
    assert not options.fail_on_data_loss
    assert options.limits.max_delay_ms == 120_000
    assert options.limits.max_bytes == 64 << 20
    assert options.columns == ("body", "topic")
    assert options.tags is None


def test_the_nameserver_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.1:9876")
    options = SourceOptions.of({"subscribe": "t"}, streaming=False)
    assert options.connection.nameservers == ("10.0.0.1:9876",)


def test_the_most_specific_start_option_wins() -> None:
    both = {"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"orders":{"b":{"0":7}}}'}
    assert read(**both, startingOffsets="earliest").starting.timestamp_ms == 5
    by_time = read(startingOffsetsByTimestamp=both["startingOffsetsByTimestamp"]).starting
    assert by_time.timestamps_ms == {MessageQueue("orders", "b", 0): 7}
    numbers = read(startingOffsets='{"orders":{"b":{"0":12}}}').starting
    assert numbers.offsets == {MessageQueue("orders", "b", 0): 12}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": ""}, "none is given"),
        ({"assign": '{"t":[0]}'}, "subscribe and assign are given"),
        ({"subscribePattern": "a.*"}, "subscribe and subscribePattern are given"),
        ({"topic": "other"}, "options subscribe and topic are the same thing"),
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribe": "", "subscribePattern": "("}, "not a regular expression"),
        ({"subscribe": "", "assign": "[1]"}, "not an object"),
        ({"subscribe": "", "assign": "{oops"}, "not JSON"),
        ({"subscribe": "", "assign": '{"t":{"b":[]}}'}, "needs queues"),
        ({"subscribe": "", "assign": '{"t":[-1]}'}, "not the number of a queue"),
        ({"startingOffsets": "sometime"}, "startingOffsets is earliest, latest or JSON"),
        ({"startingOffsets": '{"t":{"b":{"0":-3}}}'}, "not a number from -2 on"),
        ({"startingOffsets": '{"t":{"b":{"x":1}}}'}, "not the number of a queue"),
        ({"startingOffsets": '{"t":{"b":{"0":true}}}'}, "not a number"),
        ({"startingOffsets": "latest"}, "a batch would be empty"),
        ({"startingOffsets": '{"t":{"b":{"0":-1}}}'}, "for streams"),
        ({"endingOffsets": "earliest"}, "every batch empty"),
        ({"endingOffsets": '{"t":{"b":{"0":-2}}}'}, "the batch empty"),
        ({"startingTimestamp": "noon"}, "startingTimestamp is a whole number"),
        ({"startingTimestamp": "-1"}, "0 or more"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error or latest"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"brokerAbsenceStrategy": "pray"}, "fail or wait or skip"),
        ({"minPartitions": "0"}, "1 or more"),
        ({"maxRecordsPerPartition": "many"}, "whole number"),
        ({"maxTriggerDelay": "soon"}, "a time such as"),
        ({"maxBytesPerTrigger": "0"}, "a size such as"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "more than"),
        ({"tags": "a", "sql": "b > 1"}, "two kinds of filter"),
        ({"tags": "||"}, "option tags: '||' names no tag; it looks like"),
        ({"sql": "b >"}, "option sql: 'b >' is not a filter: Encountered"),
        ({"columns": "body,size"}, "no column 'size'"),
        ({"nameServer": "a:1,b:2"}, "'a:1,b:2' is not one address of the form host:port; put ;"),
        ({"nameServer": "127.0.0.1:99999"}, "'127.0.0.1:99999' is not an address"),
        ({"startingTimestamp": "9" * 20}, "option startingTimestamp is below 2^63"),
        ({"startingOffsets": '{"t": {"0": %s}}' % ("9" * 20)}, "below 2^63"),
        ({"columns": "body,Body"}, "column 'Body' is named twice"),
        ({"commitOffsets": "always"}, "none or progress"),
        ({"commitOffsets": "progress"}, "name it with consumerGroup"),
        ({"nameServer": "no-port"}, "nameserver address"),
        ({"accessKey": "a"}, "options accessKey and secretKey belong together"),
        ({"tls": "false", "tlsCaFile": "ca.pem"}, "but tls is false"),
        ({"tlsCaFile": "/no/such/file"}, "TLS cannot be set up"),
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"colour": "red"}, "has no option 'colour'"),
        ({"fetchOffset__numRetries": "-1"}, "0 or more"),
        ({"prefetch": "0"}, "1 or more"),
    ],
)
def test_every_mistake_is_one_line_with_its_option(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**options)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_ending_options_are_refused_for_streams(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is for batch reads"):
        read(streaming=True, **{name: "5"})


def test_a_missing_nameserver_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigError, match="option nameServer is missing"):
        SourceOptions.of({"subscribe": "t"}, streaming=False)


SECRETS = {
    "accessKey": "AK-hidden",
    "secretKey": "SK-hidden",
    "securityToken": "ST-hidden",
}


def test_secrets_are_never_shown() -> None:
    options = read(**SECRETS)
    assert "hidden" not in repr(options)
    assert "hidden" not in repr(options.connection)
    copied: Any = pickle.loads(pickle.dumps(options))
    assert copied.connection.secret_key == "SK-hidden"

    def refuse() -> None:
        with options.connection.hiding_secrets():
            try:
                raise ValueError("AK-hidden is not known")
            except ValueError as cause:
                raise RuntimeError("refused: SK-hidden", "ST-hidden") from cause

    with pytest.raises(RuntimeError) as caught:
        refuse()
    assert "hidden" not in repr(caught.value)
    assert "hidden" not in repr(caught.value.__cause__)


def test_connection_options_become_client_settings() -> None:
    given = Options(BASE | SECRETS | {"tlsVerify": "false"}, SOURCE_OPTIONS, "a source")
    settings = ConnectionOptions.of(given).client_settings()
    assert settings.access_key == "AK-hidden"
    assert settings.tls == Tls(verify=False)
    assert settings.make_tls() is not None
    sent = prepare(settings.make_hooks(), RequestCode.PULL_MESSAGE, {"topic": "t"}, None)
    assert sent is not None
    assert (sent["AccessKey"], sent["SecurityToken"]) == ("AK-hidden", "ST-hidden")
    assert sent["Signature"]


def test_schemas_other_than_messages_are_refused() -> None:
    source = RocketMQSource(dict(BASE))
    for field, text in (
        (StructField("size", IntegerType()), "no column 'size'"),
        (StructField("body", StringType()), "body is binary"),
        (StructField("topic", StringType(), nullable=False), "may be null"),
    ):
        with pytest.raises(ConfigError, match=text):
            source.reader(StructType([field]))


def test_errors_of_a_query_are_one_line_without_secrets(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=1)
    send(cluster, topic, ["a"])
    with pytest.raises(Exception, match="did you mean minPartitions") as caught:
        frame(spark, cluster, topic, minPartition=3, **SECRETS)
    assert "hidden" not in str(caught.value)
    # An absent nameserver: requested once, in the planner, before any task.
    quick = {"fetchOffset__numRetries": 0, "timeoutMs": 500}
    with pytest.raises(Exception, match="no nameserver answers") as caught:
        frame(spark, "127.0.0.1:1", topic, **SECRETS, **quick).count()
    assert "hidden" not in str(caught.value)
    plan = frame(spark, cluster, topic, **SECRETS)._jdf.queryExecution().toString()
    assert "hidden" not in plan


@pytest.mark.parametrize(
    ("streaming", "options", "told"),
    [
        (False, {"maxOffsetsPerTrigger": "10"}, ["maxOffsetsPerTrigger"]),
        (
            False,
            {
                "MAXBYTESPERTRIGGER": "1m",
                "minOffsetsPerTrigger": "3",
                "maxTriggerDelay": "1m",
                "maxBrokerAbsence": "5m",
                "brokerAbsenceStrategy": "wait",
                "commitOffsets": "progress",
                "consumerGroup": "g",
            },
            [
                *("maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
                *("maxBrokerAbsence", "brokerAbsenceStrategy", "commitOffsets"),
            ],
        ),
        (True, {"pushFilters": "true"}, ["pushFilters"]),
        (False, {"commitOffsets": "none", "pushFilters": "true", "minPartitions": "4"}, []),
        (True, {"pushFilters": "false", "maxOffsetsPerTrigger": "10"}, []),
    ],
)
def test_options_without_effect_are_logged_in_one_line(
    streaming: bool, options: dict[str, str], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    source = RocketMQSource(BASE | options)
    with caplog.at_level(logging.WARNING):
        (source.streamReader if streaming else source.reader)(source.schema())
    if not told:
        assert not caplog.records
        return
    (line,) = caplog.records
    assert f" {', '.join(told)} ha" in line.getMessage()
    assert "no effect" in line.getMessage()


def test_columns_that_contradict_the_schema_are_refused() -> None:
    source = RocketMQSource(BASE | {"columns": "body,topic"})
    for schema in (source.schema(), message_schema(["topic", "body"])):
        source.reader(schema)
        source.streamReader(schema)
    for schema in (message_schema(), message_schema(["body"])):
        for make in (source.reader, source.streamReader):
            with pytest.raises(ConfigError, match="give one of them"):
                make(schema)


def test_spark_and_arrow_have_the_same_columns() -> None:
    assert tuple(spark_schema.COLUMNS) == storelog.COLUMNS
