"""`Producer`, for threads; `AsyncProducer`, its twin for asyncio, runs the same flows.

The calling thread writes the request and reads the answer itself; only the heartbeat, the refresh
of routes and batches that form by themselves are left to the background thread. Sends may come from
any number of threads.
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

    _network: BlockingNetwork | None = None
    _batcher: ThreadsBatcher | None = None
    _generation = 0

    def start(self) -> Self:
        """Start the background work; nothing is asked of servers before the first send.

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
        """Send what waits, tell brokers goodbye and close all connections.

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
        """Send a message and wait until a broker has taken it.

        Messages with one `sharding_key` go to one queue, in the order they are sent in; `selector`
        chooses the queue by any other rule, `queue` names it.

        ::

            producer.send(Message("orders", b"paid"), sharding_key="customer-7")
            producer.send(Message("orders", b"paid"), selector=lambda queues, message: queues[0])

        While the topic's brokers are away they are tried again, with pauses that grow, until
        `timeout_ms` is over: a broker that comes back by then gets the message.

        Raises `SendFailed` when all attempts failed, `BrokerRefused` for a refusal that no other
        attempt would change, `NoRoute` when there is no queue, `BadMessage` for a message that no
        broker would take.
        """
        choose = self._choose(message, queue, sharding_key, selector)
        if self._batcher is not None and choose is None and can_linger(message, self._policy):
            return self.enqueue(message, queue=queue).result()
        return self._perform(self._message_flow(message, queue, choose, timeout_ms))

    def enqueue(self, message: Message, *, queue: MessageQueue | None = None) -> Future[SendResult]:
        """Hand a message over to be sent in a batch; the future is what becomes of it.

        For many messages at once this is the fastest way: none needs a thread of its own. Needs a
        `linger_ms`. Waits itself only while more messages are under way than is good.

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
        """Send a message and do not wait for what becomes of it: fast, but it may be lost.

        One that cannot leave, since no broker is there, is tried again for the producer's
        `timeout_ms`; then that is an error.

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

        Raises `NoReply` when there is none in time.
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

    # ---- how

    def _perform(self, flow: Flow[T]) -> T:
        network = self._network
        if network is None or self._instance is None:
            self._running()
            raise AssertionError  # a running producer has a network
        if self._generation != background.generation():
            self._start_again()
        return blocking.perform(flow, network)

    def _ensure_current_process(self) -> None:
        """Let what is about to begin be this process's, and not that of one it was forked from."""
        self._running()
        if self._generation != background.generation():
            self._start_again()

    def _start_again(self) -> None:
        """Give a forked child its own heartbeat; the parent's goes on without it."""
        self._generation = background.generation()
        background.keep_parent_objects((self._instance, self._batcher, self._tracer))
        # A flow that is about to run knows the routes that there are, and goes on with them.
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
