"""`AsyncProducer`, for asyncio.

The producer belongs to one event loop; messages sent in one turn of the loop leave in one write.
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

# ---- Limit of concurrent sends
#
# Further sends wait in a line. A broker with too many waiting requests refuses those that have
# waited for long. A program may start a hundred thousand sends at once and need not handle that.


class InFlightLimit:
    """Places for concurrent sends: a sender decrements `free` if it is positive, else waits."""

    __slots__ = ("_line", "free")

    def __init__(self, limit: int) -> None:
        self.free = limit
        self._line: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait in line until another send ends and passes its place on."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end()  # the place came after the cancellation: pass it on
            raise

    def end(self) -> None:
        """Pass a place to the next sender in line, or count it as free."""
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

    - `timeout_ms`: limit of a send, including all attempts and the pauses between them. While no
      broker is reachable, a send is retried until this time is over.
    - `retry_times`: further attempts after a broker refuses a message or does not answer; 0 means
      a single attempt. `retry_when_not_stored_ok`: try another broker if a message was accepted
      but not stored safely.
    - `compress_over_bytes`, `codec`, `compress_level`: when and how bodies are compressed;
      `max_message_bytes`: the largest body.
    - `queue_nums`: number of queues of a topic that is created by its first message.
    - `latency_faults`: avoid brokers that were slow.
    - `linger_ms`: time to wait for other messages, which are then sent as one batch of at most
      `batch_bytes` and `batch_messages`; None sends each message by itself.
    - `max_in_flight`: number of sends of an `AsyncProducer` that may wait for their answers;
      further sends wait for their turn, so that a burst does not overload the broker.
    - `trace`: True to record each send in the trace topic, or the name of another topic for it.
    - `hooks`: objects that are called around every send, see `SendHook`.
    - `namespace`, `access_key`, `secret_key`, `security_token`, `tls`, `instance_name`,
      `unit_name`, `vip_channel`: as for every client.
    """

    _retries_refusals = False
    _batcher: Batcher | None = None
    _turns: InFlightLimit
    _quick: QuickSend | None = None

    async def start(self) -> Self:
        """Start the background work; servers receive no request before the first send.

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
        """Send waiting messages, unregister at the brokers and close all connections.

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
        """Send a message and wait until a broker has accepted it.

        Messages with the same `sharding_key` go to the same queue, in the order of the sends.
        `selector` chooses the queue by any other rule; `queue` names it.

        ::

            await producer.send(Message("orders", b"paid"), sharding_key="customer-7")
            await producer.send(Message("orders", b"paid"), selector=lambda queues, m: queues[0])

        While the topic's brokers are unreachable, the send is retried with growing pauses until
        `timeout_ms` is over. A broker that comes back by then gets the message.

        Raises `SendFailed` if all attempts failed, and `BrokerRefused` for a refusal that a retry
        would not change. Raises `NoRoute` if the topic has no queue, and `BadMessage` for a message
        that every broker would refuse.
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
                pass  # the flow gets the same error from the future
            return await awaiting.perform(quick.go_on(message, begun, queue, timeout_ms), network)
        finally:
            turns.end()

    async def enqueue(
        self, message: Message, *, queue: MessageQueue | None = None
    ) -> Future[SendResult]:
        """Add a message to a batch; return the future of its result.

        This is the fastest way to send many messages, because none needs a task of its own. The
        producer needs a `linger_ms`. The call itself waits only for a full batch to leave, or while
        too many batches wait for their answers.

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
        """Send a message without waiting for an answer: fast, but the message may be lost.

        While no broker is reachable, the send is retried for the producer's `timeout_ms`; then it
        raises an error.

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

        Raises `NoReply` if no reply arrives in time.
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
