"""Verbs that diagnose groups and messages, in both twins."""

from __future__ import annotations

from orbitmq.admin.explain.findings import Finding
from orbitmq.admin.explain.group_rules import Patience, diagnose_group
from orbitmq.admin.explain.message_rules import diagnose_message
from orbitmq.admin.explain.observations import GroupSeen
from orbitmq.admin.explain.observe_group import WATCH_MS, observe_group
from orbitmq.admin.explain.observe_message import look_at_message
from orbitmq.admin.namespace import AsyncVerbRunner, VerbRunner

__all__ = ["AsyncExplainVerbs", "ExplainVerbs"]


class ExplainVerbs(VerbRunner):
    """Diagnoses of groups that do not move and of messages that are not consumed."""

    def explain_group(
        self, group: str, *, patience: Patience | None = None, watch_ms: float = WATCH_MS
    ) -> list[Finding]:
        """Return the reasons why a group is not moving; an empty list if it is healthy.

        The group is watched for `watch_ms` to see if it moves. ``admin.explain_group("billing")``
        """
        flow = observe_group(self._nameservers, self._names.own(group), watch_ms=watch_ms)
        return diagnose_group(self._run(flow), patience)

    def group_seen(self, group: str, *, watch_ms: float = WATCH_MS) -> GroupSeen:
        """Return all observations of a group, from which `explain_group` derives its findings.

        ``admin.group_seen("billing").members``
        """
        flow = observe_group(self._nameservers, self._names.own(group), watch_ms=watch_ms)
        return self._run(flow)

    def explain_message(
        self,
        message_id: str,
        topic: str | None = None,
        *,
        group: str | None = None,
        patience: Patience | None = None,
        watch_ms: float = WATCH_MS,
    ) -> list[Finding]:
        """Return the location of a message, for one group or for all that consume it.

        The id of a producer needs the topic. ``admin.explain_message(message_id, "orders")``
        """
        flow = look_at_message(
            self._nameservers,
            message_id,
            None if topic is None else self._names.own(topic),
            None if group is None else self._names.own(group),
            watch_ms=watch_ms,
        )
        return diagnose_message(self._run(flow), patience)


class AsyncExplainVerbs(AsyncVerbRunner):
    """Diagnoses of groups that do not move and of messages that are not consumed."""

    async def explain_group(
        self, group: str, *, patience: Patience | None = None, watch_ms: float = WATCH_MS
    ) -> list[Finding]:
        """Return the reasons why a group is not moving; an empty list if it is healthy.

        The group is watched for `watch_ms` to see if it moves. ``admin.explain_group("billing")``
        """
        flow = observe_group(self._nameservers, self._names.own(group), watch_ms=watch_ms)
        return diagnose_group(await self._run(flow), patience)

    async def group_seen(self, group: str, *, watch_ms: float = WATCH_MS) -> GroupSeen:
        """Return all observations of a group, from which `explain_group` derives its findings.

        ``admin.group_seen("billing").members``
        """
        flow = observe_group(self._nameservers, self._names.own(group), watch_ms=watch_ms)
        return await self._run(flow)

    async def explain_message(
        self,
        message_id: str,
        topic: str | None = None,
        *,
        group: str | None = None,
        patience: Patience | None = None,
        watch_ms: float = WATCH_MS,
    ) -> list[Finding]:
        """Return the location of a message, for one group or for all that consume it.

        The id of a producer needs the topic. ``admin.explain_message(message_id, "orders")``
        """
        flow = look_at_message(
            self._nameservers,
            message_id,
            None if topic is None else self._names.own(topic),
            None if group is None else self._names.own(group),
            watch_ms=watch_ms,
        )
        return diagnose_message(await self._run(flow), patience)
