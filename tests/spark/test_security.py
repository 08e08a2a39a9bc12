"""Accounts and TLS: the source and the sink against brokers with access control."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from orbitmq import Admin, Message, NewMessage, Producer
from orbitmq.remoting.tls import Tls
from orbitmq.spark.pipelines import Exit, parse, run
from orbitmq.testing import LocalCluster
from tests.certificates import Authority
from tests.spark.recording import Recorder
from tests.spark.source_fixtures import bodies, frame, run_available, stream, written
from tests.spark.topics import bodies_in

SECRET = "open-sesame-77"
TOPIC = "guarded"
ACCOUNTS = f"""
globalWhiteRemoteAddresses: []
accounts:
- accessKey: operator
  secretKey: {SECRET}-of-the-operator
  admin: true
- accessKey: pipeline
  secretKey: {SECRET}
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  admin: false
  topicPerms:
  - {TOPIC}=PUB|SUB
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """A cluster that requires TLS, a client certificate and an account."""
    home = tmp_path_factory.mktemp("home")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    operator = authority.sign("operator")
    settings = {
        "aclEnable": "true",
        "aclStrict": "true",
        "rocketmqHome": str(home),
        "tls.enable": "true",
    }
    keys: dict[str, Any] = {"access_key": "operator", "secret_key": f"{SECRET}-of-the-operator"}
    tls = Tls(ca_file=str(authority.cert), cert_file=str(operator.cert), key_file=str(operator.key))
    with LocalCluster(settings=settings | authority.cluster_settings()) as running:
        with Admin(running.address, tls=tls, **keys) as admin:
            for topic in (TOPIC, "forbidden"):
                admin.create_topic(topic, queues=2)
        with Producer(running.address, group="operators", tls=tls, **keys) as producer:
            producer.send(Message("forbidden", b"not for everybody"))
        yield running


@pytest.fixture(scope="module")
def known(authority: Authority) -> dict[str, str]:
    """Return the credentials of a pipeline."""
    own = authority.sign("pipeline", f"{SECRET}-of-the-key")
    return {
        "accessKey": "pipeline",
        "secretKey": SECRET,
        "securityToken": f"{SECRET}-of-the-hour",
        "tlsCaFile": str(authority.cert),
        "tlsCertFile": str(own.cert),
        "tlsKeyFile": str(own.key),
        "tlsKeyPassword": f"{SECRET}-of-the-key",
    }


def test_a_permitted_account_writes_reads_and_streams(
    spark: SparkSession, guarded: LocalCluster, known: dict[str, str], tmp_path: Path
) -> None:
    rows = spark.range(300).selectExpr("string(id) AS body")
    writer = rows.write.format("rocketmq").mode("append")
    options = {"nameServer": guarded.address, "topic": TOPIC, **known}
    writer.options(deduplicate="true", **options).save()
    sent = [str(number) for number in range(300)]
    assert bodies_in(guarded, TOPIC) == Counter(text.encode() for text in sent)
    for bulk in ("true", "false"):
        assert bodies(frame(spark, guarded, TOPIC, bulkRead=bulk, **known)) == sorted(sent)
    progress = {"consumerGroup": "reporting", "commitOffsets": "progress"}
    source = stream(spark, guarded, TOPIC, startingOffsets="earliest", **progress, **known)
    run_available(source, tmp_path)
    assert bodies(written(spark, tmp_path)) == sorted(sent)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"secretKey": "wrong"}, "Check signature failed"),
        ({"accessKey": "stranger"}, "No acl config for"),
        ({"tlsCaFile": ""}, "certificate verify failed"),
        ({"tls": "false"}, "no nameserver answers"),
        ({"tlsCertFile": "", "tlsKeyFile": "", "tlsKeyPassword": ""}, "no nameserver answers"),
        ({"tlsKeyPassword": f"{SECRET}-of-another"}, "TLS cannot be set up"),
        ({"subscribe": "forbidden"}, "No default permission"),
        ({"subscribe": "forbidden", "bulkRead": "false"}, "No default permission"),
    ],
)
def test_an_unknown_client_is_refused_without_showing_secrets(
    spark: SparkSession,
    guarded: LocalCluster,
    known: dict[str, str],
    changed: dict[str, str],
    reason: str,
) -> None:
    options = {"subscribe": TOPIC, "tls": "true", **known, **changed}
    if changed.get("tls") == "false":
        options = {
            name: text for name, text in options.items() if name == "tls" or "tls" not in name
        }
    with pytest.raises(Exception, match=reason) as raised:
        frame(spark, guarded, None, fetchOffset__numRetries=0, timeoutMs=5000, **options).collect()
    assert SECRET not in str(raised.value)


def test_dead_letters_return_to_the_cluster_they_were_read_from(
    spark: SparkSession, guarded: LocalCluster, authority: Authority, tmp_path: Path
) -> None:
    """With the trace, over TLS, as an account; the environment names another cluster."""
    own = authority.sign("redriver")
    options = {
        "NAMESRVADDR": guarded.address,
        "accesskey": "${KEY}",
        "SecretKey": "${SECRET}",
        "tlsCaFile": str(authority.cert),
        "tlscertfile": str(own.cert),
        "tlsKeyFile": str(own.key),
    }
    (broker,) = guarded.brokers.values()
    keys: dict[str, Any] = {"access_key": "operator", "secret_key": f"{SECRET}-of-the-operator"}
    tls = Tls(ca_file=str(authority.cert), cert_file=str(own.cert), key_file=str(own.key))
    with Admin(guarded.address, tls=tls, **keys) as admin:
        for topic in ("%DLQ%billing", "%RETRY%billing", "traces"):
            admin.create_topic(topic, queues=1)
    host = ("127.0.0.1", 1)
    placed: dict[str, Any] = {"queue_id": 0, "born_timestamp": 1}
    placed |= {"born_host": host, "store_host": host}
    records = "SubBefore\x011\x01r\x01billing\x01R\x01U\x010\x01k\x02"
    records += "SubAfter\x01R\x01U\x015\x01false\x01k\x012\x02"
    broker.store.append(NewMessage("traces", records.encode(), properties={}, **placed))
    known = {"RETRY_TOPIC": TOPIC, "UNIQ_KEY": "U"}
    broker.store.append(NewMessage("%DLQ%billing", b"dead", properties=known, **placed))
    tree = {"kind": "dead-letters", "trace": True, "trace_topic": "traces", "options": options}
    environment = {
        "NAMESRV_ADDR": "127.0.0.1:1",
        "KEY": "operator",
        "SECRET": f"{SECRET}-of-the-operator",
    }
    loaded = parse(
        tree | {"redrive": {"ledger": "ledger"}},
        file=tmp_path / "dead.toml",
        environment=environment,
    )
    recorder = Recorder()
    assert (run(loaded, spark, recorder), recorder.failures) == (Exit.DONE, [])
    (report,) = recorder.reports
    assert report.facts == {"messages": 1, "redriven": 1}
    assert report.tables[0].as_dicts()[0]["cause"] == "gave up after 0 tries, the last: exception"
    assert bodies_in(guarded, "%RETRY%billing") == Counter([b"dead"])
