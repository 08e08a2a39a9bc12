"""Administration of consumer groups: creation, deletion, list."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq._native import Command, dumps_lenient, loads_lenient
from orbitmq.broker.handlers.admin.topics import NOT_ON_SLAVE
from orbitmq.broker.state.groups import GroupTable
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.config import BrokerConfig
from orbitmq.protocol.bodies import SubscriptionGroup
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.headers import Header
from orbitmq.protocol.names import group_name_fault
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Refused, Router, respond
from orbitmq.table_saver import TableSaver

__all__ = ["GroupAdminHandlers"]


class DeleteGroupHeader(Header):
    """Group to delete; with `remove_offset` its offsets are deleted, too."""

    group_name: str
    remove_offset: bool = False


@dataclass(slots=True)
class GroupAdminHandlers:
    """Handles operators' requests about consumer groups."""

    config: BrokerConfig
    groups: GroupTable
    offsets: ConsumerOffsets
    saver: TableSaver

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.create, [RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP])
        router.add(self.delete, [RequestCode.DELETE_SUBSCRIPTIONGROUP])
        router.add(self.all_groups, [RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG])

    async def create(self, request: Command, _connection: Connection) -> Command:
        """Create or replace a group; answer once the group is on disk."""
        self._refuse_on_slave()
        value = loads_lenient(request.body)
        if value is None:
            return respond(request)
        if not isinstance(value, dict) or value.get("groupName") is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "the body names no group")
        group = SubscriptionGroup.from_json(value)
        if fault := group_name_fault(group.group_name):
            raise Refused(ResponseCode.SYSTEM_ERROR, f"field groupName {fault}")
        self.groups.put(group)
        await self.saver.saved()
        return respond(request)

    async def delete(self, request: Command, _connection: Connection) -> Command:
        """Delete a group; succeeds also if there is no such group."""
        self._refuse_on_slave()
        header = DeleteGroupHeader.decode(request)
        self.groups.delete(header.group_name)
        if header.remove_offset:
            self.offsets.forget_group(header.group_name)
        await self.saver.saved()
        return respond(request)

    def _refuse_on_slave(self) -> None:
        if self.config.broker_role == "SLAVE":
            raise Refused(ResponseCode.SYSTEM_ERROR, NOT_ON_SLAVE)

    def all_groups(self, request: Command, _connection: Connection) -> Command:
        """Return the whole table of groups."""
        return respond(request, body=dumps_lenient(self.groups.as_json()))
