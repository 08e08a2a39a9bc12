"""Access control: unsigned, forged, replayed and forbidden requests.

In either encoding of headers, over plain connections and over TLS.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq._native import Command, dumps_lenient
from orbitmq.acl.accounts import address_pattern
from orbitmq.acl.files import AccountFiles
from orbitmq.broker import app
from orbitmq.errors import ConfigError
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.hooks import signing
from orbitmq.remoting.tls import Tls, client_context
from orbitmq.testing import LocalCluster

from .conftest import Encoding, Wire, broker_address, pull_ext, send_ext

ACCOUNTS = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: shopkeeper
    secretKey: 012345678
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms: [orders=PUB|SUB, prices=SUB, news=PUB]
    groupPerms: [clerks=SUB]
  - accessKey: manager1
    secretKey: s3cret-s3cret
    admin: true
  - accessKey: neighbour
    secretKey: neighbour1
    whiteRemoteAddress: 192.168.1.*
    defaultTopicPerm: PUB
"""
ACL_ERROR = "org.apache.rocketmq.acl.common.AclException: "


@pytest.fixture
def home(tmp_path: Path) -> Path:
    conf = tmp_path / "home" / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    return conf.parent


@pytest.fixture
def cluster(home: Path) -> Iterator[LocalCluster]:
    settings = {"aclEnable": "true", "rocketmqHome": str(home)}
    with LocalCluster(settings=settings) as running:
        yield running


class Signed(Wire):
    """A client that signs its requests."""

    def __init__(
        self,
        address: str,
        encoding: Encoding,
        key: str,
        secret: str,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(address, encoding, tls)
        self.key = key
        self._sign = signing(key, secret)

    def signed(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        given = dict(ext or {})
        self._sign(code, given, body)
        return self.ask(code, given, body)


Login = Callable[[str, str], Signed]


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest) -> ssl.SSLContext | None:
    return client_context(Tls(verify=False) if request.param == "tls" else False)


@pytest.fixture
def login(cluster: LocalCluster, encoding: Encoding, tls: ssl.SSLContext | None) -> Iterator[Login]:
    made: list[Signed] = []

    def make(key: str, secret: str) -> Signed:
        made.append(Signed(broker_address(cluster), encoding, key, secret, tls))
        return made[-1]

    yield make
    for wire in made:
        wire.close()


@pytest.fixture
def shopkeeper(login: Login) -> Signed:
    return login("shopkeeper", "012345678")


@pytest.fixture
def manager(login: Login) -> Signed:
    return login("manager1", "s3cret-s3cret")


def refused(answer: Command, text: str) -> None:
    assert (answer.code, answer.remark) == (1, ACL_ERROR + text)


def send(wire: Signed, topic: str, body: bytes = b"x", **changes: str) -> Command:
    return wire.signed(RequestCode.SEND_MESSAGE, send_ext(topic, **changes), body)


def pull(wire: Signed, topic: str, group: str) -> Command:
    return wire.signed(RequestCode.PULL_MESSAGE, pull_ext(topic, 0, consumerGroup=group))


def test_a_signed_request_of_an_account_with_rights_is_served(shopkeeper: Signed) -> None:
    assert send(shopkeeper, "orders", "grün".encode(), properties="näme\x01välue").code == 0
    assert pull(shopkeeper, "orders", "clerks").code == 0


def test_unsigned_requests_are_refused(login: Login) -> None:
    wire = login("nobody", "signs-nothing")
    refused(wire.send("orders"), "No accessKey is configured")
    refused(wire.ask(RequestCode.GET_BROKER_CONFIG), "No accessKey is configured")
    refused(wire.ask(9999), "No accessKey is configured")
    ext = send_ext("orders") | {"AccessKey": "shopkeeper"}
    unsigned = wire.ask(RequestCode.SEND_MESSAGE, ext, b"x")
    refused(unsigned, "Check signature failed for accessKey=shopkeeper")


def test_requests_signed_with_a_wrong_key_are_refused(login: Login) -> None:
    wrong = login("shopkeeper", "012345679")
    refused(send(wrong, "orders"), "Check signature failed for accessKey=shopkeeper")
    refused(send(login("stranger", "012345678"), "orders"), "No acl config for stranger")
    zeros_gone = login("shopkeeper", "12345678")
    refused(send(zeros_gone, "orders"), "Check signature failed for accessKey=shopkeeper")


@pytest.mark.parametrize("what", ["body", "field", "added", "removed", "code"])
def test_a_signature_is_refused_when_the_request_was_changed(shopkeeper: Signed, what: str) -> None:
    code, ext, body = int(RequestCode.SEND_MESSAGE), send_ext("orders", flag="7"), b"pay 10"
    shopkeeper._sign(code, ext, body)
    assert shopkeeper.ask(code, ext, body).code == 0
    if what == "body":
        body = b"pay 99"
    elif what == "field":
        ext["topic"] = "news"
    elif what == "added":
        ext["unitMode"] = "true"
    elif what == "removed":
        del ext["flag"]
    else:
        # The request code is not signed, so its own permission is checked as well.
        answer = shopkeeper.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext, body)
        assert (answer.remark or "").startswith(ACL_ERROR + "Need admin permission")
        return
    refused(shopkeeper.ask(code, ext, body), "Check signature failed for accessKey=shopkeeper")


