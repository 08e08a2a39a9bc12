"""Transaction check: asks producers about half messages without a commit or rollback.

Theory of operation. Half messages and op messages are in two queues that are read in parallel, each
from where the last round ended. A half message with an op message is decided. An undecided half
message that is older than its timeout is put at the end of its queue again, with one more check
counted. A producer of its group then gets a check request with the offset of the copy. So the
progress in both queues advances, and each undecided message is checked once per round. After the
last check, or when it is older than the log's retention time, it goes to the discard topic.

Progress. The progress in both queues is stored among the consumer offsets, in one file. That file
is written once the copies it depends on are on disk. A crash therefore takes back the progress and
the copies together, and the next rounds repeat the work. An offset behind a queue's end is invalid.
At a start it means that the log has lost its tail, and the rest of the queue is done. Later it
means that the whole queue has expired and has restarted.

Late decisions. A producer may decide about an earlier copy of a message. The process keeps in
memory which copy followed which. A decision therefore counts for the latest copy, and a second
decision about the same message does not count. Copies from before the start are recognized by the
properties they share (see `DecidedMessages`). A decision may also arrive during a round that has
already read all op messages. The handler of END_TRANSACTION then calls `TransactionCheck.decided`,
and the round checks that, too.

Bad messages. A half message cannot be checked if its properties contain no valid queue, or have no
room for one more property. It goes to the discard topic at once, and stops neither this round nor
the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from orbitmq._native import (
    Appended,
    NewMessage,
    Record,
    Store,
    decode_records,
    encode_offset_id,
)
from orbitmq.broker.state.clients import ProducerClients
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.broker.state.topics import TopicTable
from orbitmq.broker.transactions.decided import DecidedMessages
from orbitmq.broker.transactions.half import OP_TAG, again, check_body, discarded
from orbitmq.broker.write.set_aside import MessagePosition, SetAside, passes
from orbitmq.broker.write.writer import MessageWriter, real_queue_id
from orbitmq.config import BrokerConfig
from orbitmq.errors import FAILURES
from orbitmq.protocol.codes import RequestCode
from orbitmq.protocol.names import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    Property,
)

__all__ = ["TransactionCheck"]

_log = logging.getLogger(__name__)

GROUP = "CID_RMQ_SYS_TRANS"
OP_BATCH = 256
STEPS_PER_TURN = 50
"""Number of half messages processed before the event loop serves others."""
HOUR_MS = 3_600_000
READ_ATTEMPTS = 3
"""Number of rounds that fail to read a half message before it is set aside."""


@dataclass(slots=True)
class _Ops:
    """Op messages of a round, read as far as needed.

    An op message is done once its half message has been processed.
    """

    next_offset: int
    stored_offset: int
    named: dict[int, int] = field(default_factory=dict)
    """Offset of the op message, by offset of the half message."""
    done: set[int] = field(default_factory=set)
    at_end: bool = False

    def finish(self, half_offset: int) -> bool:
        """Mark the op message of a half message as done; return False if none was read."""
        op_offset = self.named.pop(half_offset, None)
        if op_offset is None:
            return False
        self.done.add(op_offset)
        return True

    def begin_anew(self, offset: int) -> None:
        """Drop all op messages read from a queue that has restarted at `offset`."""
        self.next_offset = self.stored_offset = offset
        self.named.clear()
        self.done.clear()

    def settled(self) -> int:
        """Return the offset before which all op messages are done."""
        offset = self.stored_offset
        while offset in self.done:
            self.done.discard(offset)
            offset += 1
        return offset


class _Copies:
    """Latest copy of each half message, by each of its offsets that a producer may refer to."""

    def __init__(self) -> None:
        self._latest: dict[int, int] = {}
        self._told: dict[int, tuple[int, ...]] = {}
        self._first: dict[int, int] = {}
        """First known offset, by latest offset."""

    def moved(self, old: int, new: int, *, was_told: bool) -> None:
        """Note that a message was put again; `was_told`: a producer may refer to its old offset."""
        told = self._told.pop(old, ()) + ((old,) if was_told else ())
        self._told[new] = told
        self._first[new] = self._first.pop(old, old)
        for place in told:
            self._latest[place] = new

    def __contains__(self, place: int) -> bool:
        """Return True if this is the latest offset of a message that was put again."""
        return place in self._told

    def latest(self, place: int) -> int:
        """Return the latest offset of the message that was at `place`."""
        return self._latest.get(place, place)

    def first(self, place: int) -> int:
        """Return the first known offset of the message that was at `place`."""
        latest = self.latest(place)
        return self._first.get(latest, latest)

    def over(self, place: int) -> None:
        """Forget the message whose latest offset is `place`."""
        self._first.pop(place, None)
        for told in self._told.pop(place, ()):
            del self._latest[told]


class TransactionCheck:
    """Checks the half messages, once per round."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        producers: ProducerClients,
        putting: MessageWriter,
        clock: Callable[[], int],
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._producers = producers
        self._putting = putting
        self._clock = clock
        self._copies = _Copies()
        self._decided: set[int] = set()
        """Latest offsets of decided messages whose op messages no round has read yet."""
        self._known = DecidedMessages()
        self._end_at_start = 0
        """End of the queue of half messages when the broker started."""
        self._at: int | None = None
        """Offset of the half message that the running round processes; None between rounds."""
        self._aside = SetAside("half message", READ_ATTEMPTS)
        self.may_be_asked: Callable[[str | None, Record], bool] = lambda _key, _half: True
        """Function that returns True if the account of a producer may see a half message."""

    def is_decided(self, half: Record) -> bool:
        """Return True if a decision about this message, at any of its offsets, was noted."""
        if self._copies.latest(half.queue_offset) in self._decided:
            return True
        return self._may_have_unknown_places(half) and half in self._known

    def decided(self, half: Record, *, is_noted: bool) -> None:
        """Note a decision; `is_noted` is True if an op message for it was stored.

        A decision that a later round finds among the op messages anyway is not kept in memory.
        """
        latest = self._copies.latest(half.queue_offset)
        if self._may_have_unknown_places(half):
            self._known.add(half)
        is_ahead = self._at is not None and latest >= self._at
        if is_ahead or latest in self._copies or not is_noted:
            self._decided.add(latest)

    def _may_have_unknown_places(self, half: Record) -> bool:
        """Return True if this message may have been put again before the broker started."""
        return self._copies.first(half.queue_offset) < self._end_at_start

    def fit_to_store(self) -> None:
        """Limit the progress to the ends of the queues; to be called before the queues grow."""
        for topic in (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC):
            known, end = self._offsets.get(topic, GROUP, 0), self._store.max_offset(topic, 0)
            if known is not None and known > end:
                self._offsets.commit(topic, GROUP, 0, end)
        self._end_at_start = self._store.max_offset(TRANS_HALF_TOPIC, 0)

    async def round(self) -> None:
        """Process every half message that may be old enough."""
        for topic in (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC):
            self._topics.find_or_create(topic, 1)
        half_offset = self._stored(TRANS_HALF_TOPIC)
        op_offset = self._stored(TRANS_OP_HALF_TOPIC)
        ops = _Ops(next_offset=op_offset, stored_offset=op_offset)
        began_ms = self._clock()
        offset, steps = half_offset, 0
        try:
            while self._clock() - began_ms <= self._config.transaction_check_interval:
                self._at = offset
                following = self._step(offset, began_ms, ops)
                if following is None:
                    break
                offset = following
                steps += 1
                if steps % STEPS_PER_TURN == 0:
                    await asyncio.sleep(0)
        finally:
            # Also after an error: messages that were put again must not be put again once more.
            self._at = None
            self._decided = {place for place in self._decided if place >= offset}
            if offset != half_offset:
                self._offsets.commit(TRANS_HALF_TOPIC, GROUP, 0, offset)
            if (settled := ops.settled()) != op_offset:
                self._offsets.commit(TRANS_OP_HALF_TOPIC, GROUP, 0, settled)

    def _stored(self, topic: str) -> int:
        known = self._offsets.get(topic, GROUP, 0)
        return self._store.min_offset(topic, 0) if known is None or known < 0 else known

    def _step(self, offset: int, began_ms: int, ops: _Ops) -> int | None:
        """Process one half message; return the next offset, None if the round is over."""
        if ops.finish(offset) or offset in self._decided:
            self._over(offset)
            return offset + 1
        try:
            found = self._store.read(TRANS_HALF_TOPIC, 0, offset, max_messages=1)
            if found.next_offset < offset:
                _log.warning(
                    "the queue of half messages has expired as a whole, going on at its new "
                    "start %d",
                    found.min_offset,
                )
                self._copies = _Copies()
                self._decided.clear()
                return found.min_offset
            if found.status != "FOUND":
                return None if found.next_offset == offset else self._jump(found.next_offset)
            (half,) = decode_records(found.data, check_crc=False)
        except FAILURES as error:
            if not self._aside.takes(MessagePosition(TRANS_HALF_TOPIC, 0, offset, None), error):
                raise
            self._over(offset)
            return offset + 1
        if half.store_timestamp >= began_ms:
            return None
        now_ms = self._clock()
        age_ms = now_ms - half.born_timestamp
        immunity_ms = self._immunity_ms(half)
        if immunity_ms is None and 0 <= age_ms < self._config.transaction_time_out:
            # All later messages are younger.
            return None
        if not ops.at_end:
            # An op message that was not read yet may refer to this half message.
            self._read_ops(ops, offset)
            return offset
        if self._may_have_unknown_places(half) and half in self._known:
            self._over(offset)
            return offset + 1
        return self._undecided(half, age_ms, immunity_ms, now_ms)

    @staticmethod
    def _jump(offset: int) -> int:
        _log.warning("half messages before offset %d have expired, going on there", offset)
        return offset

    def _immunity_ms(self, half: Record) -> int | None:
        """Return the check immunity time that a message's property sets; None without one.

        The time is limited to half the log's retention time: each round puts the message again, and
        after the immunity the message must still be available for a check.
        """
        text = half.get_property(Property.CHECK_IMMUNITY_SECONDS)
        if text is None:
            return None
        try:
            seconds = int(text)
        except ValueError:
            seconds = -1
        if seconds == -1:
            return self._config.transaction_time_out
        return min(seconds * 1000, self._reserved_ms() // 2)

    def _reserved_ms(self) -> int:
        return self._config.file_reserved_time * HOUR_MS

    def _over(self, place: int) -> None:
        """Forget the message whose latest offset is `place`."""
        self._copies.over(place)
        self._decided.discard(place)

    def _read_ops(self, ops: _Ops, half_offset: int) -> None:
        try:
            self._read_ops_from(ops, half_offset, OP_BATCH)
        except FAILURES:
            # An op message is damaged: read one at a time and set the damaged one aside.
            at = ops.next_offset
            try:
                self._read_ops_from(ops, half_offset, 1)
            except FAILURES as error:
                if not self._aside.takes(MessagePosition(TRANS_OP_HALF_TOPIC, 0, at, None), error):
                    raise
                ops.done.add(at)
                ops.next_offset = at + 1

    def _read_ops_from(self, ops: _Ops, half_offset: int, max_messages: int) -> None:
        found = self._store.read(
            TRANS_OP_HALF_TOPIC, 0, ops.next_offset, max_messages=max_messages, max_bytes=1 << 20
        )
        if found.status != "FOUND":
            if found.next_offset < ops.next_offset:
                _log.warning(
                    "the queue of op messages has expired as a whole, going on at its new start %d",
                    found.min_offset,
                )
                ops.begin_anew(found.min_offset)
            elif found.next_offset > ops.next_offset:  # these op messages have expired
                ops.stored_offset = ops.next_offset = found.next_offset
            else:
                ops.at_end = True
            return
        for record in decode_records(found.data, check_crc=False):
            named = _named(record)
            if named is not None:
                named = self._copies.latest(named)
            if named is None or named < half_offset:
                if named is not None and named < self._end_at_start:
                    self._note_earlier(named)
                ops.done.add(record.queue_offset)
            else:
                if (earlier := ops.named.get(named)) is not None:
                    ops.done.add(earlier)
                ops.named[named] = record.queue_offset
        ops.next_offset = found.next_offset

    def _note_earlier(self, place: int) -> None:
        """Note a decision about an offset that a message had before the broker started."""
        found = self._store.read(TRANS_HALF_TOPIC, 0, place, max_messages=1)
        if found.status == "FOUND":
            for half in decode_records(found.data, check_crc=False):
                if half.queue_offset == place:
                    self._known.add(half)

    def _undecided(
        self, half: Record, age_ms: int, immunity_ms: int | None, now_ms: int
    ) -> int | None:
        try:
            try:
                self._deal_with(half, age_ms, immunity_ms, now_ms)
            except FAILURES as error:
                place = MessagePosition(
                    half.topic, half.queue_id, half.queue_offset, half.physical_offset
                )
                if not self._aside.takes(place, error):
                    raise
                self._discard(half)
        except FAILURES as error:
            if not passes(error):
                # The discard topic does not accept the message either. Its position in the log was
                # logged when it was set aside.
                _log.error(
                    "half message %s cannot be stored in the discard topic, it is skipped: %s",
                    half.offset_id,
                    error,
                )
                self._over(half.queue_offset)
                return half.queue_offset + 1
            _log.error(
                "transaction check of half message %s failed; next try in the following round: %s",
                half.offset_id,
                error,
            )
            return None
        return half.queue_offset + 1

    def _deal_with(self, half: Record, age_ms: int, immunity_ms: int | None, now_ms: int) -> None:
        if immunity_ms is not None and 0 <= age_ms < immunity_ms:
            self._put_again(half)
            return
        checks = max(0, _number(half.get_property(Property.TRANSACTION_CHECK_TIMES)))
        if checks >= self._config.transaction_check_max or age_ms > self._reserved_ms():
            _log.warning(
                "half message %s is undecided after its last check or too old for another one, it "
                "goes to the discard topic",
                half.offset_id,
            )
            self._discard(half)
            return
        real_queue_id(half)  # raises before anything is put: without a queue no check is possible
        copy = again(half, Property.TRANSACTION_CHECK_TIMES, str(checks + 1))
        appended = self._putting.put_as_is(copy)
        self._copies.moved(half.queue_offset, appended.queue_offset, was_told=True)
        try:
            self._ask(half, copy, appended, now_ms)
        except FAILURES:
            _log.exception(
                "check request for half message %s failed after the message was put again; next "
                "try in the following round",
                half.offset_id,
            )

    def _put_again(self, half: Record) -> None:
        """Put a message whose immunity is not over at the end, so that later ones can advance."""
        first = half.get_property(Property.PREPARED_QUEUE_OFFSET)
        text = str(half.queue_offset) if first is None else first
        appended = self._putting.put_as_is(again(half, Property.PREPARED_QUEUE_OFFSET, text))
        self._copies.moved(half.queue_offset, appended.queue_offset, was_told=first is None)

    def _discard(self, half: Record) -> None:
        self._topics.find_or_create(TRANS_CHECK_MAX_TIME_TOPIC, 1)
        self._putting.put_as_is(discarded(half))
        self._over(half.queue_offset)

    def _ask(self, half: Record, copy: NewMessage, appended: Appended, now_ms: int) -> None:
        group = half.get_property(Property.PRODUCER_GROUP) or ""
        producer = self._producers.any_of(
            group, lambda client: self.may_be_asked(client.access_key, half)
        )
        if producer is None:
            _log.warning(
                "no producer of group %s is connected and allowed to decide about half message %s; "
                "next try in the following round",
                group,
                half.offset_id,
            )
            return
        unique_id = half.get_property(Property.UNIQUE_KEY)
        ext = {
            "tranStateTableOffset": str(appended.queue_offset),
            "commitLogOffset": str(appended.physical_offset),
            "offsetMsgId": encode_offset_id(half.store_host, appended.physical_offset),
        }
        if unique_id is not None:
            ext |= {"msgId": unique_id, "transactionId": unique_id}
        body = check_body(half, copy, appended, now_ms)
        producer.notify(RequestCode.CHECK_TRANSACTION_STATE, ext=ext, body=body)


def _named(op: Record) -> int | None:
    """Return the offset of the half message an op message refers to; None if it has none."""
    if op.tags != OP_TAG:
        return None
    try:
        return int(op.stored_body)
    except ValueError:
        return None


def _number(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        return 0
