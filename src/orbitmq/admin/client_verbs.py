"""Verbs about connected clients, queues, messages and offsets, in both twins."""

from __future__ import annotations

from orbitmq._native import ReceivedMessage
from orbitmq.admin import clients as _connected
from orbitmq.admin import messages as _messages
from orbitmq.admin import offsets as _offsets
from orbitmq.admin import queues as _queues
from orbitmq.admin import traces as _traces
from orbitmq.admin.clients import ConsumedDirectly, RunningInfo
from orbitmq.admin.groups import Member
from orbitmq.admin.namespace import AsyncVerbRunner, VerbRunner
from orbitmq.admin.queues import QueueEntries, QueueRead
from orbitmq.admin.traces import TraceEvent
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.names import TRACE_TOPIC

__all__ = ["AsyncClientVerbs", "ClientVerbs"]


class ClientVerbs(VerbRunner):
    """Verbs about connected clients, queues, messages and offsets."""

    # ---- clients

    def producer_members(self, group: str, topic: str) -> tuple[Member, ...]:
        """Return the connected producers: ``admin.producer_members("shop", "orders")``."""
        return self._run(
            _connected.producer_members(
                self._nameservers, self._names.own(group), self._names.own(topic)
            )
        )

    def all_producers(self, address: str) -> dict[str, tuple[Member, ...]]:
        """Return all producers that are connected to a broker, by group.

        ``admin.all_producers("127.0.0.1:10911")["shop"][0].client_id``
        """
        return self._run(_connected.all_producers(address))

    def running_info(self, group: str, client_id: str, *, stacks: bool = False) -> RunningInfo:
        """Return the state of a consumer, with `stacks` including the stacks of its threads.

        ``admin.running_info("billing", member.client_id).queues``
        """
        flow = _connected.running_info(
            self._nameservers, self._names.own(group), client_id, stacks=stacks
        )
        return self._run(flow)

    def consume_directly(
        self, group: str, client_id: str, message: ReceivedMessage
    ) -> ConsumedDirectly:
        """Make a consumer handle a message now and return the result.

        ``admin.consume_directly("billing", client_id, message).result``
        """
        host, port = message.store_host
        flow = _connected.consume_directly(
            self._nameservers,
            self._names.own(group),
            client_id,
            message.offset_id,
            f"{host}:{port}",
        )
        return self._run(flow)

    # ---- queues and messages

    def read_queue(
        self, queue: MessageQueue, offset: int, max_messages: int = 32, *, tags: str = "*"
    ) -> QueueRead:
        """Return messages of a queue from an offset on; no group's offsets are touched.

        ``admin.read_queue(MessageQueue("orders", "broker-a", 0), 0).records``
        """
        (own,) = self._names.own_queues({queue: None})
        return self._run(
            _queues.read_queue(self._nameservers, own, offset, max_messages, tags=tags)
        )

    def queue_entries(
        self, queue: MessageQueue, index: int, count: int, *, group: str | None = None
    ) -> QueueEntries:
        """Return entries of a consume queue, and the subscription of `group` if it is given.

        ``admin.queue_entries(MessageQueue("orders", "broker-a", 0), 0, 10).entries``
        """
        (own,) = self._names.own_queues({queue: None})
        group = None if group is None else self._names.own(group)
        return self._run(_queues.queue_entries(self._nameservers, own, index, count, group=group))

    def message_at(self, offset_id: str) -> ReceivedMessage | None:
        """Return the message with a broker's id, or None if it is not found.

        ``admin.message_at(result.offset_id)``
        """
        return self._run(_messages.message_at(self._nameservers, offset_id, self._names.name))

    def message_trace(self, message_id: str, trace_topic: str = TRACE_TOPIC) -> list[TraceEvent]:
        """Return the events that clients have traced of a message, in the order of their times.

        ``[event.kind for event in admin.message_trace(result.message_id)]``
        """
        return self._run(_traces.message_trace(self._nameservers, message_id, trace_topic))

    # ---- offsets

    def clone_offsets(self, source: str, target: str, topic: str, *, offline: bool = False) -> None:
        """Copy the offsets of a group to another: ``admin.clone_offsets("a", "b", "orders")``.

        If the source is connected, only topics it subscribes to are cloned, unless `offline`.
        """
        self._run(
            _offsets.clone_offsets(
                self._nameservers,
                self._names.own(source),
                self._names.own(target),
                self._names.own(topic),
                offline=offline,
            )
        )


