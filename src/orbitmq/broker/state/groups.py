"""The consumer groups of a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbitmq.broker.state.rows import BadRows, good_rows, saved_version
from orbitmq.protocol.bodies import DataVersion, SubscriptionGroup
from orbitmq.protocol.members import Members
from orbitmq.protocol.names import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS, group_name_fault

__all__ = ["GroupTable"]


class GroupTable:
    """Table of groups by name. `on_change` is called after every change."""

    def __init__(
        self,
        *,
        auto_create: bool,
        clock: Callable[[], int],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.auto_create = auto_create
        self._clock = clock
        self._on_change = on_change
        self.version = DataVersion()
        self.groups = {name: SubscriptionGroup(name) for name in SYSTEM_GROUPS}

    def find(self, name: str) -> SubscriptionGroup | None:
        """Return a group; create an unknown one if that is allowed."""
        group = self.groups.get(name)
        if group is None and self._may_create(name):
            group = SubscriptionGroup(name)
            self.put(group)
        return group

    def _may_create(self, name: str) -> bool:
        if group_name_fault(name):
            return False
        return self.auto_create or name.startswith(SYSTEM_GROUP_PREFIX)

    def put(self, group: SubscriptionGroup) -> None:
        """Create or replace a group."""
        self.groups[group.group_name] = group
        self._changed()

    def delete(self, name: str) -> None:
        """Delete a group."""
        if self.groups.pop(name, None) is not None:
            self._changed()

    def _changed(self) -> None:
        self.version = self.version.next(self._clock())
        self._on_change()

    def load(self, value: Members) -> BadRows:
        """Update the table with the rows of a file or of a master; return the bad rows."""
        groups, bad = good_rows(value.table("subscriptionGroupTable"), SubscriptionGroup.from_json)
        self.groups |= groups
        self.version = saved_version(value)
        return bad

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """Copy the table; return a function that converts the copy to the form of `as_json`."""
        version, groups = self.version.as_json(), dict(self.groups)

        def values() -> dict[str, Any]:
            table = {name: groups[name].as_json() for name in sorted(groups)}
            return {"dataVersion": version, "subscriptionGroupTable": table}

        return values

    def as_json(self) -> dict[str, Any]:
        """Return the table in the form of the file and the wire."""
        return self.snapshot()()
