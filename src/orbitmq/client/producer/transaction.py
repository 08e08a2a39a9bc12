"""Transactions: a message that becomes visible only when the sender's own work has succeeded.

The message is stored as a *half message* that no consumer sees. Then the local work runs, and its
outcome commits the message or rolls it back. The outcome may get lost: the program dies, or the
notice does not arrive. Then the broker sends checks to any producer of the group until it gets an
answer. So `check` must be able to derive the outcome from the message alone.
"""

from __future__ import annotations

import concurrent.futures
import inspect
import logging
from collections.abc import Iterable
from typing import Unpack

from orbitmq.client.instance import ClientInstance
from orbitmq.client.producer.async_producer import AsyncProducer
from orbitmq.client.producer.base import ProducerSettings
from orbitmq.client.producer.half_messages import (
    AsyncCheck,
    AsyncLocalWork,
    Check,
    LocalWork,
    Transactional,
    TransactionResult,
    TransactionState,
)
from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.message import Message, SendStatus

__all__ = [
    "AsyncTransactionProducer",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
]

_log = logging.getLogger(__name__)


class TransactionProducer(Transactional, Producer):
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

    `check` is called on a thread of its own for each check of a broker. The other settings are
    those of `Producer`.
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
        """Unregister at the brokers, close all connections and wait for a running check.

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
        """Send a half message, run the local work, and commit or roll back by its return value.

        ::

            producer.send_in_transaction(message, lambda message, sent: TransactionState.COMMIT)

        If the work returns None or raises an exception (which is logged), `check` decides later. A
        message that was accepted but not stored safely is rolled back without running the work.
        """
        self._ensure_current_process()
        sent = self._perform(self._message_flow(message, None, None, timeout_ms, self._half))
        outcome: TransactionState | None = TransactionState.ROLLBACK
        failure: Exception | None = None
        if sent.status is SendStatus.SEND_OK:
            sent.transaction_id = sent.message_id
            try:
                outcome = work(message, sent)
            except Exception as error:
                _log.exception(
                    "the work of transaction %s failed; a check will decide", sent.message_id
                )
                outcome, failure = None, error
        state = outcome or TransactionState.UNKNOWN
        self._perform(self._end_flow(message, sent, state, failure))
        return TransactionResult(sent, state)


class AsyncTransactionProducer(Transactional, AsyncProducer):
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

    `check` may also be a plain function, which is called on a thread. The other settings are those
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
        """Send a half message, run the local work, and commit or roll back by its return value.

        ::

            await producer.send_in_transaction(message, work)

        If the work returns None or raises an exception (which is logged), `check` decides later. A
        message that was accepted but not stored safely is rolled back without running the work.
        """
        instance = self._running()
        flow = self._message_flow(message, None, None, timeout_ms, self._half)
        sent = await instance.run(flow)
        outcome: TransactionState | None = TransactionState.ROLLBACK
        failure: Exception | None = None
        if sent.status is SendStatus.SEND_OK:
            sent.transaction_id = sent.message_id
            try:
                worked = work(message, sent)
                outcome = await worked if inspect.isawaitable(worked) else worked
            except Exception as error:
                _log.exception(
                    "the work of transaction %s failed; a check will decide", sent.message_id
                )
                outcome, failure = None, error
        state = outcome or TransactionState.UNKNOWN
        await instance.run(self._end_flow(message, sent, state, failure))
        return TransactionResult(sent, state)
