"""The first message since a time, found by reading messages, with any contents and gaps.

The queue is played: a message a millisecond, and expiry when a test says so.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

from orbitmq._native import Command, encode_record
from orbitmq.errors import BrokerBusy
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.spark.cluster import SourceCluster
from orbitmq.spark.offsets import OffsetBounds
from orbitmq.spark.options import ConnectionOptions

QUEUE = MessageQueue("t", "b", 0)
COUNT = 200
ALL = OffsetBounds(0, COUNT)
HOST = ("127.0.0.1", 1)
NOT_UTF_8 = b"\xff\xfe\xfd\xfc"


class PlayedQueue(SourceCluster):
    """A queue whose messages are stored at the time equal to their offset, with unusual texts."""

    first = 0
    expires_to = 0
    """Offset below which messages expire as soon as the offset of a time has been returned."""
    near: int | None = None
    is_silent = False

    def address(self, _topic: str, _broker: str) -> str:
        return "b:1"

    def ask(
        self,
        address: str,
        code: int,
        ext: dict[str, str] | None = None,
        *,
        also: Collection[int] = (),
        body: bytes | None = None,
    ) -> Command:
        assert address == "b:1"
        assert ext is not None
        if code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
            near = min(int(ext["timestamp"]), COUNT - 1) if self.near is None else self.near
            self.first = self.expires_to
            return Command(ResponseCode.SUCCESS, opaque=1, ext={"offset": str(near)})
        at = int(ext["queueOffset"])
        end = min(at + int(ext["maxMsgNums"]), COUNT)
        if at < self.first or self.is_silent:
            go_on = {"nextBeginOffset": str(at if self.is_silent else self.first)}
            assert ResponseCode.PULL_OFFSET_MOVED in also
            return Command(ResponseCode.PULL_OFFSET_MOVED, opaque=1, ext=go_on)
        records = b"".join(_record(offset) for offset in range(at, end))
        ext = {"nextBeginOffset": str(end)}
        return Command(ResponseCode.SUCCESS, opaque=1, ext=ext, body=records)


def _record(offset: int) -> bytes:
    record = encode_record(
        "t",
        b"body",
        queue_offset=offset,
        store_timestamp=offset,
        properties={"odd": "vvvv"},
        born_host=HOST,
        store_host=HOST,
    )
    return record.replace(b"vvvv", NOT_UTF_8)


@pytest.fixture
def played() -> PlayedQueue:
    return PlayedQueue(ConnectionOptions(("127.0.0.1:1",)), "g")


@pytest.mark.parametrize("time_ms", [0, 1, 31, 32, 33, 100, COUNT - 1])
@pytest.mark.parametrize("near", [0, 50, 100, COUNT - 1])
def test_the_first_message_since_a_time_is_found_from_any_offset(
    played: PlayedQueue, time_ms: int, near: int
) -> None:
    played.near = near
    assert played.first_since(QUEUE, time_ms, ALL) == time_ms
    assert played.first_since(QUEUE, COUNT, ALL) is None


@pytest.mark.parametrize("expires_to", [1, 50, 70, 100, 101, 150])
def test_messages_that_expire_meanwhile_do_not_end_the_search(
    played: PlayedQueue, expires_to: int
) -> None:
    played.expires_to = expires_to
    assert played.first_since(QUEUE, 100, ALL) == max(100, expires_to)


def test_an_empty_answer_is_a_retriable_error(played: PlayedQueue) -> None:
    played.is_silent = True
    with pytest.raises(BrokerBusy, match="nothing at offset") as caught:
        played.first_since(QUEUE, 100, ALL)
    assert caught.value.retriable


def test_the_result_is_at_most_the_given_end(played: PlayedQueue) -> None:
    assert played.first_since(QUEUE, 150, OffsetBounds(0, 140)) == 140
