"""Base of both transaction producers: half messages, their outcomes, and answers to checks.

A broker that has received no outcome of a transaction sends a check to any producer of the group.
It uses the producer's connection and receives the answer on the same one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import cast

from orbitmq._native import Command, ReceivedMessage, decode_offset_id
from orbitmq.client.consumer.pushed_message import pushed_message
from orbitmq.client.instance import ClientInstance
from orbitmq.client.producer.base import BaseProducer
from orbitmq.client.producer.message import OutgoingMessage
from orbitmq.client.trace import transaction_ended
from orbitmq.errors import RemotingError, WireError
from orbitmq.message import Message, SendResult
from orbitmq.protocol.codes import RequestCode
from orbitmq.protocol.names import Property
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.hooks import prepare
from orbitmq.rpc.flow import Flow, Notify

__all__ = [
    "AsyncCheck",
    "AsyncLocalWork",
    "Check",
    "LocalWork",
    "TransactionResult",
    "TransactionState",
    "Transactional",
]

_log = logging.getLogger(__name__)

MAX_CHECKS_WAITING = 2000


class TransactionState(Enum):
    """Outcome of the local work.

    >>> TransactionState.COMMIT.value
    8
    """

    COMMIT = 8
    """Done: consumers may see the message."""
    ROLLBACK = 12
    """Not done, now or later: the message is dropped."""
    UNKNOWN = 0
    """Not known yet: the broker checks again later."""


_JAVA_NAMES = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}


@dataclass(slots=True)
class TransactionResult:
    """Result of the half message's send, and the outcome of the transaction.

    ::

        result = producer.send_in_transaction(message, work)
        assert result.state is TransactionState.COMMIT
    """

    sent: SendResult
    state: TransactionState


Check = Callable[[ReceivedMessage], TransactionState | None]
AsyncCheck = Callable[
    [ReceivedMessage], TransactionState | Awaitable[TransactionState | None] | None
]
LocalWork = Callable[[Message, SendResult], TransactionState | None]
AsyncLocalWork = Callable[
    [Message, SendResult], TransactionState | Awaitable[TransactionState | None] | None
]


def _remark(where: str, error: Exception | None) -> str | None:
    """Return the remark in the broker's log that explains an unknown outcome."""
    return None if error is None else f"{where}: {type(error).__name__}: {error}"


