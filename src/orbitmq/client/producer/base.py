"""Base of blocking and asynchronous producers: settings, checks, and the flows they run."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypedDict

from orbitmq.client.hooks import SendHook, checked_hooks
from orbitmq.client.instance import ClientInstance
from orbitmq.client.producer.batch import Gathered, close_batch, make_batch
from orbitmq.client.producer.hooks import SendHooks
from orbitmq.client.producer.message import OutgoingMessage, SendPolicy, make_outgoing
from orbitmq.client.producer.selection import by_hash
from orbitmq.client.producer.send import Choose, SendState, send, send_oneway
from orbitmq.client.settings import ClientSettings
from orbitmq.client.trace import Tracer
from orbitmq.errors import BadMessage, ClientClosed, ConfigError
from orbitmq.message import Message, MessageQueue, SendResult
from orbitmq.protocol.names import TRACE_TOPIC
from orbitmq.remoting.tls import Tls
from orbitmq.rpc.flow import Flow
from orbitmq.rpc.namespace import wrap

__all__ = ["BaseProducer", "ProducerSettings", "QueueSelector", "check_group"]

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses one of a topic's queues for a message."""

_GROUP = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")


def check_group(group: str, reserved: str) -> str:
    """Return a group's name; raise `ConfigError` if it is malformed or reserved."""
    if not _GROUP.fullmatch(group):
        raise ConfigError(
            f"group {group!r} is not a name: 1 to 255 letters, digits, '%', '|', '_' and '-'"
        )
    if group == reserved:
        raise ConfigError(f"group {group!r} is reserved; choose a name of your own")
    return group


class ProducerSettings(TypedDict, total=False):
    """Optional settings of every producer, described at `Producer`."""

    timeout_ms: float
    retry_times: int
    retry_when_not_stored_ok: bool
    max_message_bytes: int
    compress_over_bytes: int
    codec: Literal["zlib", "lz4", "zstd"]
    compress_level: int
    queue_nums: int
    latency_faults: bool
    linger_ms: float | None
    batch_bytes: int
    batch_messages: int
    max_in_flight: int
    trace: bool | str
    hooks: Iterable[SendHook]
    namespace: str | None
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    tls: Tls | ssl.SSLContext | bool | None
    instance_name: str | None
    unit_name: str | None
    vip_channel: bool | None


