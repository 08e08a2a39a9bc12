"""The table of request codes and rights, checked with accounts that have no or few rights.

The accounts of the attacks: the *victim* owns topic ``secrets`` and group ``clerks``; the *spy*
owns topic ``own`` and group ``spies``; the *guest* may read and write whatever is not said
otherwise, and may not touch ``secrets``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq._native import Command, decode_records, dumps_lenient, encode_record
from orbitmq.acl.demands import SIGNED
from orbitmq.acl.page import page
from orbitmq.acl.rules import BROKER_RULES, NAMESERVER_RULES, UNSERVED_CODES
from orbitmq.config import NameserverConfig
from orbitmq.nameserver import Nameserver
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import TRANS_HALF_TOPIC
from orbitmq.testing import LocalCluster

from .conftest import Wire, broker_address, pull_ext, send_ext
from .test_acl import ACL_ERROR, Signed

ACCOUNTS = """
accounts:
  - accessKey: nothing1
    secretKey: nothing-secret
  - accessKey: victim1
    secretKey: victim-secret
    topicPerms: [secrets=PUB]
    groupPerms: [clerks=SUB]
  - accessKey: reader1
    secretKey: reader-secret
    topicPerms: [secrets=SUB]
    groupPerms: [clerks=SUB]
  - accessKey: spy-spy
    secretKey: spy-secret
    topicPerms: [own=PUB|SUB]
    groupPerms: [spies=SUB]
  - accessKey: guest-1
    secretKey: guest-secret
    defaultTopicPerm: PUB|SUB
    defaultGroupPerm: SUB
    topicPerms: [secrets=DENY]
    groupPerms: [clerks=DENY]
  - accessKey: manager1
    secretKey: s3cret-s3cret
    admin: true
