"""Requests that a broker relays to clients: they carry no credentials of the requester."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq._native import Command, dumps_lenient
from orbitmq.protocol.codes import RequestCode
from orbitmq.testing import LocalCluster

from .conftest import broker_address, send_ext
from .test_acl import Signed

ACCOUNTS = """
accounts:
  - {accessKey: manager1, secretKey: s3cret-s3cret, admin: true}
  - {accessKey: consumer1, secretKey: consumer-secret, topicPerms: [t=SUB], groupPerms: [g=SUB]}
"""
ASKED = {
    RequestCode.GET_CONSUMER_RUNNING_INFO: {"jstackEnable": "false"},
    RequestCode.CONSUME_MESSAGE_DIRECTLY: {"brokerName": "broker-a"},
}
MORE = {"accessKey2": "x", "admin": "true", "secretKey": "chosen-secret", "SecurityToken": "t"}


@pytest.fixture(params=["false", "true"], ids=["as in 4.9.7", "strict"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    settings = {"aclEnable": "true", "rocketmqHome": str(tmp_path), "aclStrict": request.param}
    with LocalCluster(settings=settings) as running:
        yield running


@pytest.mark.parametrize("code", ASKED)
def test_a_relayed_request_has_no_credentials_of_the_requester(
    cluster: LocalCluster, code: RequestCode
) -> None:
    manager = Signed(broker_address(cluster), "json", "manager1", "s3cret-s3cret")
    consumer = Signed(broker_address(cluster), "json", "consumer1", "consumer-secret")
    group = {"groupName": "g", "subscriptionDataSet": [{"topic": "t"}]}
    body = dumps_lenient({"clientID": "c1", "consumerDataSet": [group]})
    consumer.signed(RequestCode.HEART_BEAT, None, body)
    assert consumer.next_push().code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    sent = manager.signed(RequestCode.SEND_MESSAGE, send_ext("t"), b"x")
    defined = {"consumerGroup": "g", "clientId": "c1"} | ASKED[code]
    if code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
        defined["msgId"] = sent.get_ext("msgId") or ""
    pushed: list[Command] = []

    def serve() -> None:
        pushed.append(consumer.next_push())
        consumer.send_command(Command(0, opaque=pushed[0].opaque, flag=1, body=b"{}"))

    thread = threading.Thread(target=serve)
    thread.start()
    answer = manager.signed(code, defined | MORE, b"a body of the asker's")
    thread.join()
    assert answer.code == 0, answer.remark
    assert pushed[0].ext == defined
    assert b"asker" not in pushed[0].body
    manager.close()
    consumer.close()
