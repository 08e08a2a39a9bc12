"""`Producer`, for threads; `AsyncProducer`, its twin for asyncio, runs the same flows.

The calling thread writes the request and reads the answer itself. The background thread only sends
heartbeats, refreshes routes and sends automatic batches. Any number of threads may send.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from orbitmq.client import background
from orbitmq.client.producer.base import BaseProducer, QueueSelector
from orbitmq.client.producer.batch import can_linger, make_part
from orbitmq.client.producer.batcher import Batcher, ThreadsBatcher, needs_linger
from orbitmq.client.producer.request_reply import Requesting
from orbitmq.errors import ClientClosed
from orbitmq.message import Message, MessageQueue, SendResult
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.rpc.drivers import run_sync as blocking
from orbitmq.rpc.flow import Flow

if TYPE_CHECKING:
    from orbitmq._native import ReceivedMessage

__all__ = ["Producer"]

T = TypeVar("T")


class Producer(Requesting, BaseProducer):
    """Sends messages; may be shared by threads.

    ::

        with Producer("127.0.0.1:9876", group="shop") as producer:
            result = producer.send(Message("orders", b"...", tags="created", keys=["42"]))
            print(result.message_id, result.queue)

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

    _network: BlockingNetwork | None = None
    _batcher: ThreadsBatcher | None = None
    _generation = 0

    def start(self) -> Self:
        """Start the background work; servers receive no request before the first send.

        >>> producer = Producer("127.0.0.1:9876", group="shop").start()
        >>> producer.close()
        """
        if self._instance is not None:
            raise ClientClosed(f"{self!r} was started before")
        self._generation = background.generation()
        self._network = BlockingNetwork(self.settings.make_hooks(), self.settings.make_tls())
        instance = background.run(self._open())
        background.loop().call_soon_threadsafe(
            lambda: instance.every(30, self._close_idle, first_s=30)
        )
        if self._linger_ms is not None:
            self._batcher = background.run(self._open_batcher(self._linger_ms))
        return self

    def close(self) -> None:
        """Send waiting messages, unregister at the brokers and close all connections.

        >>> producer = Producer("127.0.0.1:9876", group="shop").start()
        >>> producer.close()
        """
        if self._instance is None:
            return
        if self._generation == background.generation():
            if self._batcher is not None:
                background.run(self._batcher.close())
            background.run(self._shut())
        else:
            background.keep_parent_objects((self._instance, self._batcher, self._tracer))
        self._instance = self._batcher = None
        if self._network is not None:
            self._network.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- sending

    def send(
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

            producer.send(Message("orders", b"paid"), sharding_key="customer-7")
            producer.send(Message("orders", b"paid"), selector=lambda queues, message: queues[0])

        While the topic's brokers are unreachable, the send is retried with growing pauses until
        `timeout_ms` is over. A broker that comes back by then gets the message.

        Raises `SendFailed` if all attempts failed, and `BrokerRefused` for a refusal that a retry
        would not change. Raises `NoRoute` if the topic has no queue, and `BadMessage` for a message
        that every broker would refuse.
        """
        choose = self._choose(message, queue, sharding_key, selector)
        if self._batcher is not None and choose is None and can_linger(message, self._policy):
            return self.enqueue(message, queue=queue).result()
        return self._perform(self._message_flow(message, queue, choose, timeout_ms))

    def enqueue(self, message: Message, *, queue: MessageQueue | None = None) -> Future[SendResult]:
        """Add a message to a batch; return the future of its result.

        This is the fastest way to send many messages, because none needs a thread of its own. The
        producer needs a `linger_ms`. The call itself waits only while too many messages wait for
        their answers.

        ::

            futures = [producer.enqueue(message) for message in messages]
            results = [future.result() for future in futures]
        """
        self._ensure_current_process()
        batcher = self._batcher
        if batcher is None:
            raise needs_linger()
        if can_linger(message, self._policy):

            def add(ready: Message) -> Future[SendResult]:
                return batcher.add(ready, make_part(ready, self._policy), queue)

            if self._hooks is None:
                return add(message)
            return self._hooks.around_future(message, add)
        alone: Future[SendResult] = Future()
        try:
            alone.set_result(self.send(message, queue=queue))
        except Exception as error:
            alone.set_exception(error)
        return alone

    def send_many(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: float | None = None,
    ) -> SendResult:
        """Send messages of one topic as one batch, which is stored as a whole in one queue.

        ::

            producer.send_many([Message("orders", b"1"), Message("orders", b"2")])
        """
        return self._perform(self._batch_flow(messages, queue, timeout_ms))

    def send_oneway(
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

            producer.send_oneway(Message("metrics", b"cpu=0.3"))
        """
        choose = self._choose(message, queue, sharding_key, selector)
        self._perform(self._oneway_flow(message, queue, choose))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages to a topic can go to.

        ::

            producer.send(message, queue=producer.queues("orders")[0])
        """
        return self._perform(self._queues_flow(topic))

    def request(
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

            reply = producer.request(Message("prices", b"apple"), timeout_ms=5000)
            print(reply.body)

        Raises `NoReply` if no reply arrives in time.
        """
        self._ensure_current_process()
        choose = self._choose(message, queue, sharding_key, selector)
        budget_ms = self._policy.timeout_ms if timeout_ms is None else timeout_ms
        asked, deadline = self._ask(message, budget_ms)
        try:
            background.run(self._be_known(asked.message.topic, budget_ms))
            self._perform(self._message_flow(asked.message, queue, choose, budget_ms))
            return self._await_reply(asked, deadline)
        finally:
            self._forget(asked)

    # ---- running flows

    def _perform(self, flow: Flow[T]) -> T:
        network = self._network
        if network is None or self._instance is None:
            self._running()
            raise AssertionError  # a running producer has a network
        if self._generation != background.generation():
            self._start_again()
        return blocking.perform(flow, network)

    def _ensure_current_process(self) -> None:
        """Restart the background work if this process was forked after the start."""
        self._running()
        if self._generation != background.generation():
            self._start_again()

    def _start_again(self) -> None:
        """Start the background work of a forked child; the parent's work continues there."""
        self._generation = background.generation()
        background.keep_parent_objects((self._instance, self._batcher, self._tracer))
        # A flow that is about to run uses the present send state, so the new instance shares it.
        background.run(self._open(self._sending))
        if self._linger_ms is not None:
            self._batcher = background.run(self._open_batcher(self._linger_ms))

    async def _close_idle(self) -> None:
        if self._network is not None:
            self._network.close_idle()

    async def _open_batcher(self, linger_ms: float) -> ThreadsBatcher:
        return ThreadsBatcher(
            Batcher(self._send_gathered, linger_ms, self._batch_bytes, self._batch_messages)
        )