"""
SECRETS = {
    "nothing1": "nothing-secret", "victim1": "victim-secret", "reader1": "reader-secret",
    "spy-spy": "spy-secret", "guest-1": "guest-secret", "manager1": "s3cret-s3cret",
}  # fmt: skip
SETTINGS = {
    "aclEnable": "true",
    "aclStrict": "true",
    "transactionCheckInterval": "3600000",  # Tests run the rounds.
    "transactionTimeOut": "0",
}
HALF = "TRAN_MSG\x01true\x02PGROUP\x01makers\x02UNIQ_KEY\x01id"
COMMIT, ROLLBACK = "8", "12"

Login = Callable[[str], Signed]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    conf = tmp_path / "home" / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    settings = SETTINGS | {"rocketmqHome": str(conf.parent)}
    with LocalCluster(settings=settings, data=tmp_path / "data") as running:
        yield running


@pytest.fixture
def login(cluster: LocalCluster) -> Iterator[Login]:
    made: list[Wire] = []

    def make(key: str) -> Signed:
        wire = Signed(broker_address(cluster), "json", key, SECRETS[key])
        made.append(wire)
        return wire

    yield make
    for wire in made:
        wire.close()


def send(wire: Signed, topic: str, body: bytes = b"x", **changes: str) -> Command:
    return wire.signed(RequestCode.SEND_MESSAGE, send_ext(topic, **changes), body)


def place(sent: Command) -> int:
    assert sent.code == 0, sent.remark
    return int((sent.get_ext("msgId") or "")[-16:], 16)


def is_refused(answer: Command) -> bool:
    return answer.code == ResponseCode.SYSTEM_ERROR and (answer.remark or "").startswith(ACL_ERROR)


def begin(wire: Signed, topic: str, body: bytes = b"half") -> dict[str, str]:
    born = str(time.time_ns() // 1_000_000 - 10)
    sent = send(wire, topic, body, sysFlag="4", properties=HALF, bornTimestamp=born)
    return {
        "producerGroup": "makers",
        "tranStateTableOffset": sent.get_ext("queueOffset") or "",
        "commitLogOffset": str(place(sent)),
    }


def end(wire: Signed, half: dict[str, str], decision: str) -> Command:
    return wire.signed(RequestCode.END_TRANSACTION, half | {"commitOrRollback": decision})


def check_round(cluster: LocalCluster) -> None:
    (broker,) = cluster.brokers.values()
    last = broker.clock()
    while broker.clock() == last:  # Wait for the next millisecond.
        time.sleep(0.0005)
    cluster.run(broker.transaction_check.round())


# ---- The table of rights


def test_every_request_code_has_one_row_and_a_server(cluster: LocalCluster, tmp_path: Path) -> None:
    tables = [BROKER_RULES, NAMESERVER_RULES, UNSERVED_CODES]
    for code in RequestCode:
        assert sum(code in table for table in tables) == 1, f"{code!r} needs one row in rules.py"
    (broker,) = cluster.brokers.values()
    assert set(broker.router.codes) == set(BROKER_RULES)
    nameserver = Nameserver(NameserverConfig(kv_config_path=str(tmp_path / "kv")), hosts=())
    assert set(nameserver.router.codes) == set(NAMESERVER_RULES)
    assert all(rule.why for table in tables for rule in table.values())


def test_the_documentation_of_rights_equals_the_table() -> None:
    path = Path(__file__).parents[2] / "docs" / "rights.md"
    regenerate = "python -m orbitmq.acl.page > docs/rights.md"
    assert path.read_text() == page(), f"docs/rights.md is old: {regenerate}"


def everything_of_the_victims(login: Login) -> tuple[dict[str, str], bytes]:
    """Return fields and a body that name the victim's resources, for any request code."""
    victim = login("victim1")
    sent = send(victim, "secrets")
    ext = begin(victim, "secrets") | {
        "topic": "secrets", "b": "secrets", "group": "clerks", "consumerGroup": "clerks",
        "offset": str(place(sent)), "msgId": sent.get_ext("msgId") or "",
        "namespace": "ORBITMQ_SINK_BROKERS", "key": "sender@secrets", "a": "clerks",
    }  # fmt: skip
    body = {
        "clientID": "c",
        "consumerGroup": "clerks",
        "mqSet": [{"topic": "secrets", "brokerName": "broker-a", "queueId": 0}],
        "consumerDataSet": [{"groupName": "clerks"}],
    }
    return ext, dumps_lenient(body)


@pytest.mark.parametrize("account", ["nothing1", "spy-spy", "guest-1"])
def test_every_request_of_an_account_without_rights_is_refused(login: Login, account: str) -> None:
    ext, body = everything_of_the_victims(login)
    for code in RequestCode:
        wire = login(account)
        answer = wire.signed(code, ext, body)
        rule = BROKER_RULES.get(code)
        is_open = rule is not None and rule.strict is SIGNED
        assert is_refused(answer) is not is_open, f"{code!r}: {answer.remark}"


def test_every_unsigned_request_is_refused(cluster: LocalCluster, login: Login) -> None:
    ext, body = everything_of_the_victims(login)
    wire = Wire(broker_address(cluster))
    for code in RequestCode:
        assert is_refused(wire.ask(code, ext, body)), repr(code)
    wire.close()


# ---- Reading messages of others


def test_a_message_is_not_sent_back_to_a_group_that_may_not_read_it(login: Login) -> None:
    victim, spy, reader = login("victim1"), login("spy-spy"), login("reader1")
    offset = str(place(send(victim, "secrets", b"hush")))
    back = {"offset": offset, "delayLevel": "0"}
    code = RequestCode.CONSUMER_SEND_MSG_BACK
    assert is_refused(spy.signed(code, back | {"group": "spies"}))
    assert reader.signed(code, back | {"group": "clerks"}).code == 0
    own = back | {"offset": str(place(send(spy, "own"))), "group": "spies"}
    assert spy.signed(code, own).code == 0