def test_requests_outside_the_rights_of_an_account_are_refused(shopkeeper: Signed) -> None:
    refused(send(shopkeeper, "prices"), "No default permission for topic:prices")
    refused(send(shopkeeper, "secrets"), "No default permission for topic:secrets")
    refused(pull(shopkeeper, "news", "clerks"), "No default permission for topic:news")
    refused(pull(shopkeeper, "orders", "spies"), "No default permission for group:spies")
    consumer = {"groupName": "clerks", "subscriptionDataSet": [{"topic": "news"}]}
    body = dumps_lenient({"clientID": "c", "consumerDataSet": [consumer]})
    heartbeat = shopkeeper.signed(RequestCode.HEART_BEAT, None, body)
    refused(heartbeat, "No default permission for topic:news")
    query = {"topic": "news", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"}
    refused(
        shopkeeper.signed(RequestCode.QUERY_MESSAGE, query), "No default permission for topic:news"
    )


@pytest.mark.parametrize("signs_it", [True, False])
def test_queries_of_old_and_new_clients_are_checked(shopkeeper: Signed, signs_it: bool) -> None:
    query = {
        "topic": "orders", "key": "k", "maxNum": "1",
        "beginTimestamp": "0", "endTimestamp": "1",
    }  # fmt: skip
    mark = {"_UNIQUE_KEY_QUERY": "true"}
    ext = query | mark if signs_it else query
    shopkeeper._sign(RequestCode.QUERY_MESSAGE, ext, b"")
    answer = shopkeeper.ask(RequestCode.QUERY_MESSAGE, ext | mark)
    assert not (answer.remark or "").startswith(ACL_ERROR), answer.remark


def test_administrative_requests_need_an_administrator(shopkeeper: Signed, manager: Signed) -> None:
    topic = {
        "topic": "made", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1",
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    refused(
        shopkeeper.signed(RequestCode.UPDATE_AND_CREATE_TOPIC, topic),
        "Need admin permission for request code=17, but accessKey=shopkeeper is not",
    )
    assert manager.signed(RequestCode.UPDATE_AND_CREATE_TOPIC, topic).code == 0
    assert send(manager, "made").code == 0


def test_every_account_may_write_the_trace_topic(shopkeeper: Signed) -> None:
    assert send(shopkeeper, "RMQ_SYS_TRACE_TOPIC").code == 0


def test_batches_are_checked_by_a_strict_broker(home: Path, encoding: Encoding) -> None:
    for strict in ("false", "true"):
        settings = {"aclEnable": "true", "rocketmqHome": str(home), "aclStrict": strict}
        with LocalCluster(settings=settings) as cluster:
            wire = Signed(broker_address(cluster), encoding, "shopkeeper", "012345678")
            short = {"a": "p", "b": "secrets", "e": "0", "f": "0", "g": "0", "h": "0", "m": "true"}
            answer = wire.signed(RequestCode.SEND_BATCH_MESSAGE, short, b"")
            is_refused = (answer.remark or "").startswith(ACL_ERROR)
            assert is_refused is (strict == "true")
            wire.close()


def guarded(home: Path, strict: bool) -> LocalCluster:
    settings = {"aclEnable": "true", "rocketmqHome": str(home), "aclStrict": str(strict).lower()}
    return LocalCluster(settings=settings)


REPLIES = {RequestCode.SEND_REPLY_MESSAGE: "topic", RequestCode.SEND_REPLY_MESSAGE_V2: "b"}


@pytest.mark.parametrize("strict", [False, True])
def test_replies_are_checked_by_a_strict_broker(
    home: Path, encoding: Encoding, strict: bool
) -> None:
    with guarded(home, strict) as cluster:
        wire = Signed(broker_address(cluster), encoding, "shopkeeper", "012345678")
        for code, field in REPLIES.items():
            for topic, is_allowed in (("news", True), ("secrets", False), ("%RETRY%g", False)):
                remark = wire.signed(code, {field: topic}).remark or ""
                is_refused = remark.startswith(ACL_ERROR)
                assert is_refused is (strict and not is_allowed), (code, topic, remark)
        wire.close()


@pytest.mark.parametrize("strict", [False, True])
def test_viewing_a_message_by_id_is_checked_by_a_strict_broker(
    home: Path, encoding: Encoding, strict: bool
) -> None:
    with guarded(home, strict) as cluster:
        manager = Signed(broker_address(cluster), encoding, "manager1", "s3cret-s3cret")
        shopkeeper = Signed(broker_address(cluster), encoding, "shopkeeper", "012345678")
        for topic, is_allowed in (("prices", True), ("news", False), ("secrets", False)):
            sent = send(manager, topic)
            place = {"offset": str(int((sent.get_ext("msgId") or "")[-16:], 16))}
            assert manager.signed(RequestCode.VIEW_MESSAGE_BY_ID, place).code == 0
            remark = shopkeeper.signed(RequestCode.VIEW_MESSAGE_BY_ID, place).remark or ""
            is_refused = remark.startswith(ACL_ERROR)
            assert is_refused is (strict and not is_allowed), (topic, remark)
        nowhere = shopkeeper.signed(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "999999"})
        assert nowhere.remark == "can not find message by the offset, 999999"
        manager.close()
        shopkeeper.close()


# ---- Account files


def changed(path: Path, text: str) -> None:
    path.write_text(text)
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))


