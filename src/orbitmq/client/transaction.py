"""Transactions: a message that becomes visible only when the sender's own work has succeeded.

The message is stored as a *half message* that no consumer sees; then the local work is done, and
its outcome commits the message or rolls it back. If the outcome gets lost (the program dies, the
notice does not arrive), the broker asks any producer of the group what became of the transaction,
again and again until it gets an answer, so `check` must be able to tell from the message alone.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Unpack, cast

from orbitmq._native import Command, ReceivedMessage, decode_messages, decode_offset_id
from orbitmq.client.instance import ClientInstance
from orbitmq.client.producer import Producer
from orbitmq.client.producer_async import AsyncProducer
from orbitmq.client.producing import BaseProducer, ProducerSettings
from orbitmq.client.settings import ClientSettings
from orbitmq.client.state.outgoing import Outgoing
from orbitmq.client.state.trace_records import transaction_ended
from orbitmq.client.wishes import Flow, Notify
from orbitmq.errors import RemotingError, WireError
from orbitmq.message import Message, MessageQueue, SendResult, SendStatus
from orbitmq.protocol.codes import RequestCode
from orbitmq.protocol.names import Property
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.hooks import prepare

__all__ = [
    "AsyncTransactionProducer",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
]

_log = logging.getLogger(__name__)

MAX_CHECKS_WAITING = 2000


class TransactionState(Enum):
    """What became of the local work.

    >>> TransactionState.COMMIT.value
    8
    """

    COMMIT = 8
    """Done: consumers may see the message."""
    ROLLBACK = 12
    """Not done and it never will be: the message is dropped."""
    UNKNOWN = 0
    """Not known yet: the broker asks again later."""


_JAVA_NAMES = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}


@dataclass(slots=True)
class TransactionResult:
    """What a broker has done with the half message, and what became of the transaction.

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
    """Return what operators read in the broker's log about an outcome that is not known."""
    return None if error is None else f"{where}: {type(error).__name__}: {error}"


class _Transactional(BaseProducer):
    """What both kinds of transaction producer do."""

    _check: AsyncCheck
    _checks_waiting = 0
    _checkers: concurrent.futures.ThreadPoolExecutor | None = None

    def _half(self, message: Message) -> Outgoing:
        """Make a message a half message; a half message cannot be delayed."""
        half = Message(
            message.topic,
            message.body,
            tags=message.tags,
            keys=message.keys,
            flag=message.flag,
            wait_store_ok=message.wait_store_ok,
        )
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
        """Tell the broker how the transaction ended; it will ask if that does not arrive."""
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
            _log.warning("the broker was not told that %s is %s: %s", sent.message_id, state, error)
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

    # ---- check-back, on the instance's loop

    def _prepare(self, instance: ClientInstance) -> None:
        super()._prepare(instance)
        instance.router.add(self._asked_back, [RequestCode.CHECK_TRANSACTION_STATE])

    def _asked_back(self, request: Command, connection: Connection) -> None:
        instance = self._instance
        if instance is None:
            return
        if self._checks_waiting >= MAX_CHECKS_WAITING:
            _log.warning("too many transactions to check; the broker will ask again")
            return
        self._checks_waiting += 1
        instance.spawn(self._answer_check(request, connection, instance))

    async def _answer_check(
        self, request: Command, connection: Connection, instance: ClientInstance
    ) -> None:
        try:
            ext = request.ext or {}
            queue = MessageQueue("", "", 0)
            namespace = self.settings.namespace or ""
            [message] = decode_messages(request.body, queue, namespace=namespace)
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
        finally:
            self._checks_waiting -= 1

    async def _run_check(
        self, message: ReceivedMessage
    ) -> tuple[TransactionState, Exception | None]:
        try:
            if inspect.iscoroutinefunction(self._check):
                outcome = await self._check(message)
            else:
                # A check may look into a database; the loop has other things to do.
                loop = asyncio.get_running_loop()
                outcome = await loop.run_in_executor(self._checkers, self._check, message)
                if inspect.isawaitable(outcome):
                    outcome = await outcome
        except Exception as error:
            _log.exception("the check of transaction %s failed", message.message_id)
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