def test_a_message_is_not_consumed_directly_by_a_group_that_may_not_read_it(login: Login) -> None:
    sent = send(login("victim1"), "secrets", b"hush")
    spy = login("spy-spy")
    consumer = {"groupName": "spies", "subscriptionDataSet": [{"topic": "own"}]}
    body = dumps_lenient({"clientID": "c", "consumerDataSet": [consumer]})
    assert spy.signed(RequestCode.HEART_BEAT, None, body).code == 0
    ext = {"consumerGroup": "spies", "clientId": "c", "msgId": sent.get_ext("msgId") or ""}
    assert is_refused(spy.signed(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext))


def hear_of_producer(wire: Signed, client_id: str = "c") -> None:
    body = {"clientID": client_id, "producerDataSet": [{"groupName": "makers"}]}
    assert wire.signed(RequestCode.HEART_BEAT, None, dumps_lenient(body)).code == 0


def test_only_permitted_producers_are_asked_about_a_transaction(
    cluster: LocalCluster, login: Login
) -> None:
    victim, spy, guest = login("victim1"), login("spy-spy"), login("guest-1")
    for wire in (spy, guest, victim):
        hear_of_producer(wire, wire.key)
    begin(victim, "secrets", b"hush")
    for _ in range(3):  # Members are asked in turn.
        check_round(cluster)
    for wire in (spy, guest):
        wire.signed(RequestCode.GET_BROKER_RUNTIME_INFO)  # Earlier pushes arrive first.
        assert wire.pushed == []
    for _ in range(3):
        pushed = victim.next_push()
        (half,) = decode_records(pushed.body)
        assert (half.topic, half.body) == ("secrets", b"hush")


def test_half_messages_of_others_are_shown_only_to_readers_of_the_topic(
    cluster: LocalCluster, login: Login
) -> None:
    """An account that may only write to the topic sees no body of another account."""
    guest, spy = login("guest-1"), login("spy-spy")
    hear_of_producer(guest)
    begin(spy, "own")
    check_round(cluster)
    pushed = guest.next_push()
    assert pushed.code == RequestCode.CHECK_TRANSACTION_STATE


def test_a_client_id_in_use_cannot_be_taken_over(login: Login) -> None:
    victim, spy, again = login("victim1"), login("spy-spy"), login("victim1")
    hear_of_producer(victim)
    body = dumps_lenient({"clientID": "c", "producerDataSet": [{"groupName": "any"}]})
    refused = spy.signed(RequestCode.HEART_BEAT, None, body)
    assert refused.code == ResponseCode.NO_PERMISSION
    hear_of_producer(again)  # For example, its fast port.
    for wire in (victim, again):
        leave = {"clientID": "c", "producerGroup": "makers"}
        assert wire.signed(RequestCode.UNREGISTER_CLIENT, leave).code == 0
    assert spy.signed(RequestCode.HEART_BEAT, None, body).code == 0, "it is free again"


def java_hash(text: str) -> int:
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value


def colliding_key(prefix: str, wanted: str) -> str:
    """Return a key that makes `prefix` hash as `wanted`: digits to base 31 above a blank."""
    digits, base = 7, ord("0")
    left = (java_hash(wanted) - java_hash(prefix + "0" * digits)) & 0xFFFFFFFF
    out = ""
    for _ in range(digits):
        left, digit = divmod(left, 31)
        out = chr(base + digit) + out
    return out


def test_a_key_with_an_equal_hash_finds_no_messages_of_other_topics(login: Login) -> None:
    victim, spy = login("victim1"), login("spy-spy")
    send(victim, "secrets", b"hush", properties="KEYS\x01order-7")
    key = colliding_key("own#", "secrets#order-7")
    assert java_hash(f"own#{key}") == java_hash("secrets#order-7")
    query = {
        "topic": "own", "key": key, "maxNum": "32",
        "beginTimestamp": "0", "endTimestamp": "9999999999999",
    }  # fmt: skip
    assert spy.signed(RequestCode.QUERY_MESSAGE, query).code == ResponseCode.QUERY_NOT_FOUND
    send(spy, "own", b"mine", properties=f"KEYS\x01{key}")
    found = spy.signed(RequestCode.QUERY_MESSAGE, query)
    assert [record.body for record in decode_records(found.body)] == [b"mine"]