class Transactional(BaseProducer):
    """Base of both transaction producers."""

    _check: AsyncCheck
    _checks_waiting = 0
    _checkers: concurrent.futures.ThreadPoolExecutor | None = None

    def _half(self, message: Message) -> OutgoingMessage:
        """Return the half message of a message, without its delay level.

        A delivery time of the message counts from the commit on.
        """
        half = Message(
            message.topic,
            message.body,
            tags=message.tags,
            keys=message.keys,
            flag=message.flag,
            wait_store_ok=message.wait_store_ok,
        )
        half.take_timers(message)
        half.properties = message.properties
        half.system = {
            **(message.system or {}),
            Property.TRANSACTION: "true",
            Property.PRODUCER_GROUP: self._group,
        }
        return self._outgoing(half)

    def _end_flow(
        self,
        message: Message,
        sent: SendResult,
        state: TransactionState,
        error: Exception | None = None,
    ) -> Flow[None]:
        """Send the outcome to the broker; if it gets lost, the broker sends a check later."""
        address = self._running().routes.master(sent.queue.broker_name)
        try:
            _, physical_offset = decode_offset_id(sent.offset_id)
            if address is None:
                raise RemotingError(f"no master of {sent.queue.broker_name} is known")
            ext = {
                "producerGroup": self._group,
                "tranStateTableOffset": str(sent.queue_offset),
                "commitLogOffset": str(physical_offset),
                "commitOrRollback": str(state.value),
                "fromTransactionCheck": "false",
                "msgId": sent.message_id,
                "bname": sent.queue.broker_name,
            }
            if sent.transaction_id:
                ext["transactionId"] = sent.transaction_id
            remark = _remark("executeLocalTransactionBranch exception", error)
            yield Notify(address, RequestCode.END_TRANSACTION, ext, remark=remark)
        except (RemotingError, WireError) as error:
            _log.warning(
                "cannot send the outcome of transaction %s (%s); its broker will send a check: %s",
                sent.message_id,
                state,
                error,
            )
        if self._tracer is not None:
            record = transaction_ended(
                timestamp_ms=time.time_ns() // 1_000_000,
                region=sent.region,
                group=self.group,
                message=message,
                message_id=sent.message_id,
                store_host=address or "",
                transaction_id=sent.transaction_id or sent.message_id,
                state=_JAVA_NAMES[state],
                from_check=False,
            )
            self._tracer.add(record, (sent.message_id, *message.keys))

    # ---- transaction checks, on the instance's loop

    def _prepare(self, instance: ClientInstance) -> None:
        super()._prepare(instance)
        instance.router.add(self._asked_back, [RequestCode.CHECK_TRANSACTION_STATE])

    def _asked_back(self, request: Command, connection: Connection) -> None:
        instance = self._instance
        if instance is None:
            return
        if self._checks_waiting >= MAX_CHECKS_WAITING:
            _log.warning(
                "too many transaction checks wait; this one is dropped, its broker repeats it"
            )
            return
        self._checks_waiting += 1
        instance.spawn(self._answer_check(request, connection, instance))

    async def _answer_check(
        self, request: Command, connection: Connection, instance: ClientInstance
    ) -> None:
        try:
            ext = request.ext or {}
            message = pushed_message(request, self.settings.namespace or "")
            message_id = message.message_id
            state, error = await self._run_check(message)
            if self._tracer is not None:
                self._trace_check(message, state, connection)
            fields = {
                "producerGroup": message.get_property(Property.PRODUCER_GROUP) or self._group,
                "tranStateTableOffset": ext.get("tranStateTableOffset", "0"),
                "commitLogOffset": ext.get("commitLogOffset", "0"),
                "commitOrRollback": str(state.value),
                "fromTransactionCheck": "true",
                "msgId": message_id,
            }
            transaction_id = ext.get("transactionId")
            if transaction_id:
                fields["transactionId"] = transaction_id
            code = RequestCode.END_TRANSACTION
            connection.notify(
                code,
                ext=prepare(instance.network.hooks, code, fields, None),
                remark=_remark("checkLocalTransactionState Exception", error),
            )
        except WireError as error:
            _log.warning(
                "transaction check from broker %s cannot be decoded and is dropped: %s",
                connection.remote_text, error,
            )  # fmt: skip
        finally:
            self._checks_waiting -= 1

    async def _run_check(
        self, message: ReceivedMessage
    ) -> tuple[TransactionState, Exception | None]:
        try:
            if inspect.iscoroutinefunction(self._check):
                outcome = await self._check(message)
            else:
                # A check may query a database, which would block the loop.
                loop = asyncio.get_running_loop()
                outcome = await loop.run_in_executor(self._checkers, self._check, message)
                if inspect.isawaitable(outcome):
                    outcome = await outcome
        except Exception as error:
            _log.exception(
                "the check of transaction %s failed; the answer is UNKNOWN", message.message_id
            )
            return TransactionState.UNKNOWN, error
        return cast("TransactionState | None", outcome) or TransactionState.UNKNOWN, None

    def _trace_check(
        self, message: ReceivedMessage, state: TransactionState, connection: Connection
    ) -> None:
        assert self._tracer is not None
        told = Message(message.topic, b"", tags=message.tags, keys=message.keys)
        record = transaction_ended(
            timestamp_ms=time.time_ns() // 1_000_000,
            region=message.get_property(Property.MSG_REGION) or "DefaultRegion",
            group=self.group,
            message=told,
            message_id=message.message_id,
            store_host=connection.remote_text,
            transaction_id=message.transaction_id,
            state=_JAVA_NAMES[state],
            from_check=True,
        )
        self._tracer.add(record, (message.message_id, *message.keys))
