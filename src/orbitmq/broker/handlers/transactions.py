"""END_TRANSACTION commits or rolls back a half message; RESUME_CHECK_HALF_MESSAGE revives one."""

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
    """A half message and the producer's decision about it."""

    producer_group: str
    tran_state_table_offset: Long
    commit_log_offset: Long
    commit_or_rollback: int
    from_transaction_check: bool = False
    msg_id: str | None = None
    transaction_id: str | None = None


class ResumeHeader(Header):
    """A discarded half message whose checks start again."""

    msg_id: str = ""


@dataclass(slots=True)
class TransactionHandlers:
    """Handles the requests of transactional producers."""

    config: BrokerConfig
    store: Store
    putting: MessageWriter
    placing: TimedWriter
    host: tuple[str, int]
    clock: Callable[[], int]
    acks: FlushAcks | None
    check: TransactionCheck

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.end, [RequestCode.END_TRANSACTION])
        router.add(self.resume_check, [RequestCode.RESUME_CHECK_HALF_MESSAGE])

    def end(self, request: Command, connection: Connection) -> Command | None:
        """Commit or roll back a half message; after UNKNOWN the transaction check decides later."""
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
            # An earlier copy was decided while the check of this copy was under way.
            _log.info(
                "half message %s is already decided, the repeated decision is ignored",
                half.offset_id,
            )
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
        """Store the messages of a decision; return the log offset behind them."""
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
            # Java would deliver an ordinary message a second time, or bytes that look like a half
            # message inside the body of another message.
            raise _refused("Find prepared transaction message failed")
        return half

    def _is_over(self, half: Record) -> Appended | None:
        try:
            return self.putting.put(op(half, self.host, self.clock()), from_producer=False)
        except OrbitError as error:
            _log.error(
                "cannot store the op message of half message %s, after a restart it is checked "
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
                # Java would accept any message, with properties chosen by its sender.
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