def test_a_forged_record_inside_a_body_reveals_no_other_message(login: Login) -> None:
    """A record header in one message and its end in another enclose the bytes between as a body."""
    victim, spy, manager = login("victim1"), login("spy-spy"), login("manager1")

    def send_around(between: int) -> tuple[int, int]:
        """Send both ends and the victim's message between them; return the offset of each end."""
        body = b"y" * between
        fake = encode_record("own", body)
        head, tail = fake.split(body)
        places = []
        for sender, topic, content in (
            (spy, "own", b"pad" + head), (victim, "secrets", b"hush"), (spy, "own", b"pad" + tail),
        ):  # fmt: skip
            offset = place(send(sender, topic, content))
            raw = manager.signed(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)}).body
            places.append(offset + raw.find(content) + 3)
        return places[0], places[2] - places[0] - len(head)

    _, between = send_around(400)
    begins, _ = send_around(between)
    look = {"offset": str(begins)}
    shown = manager.signed(RequestCode.VIEW_MESSAGE_BY_ID, look)
    assert b"hush" in shown.body, "the attack works for those who may see everything"
    assert is_refused(spy.signed(RequestCode.VIEW_MESSAGE_BY_ID, look))
    back = look | {"group": "spies", "delayLevel": "0"}
    assert is_refused(spy.signed(RequestCode.CONSUMER_SEND_MSG_BACK, back))


@pytest.mark.parametrize(
    "topic",
    ["SCHEDULE_TOPIC_XXXX", "rmq_sys_orbit_timers", TRANS_HALF_TOPIC, "TRANS_CHECK_MAX_TIME_TOPIC",
     "OFFSET_MOVED_EVENT", "RMQ_SYS_TRACE_TOPIC", "DefaultCluster_REPLY_TOPIC", "%DLQ%clerks",
     "%RETRY%clerks"],
)  # fmt: skip
def test_a_default_permission_does_not_open_system_topics(login: Login, topic: str) -> None:
    guest = login("guest-1")
    assert is_refused(guest.signed(RequestCode.PULL_MESSAGE, pull_ext(topic, 0)))
    read = {"topic": topic, "queueId": "0", "fromOffset": "0", "toOffset": "9", "maxBytes": "99"}
    assert is_refused(guest.signed(RequestCode.ORBIT_BULK_READ, read))
    assert not is_refused(guest.signed(RequestCode.PULL_MESSAGE, pull_ext("others", 0)))


def test_dead_letters_belong_to_their_group_and_the_trace_is_writable(login: Login) -> None:
    spy = login("spy-spy")
    assert not is_refused(
        spy.signed(RequestCode.PULL_MESSAGE, pull_ext("%DLQ%spies", 0, consumerGroup="spies"))
    )
    assert send(spy, "RMQ_SYS_TRACE_TOPIC").code == 0


def test_a_delayed_message_is_visible_only_to_readers_of_its_topic(login: Login) -> None:
    offset = place(send(login("victim1"), "secrets", properties="DELAY\x0118"))
    look = {"offset": str(offset)}
    assert login("reader1").signed(RequestCode.VIEW_MESSAGE_BY_ID, look).code == 0
    assert is_refused(login("guest-1").signed(RequestCode.VIEW_MESSAGE_BY_ID, look))


# ---- Writing as others


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2])
def test_only_its_own_group_writes_a_retry_topic(login: Login, code: RequestCode) -> None:
    spy, victim = login("spy-spy"), login("victim1")
    long = send_ext("%RETRY%clerks", group="spies")
    short = {"a": "spies", "b": "%RETRY%clerks", "c": "TBW102", "d": "1", "e": "0", "f": "0"}
    ext = long if code == RequestCode.SEND_MESSAGE else short | {"g": "0", "h": "0", "i": ""}
    assert is_refused(spy.signed(code, ext, b"x"))
    assert victim.signed(code, ext, b"x").code == 0


