"""Deduplication of exactly-once sends, also across restarts, and its limits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq._native import Command, decode_records, encode_batch
from orbitmq.broker.write import dedup as deduplication
from orbitmq.broker.write.dedup import SNAPSHOT
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.features import DEDUPLICATE, features_of
from orbitmq.testing import LocalCluster

from .conftest import Wire


def name_of(number: int) -> str:
    return f"{number:032X}"


def ext(scope: str, **changes: str) -> dict[str, str]:
    return {
        "a": "p",
        "b": "once",
        "c": "TBW102",
        "d": "1",
        "e": "0",
        "f": "0",
        "g": "5",
        "h": "0",
        "i": "WAIT\1true",
        "m": "true",
        "scope": scope,
        **changes,
    }


def send(wire: Wire, numbers: range, scope: str = "query/1", **changes: str) -> Command:
    body = encode_batch([(0, b"%d" % one, {"UNIQ_KEY": name_of(one)}) for one in numbers])
    return wire.ask(RequestCode.ORBIT_SEND_ONCE, ext(scope, **changes), body)


def suppressed(answer: Command) -> int:
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return int(answer.get_ext("suppressed") or -1)


def stored(wire: Wire, topic: str = "once") -> list[int]:
    answer = wire.pull(topic, maxMsgNums="1000")
    if answer.code != ResponseCode.SUCCESS:
        return []
    return [int(record.body) for record in decode_records(answer.body)]


def restart(cluster: LocalCluster, *, crash: bool = False) -> Wire:
    (name, broker), *_ = cluster.brokers.items()
    if crash:  # `stop` would write a snapshot; a crash does not.
        broker.deduplication.save = _nothing  # type: ignore[method-assign]
    cluster.stop_broker(name)
    cluster.start_broker(name)
    return Wire(cluster.brokers[name].config.address)


async def _nothing() -> None:
    pass


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(data=tmp_path, settings={"deduplicationMaxIds": "20"}) as running:
        yield running


@pytest.fixture
def once(own: LocalCluster) -> Iterator[Wire]:
    (broker,) = own.brokers.values()
    wire = Wire(broker.config.address)
    yield wire
    wire.close()


def test_the_deduplication_feature_is_announced(once: Wire) -> None:
    answer = once.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    import json

    assert DEDUPLICATE in features_of(json.loads(answer.body)["table"])


def test_stored_messages_are_not_stored_again(once: Wire) -> None:
    assert suppressed(send(once, range(3))) == 0
    assert suppressed(send(once, range(3))) == 3
    assert suppressed(send(once, range(1, 5))) == 2
    assert stored(once) == [0, 1, 2, 3, 4]


def test_a_send_that_must_be_a_repeat_stores_nothing_new(once: Wire) -> None:
    send(once, range(3))
    assert suppressed(send(once, range(3), repeatsOnly="true")) == 3
    assert suppressed(send(once, range(1, 5), repeatsOnly="true")) == 2
    nothing_known = send(once, range(5, 7), repeatsOnly="true")
    assert (nothing_known.code, nothing_known.get_ext("suppressed")) == (0, "0")
    assert stored(once) == [0, 1, 2]
    assert suppressed(send(once, range(1, 5))) == 2, "what was asked for is not noted as stored"


def test_equal_ids_of_another_batch_or_sender_are_stored(once: Wire) -> None:
    for scope in ("query/1", "query/2", "other/1"):
        assert suppressed(send(once, range(2), scope)) == 0
    assert stored(once) == [0, 1] * 3


def test_a_send_of_a_finished_batch_is_refused(once: Wire) -> None:
    send(once, range(2), "query/7")
    answer = send(once, range(2), "query/6")
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "batch 6 of sender query is over: batch 7 has begun" in (answer.remark or "")
    assert stored(once) == [0, 1]


def test_single_and_delayed_messages_are_deduplicated(once: Wire) -> None:
    for level, again in (("", 0), ("", 1), ("\2DELAY\0011", 1)):
        properties = f"UNIQ_KEY\1{name_of(1)}\2WAIT\1true{level}"
        one = ext("query/1", m="false", i=properties)
        assert suppressed(once.ask(RequestCode.ORBIT_SEND_ONCE, one, b"1")) == again
    (record,) = decode_records(once.pull("once").body)
    assert record.properties == {
        "UNIQ_KEY": name_of(1),
        "CLUSTER": "DefaultCluster",
        "ORBIT_BATCH": "query/1",
    }


def test_sends_are_refused_when_too_many_ids_are_remembered(once: Wire, own: LocalCluster) -> None:
    assert suppressed(send(once, range(20))) == 0
    answer = send(once, range(20, 21))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "raise deduplicationMaxIds" in (answer.remark or "")
    assert suppressed(send(once, range(20))) == 20
    assert suppressed(send(once, range(20), "query/2")) == 0, "the next batch has its own"


def test_idle_senders_make_room_for_new_ones(own: LocalCluster, once: Wire) -> None:
    (broker,) = own.brokers.values()
    send(once, range(20))
    broker.config.deduplication_window_ms = -1
    assert suppressed(send(once, range(5), "other/1")) == 0
    assert len(broker.deduplication) == 5


def test_a_finished_job_makes_room_and_its_late_sends_are_refused(
    own: LocalCluster, once: Wire
) -> None:
    (broker,) = own.brokers.values()
    send(once, range(20), "job/0")
    for scope in ("job/1", "nobody/0", "job/0"):
        assert once.ask(RequestCode.ORBIT_END_BATCH, ext(scope)).code == ResponseCode.SUCCESS
    assert len(broker.deduplication) == 0
    assert suppressed(send(once, range(20), "other/0")) == 0
    wire = restart(own)
    answer = send(wire, range(20), "job/0")
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "batch 0 of sender job is over" in (answer.remark or "")
    assert suppressed(send(wire, range(20), "other/0")) == 20
    assert wire.ask(RequestCode.ORBIT_END_BATCH, ext("job")).code == ResponseCode.MESSAGE_ILLEGAL
    wire.close()


def test_a_snapshot_is_renewed_when_other_messages_grow_the_log(
    own: LocalCluster, once: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deduplication, "LOG_BEHIND_BYTES", 100_000)
    (broker,) = own.brokers.values()
    send(once, range(5))
    own.run(broker.deduplication.save())
    (snapshot,) = own.data.rglob(SNAPSHOT)
    first = snapshot.read_bytes()
    own.run(broker.deduplication.save())
    assert snapshot.read_bytes() == first, "nothing has happened since"
    once.send("orders", b"x" * 200_000)
    own.run(broker.deduplication.save())
    offset = int.from_bytes(snapshot.read_bytes()[16:24], "big")
    assert offset == broker.store.max_physical_offset
    wire = restart(own, crash=True)
    assert suppressed(send(wire, range(6))) == 5
    wire.close()


def test_bad_scopes_and_ids_are_refused(once: Wire) -> None:
    answer = send(once, range(1), "query")
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "is not a sender and a batch" in (answer.remark or "")
    body = encode_batch([(0, b"x", {})])
    answer = once.ask(RequestCode.ORBIT_SEND_ONCE, ext("query/1"), body)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "32 hex digits" in (answer.remark or "")
    assert stored(once) == []


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "crashed"])
def test_remembered_ids_survive_a_restart_or_a_crash(
    own: LocalCluster, once: Wire, crash: bool
) -> None:
    send(once, range(5))
    wire = restart(own, crash=crash)
    assert suppressed(send(wire, range(7))) == 5
    assert stored(wire) == list(range(7))
    wire.close()


def test_ids_are_restored_from_a_snapshot_and_the_log_behind_it(
    own: LocalCluster, once: Wire
) -> None:
    (broker,) = own.brokers.values()
    send(once, range(5))
    own.run(broker.deduplication.save())
    send(once, range(5, 8))
    wire = restart(own, crash=True)
    assert suppressed(send(wire, range(9))) == 8
    wire.close()


def test_without_a_readable_snapshot_the_whole_log_is_read(own: LocalCluster, once: Wire) -> None:
    send(once, range(5))
    (snapshot,) = own.data.rglob(SNAPSHOT)
    restart(own).close()
    for path in snapshot.parent.glob(f"{SNAPSHOT}*"):
        path.write_bytes(b"garbage")
    wire = restart(own, crash=True)
    assert suppressed(send(wire, range(6))) == 5
    wire.close()


def test_a_broker_without_exactly_once_sends_writes_no_snapshot(
    own: LocalCluster, once: Wire
) -> None:
    once.send("orders", b"x")
    (broker,) = own.brokers.values()
    own.run(broker.deduplication.save())
    assert not list(own.data.rglob(f"{SNAPSHOT}*"))


def test_a_repeated_send_is_answered_when_the_first_one_is_flushed(tmp_path: Path) -> None:
    with LocalCluster(data=tmp_path, settings={"flushDiskType": "SYNC_FLUSH"}) as cluster:
        (broker,) = cluster.brokers.values()
        wire = Wire(broker.config.address)
        assert suppressed(send(wire, range(3))) == 0
        assert suppressed(send(wire, range(3))) == 3
        assert broker.store.flushed_offset == broker.store.max_physical_offset
        wire.close()


def test_two_concurrent_attempts_store_one_message(once: Wire, own: LocalCluster) -> None:
    (broker,) = own.brokers.values()
    second = Wire(broker.config.address)
    body = encode_batch([(0, b"1", {"UNIQ_KEY": name_of(1)})])
    posted = [
        (wire, wire.post(RequestCode.ORBIT_SEND_ONCE, ext("query/1"), body))
        for wire in (once, second, once, second)
    ]
    assert sorted(suppressed(wire.answer(opaque)) for wire, opaque in posted) == [0, 1, 1, 1]
    assert stored(once) == [1]
    second.close()


def test_a_snapshot_does_not_block_the_event_loop(own: LocalCluster, once: Wire) -> None:
    (broker,) = own.brokers.values()
    send(once, range(5))

    async def both() -> None:
        await asyncio.gather(broker.deduplication.save(), broker.deduplication.save())

    own.run(both())
    assert list(own.data.rglob(SNAPSHOT))
