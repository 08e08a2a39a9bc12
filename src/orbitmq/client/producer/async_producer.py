"""`AsyncProducer`, for asyncio.

It belongs to one event loop; sends of one turn of the loop leave in one write.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from orbitmq.client.producer.base import BaseProducer, QueueSelector
from orbitmq.client.producer.batch import can_linger, make_part
from orbitmq.client.producer.batcher import Batcher, needs_linger
from orbitmq.client.producer.request_reply import Requesting
from orbitmq.client.producer.send import QuickSend
from orbitmq.errors import ClientClosed, RemotingError
from orbitmq.message import Message, MessageQueue, SendResult
from orbitmq.rpc.drivers import run_async as awaiting

if TYPE_CHECKING:
    from orbitmq._native import ReceivedMessage

__all__ = ["AsyncProducer", "InFlightLimit"]

# ---- A limit on how many sends are under way at once; the others wait in a line
#
# A broker that has too many requests before it refuses those that have waited for long. A program
# that starts a hundred thousand sends at once should not have to know.


class InFlightLimit:
    """Who takes one while `free` is positive counts it down himself, else waits for his turn."""

    __slots__ = ("_line", "free")

    def __init__(self, limit: int) -> None:
        self.free = limit
        self._line: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait until one of those before has ended; its place is taken over."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end()  # it came, but too late
            raise

    def end(self) -> None:
        """Give a place to the next in line."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1


