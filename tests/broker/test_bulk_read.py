"""ORBIT_BULK_READ: offset ranges, size limits and refusals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orbitmq import Admin, Message, Producer
from orbitmq._native import Command, decode_records, loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.features import BULK_READ, features_of
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.testing import LocalCluster

COUNT = 300
TOPIC = "bulk"


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[BlockingNetwork, str]]:
    with LocalCluster() as cluster:
        with Admin(cluster.address) as admin, Producer(cluster.address, group="p") as producer:
            admin.create_topic(TOPIC, queues=2)
            (queue, *_) = sorted(producer.queues(TOPIC), key=lambda queue: queue.queue_id)
            for number in range(COUNT):
                tag = "AaAa" if number % 3 else "BBBB"  # Two texts with the same hash code.
                body = str(number).encode().rjust(1000)
                producer.send(Message(TOPIC, body, tags=tag), queue=queue)
            address = admin.topic_route(TOPIC).brokers[queue.broker_name][0]
        network = BlockingNetwork()
        yield network, address
        network.close()


def ask(broker: tuple[BlockingNetwork, str], **fields: object) -> Command:
    network, address = broker
    ext = {"topic": TOPIC, "queueId": 0, "fromOffset": 0, "toOffset": COUNT, "maxBytes": 1 << 20}
    ext |= fields
    return network.invoke(
        address, RequestCode.ORBIT_BULK_READ, ext={k: str(v) for k, v in ext.items()}
    )


def offsets(response: Command) -> list[int]:
    assert response.code == ResponseCode.SUCCESS, response.remark
    found = [record.queue_offset for record in decode_records(response.body)]
    assert response.get_ext("count") == str(len(found))
    return found


def test_the_bulk_read_feature_is_announced(broker: tuple[BlockingNetwork, str]) -> None:
    network, address = broker
    answer = network.invoke(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    assert BULK_READ in features_of(loads_lenient(answer.body)["table"])


def test_a_read_returns_exactly_the_offsets_of_its_range(
    broker: tuple[BlockingNetwork, str],
) -> None:
    response = ask(broker, fromOffset=7, toOffset=207)
    assert offsets(response) == list(range(7, 207))
    assert response.get_ext("nextOffset") == "207"
    assert response.get_ext("minOffset") == "0"
    assert response.get_ext("maxOffset") == str(COUNT)


def test_answers_end_at_the_requested_number_of_bytes(broker: tuple[BlockingNetwork, str]) -> None:
    at, rounds = 0, 0
    while at < COUNT:
        response = ask(broker, fromOffset=at, maxBytes=20_000)
        found = offsets(response)
        assert len(response.body) <= 20_000
        assert found == list(range(at, at + len(found)))
        at, rounds = at + len(found), rounds + 1
        assert response.get_ext("nextOffset") == str(at)
    assert rounds > COUNT // 20
    assert offsets(ask(broker, maxBytes=1)) == [0], "one record is always given"


def test_tags_are_compared_by_hash_code(broker: tuple[BlockingNetwork, str]) -> None:
    assert offsets(ask(broker, tags="AaAa")) == list(range(COUNT))
    response = ask(broker, tags="other")
    assert offsets(response) == []
    assert response.get_ext("nextOffset") == str(COUNT)


def test_reads_beyond_the_last_message_say_where_to_go_on(
    broker: tuple[BlockingNetwork, str],
) -> None:
    at_the_end = ask(broker, fromOffset=COUNT, toOffset=COUNT + 1)
    assert at_the_end.code == ResponseCode.PULL_NOT_FOUND
    beyond = ask(broker, fromOffset=COUNT + 9, toOffset=COUNT + 10)
    assert beyond.code == ResponseCode.PULL_OFFSET_MOVED
    assert beyond.get_ext("nextOffset") == str(COUNT)
    empty = ask(broker, queueId=1)
    assert empty.code == ResponseCode.PULL_NOT_FOUND


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"topic": "unheard-of"}, ResponseCode.TOPIC_NOT_EXIST, "unheard-of"),
        ({"queueId": 2}, ResponseCode.SYSTEM_ERROR, "has 2 queues"),
        ({"queueId": -1}, ResponseCode.SYSTEM_ERROR, "has 2 queues"),
        ({"fromOffset": 5, "toOffset": 5}, ResponseCode.SYSTEM_ERROR, "no stretch: 5 to 5"),
        ({"fromOffset": -1}, ResponseCode.SYSTEM_ERROR, "no stretch"),
        ({"maxBytes": 0}, ResponseCode.SYSTEM_ERROR, "maxBytes is 0"),
        ({"tags": "||"}, ResponseCode.SYSTEM_ERROR, "names no tag"),
        ({"fromOffset": "x"}, ResponseCode.SYSTEM_ERROR, "fromOffset"),
    ],
)
def test_invalid_bulk_reads_are_refused(
    broker: tuple[BlockingNetwork, str], fields: dict[str, object], code: int, text: str
) -> None:
    response = ask(broker, **fields)
    assert response.code == code
    assert text in (response.remark or "")
