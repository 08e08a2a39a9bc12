"""Ids of exactly-once senders belong to an account and a topic; plain sends cannot use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq._native import Command, decode_records, encode_batch
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster

from .conftest import Wire, broker_address, send_ext
from .test_acl import Signed
from .test_deduplication import ext, name_of, restart, send, stored, suppressed

ACCOUNTS = """
accounts:
  - {accessKey: victim1, secretKey: victim-secret, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}
  - {accessKey: spy-spy, secretKey: spy-secret, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}
"""
SCOPE = f"UNIQ_KEY\x01{name_of(0)}\x02ORBIT_BATCH\x01query/1\x02ORBIT_ACCOUNT\x01"


class SignedOnce(Signed):
    """A client that signs every exactly-once request as one account."""

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        given = dict(ext or {})
        self._sign(code, given, body)
        return super().ask(code, given, body)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    settings = {"aclEnable": "true", "rocketmqHome": str(tmp_path), "deduplicationMaxIds": "20"}
    with LocalCluster(data=tmp_path / "data", settings=settings) as running:
        yield running


def victim_of(cluster: LocalCluster) -> SignedOnce:
    return SignedOnce(broker_address(cluster), "json", "victim1", "victim-secret")


@pytest.fixture
def victim(cluster: LocalCluster) -> Iterator[SignedOnce]:
    wire = victim_of(cluster)
    yield wire
    wire.close()


@pytest.fixture
def spy(cluster: LocalCluster) -> Iterator[SignedOnce]:
    wire = SignedOnce(broker_address(cluster), "json", "spy-spy", "spy-secret")
    yield wire
    wire.close()


def test_equal_ids_of_another_account_are_stored(victim: SignedOnce, spy: SignedOnce) -> None:
    assert suppressed(send(spy, range(3))) == 0
    assert send(spy, range(3), "query/9").code == ResponseCode.SUCCESS
    assert suppressed(send(victim, range(3))) == 0, "neither stored already nor over"
    assert suppressed(send(victim, range(3))) == 3
    assert spy.ask(RequestCode.ORBIT_END_BATCH, ext("query/1")).code == 0
    assert suppressed(send(victim, range(3))) == 3, "nobody else ends the batch"


def test_equal_ids_of_another_topic_are_stored(victim: SignedOnce) -> None:
    assert suppressed(send(victim, range(3))) == 0
    assert suppressed(send(victim, range(3), b="elsewhere")) == 0
    assert suppressed(send(victim, range(3), b="elsewhere")) == 3


def test_an_account_exhausts_only_its_own_limit_of_ids(victim: SignedOnce, spy: SignedOnce) -> None:
    assert suppressed(send(spy, range(20))) == 0
    assert send(spy, range(20, 21)).code == ResponseCode.MESSAGE_ILLEGAL
    assert suppressed(send(victim, range(20))) == 0


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "crashed"])
def test_the_owner_of_ids_survives_a_restart(
    cluster: LocalCluster, victim: SignedOnce, spy: SignedOnce, crash: bool
) -> None:
    (broker,) = cluster.brokers.values()
    send(spy, range(3))
    cluster.run(broker.deduplication.save())
    send(victim, range(2))
    restart(cluster, crash=crash).close()
    again = victim_of(cluster)
    assert suppressed(send(again, range(3))) == 2
    again.close()


@pytest.mark.parametrize("as_batch", [False, True], ids=["single", "batch"])
def test_a_plain_send_cannot_claim_ids(
    cluster: LocalCluster, victim: SignedOnce, spy: SignedOnce, as_batch: bool
) -> None:
    send(victim, range(1, 2))  # The sender's tag is visible in the log.
    (theirs,) = decode_records(victim.pull("once").body)
    tag = theirs.get_property("ORBIT_ACCOUNT") or ""
    assert tag
    assert "victim1" not in theirs.properties_text
    claim = {"UNIQ_KEY": name_of(0), "ORBIT_BATCH": "query/1", "ORBIT_ACCOUNT": tag}
    if as_batch:
        body = encode_batch([(0, b"0", claim)])
        sent = spy.ask(RequestCode.SEND_BATCH_MESSAGE, ext("", i=""), body)
    else:
        text = "\x02".join(f"{name}\x01{value}" for name, value in claim.items())
        sent = spy.ask(RequestCode.SEND_MESSAGE, send_ext("once", properties=text), b"0")
    assert sent.code == 0, sent.remark
    forged = decode_records(victim.pull("once").body)[1]
    assert not {"ORBIT_BATCH", "ORBIT_ACCOUNT"} & forged.properties.keys()
    restart(cluster, crash=True).close()
    again = victim_of(cluster)
    assert suppressed(send(again, range(1))) == 0
    again.close()


def test_an_exactly_once_send_cannot_claim_another_account(
    cluster: LocalCluster, victim: SignedOnce, spy: SignedOnce
) -> None:
    send(victim, range(1, 2))
    (theirs,) = decode_records(victim.pull("once").body)
    claim = {"UNIQ_KEY": name_of(0), "ORBIT_ACCOUNT": theirs.get_property("ORBIT_ACCOUNT") or ""}
    body = encode_batch([(0, b"0", claim)])
    assert spy.ask(RequestCode.ORBIT_SEND_ONCE, ext("query/1"), body).code == 0
    assert suppressed(send(victim, range(1))) == 0
    restart(cluster, crash=True).close()
    again = victim_of(cluster)
    assert suppressed(send(again, range(2))) == 2
    assert stored(again).count(0) == 2, "once for each account"
    again.close()


def test_a_half_message_has_no_id(victim: SignedOnce) -> None:
    properties = f"UNIQ_KEY\x01{name_of(1)}\x02TRAN_MSG\x01true\x02PGROUP\x01p"
    one = ext("query/1", m="false", i=properties)
    assert victim.ask(RequestCode.ORBIT_SEND_ONCE, one, b"1").code == ResponseCode.MESSAGE_ILLEGAL
    prepared = ext("query/1", m="false", f="4", i=f"UNIQ_KEY\x01{name_of(1)}")
    answer = victim.ask(RequestCode.ORBIT_SEND_ONCE, prepared, b"1")
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    half = send_ext("once", sysFlag="4", properties=f"TRAN_MSG\x01true\x02PGROUP\x01p\x02{SCOPE}x")
    sent = victim.ask(RequestCode.SEND_MESSAGE, half, b"0")
    end = {
        "producerGroup": "p",
        "tranStateTableOffset": sent.get_ext("queueOffset") or "",
        "commitLogOffset": str(int((sent.get_ext("msgId") or "")[-16:], 16)),
        "commitOrRollback": "8",
    }
    assert victim.ask(RequestCode.END_TRANSACTION, end).code == 0
    (final,) = decode_records(victim.pull("once").body)
    assert not {"ORBIT_BATCH", "ORBIT_ACCOUNT"} & final.properties.keys()
    assert suppressed(send(victim, range(1))) == 0


def test_ids_stored_before_access_control_still_count(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """A batch sent again after access control was enabled is not stored twice."""
    with LocalCluster(data=tmp_path / "open") as before:
        wire = Wire(broker_address(before))
        send(wire, range(3))
        wire.close()
    settings = {"aclEnable": "true", "rocketmqHome": str(tmp_path)}
    with LocalCluster(data=tmp_path / "open", settings=settings) as after:
        victim = victim_of(after)
        assert suppressed(send(victim, range(4))) == 3
        victim.close()
