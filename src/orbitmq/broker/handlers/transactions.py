"""END_TRANSACTION: a producer says what became of its half message; and the revival of others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from orbitmq._native import Appended, Command, Record, Store, decode_offset_id, decode_records
from orbitmq.broker.transactions.check import TransactionCheck
from orbitmq.broker.transactions.half import again, final, op
from orbitmq.broker.write.acks import FlushAcks
from orbitmq.broker.write.timers import TimedWriter
from orbitmq.broker.write.writer import MessageWriter, real_queue_id
from orbitmq.config import BrokerConfig
from orbitmq.errors import HeaderFault, OrbitError
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import MessageFlag
from orbitmq.protocol.headers import Header, Long
from orbitmq.protocol.names import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, Property
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Refused, Router, respond, without_content

__all__ = ["TransactionHandlers"]

_log = logging.getLogger(__name__)

UNKNOWN = 0
COMMIT = MessageFlag.TRANSACTION_COMMIT
ROLLBACK = MessageFlag.TRANSACTION_ROLLBACK


class EndTransactionHeader(Header):
    """Which half message is over, and how."""

    producer_group: str
    tran_state_table_offset: Long
    commit_log_offset: Long
    commit_or_rollback: int
    from_transaction_check: bool = False
    msg_id: str | None = None
    transaction_id: str | None = None


class ResumeHeader(Header):
    """Which discarded message is to be asked about again."""

    msg_id: str = ""


@dataclass(slots=True)
class TransactionHandlers:
    """Answers transactional producers."""

    config: BrokerConfig
    store: Store
    putting: MessageWriter
    placing: TimedWriter
    host: tuple[str, int]
    clock: Callable[[], int]
    acks: FlushAcks | None
    check: TransactionCheck

    def register(self, router: Router) -> None:
        """Take over the codes of this family."""
        router.add(self.end, [RequestCode.END_TRANSACTION])
        router.add(self.resume_check, [RequestCode.RESUME_CHECK_HALF_MESSAGE])

    def end(self, request: Command, connection: Connection) -> Command | None:
        """Commit or roll back a half message; what is not known yet will be asked about."""
        header = EndTransactionHeader.decode(request)
        decision = header.commit_or_rollback
        if decision not in (UNKNOWN, COMMIT, ROLLBACK):
            raise HeaderFault(f"field commitOrRollback is {decision}")
        if self.config.broker_role == "SLAVE":
            raise Refused(ResponseCode.SLAVE_NOT_AVAILABLE, None)
        if decision == UNKNOWN:
            return None
        half = self._checked_half(header)
        if self.check.is_decided(half):
            # Decided by way of an earlier copy while this one was asked about.
            _log.info("half message %s is decided already, not once more", half.offset_id)
            safe_at: int | None = self.store.max_physical_offset
        else:
            safe_at = self._decide(half, decision)
        if self.acks is None or safe_at is None or request.is_oneway:
            return respond(request)

        asked = without_content(request)

        def release(_in_time: bool) -> None:
            connection.send(respond(asked))

        self.acks.when_flushed(safe_at, release)
        return None

    def _decide(self, half: Record, decision: int) -> int | None:
        """Carry a decision out; returns where the log ends that has it."""
        safe_at = None
        if decision == COMMIT:
            safe_at = self.placing.put(final(half), from_producer=False).end
        if (noted := self._is_over(half)) is not None:
            safe_at = noted.end
        self.check.decided(half, is_noted=noted is not None)
        return safe_at

    def _checked_half(self, header: EndTransactionHeader) -> Record:
        data = self.store.record_at(header.commit_log_offset)
        if data is None:
            raise _refused("Find prepared transaction message failed")
        (half,) = decode_records(data, check_crc=False)
        group = half.get_property(Property.PRODUCER_GROUP)
        if group is None:
            raise _refused(f"the message at {header.commit_log_offset} names no producer group")
        if group != header.producer_group:
            raise _refused("The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            raise _refused("The transaction state table offset wrong")
        if half.physical_offset != header.commit_log_offset:
            raise _refused("The commit log offset wrong")
        unit = self.store.unit_at(half.topic, half.queue_id, half.queue_offset)
        if half.topic != TRANS_HALF_TOPIC or unit is None or unit[0] != half.physical_offset:
            # Java would deliver an ordinary message a second time, or what only looks like a half
            # message inside the body of another one.
            raise _refused("Find prepared transaction message failed")
        return half

    def _is_over(self, half: Record) -> Appended | None:
        try:
            return self.putting.put(op(half, self.host, self.clock()), from_producer=False)
        except OrbitError as error:
            _log.error(
                "the end of half message %s is not stored, after a restart it is asked about "
                "again: %s",
                half.offset_id,
                error,
            )
            return None

    def resume_check(self, request: Command, _connection: Connection) -> Command:
        """Put a discarded half message back, with no check counted."""
        header = ResumeHeader.decode(request)
        remark = f"Exception was thrown when putting message back to {TRANS_HALF_TOPIC}."
        try:
            _host, physical_offset = decode_offset_id(header.msg_id)
            data = self.store.record_at(physical_offset)
            if data is None:
                raise _refused(remark)
            (record,) = decode_records(data, check_crc=False)
            if not self._is_half(record, physical_offset):
                # Java would take any message, whose properties are then its sender's.
                raise _refused(f"{remark} The message at {physical_offset} is no half message.")
            real_queue_id(record)
            self.putting.put_as_is(again(record, Property.TRANSACTION_CHECK_TIMES, "0"))
        except Refused:
            raise
        except (OrbitError, ValueError):
            raise _refused(remark) from None
        return respond(request)

    def _is_half(self, record: Record, physical_offset: int) -> bool:
        """Return True for a half or discarded message, False for bytes inside another body."""
        if record.topic not in (TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC):
            return False
        unit = self.store.unit_at(record.topic, record.queue_id, record.queue_offset)
        return unit is not None and unit[0] == physical_offset


def _refused(remark: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, remark)