class AsyncClientVerbs(AsyncVerbRunner):
    """Verbs about connected clients, queues, messages and offsets."""

    # ---- clients

    async def producer_members(self, group: str, topic: str) -> tuple[Member, ...]:
        """Return the connected producers: ``admin.producer_members("shop", "orders")``."""
        return await self._run(
            _connected.producer_members(
                self._nameservers, self._names.own(group), self._names.own(topic)
            )
        )

    async def all_producers(self, address: str) -> dict[str, tuple[Member, ...]]:
        """Return all producers that are connected to a broker, by group.

        ``admin.all_producers("127.0.0.1:10911")["shop"][0].client_id``
        """
        return await self._run(_connected.all_producers(address))

    async def running_info(
        self, group: str, client_id: str, *, stacks: bool = False
    ) -> RunningInfo:
        """Return the state of a consumer, with `stacks` including the stacks of its threads.

        ``admin.running_info("billing", member.client_id).queues``
        """
        flow = _connected.running_info(
            self._nameservers, self._names.own(group), client_id, stacks=stacks
        )
        return await self._run(flow)

    async def consume_directly(
        self, group: str, client_id: str, message: ReceivedMessage
    ) -> ConsumedDirectly:
        """Make a consumer handle a message now and return the result.

        ``admin.consume_directly("billing", client_id, message).result``
        """
        host, port = message.store_host
        flow = _connected.consume_directly(
            self._nameservers,
            self._names.own(group),
            client_id,
            message.offset_id,
            f"{host}:{port}",
        )
        return await self._run(flow)

    # ---- queues and messages

    async def read_queue(
        self, queue: MessageQueue, offset: int, max_messages: int = 32, *, tags: str = "*"
    ) -> QueueRead:
        """Return messages of a queue from an offset on; no group's offsets are touched.

        ``admin.read_queue(MessageQueue("orders", "broker-a", 0), 0).records``
        """
        (own,) = self._names.own_queues({queue: None})
        return await self._run(
            _queues.read_queue(self._nameservers, own, offset, max_messages, tags=tags)
        )

    async def queue_entries(
        self, queue: MessageQueue, index: int, count: int, *, group: str | None = None
    ) -> QueueEntries:
        """Return entries of a consume queue, and the subscription of `group` if it is given.

        ``admin.queue_entries(MessageQueue("orders", "broker-a", 0), 0, 10).entries``
        """
        (own,) = self._names.own_queues({queue: None})
        group = None if group is None else self._names.own(group)
        return await self._run(
            _queues.queue_entries(self._nameservers, own, index, count, group=group)
        )

    async def message_at(self, offset_id: str) -> ReceivedMessage | None:
        """Return the message with a broker's id, or None if it is not found.

        ``admin.message_at(result.offset_id)``
        """
        return await self._run(_messages.message_at(self._nameservers, offset_id, self._names.name))

    async def message_trace(
        self, message_id: str, trace_topic: str = TRACE_TOPIC
    ) -> list[TraceEvent]:
        """Return the events that clients have traced of a message, in the order of their times.

        ``[event.kind for event in admin.message_trace(result.message_id)]``
        """
        return await self._run(_traces.message_trace(self._nameservers, message_id, trace_topic))

    # ---- offsets

    async def clone_offsets(
        self, source: str, target: str, topic: str, *, offline: bool = False
    ) -> None:
        """Copy the offsets of a group to another: ``admin.clone_offsets("a", "b", "orders")``.

        If the source is connected, only topics it subscribes to are cloned, unless `offline`.
        """
        await self._run(
            _offsets.clone_offsets(
                self._nameservers,
                self._names.own(source),
                self._names.own(target),
                self._names.own(topic),
                offline=offline,
            )
        )