class AsyncProducer(Requesting, BaseProducer):
    """Sends messages; belongs to the event loop it was started on.

    ::

        async with AsyncProducer("127.0.0.1:9876", group="shop") as producer:
            messages = [Message("orders", b"%d" % number) for number in range(1000)]
            await asyncio.gather(*(producer.send(message) for message in messages))

    Settings (keyword arguments, all but `group` optional):

    - `timeout_ms`: for a send with all its attempts and the pauses between them. While no broker
      can be reached, a send goes on until that is over.
    - `retry_times`: attempts after one that a broker has refused or not answered; 0 makes one
      attempt only. `retry_when_not_stored_ok`: try another broker if a message was taken but not
      made safe.
    - `compress_over_bytes`, `codec`, `compress_level`: when and how bodies are compressed;
      `max_message_bytes`: the largest body.
    - `queue_nums`: how many queues a topic gets that its first message creates.
    - `latency_faults`: keep away from brokers that were slow.
    - `linger_ms`: wait so long for other messages and send them as one batch of at most
      `batch_bytes` and `batch_messages`; None does not.
    - `max_in_flight`: how many sends of an `AsyncProducer` may wait for their answers; more of them
      wait for their turn, so that a burst does not drown the broker.
    - `trace`: True, or the name of the topic to record each send in.
    - `hooks`: objects that are called around every send, see `SendHook`.
    - `namespace`, `access_key`, `secret_key`, `security_token`, `tls`, `instance_name`,
      `unit_name`, `vip_channel`: as for every client.
    """

    _retries_refusals = False
    _batcher: Batcher | None = None
    _turns: InFlightLimit
    _quick: QuickSend | None = None

    async def start(self) -> Self:
        """Start the background work; nothing is asked of servers before the first send.

        ::

            producer = await AsyncProducer("127.0.0.1:9876", group="shop").start()
        """
        if self._instance is not None:
            raise ClientClosed(f"{self!r} was started before")
        instance = await self._open()
        self._turns = InFlightLimit(self._max_in_flight)
        sending = self._sending
        if sending is not None and sending.faults is None and not (self._tracer or self._hooks):
            self._quick = QuickSend(sending, instance.network, self._group, self.settings.namespace)
        if self._linger_ms is not None:
            self._batcher = Batcher(
                self._send_gathered, self._linger_ms, self._batch_bytes, self._batch_messages
            )
        return self

    async def close(self) -> None:
        """Send what waits, tell brokers goodbye and close all connections.

        ::

            await producer.close()
        """
        if self._instance is None:
            return
        if self._batcher is not None:
            await self._batcher.close()
            self._batcher = None
        await self._shut()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.close()

    # ---- sending

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        sharding_key: str | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: float | None = None,
    ) -> SendResult:
        """Send a message and wait until a broker has taken it.

        Messages with one `sharding_key` go to one queue, in the order they are sent in; `selector`
        chooses the queue by any other rule, `queue` names it.

        ::

            await producer.send(Message("orders", b"paid"), sharding_key="customer-7")
            await producer.send(Message("orders", b"paid"), selector=lambda queues, m: queues[0])

        While the topic's brokers are away they are tried again, with pauses that grow, until
        `timeout_ms` is over: a broker that comes back by then gets the message.

        Raises `SendFailed` when all attempts failed, `BrokerRefused` for a refusal that no other
        attempt would change, `NoRoute` when there is no queue, `BadMessage` for a message that no
        broker would take.
        """
        choose = (
            None
            if sharding_key is None and selector is None
            else self._choose(message, queue, sharding_key, selector)
        )
        if self._batcher is not None and choose is None and can_linger(message, self._policy):
            return await self._add(self._batcher, message, queue)
        network = self._running().network
        turns = self._turns
        if turns.free > 0:
            turns.free -= 1
        else:
            await turns.wait()
        try:
            quick = self._quick
            if quick is None or choose is not None:
                begun = None
            else:
                begun = quick.begin(message, queue, timeout_ms)
            if quick is None or begun is None:
                flow = self._message_flow(message, queue, choose, timeout_ms)
                return await awaiting.perform(flow, network)
            try:
                await begun[0]
                if (result := quick.taken(message, begun)) is not None:
                    return result
            except RemotingError:
                pass  # the flow will see it
            return await awaiting.perform(quick.go_on(message, begun, queue, timeout_ms), network)
        finally:
            turns.end()

    async def enqueue(
        self, message: Message, *, queue: MessageQueue | None = None
    ) -> Future[SendResult]:
        """Hand a message over to be sent in a batch; the future is what becomes of it.

        For many messages at once this is the fastest way: none needs a task of its own. Needs a
        `linger_ms`. Waits itself only for a full batch to leave, or while too many are under way.

        ::

            futures = [await producer.enqueue(message) for message in messages]
            results = [await future for future in futures]
        """
        batcher = self._batcher
        if batcher is None:
            self._running()
            raise needs_linger()
        if not can_linger(message, self._policy):
            return asyncio.ensure_future(self.send(message, queue=queue))
        if batcher.holds_up:
            await batcher.let_through()
        return self._add(batcher, message, queue)

    def _add(
        self, batcher: Batcher, message: Message, queue: MessageQueue | None
    ) -> Future[SendResult]:
        def add(ready: Message) -> Future[SendResult]:
            return batcher.add(ready, make_part(ready, self._policy), queue)

        return add(message) if self._hooks is None else self._hooks.around_future(message, add)

    async def send_many(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: float | None = None,
    ) -> SendResult:
        """Send messages of one topic as one batch, which is stored as a whole in one queue.

        ::

            await producer.send_many([Message("orders", b"1"), Message("orders", b"2")])
        """
        flow = self._batch_flow(messages, queue, timeout_ms)
        return await self._running().run(flow)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        sharding_key: str | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Send a message and do not wait for what becomes of it: fast, but it may be lost.

        One that cannot leave, since no broker is there, is tried again for the producer's
        `timeout_ms`; then that is an error.

        ::

            await producer.send_oneway(Message("metrics", b"cpu=0.3"))
        """
        choose = self._choose(message, queue, sharding_key, selector)
        flow = self._oneway_flow(message, queue, choose)
        await self._running().run(flow)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages to a topic can go to.

        ::

            await producer.send(message, queue=(await producer.queues("orders"))[0])
        """
        return await self._running().run(self._queues_flow(topic))

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        sharding_key: str | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: float | None = None,
    ) -> ReceivedMessage:
        """Send a message and wait for the reply that its consumer sends (see `reply_to`).

        ::

            reply = await producer.request(Message("prices", b"apple"), timeout_ms=5000)
            print(reply.body)

        Raises `NoReply` when there is none in time.
        """
        instance = self._running()
        choose = self._choose(message, queue, sharding_key, selector)
        budget_ms = self._policy.timeout_ms if timeout_ms is None else timeout_ms
        asked, deadline = self._ask(message, budget_ms)
        try:
            await self._be_known(asked.message.topic, budget_ms)
            flow = self._message_flow(asked.message, queue, choose, budget_ms)
            await instance.run(flow)
            return await self._reply(asked, deadline)
        finally:
            self._forget(asked)
