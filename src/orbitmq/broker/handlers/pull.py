"""PULL_MESSAGE: answered at once, or held until a message arrives.

The event loop must not wait for the disk, or one consumer that reads old messages would slow down
all others. So a read is first tried in memory only. If the messages are not in memory, a thread
reads them, and the answer follows later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from orbitmq._native import Command, NewMessage, ReadResult, Store, dumps_lenient
from orbitmq.broker.read.long_poll import HeldPull, HeldPulls
from orbitmq.broker.read.pull_filter import PullFilter, PullFilterResolver
from orbitmq.broker.state.groups import GroupTable
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.broker.state.stats import BrokerStats
from orbitmq.broker.state.topics import TopicTable
from orbitmq.broker.write.writer import MessageWriter
from orbitmq.config import BrokerConfig
from orbitmq.errors import FAILURES, HeaderFault, OrbitError
from orbitmq.protocol.bodies import MessageQueue, SubscriptionGroup
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import Permission, PullFlag
from orbitmq.protocol.headers import Header, Long
from orbitmq.protocol.names import FAQ, OFFSET_MOVED_EVENT, Property
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Answer, Refused, Router, without_content

__all__ = ["PullHandlers", "PullHeader"]

_log = logging.getLogger(__name__)

RESIDENT_BYTES = 32 << 20
"""Size of the log's end that is assumed to be in memory, because it was just written."""

BULK_BYTES = 4 << 20
BULK_MESSAGES = 8192
"""Maximum size of one answer, in bytes and messages, for clients that send `orbitMaxBytes`."""

_CODES = {
    "FOUND": ResponseCode.SUCCESS,
    "NO_MATCHED_MESSAGE": ResponseCode.PULL_RETRY_IMMEDIATELY,
    "MESSAGE_WAS_REMOVING": ResponseCode.PULL_RETRY_IMMEDIATELY,
    "OFFSET_FOUND_NULL": ResponseCode.PULL_NOT_FOUND,
    "OFFSET_OVERFLOW_ONE": ResponseCode.PULL_NOT_FOUND,
    "OFFSET_OVERFLOW_BADLY": ResponseCode.PULL_OFFSET_MOVED,
    "OFFSET_TOO_SMALL": ResponseCode.PULL_OFFSET_MOVED,
}
_LOOKED_AT_MESSAGES = ("FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING")


class PullHeader(Header):
    """Header of a pull request."""

    strict = True

    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: Long
    max_msg_nums: int
    sys_flag: int
    commit_offset: Long | None = None
    suspend_timeout_millis: Long = 0
    subscription: str | None = None
    sub_version: Long | None = None
    expression_type: str | None = None
    orbit_max_bytes: int = 0
    """Maximum bytes of the answer, beyond Java's limits; only OrbitMQ's clients send the field."""