class BaseProducer:
    """Part of a producer that needs neither threads nor a loop."""

    _retries_refusals = True

    def __init__(
        self,
        nameservers: str | Iterable[str] | ClientSettings | None = None,
        *,
        group: str,
        timeout_ms: float = 3000,
        retry_times: int = 2,
        retry_when_not_stored_ok: bool = False,
        max_message_bytes: int = 4 << 20,
        compress_over_bytes: int = 4096,
        codec: Literal["zlib", "lz4", "zstd"] = "zlib",
        compress_level: int = 5,
        queue_nums: int = 4,
        latency_faults: bool = False,
        linger_ms: float | None = None,
        batch_bytes: int = 256 << 10,
        batch_messages: int = 1000,
        max_in_flight: int = 1000,
        trace: bool | str = False,
        hooks: Iterable[SendHook] = (),
        namespace: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        security_token: str | None = None,
        tls: Tls | ssl.SSLContext | bool | None = None,
        instance_name: str | None = None,
        unit_name: str | None = None,
        vip_channel: bool | None = None,
    ) -> None:
        self.settings = ClientSettings.of(
            nameservers,
            namespace=namespace,
            access_key=access_key,
            secret_key=secret_key,
            security_token=security_token,
            tls=tls,
            instance_name=instance_name,
            unit_name=unit_name,
            vip_channel=vip_channel,
        )
        if timeout_ms <= 0 or retry_times < 0 or max_in_flight < 1:
            raise ConfigError(
                "timeout_ms and max_in_flight must be positive and retry_times not negative"
            )
        self.group = check_group(group, "DEFAULT_PRODUCER")
        self._group = wrap(self.settings.namespace, group)
        self._policy = SendPolicy(
            timeout_ms=timeout_ms,
            retry_times=retry_times,
            retry_when_not_stored_ok=retry_when_not_stored_ok,
            max_message_bytes=max_message_bytes,
            compress_over_bytes=compress_over_bytes,
            codec=codec,
            compress_level=compress_level,
            queue_nums=queue_nums,
            unit_mode=self.settings.unit_mode,
        )
        self._latency_faults = latency_faults
        self._linger_ms = linger_ms
        self._batch_bytes = min(batch_bytes, max_message_bytes)
        self._batch_messages = batch_messages
        self._max_in_flight = max_in_flight
        self._trace_topic = trace if isinstance(trace, str) else TRACE_TOPIC if trace else None
        self._given_hooks = checked_hooks(hooks, "before_send", "after_send")
        self._hooks: SendHooks | None = None
        self._instance: ClientInstance | None = None
        self._sending: SendState | None = None
        self._tracer: Tracer | None = None

    def __repr__(self) -> str:
        state = "running" if self._instance is not None else "not running"
        return f"<{type(self).__name__} of group {self.group!r}, {state}>"

    @property
    def client_id(self) -> str:
        """Client id under which brokers register this producer."""
        return self._running().client_id

    # ---- methods for the instance's loop

    async def _open(self, before: SendState | None = None) -> ClientInstance:
        """Start the background work; with `before`, keep that send state and its routes."""
        routes = None if before is None else before.routes
        instance = ClientInstance(self.settings, routes=routes)
        instance.add_producer(self._group)
        self._prepare(instance)
        await instance.start()
        self._sending = before or SendState(
            instance.routes,
            self._policy,
            retries_refusals=self._retries_refusals,
            latency_faults=self._latency_faults,
            vip_channel=self.settings.vip_channel,
        )
        self._sending.on_lost = instance.refresh_routes_soon
        self._sending.is_closing = False
        if self._trace_topic is not None:
            self._tracer = Tracer(instance, self.group, "PRODUCE", self._trace_topic)
        if self._given_hooks:
            self._hooks = SendHooks(
                self._given_hooks, self.group, instance.client_id, self.settings.namespace
            )
        self._instance = instance
        return instance

    def _prepare(self, instance: ClientInstance) -> None:
        """Register handlers for requests of brokers; subclasses override this."""

    async def _shut(self) -> None:
        instance, self._instance = self._instance, None
        if self._sending is not None:
            self._sending.is_closing = True
        if instance is not None:
            if self._tracer is not None:
                await self._tracer.close()
            await instance.stop()

    def _running(self) -> ClientInstance:
        if self._instance is None:
            name = type(self).__name__
            raise ClientClosed(
                f"this {name} is not running: use it in a with block, or call start() first "
                "and close() last"
            )
        return self._instance

    # ---- flows

    def _outgoing(self, message: Message) -> OutgoingMessage:
        return make_outgoing(message, self._group, self._policy, self.settings.namespace)

    def _outgoing_batch(self, messages: Sequence[Message]) -> OutgoingMessage:
        return make_batch(messages, self._group, self._policy, self.settings.namespace)

    def _message_flow(
        self,
        message: Message,
        queue: MessageQueue | None,
        choose: Choose | None,
        timeout_ms: float | None,
        make: Callable[[Message], OutgoingMessage] | None = None,
    ) -> Flow[SendResult]:
        """Return the flow that sends a message, with the hooks around it."""
        make = make or self._outgoing
        if self._hooks is None:
            return self._send_flow(make(message), queue, choose, timeout_ms)
        return self._hooks.around(
            [message], lambda ready: self._send_flow(make(ready[0]), queue, choose, timeout_ms)
        )

    def _batch_flow(
        self, messages: Sequence[Message], queue: MessageQueue | None, timeout_ms: float | None
    ) -> Flow[SendResult]:
        """Return the flow that sends a batch, with the hooks around each of its messages."""
        if self._hooks is None:
            return self._send_flow(self._outgoing_batch(messages), queue, None, timeout_ms)
        return self._hooks.around(
            messages,
            lambda ready: self._send_flow(self._outgoing_batch(ready), queue, None, timeout_ms),
        )

    def _send_flow(
        self,
        outgoing: OutgoingMessage,
        queue: MessageQueue | None,
        choose: Choose | None,
        timeout_ms: float | None,
    ) -> Flow[SendResult]:
        sending = self._sending
        if sending is None:
            self._running()
            raise AssertionError  # a running producer can send
        flow = send(sending, outgoing, queue=queue, choose=choose, timeout_ms=timeout_ms)
        if self._tracer is None:
            return flow
        return self._tracer.around_send(flow, outgoing, sending.routes.master)

    def _oneway_flow(
        self, message: Message, queue: MessageQueue | None, choose: Choose | None
    ) -> Flow[None]:
        sending = self._sending
        if sending is None:
            self._running()
            raise AssertionError

        def flow_of(ready: list[Message]) -> Flow[None]:
            return send_oneway(sending, self._outgoing(ready[0]), queue=queue, choose=choose)

        if self._hooks is None:
            return flow_of([message])
        return self._hooks.around_oneway(message, flow_of)

    async def _send_gathered(self, gathered: Gathered[Any]) -> SendResult:
        """Send a batch that a `Batcher` has collected."""
        outgoing = close_batch(gathered, self._group, self._policy, self.settings.namespace)
        flow = self._send_flow(outgoing, gathered.queue, None, None)
        return await self._running().run(flow)

    def _choose(
        self,
        message: Message,
        queue: MessageQueue | None,
        sharding_key: str | None,
        selector: QueueSelector | None,
    ) -> Choose | None:
        """Return the function that chooses the queue, or None for the default choice."""
        if sharding_key is None and selector is None:
            return None
        if (queue is not None) + (sharding_key is not None) + (selector is not None) > 1:
            raise BadMessage("of queue, sharding_key and selector only one can choose the queue")
        if sharding_key is not None:
            return lambda queues: by_hash(queues, sharding_key)

        def choose(queues: Sequence[MessageQueue]) -> MessageQueue:
            assert selector is not None
            if queues and queues[0].topic != message.topic:  # users do not see the namespace
                queues = [MessageQueue(message.topic, q.broker_name, q.queue_id) for q in queues]
            return selector(queues, message)

        return choose
