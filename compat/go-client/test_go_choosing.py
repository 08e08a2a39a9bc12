"""SQL filters, transactions and accounts with the Go client."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat.go_system import MakeSystem, StartGo, System

pytest_plugins = ["compat.go_fixtures"]

COUNT = 20
ACCOUNTS = """
accounts:
- accessKey: shopkeeper
  secretKey: 012345678
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms: [go-signed=PUB|SUB]
"""


@pytest.fixture
def choosing(make_system: MakeSystem) -> System:
    """A cluster that filters by properties and checks half messages soon."""
    return make_system(
        enablePropertyFilter="true", transactionCheckInterval="1000", transactionTimeOut="1000"
    )


def test_sql_selects_messages(go: StartGo, choosing: System) -> None:
    choosing.create_topic("go-sql")
    go("send", "go-sql", at=choosing, count=COUNT // 2).finish()
    sql = "number BETWEEN 3 AND 5 OR number = '7' OR number > 15"
    consumer = go("push", "go-sql", at=choosing, group="g-sql", sql=sql).ready()
    go("send", "go-sql", at=choosing, first=COUNT // 2, count=COUNT // 2).finish()
    wanted = {3, 4, 5, 7, 16, 17, 18, 19}
    consumer.until_got(wanted)
    consumer.stop()
    assert consumer.numbers() == wanted


def test_transactions_are_committed_rolled_back_and_checked(go: StartGo, choosing: System) -> None:
    choosing.create_topic("go-transactions")
    consumer = go("push", "go-transactions", at=choosing, group="g-transactions")
    producer = go(
        "send", "go-transactions", at=choosing, group="deciders", mode="transaction", count=COUNT
    )
    # Half of them at once, the others after the check of the producer.
    wanted = {number for number in range(COUNT) if number % 4 in (0, 2)}
    consumer.until_got(wanted)
    producer.stop()
    consumer.stop()
    assert not producer.errors
    assert consumer.numbers() == wanted


def test_only_signed_clients_are_served(
    go: StartGo, make_system: MakeSystem, tmp_path: Path
) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    guarded = make_system(aclEnable="true", rocketmqHome=str(tmp_path))
    keys = {"access_key": "shopkeeper", "secret_key": "012345678"}
    sent = go("send", "go-signed", at=guarded, count=COUNT, **keys).finish().sent
    assert len(sent) == COUNT
    consumer = go("push", "go-signed", at=guarded, group="g-signed", **keys)
    consumer.until_got(set(range(COUNT)))
    consumer.stop()
    for wrong in ({}, keys | {"secret_key": "012345679"}):
        refused = go("send", "go-signed", at=guarded, count=1, retries=0, **wrong).finish()
        assert not refused.sent
        assert "AclException" in refused.errors[0]