def test_changed_accounts_take_effect_in_a_running_broker(
    cluster: LocalCluster, home: Path, login: Login, shopkeeper: Signed,
    on_broker: Callable[[Callable[[], Any]], Any],
) -> None:  # fmt: skip
    (broker,) = cluster.brokers.values()
    path = home / "conf" / "plain_acl.yml"
    changed(path, ACCOUNTS.replace("012345678", "another-secret"))
    (home / "conf" / "acl").mkdir()
    more = "accounts: [{accessKey: latecomer, secretKey: latecomer1, defaultTopicPerm: PUB}]"
    (home / "conf" / "acl" / "more.yml").write_text(more)
    assert broker.accounts is not None
    on_broker(broker.accounts.reload)
    refused(send(shopkeeper, "orders"), "Check signature failed for accessKey=shopkeeper")
    assert send(login("shopkeeper", "another-secret"), "orders").code == 0
    assert send(login("latecomer", "latecomer1"), "orders").code == 0
    changed(path, "accounts: [")
    on_broker(broker.accounts.reload)
    assert send(login("shopkeeper", "another-secret"), "orders").code == 0, "the old file stays"
    changed(path, "globalWhiteRemoteAddresses: [127.0.0.1]")
    on_broker(broker.accounts.reload)
    assert shopkeeper.send("orders").code == 0, "without any signature"


def test_account_files_are_reread_when_they_change(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "RELOAD_S", 0.02)
    settings = {"aclEnable": "true", "rocketmqHome": str(home)}
    with LocalCluster(settings=settings) as cluster:
        wire = Signed(broker_address(cluster), "json", "shopkeeper", "another-secret")
        refused(send(wire, "orders"), "Check signature failed for accessKey=shopkeeper")
        path = home / "conf" / "plain_acl.yml"
        changed(path, ACCOUNTS.replace("012345678", "another-secret"))
        deadline = time.monotonic() + 40
        while send(wire, "orders").code != 0:
            assert time.monotonic() < deadline, "the new file is not read"
            time.sleep(0.02)
        wire.close()


def test_a_broken_account_file_prevents_the_start(home: Path) -> None:
    path = home / "conf" / "plain_acl.yml"
    for text in (
        "accounts: [",
        "accounts: [{accessKey: short, secretKey: 12345678}]",
        "globalWhiteRemoteAddresses: [10.1.2.3-1]",
        "accounts: [{accessKey: shopkeeper, secretKey: 12345678, topicPerms: [orders]}]",
        "[]",
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"plain_acl\.yml"):
            AccountFiles(home)
    with pytest.raises(ConfigError, match="rocketmqHome"):
        AccountFiles(None)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("", [], ["10.1.2.3"]),
        ("*", ["10.1.2.3", "fe80::1"], []),
        ("10.1.2.3", ["10.1.2.3"], ["10.1.2.4"]),
        ("10.1.2.3,10.1.2.5", ["10.1.2.5"], ["10.1.2.4"]),
        ("10.1.2.{3,5}", ["10.1.2.3"], ["10.1.2.4"]),
        ("10.1.*.*", ["10.1.9.9"], ["10.2.1.1"]),
        ("10.1.2.*", ["10.1.2.9"], ["10.1.3.9"]),
        ("10.1.1-20.*", ["10.1.20.1"], ["10.1.21.1"]),
        ("10.1.2.1-100", ["10.1.2.100"], ["10.1.2.101", "nonsense"]),
        ("fe80::1", ["fe80:0:0:0:0:0:0:1"], ["fe80::2"]),
        ("fe80:1:2-f:*", ["fe80:1:a::1"], ["fe80:1:10::1", "10.1.2.3"]),
    ],
)
def test_address_patterns_match_only_addresses_inside_them(
    pattern: str, inside: list[str], outside: list[str]
) -> None:
    matches = address_pattern(pattern)
    assert all(matches(address) for address in inside)
    assert not any(matches(address) for address in outside)


@pytest.mark.parametrize(
    "pattern", ["10.1", "10.1.2.300", "10.1.2.9-3", "*.1.2.3", "10.1.{1,2}", "x"]
)
def test_invalid_address_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ConfigError):
        address_pattern(pattern)


@pytest.mark.parametrize("strict", [False, True])
def test_a_broker_without_strict_checks_warns_at_the_start(
    home: Path, strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with guarded(home, strict):
        pass
    warned = [one for one in caplog.messages if "make itself an administrator" in one]
    assert len(warned) == (not strict)