def test_half_messages_of_others_cannot_be_decided_or_revived(
    cluster: LocalCluster, login: Login
) -> None:
    victim, spy, guest = login("victim1"), login("spy-spy"), login("guest-1")
    aimed = "REAL_TOPIC\x01secrets\x02REAL_QID\x010\x02PGROUP\x01makers"
    sent = send(spy, "own", properties=aimed)
    resume = {"msgId": sent.get_ext("msgId") or ""}
    assert is_refused(spy.signed(RequestCode.RESUME_CHECK_HALF_MESSAGE, resume))
    half = begin(victim, "secrets")
    for wire in (spy, guest):
        for decision in (COMMIT, ROLLBACK):
            assert is_refused(end(wire, half, decision))
    assert end(victim, half, COMMIT).code == 0
    reader = login("reader1")
    found = reader.signed(RequestCode.PULL_MESSAGE, pull_ext("secrets", 0, consumerGroup="clerks"))
    (final,) = decode_records(found.body)
    assert final.get_property("ORBIT_ACCOUNT") is None


def test_a_half_message_made_of_a_body_decides_nothing(cluster: LocalCluster, login: Login) -> None:
    """A rollback would mark the half message of another account at the claimed offset."""
    spy, victim, manager = login("spy-spy"), login("victim1"), login("manager1")
    half = begin(victim, "secrets")
    properties = "PGROUP\x01makers\x02REAL_TOPIC\x01own\x02REAL_QID\x010"
    claim = 0
    for _ in range(2):  # The first message shows where the next one will be.
        fake = encode_record(
            TRANS_HALF_TOPIC, b"f", queue_offset=int(half["tranStateTableOffset"]),
            physical_offset=claim, properties=properties,
        )  # fmt: skip
        mine = place(send(spy, "own", fake))
        raw = manager.signed(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(mine)}).body
        is_where_it_claims = mine + raw.find(fake) == claim
        claimed = half | {"commitLogOffset": str(mine + raw.find(fake))}
        claim = mine + len(raw) + raw.find(fake)
    assert is_where_it_claims
    assert is_refused(end(spy, claimed, ROLLBACK))
    answer = end(manager, claimed, ROLLBACK)
    assert answer.remark == "Find prepared transaction message failed"
    (broker,) = cluster.brokers.values()
    assert broker.store.max_offset("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0) == 0


def test_queues_of_others_are_neither_locked_nor_freed(login: Login) -> None:
    body = {
        "consumerGroup": "clerks",
        "clientId": "c",
        "mqSet": [{"topic": "secrets", "brokerName": "broker-a", "queueId": 0}],
    }
    reader, spy = login("reader1"), login("spy-spy")
    locked = reader.signed(RequestCode.LOCK_BATCH_MQ, None, json.dumps(body).encode())
    assert locked.code == 0
    for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        assert is_refused(spy.signed(code, None, json.dumps(body).encode()))
        mine = body | {"consumerGroup": "spies"}
        assert is_refused(spy.signed(code, None, json.dumps(mine).encode()))


def test_offsets_of_others_stay_where_they_are(login: Login) -> None:
    spy = login("spy-spy")
    ext = {"topic": "own", "queueId": "0", "consumerGroup": "clerks", "commitOffset": "9"}
    assert is_refused(spy.signed(RequestCode.UPDATE_CONSUMER_OFFSET, ext))
    assert is_refused(spy.signed(RequestCode.QUERY_CONSUMER_OFFSET, ext))
    own = ext | {"consumerGroup": "spies"}
    assert spy.signed(RequestCode.UPDATE_CONSUMER_OFFSET, own).code == 0
