"""What becomes of messages whose handlers failed, or never came back.

They go back to their brokers, to be retried later or to become dead letters; until a broker has
taken one, its offset is not committed. A message that no broker takes is tried again here. One that
no broker can ever take, because of the message itself, is tried here as often as it would have been
elsewhere; then it is set aside with an error in the log, and its queue goes on.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from typing import Any

from orbitmq._native import ReceivedMessage
from orbitmq.client.concurrent import ConcurrentService
from orbitmq.client.flows.refusals import is_hopeless
from orbitmq.client.flows.send_back import send_back, send_copy
from orbitmq.client.group import GroupMember
from orbitmq.client.handlers import Failure, log_failure
from orbitmq.client.state.orderly_queue import OrderlyQueue
from orbitmq.client.state.process_queue import Run
from orbitmq.errors import FAILURES, OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.names import retry_topic

__all__ = ["Settling"]

_log = logging.getLogger(__name__)

LOCAL_RETRY_S = 5.0
STUCK_DELAY_LEVEL = 3
FOREVER = 2**31 - 1


class Settling:
    """Settles what handlers have left, on the loop."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()

    def serve(self, service: ConcurrentService) -> None:
        """Say who tries again what stays here."""
        self._service = service

    async def finish(self, timeout_s: float) -> None:
        """Wait until everything is settled."""
        # What the last handlers left behind has been handed to the loop by now.
        await asyncio.sleep(0)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    def failed(self, run: Run, failed: list[Failure]) -> None:
        """Take care of what a run has failed with; workers call this."""
        for _, group in itertools.groupby(failed, lambda failure: id(failure.error)):
            of_one = list(group)
            log_failure(_log, [failure.message for failure in of_one], of_one[0].error)
        self._loop.call_soon_threadsafe(lambda: self._begin_to_settle(run, failed))

    def _begin_to_settle(self, run: Run, failed: list[Failure]) -> None:
        task = self._member.instance.spawn(self._settle(run, failed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, run: Run, failed: list[Failure]) -> None:
        """Send failed messages back; those that cannot be sent are tried again here."""
        if self._member.settings.broadcast:
            run.queue.finish(run)
            return
        kept = []
        for failure in failed:
            message = failure.message
            try:
                await self._send_back(message, failure.delay_level)
            except FAILURES as error:
                if self._is_set_aside(message, error, self._member.settings.send_back_limit):
                    continue
                _stays_here(message, error)
                kept.append(message.with_reconsume_times(message.reconsume_times + 1))
        runs = run.queue.finish(run, kept)
        if not self._member.instance.routes.route(retry_topic(self._member.group)):
            self._member.rebalance_soon()  # the topic of retries is there now
        if runs:
            self._loop.call_later(LOCAL_RETRY_S, self._retry_here, runs)

    def _retry_here(self, runs: list[Run]) -> None:
        for run in runs:
            if not run.queue.is_dropped:
                self._service.submit(run)

    async def give_up_stuck_messages(self) -> None:
        """Send back what handlers do not come back from, so that its queue can go on."""
        overdue = time.monotonic() - self._member.settings.consume_timeout_s
        for stuck in self._service.stuck_since(overdue):
            names = ", ".join(message.message_id for message in stuck.messages)
            _log.warning(
                "the handler of %s has had message %s for more than %.0f s: it will be retried",
                stuck.messages[0].topic,
                names,
                self._member.settings.consume_timeout_s,
            )
            try:
                for message in stuck.messages:
                    await self._send_back(message, STUCK_DELAY_LEVEL)
            except FAILURES as error:
                _log.warning("message %s stays with its handler: %s", names, error)
                continue
            self._service.give_up(stuck)

    @staticmethod
    def _is_set_aside(message: ReceivedMessage, error: BaseException, limit: int) -> bool:
        """Set a message aside that was tried often enough, if no broker can ever take it."""
        if message.reconsume_times < limit or not is_hopeless(error):
            return False
        _log.error(
            "message %s of %s at offset %d, physical offset %d, was tried %d times and is set "
            "aside, because no broker can take it as a dead letter: %s",
            message.message_id,
            message.queue,
            message.queue_offset,
            message.physical_offset,
            message.reconsume_times,
            error,
        )
        return True

    async def _send_back(self, message: ReceivedMessage, delay_level: int) -> None:
        queue: MessageQueue = message.queue
        await self._member.instance.run(
            send_back(
                self._member.instance.routes,
                self._member.group,
                message,
                queue.broker_name,
                delay_level=delay_level,
                max_reconsume_times=self._member.settings.send_back_limit,
            )
        )

    async def settle_ordered(
        self, _queue: OrderlyQueue, taken: list[ReceivedMessage], _error: BaseException
    ) -> list[ReceivedMessage] | None:
        """Hand messages that were tried too often to the dead letters, have the others again."""
        limit = self._member.settings.max_reconsume_times
        if self._member.settings.broadcast:
            limit = FOREVER if limit < 0 else limit
            if all(message.reconsume_times >= limit for message in taken):
                return None
        elif (
            limit >= 0
            and all(message.reconsume_times >= limit for message in taken)
            and await self._are_dead_letters(taken, limit)
        ):
            return None
        return [message.with_reconsume_times(message.reconsume_times + 1) for message in taken]

    async def _are_dead_letters(self, taken: list[ReceivedMessage], limit: int) -> bool:
        """Make messages dead letters; returns whether they need not be tried any more."""
        for message in taken:
            try:
                await self._member.instance.run(
                    send_copy(
                        self._member.instance.routes,
                        self._member.group,
                        message,
                        reconsume_times=message.reconsume_times,
                        max_reconsume_times=limit,
                    )
                )
            except FAILURES as error:
                if not self._is_set_aside(message, error, limit):
                    _stays_here(message, error)
                    return False
        return True


def _stays_here(message: ReceivedMessage, error: BaseException) -> None:
    _log.warning(
        "could not send message %s back to its broker, retrying it in this consumer: %s",
        message.message_id,
        error,
        exc_info=None if isinstance(error, OrbitError) else error,
    )