@dataclass(slots=True)
class PullHandlers:
    """Handles the pull requests of consumers."""

    config: BrokerConfig
    store: Store
    topics: TopicTable
    groups: GroupTable
    wanting: PullFilterResolver
    offsets: ConsumerOffsets
    putting: MessageWriter
    stats: BrokerStats
    broker_host: tuple[str, int]
    memory_bytes: int
    """Messages farther behind the end of the log than this are assumed to be on disk only."""
    held: HeldPulls
    may_commit: Callable[[str, str, int, int, Connection], bool] = lambda *_: True
    """Function that returns False for an offset that a member may not commit now.

    Its arguments are group, topic, queue id, offset and connection.
    """

    def __post_init__(self) -> None:
        self.held.run = self._run_again
        self.held.finds = self._finds

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.pull, [RequestCode.PULL_MESSAGE])

    def pull(self, request: Command, connection: Connection) -> Answer:
        """Answer a pull, or hold it if it found no message and may wait."""
        return self._pull(request, PullHeader.decode(request), connection, may_hold=True)

    def _run_again(self, pull: HeldPull) -> None:
        def again(request: Command, connection: Connection) -> Answer:
            return self._pull(request, pull.header, connection, may_hold=False)

        pull.connection.handle_later(pull.request, again)

    def _pull(
        self, request: Command, header: PullHeader, connection: Connection, *, may_hold: bool
    ) -> Answer:
        began_ms = self.putting.clock()
        group = self._checked_group(header, connection)
        wanted = self.wanting.of(header, group)
        result = self._read(header, wanted, RESIDENT_BYTES)
        if result.status == "NOT_RESIDENT":
            # Committed now and not after the read: the next commit may arrive before its end.
            self._commit_offset(header, connection, may_hold)
            committed = replace(header, sys_flag=header.sys_flag & ~PullFlag.COMMIT_OFFSET)
            asked = without_content(request)
            return self._pull_from_disk(
                asked, connection, committed, group, wanted, may_hold, began_ms
            )
        return self._answer(request, connection, header, group, wanted, result, may_hold, began_ms)

    async def _pull_from_disk(
        self,
        request: Command,
        connection: Connection,
        header: PullHeader,
        group: SubscriptionGroup,
        wanted: PullFilter,
        may_hold: bool,
        began_ms: int,
    ) -> Command | None:
        result = await asyncio.to_thread(self._read, header, wanted, None)
        return self._answer(request, connection, header, group, wanted, result, may_hold, began_ms)

    def _answer(
        self,
        request: Command,
        connection: Connection,
        header: PullHeader,
        group: SubscriptionGroup,
        wanted: PullFilter,
        result: ReadResult,
        may_hold: bool,
        began_ms: int,
    ) -> Command | None:
        status = result.status
        has_looked = status in _LOOKED_AT_MESSAGES
        if has_looked and header.max_msg_nums < 0:
            raise HeaderFault(f"field maxMsgNums is {header.max_msg_nums}")
        code = _CODES.get(status)
        if code is None:  # NO_MESSAGE_IN_QUEUE
            is_new = header.queue_offset == 0
            code = ResponseCode.PULL_NOT_FOUND if is_new else ResponseCode.PULL_OFFSET_MOVED
        self._commit_offset(header, connection, may_hold)
        if has_looked:
            now_ms = self.putting.clock()
            self._note_lag(header, result, now_ms if status == "FOUND" else None)
        if code == ResponseCode.SUCCESS:
            self.stats.got(header.topic, header.consumer_group, result.count, len(result.data))
            self.stats.got_in(
                header.topic, header.consumer_group, header.queue_id, now_ms - began_ms
            )
        elif code == ResponseCode.PULL_NOT_FOUND:
            self.stats.got_missed += 1
            may_hold = may_hold and bool(header.sys_flag & PullFlag.SUSPEND)
            if may_hold and self._hold(request, connection, header, wanted):
                return None
        elif code == ResponseCode.PULL_OFFSET_MOVED:
            self._tell_offset_moved(header, result.next_offset)
        return result.answer(request, code, self._suggested_broker(group, result))

    def _note_lag(self, header: PullHeader, result: ReadResult, found_ms: int | None) -> None:
        """Note the lag of the group, as GROUP_GET_FALL_SIZE and GROUP_GET_FALL_TIME."""
        self.stats.lags.note(
            header.topic,
            header.consumer_group,
            header.queue_id,
            result.behind_bytes if self.config.disk_fall_recorded else None,
            None if found_ms is None else found_ms - result.last_store_timestamp,
        )

    def _commit_offset(self, header: PullHeader, connection: Connection, may_hold: bool) -> None:
        """Commit the offset in a pull; a held pull has committed its offset before."""
        if not may_hold or not header.sys_flag & PullFlag.COMMIT_OFFSET:
            return
        if header.commit_offset is None:
            raise HeaderFault("field commitOffset is missing")
        group, offset = header.consumer_group, header.commit_offset
        if self.may_commit(group, header.topic, header.queue_id, offset, connection):
            self.offsets.commit(header.topic, group, header.queue_id, offset)

    def _checked_group(self, header: PullHeader, connection: Connection) -> SubscriptionGroup:
        if not self.config.broker_permission & Permission.READ:
            remark = f"the broker[{self.broker_host[0]}] pulling message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        group = self.groups.find(header.consumer_group)
        if group is None:
            remark = f"subscription group [{header.consumer_group}] does not exist, {FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not group.consume_enable:
            remark = f"subscription group no permission, {header.consumer_group}"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        topic = self.topics.find(header.topic)
        if topic is None:
            remark = f"topic[{header.topic}] not exist, apply first please! {FAQ}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        if not topic.is_readable:
            remark = f"the topic[{header.topic}] pulling message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] "
                f"consumer:[/{connection.remote_text}]",
            )
        return group

    def _read(
        self, header: PullHeader, wanted: PullFilter, resident_beyond: int | None
    ) -> ReadResult:
        config = self.config
        bulk_bytes = min(header.orbit_max_bytes, BULK_BYTES)
        if bulk_bytes > 0:
            most = most_on_disk = BULK_MESSAGES
            bytes_ = bytes_on_disk = bulk_bytes
        else:
            most = config.max_transfer_count_on_message_in_memory
            most_on_disk = config.max_transfer_count_on_message_in_disk
            bytes_ = config.max_transfer_bytes_on_message_in_memory
            bytes_on_disk = config.max_transfer_bytes_on_message_in_disk
        return self.store.read(
            header.topic,
            header.queue_id,
            header.queue_offset,
            max_messages=min(max(header.max_msg_nums, 1), most),
            max_bytes=bytes_,
            tag_codes=wanted.tag_codes,
            filter=wanted.filter,
            memory_bytes=self.memory_bytes,
            max_messages_on_disk=most_on_disk,
            max_bytes_on_disk=bytes_on_disk,
            resident_beyond=resident_beyond,
        )

    def _hold(
        self,
        request: Command,
        connection: Connection,
        header: PullHeader,
        wanted: PullFilter,
    ) -> bool:
        timeout_ms = header.suspend_timeout_millis
        is_long = self.config.long_polling_enable
        if not is_long:
            timeout_ms = self.config.short_polling_time_mills
        queue = (header.topic, header.queue_id)
        asked = without_content(request)
        offset = header.queue_offset
        pull = HeldPull(asked, header, connection, queue, offset, *wanted, wakes=is_long)
        return self.held.hold(pull, max(timeout_ms, 0))

    def _finds(self, pull: HeldPull) -> bool:
        """Return True if a held pull would find a message among those not searched before."""
        begin = max(pull.looked_up_to, pull.offset)
        try:
            found = self.store.read(*pull.queue, begin, max_messages=1, filter=pull.filter)
        except FAILURES as error:
            # The pull runs again and is answered with the error; the other held pulls are checked.
            _log.warning(
                "search in queue %d of topic %s for a held pull failed, running the pull again: %s",
                pull.queue[1],
                pull.queue[0],
                error,
            )
            return True
        pull.looked_up_to = found.next_offset
        return found.status != "NO_MATCHED_MESSAGE"

    def _suggested_broker(self, group: SubscriptionGroup, result: ReadResult) -> int:
        if not self.config.slave_read_enable:
            return 0
        if result.behind_bytes > self.memory_bytes:
            return group.which_broker_when_consume_slowly
        return group.broker_id

    def _tell_offset_moved(self, header: PullHeader, new_offset: int) -> None:
        """Store an event for tools that watch for consumers whose offset was out of range."""
        queue = MessageQueue(header.topic, self.config.broker_name, header.queue_id)
        event = {
            "consumerGroup": header.consumer_group,
            "messageQueue": queue.as_json(),
            "offsetNew": new_offset,
            "offsetRequest": header.queue_offset,
        }
        group = header.consumer_group
        message = NewMessage(
            OFFSET_MOVED_EVENT,
            dumps_lenient(event),
            properties={Property.TAGS: group, Property.DELAY: "0", Property.KEYS: group},
            born_timestamp=self.putting.clock(),
            born_host=self.broker_host,
            store_host=self.broker_host,
        )
        try:
            self.putting.put(message, from_producer=False)
        except OrbitError as error:
            # The consumer must get its new offset even if the disk is full.
            _log.warning(
                "cannot store the event that the offset of group %s in topic %s was out of range, "
                "answering without it: %s",
                group,
                header.topic,
                error,
            )
