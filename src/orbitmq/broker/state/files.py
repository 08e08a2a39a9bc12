"""The files under ``config/``: which table is in which, and when they are written.

Topics, groups and their members are written soon after they change (`table_saver.py`). Offsets
change all the time: they are written every few seconds, by a thread, if they have changed; what is
lost in a crash is consumed once more.

Offsets vouch for messages: a delayed or a half message that an offset has passed is there again as
a copy. So a file of offsets is written only after the log is on disk up to where it ended when they
were taken. Else a power cut could keep the offset and take the copy.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq import persist
from orbitmq._native import Store, dumps_lenient, loads_lenient
from orbitmq.broker.state.awaited_members import AwaitedMembers
from orbitmq.broker.state.filters import ConsumerFilters
from orbitmq.broker.state.groups import GroupTable
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.broker.state.rows import BadRows, good_numbers, set_aside
from orbitmq.broker.state.topics import TopicTable
from orbitmq.broker.write.delay import DelayService
from orbitmq.broker.write.timers import TimerService
from orbitmq.errors import FAILURES, BodyFault, FlushFailed, UnreadableFile
from orbitmq.protocol.members import LONG, Members
from orbitmq.table_saver import TableSaver
from orbitmq.threads import in_thread

__all__ = ["TableFiles"]

_log = logging.getLogger(__name__)

MAX_FILTERS_FILE_BYTES = 64 << 20
"""A larger `consumerFilter.json` is not read."""
FLUSH_TIMEOUT_MS = 60_000
MEMBERS = "groupMembers.json"
"""The members of groups, OrbitMQ's own file."""


@dataclass(slots=True)
class TableFiles:
    """Reads the tables when the broker opens, and writes them."""

    directory: Path
    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
    delay: DelayService
    filters: ConsumerFilters
    timers: TimerService
    awaited: AwaitedMembers
    store: Store
    topic_saver: TableSaver = field(init=False)
    group_saver: TableSaver = field(init=False)
    member_saver: TableSaver = field(init=False)
    _saving_offsets: asyncio.Lock = field(default_factory=asyncio.Lock)
    _written: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topic_saver = TableSaver(self.directory / "topics.json", self.topics.snapshot)
        self.group_saver = TableSaver(
            self.directory / "subscriptionGroup.json", self.groups.snapshot
        )
        self.member_saver = TableSaver(self.directory / MEMBERS, self.awaited.snapshot)

    def load(self) -> None:
        """Give every table what its file says, if there is one; bad rows are set aside."""
        for name, rows, load in (
            ("topics.json", "topicConfigTable", self.topics.load),
            ("subscriptionGroup.json", "subscriptionGroupTable", self.groups.load),
            ("consumerOffset.json", "offsetTable", self.offsets.load),
            ("delayOffset.json", "offsetTable", self._load_delay_offsets),
            ("timers.json", "heads", self._load_timers),
            (MEMBERS, "members", self.awaited.load),
        ):
            path = self.directory / name
            value = persist.load(path, functools.partial(_parse, rows))
            if value is not None:
                set_aside(path, load(value))
        self._load_filters()

    def _load_delay_offsets(self, value: Members) -> BadRows:
        good, bad = good_numbers(value.table("offsetTable"))
        self.delay.load({"offsetTable": good})
        return bad

    def _load_filters(self) -> None:
        """Take the saved filters; the broker starts without them if the file is of no use.

        Nothing is lost: consumers tell their filters again with each heartbeat.
        """
        path = self.directory / "consumerFilter.json"
        try:
            for file in (path, persist.backup_of(path)):
                if file.exists() and file.stat().st_size > MAX_FILTERS_FILE_BYTES:
                    raise UnreadableFile(f"{file} has more than {MAX_FILTERS_FILE_BYTES} bytes")
            value = persist.load(path, loads_lenient)
            if value is not None:
                self.filters.load(value)
        except (UnreadableFile, OSError, ValueError, TypeError, AttributeError) as error:
            _log.warning(
                "saved filters are not taken: %s; the next heartbeats of consumers bring them",
                error,
            )

    def _load_timers(self, value: Members) -> BadRows:
        heads, bad = good_numbers(value.table("heads"))
        near, bad_near = {}, value.values.get("near")
        try:
            members = value.member("near")
            near = {name: members.number(name, 0, within=LONG) for name in ("end", "dueUntil")}
        except BodyFault as error:
            bad["near"] = (bad_near, str(error))
        self.timers.load({"heads": heads, "near": near})
        return bad

    def _save(self, name: str, value: dict[str, Any]) -> None:
        persist.save(self.directory / name, dumps_lenient(value))

    def _save_if_new(self, name: str, value: dict[str, Any]) -> None:
        """Write a small table unless its file says the same: at rest, leave the disk be."""
        content = dumps_lenient(value)
        if self._written.get(name) != content:
            persist.save(self.directory / name, content)
            self._written[name] = content

    async def _save_vouching(
        self, save: Callable[[str, dict[str, Any]], None], name: str, value: dict[str, Any]
    ) -> None:
        """Write a table after the log that it vouches for is on disk."""
        await in_thread(self._save_behind_log, save, name, value, self.store.max_physical_offset)

    def _save_behind_log(
        self,
        save: Callable[[str, dict[str, Any]], None],
        name: str,
        value: dict[str, Any],
        end: int,
    ) -> None:
        if not self.store.wait_flushed(end, FLUSH_TIMEOUT_MS):
            raise FlushFailed(
                f"{name} is not written, next try with the next save: the log was not on disk up "
                f"to {end} within {FLUSH_TIMEOUT_MS // 1000} s"
            )
        save(name, value)

    async def save_offsets(self) -> None:
        """Write how far groups are, if one has moved."""
        async with self._saving_offsets:
            if not self.offsets.is_dirty:
                return
            self.offsets.is_dirty = False
            try:
                value = self.offsets.as_json()
                await self._save_vouching(self._save, "consumerOffset.json", value)
            except BaseException:
                self.offsets.is_dirty = True  # it is tried again, whether or not one moves
                raise

    async def save_delay_offsets(self) -> None:
        """Write how far delayed messages have been delivered."""
        value = self.delay.as_json()
        await self._save_vouching(self._save_if_new, "delayOffset.json", value)

    async def save_timers(self) -> None:
        """Write how far timers have been delivered, if one has been."""
        if self.timers.is_dirty:
            try:
                value = self.timers.as_json()
                await self._save_vouching(self._save, "timers.json", value)
            except BaseException:
                self.timers.is_dirty = True
                raise

    async def save_filters(self) -> None:
        """Write the groups' filters, without those nobody has used for long."""
        self.filters.clean()
        await in_thread(self._save_if_new, "consumerFilter.json", self.filters.as_json())

    async def save_all(self) -> None:
        """Write what is written now and then, for the last time; one that fails stops no other."""
        self.offsets.is_dirty = self.timers.is_dirty = True
        for save in (
            self.topic_saver.close,
            self.group_saver.close,
            self.member_saver.close,
            self.save_offsets,
            self.save_delay_offsets,
            self.save_filters,
            self.save_timers,
        ):
            try:
                await save()
            except FAILURES:
                _log.exception("%s failed", save.__qualname__)


def _parse(rows: str, content: bytes) -> Members:
    value = Members.read(content)
    value.table(rows)  # one that is no table is taken from the backup
    return value