class TransactionProducer(_Transactional, Producer):
    """Sends messages that become visible when the local work is done.

    ::

        def check(message):
            paid = is_paid(message.keys[0])
            return TransactionState.COMMIT if paid else TransactionState.ROLLBACK

        def work(message, sent):
            pay(message.keys[0])
            return TransactionState.COMMIT

        with TransactionProducer("127.0.0.1:9876", group="payments", check=check) as producer:
            producer.send_in_transaction(Message("paid", b"...", keys=["42"]), work)

    `check` is called on a thread of its own, whenever a broker asks. The other settings are those
    of `Producer`.
    """

    def __init__(
        self,
        nameservers: str | Iterable[str] | ClientSettings | None = None,
        *,
        group: str,
        check: Check,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        super().__init__(nameservers, group=group, **settings)
        self._check = check

    def _prepare(self, instance: ClientInstance) -> None:
        super()._prepare(instance)
        self._checkers = concurrent.futures.ThreadPoolExecutor(1, "orbitmq-transaction-check")

    def close(self) -> None:
        """Tell brokers goodbye and close all connections; a check under way is waited for.

        ::

            producer.close()
        """
        super().close()
        if self._checkers is not None:
            self._checkers.shutdown(cancel_futures=True)
            self._checkers = None

    def send_in_transaction(
        self, message: Message, work: LocalWork, *, timeout_ms: float | None = None
    ) -> TransactionResult:
        """Send a half message, do the local work, and commit or roll back by what it returns.

        ::

            producer.send_in_transaction(message, lambda message, sent: TransactionState.COMMIT)

        None, or an exception (which is logged), leaves it to `check`. A message that was taken but
        not made safe is rolled back without doing the work.
        """
        outgoing = self._half(message)
        sent = self._perform(self._send_flow(outgoing, None, None, timeout_ms))
        outcome: TransactionState | None = TransactionState.ROLLBACK
        failure: Exception | None = None
        if sent.status is SendStatus.SEND_OK:
            sent.transaction_id = sent.message_id
            try:
                outcome = work(message, sent)
            except Exception as error:
                _log.exception("the work of transaction %s failed", sent.message_id)
                outcome, failure = None, error
        state = outcome or TransactionState.UNKNOWN
        self._perform(self._end_flow(message, sent, state, failure))
        return TransactionResult(sent, state)


class AsyncTransactionProducer(_Transactional, AsyncProducer):
    """Sends messages that become visible when the local work is done.

    ::

        async def check(message):
            paid = await is_paid(message.keys[0])
            return TransactionState.COMMIT if paid else TransactionState.ROLLBACK

        async def work(message, sent):
            await pay(message.keys[0])
            return TransactionState.COMMIT

        async with AsyncTransactionProducer("127.0.0.1:9876", group="p", check=check) as producer:
            await producer.send_in_transaction(Message("paid", b"...", keys=["42"]), work)

    `check` may be a plain function, too, which is called on a thread. The other settings are those
    of `AsyncProducer`.
    """

    _retries_refusals = True

    def __init__(
        self,
        nameservers: str | Iterable[str] | ClientSettings | None = None,
        *,
        group: str,
        check: AsyncCheck,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        super().__init__(nameservers, group=group, **settings)
        self._check = check

    async def send_in_transaction(
        self, message: Message, work: AsyncLocalWork, *, timeout_ms: float | None = None
    ) -> TransactionResult:
        """Send a half message, do the local work, and commit or roll back by what it returns.

        ::

            await producer.send_in_transaction(message, work)

        None, or an exception (which is logged), leaves it to `check`. A message that was taken but
        not made safe is rolled back without doing the work.
        """
        outgoing = self._half(message)
        instance = self._running()
        sent = await instance.run(self._send_flow(outgoing, None, None, timeout_ms))
        outcome: TransactionState | None = TransactionState.ROLLBACK
        failure: Exception | None = None
        if sent.status is SendStatus.SEND_OK:
            sent.transaction_id = sent.message_id
            try:
                worked = work(message, sent)
                outcome = await worked if inspect.isawaitable(worked) else worked
            except Exception as error:
                _log.exception("the work of transaction %s failed", sent.message_id)
                outcome, failure = None, error
        state = outcome or TransactionState.UNKNOWN
        await instance.run(self._end_flow(message, sent, state, failure))
        return TransactionResult(sent, state)
