"""END_TRANSACTION: a producer says what became of its half message; and the revival of others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from orbitmq._native import Appended, Command, Record, Store, decode_offset_id, decode_records
from orbitmq.broker.acks import FlushAcks
from orbitmq.broker.placing import Placing
from orbitmq.broker.putting import Putting
from orbitmq.broker.transaction import again, final, op
from orbitmq.config import BrokerConfig
from orbitmq.errors import HeaderFault, OrbitError
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import MessageFlag
from orbitmq.protocol.headers import Header, Long
from orbitmq.protocol.names import TRANS_HALF_TOPIC, Property
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.handling import Refused, Router, respond, without_content

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
    putting: Putting
    placing: Placing
    host: tuple[str, int]
    clock: Callable[[], int]
    acks: FlushAcks | None

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
        safe_at = None
        if decision == COMMIT:
            safe_at = self.placing.put(final(half), from_producer=False).end
        if (noted := self._is_over(half)) is not None:
            safe_at = noted.end
        if self.acks is None or safe_at is None or request.is_oneway:
            return respond(request)

        asked = without_content(request)

        def release(_in_time: bool) -> None:
            connection.send(respond(asked))

        self.acks.when_flushed(safe_at, release)
        return None

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
        if half.topic != TRANS_HALF_TOPIC:
            # Java would deliver an ordinary message a second time.
            raise _refused("Find prepared transaction message failed")
        return half

    def _is_over(self, half: Record) -> Appended | None:
        try:
            return self.putting.put(op(half, self.host, self.clock()), from_producer=False)
        except OrbitError as error:
            _log.error("half message %s will be asked about again: %s", half.offset_id, error)
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
            properties = record.properties | {Property.TRANSACTION_CHECK_TIMES: "0"}
            message = again(record, properties)
            message.topic, message.queue_id = TRANS_HALF_TOPIC, 0
            self.putting.put_as_is(message)
        except Refused:
            raise
        except OrbitError:
            raise _refused(remark) from None
        return respond(request)


def _refused(remark: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, remark)
