"""Where a group's offsets are kept: with the brokers, or in a file when everybody gets everything.

The file is Java's, so that a consumer written there can be followed by one written here:
``<directory>/<client id>/<group>/offsets.json`` with ``{"offsetTable":{{queue}:offset, …}}``; the
version before the last is in ``offsets.json.bak``. Nobody else knows these offsets: one of a queue
that is away for a while, because its broker is, stays in the file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from orbitmq._native import dumps_lenient
from orbitmq.client.flows.offsets import commit_offset, report_offset, stored_offset
from orbitmq.client.instance import ClientInstance
from orbitmq.client.state.offsets import OffsetTable
from orbitmq.errors import BrokerBusy, BrokerRefused, OrbitError
from orbitmq.persist import load, save
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.members import Members, as_number

__all__ = ["LocalOffsets", "OffsetStore", "RemoteOffsets", "default_directory"]

_log = logging.getLogger(__name__)

OVERTAKEN_S = 0.2
"""Time for which a pull may still be on its way to the thread of a broker that carries it out."""


class OffsetStore(Protocol):
    """Keeps offsets beyond the life of a consumer."""

    table: OffsetTable

    async def load(self) -> None:
        """Read what can be read at once."""

    async def read(self, queue: MessageQueue) -> int:
        """Return what is stored for a queue, -1 for nothing; raises when nobody can tell."""

    async def persist(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Store the offsets of these queues, surely when it `wait`s."""

    async def settle(self, queue: MessageQueue, sent_s: float) -> bool:
        """Store the offset of a queue that is given up, for its next owner to begin at.

        Returns False while the broker that keeps it cannot be reached. `sent_s` is how long ago the
        latest pull was sent.
        """

    def released(self, queue: MessageQueue) -> None:
        """Note that a queue is not ours any more."""


class RemoteOffsets:
    """Offsets of a group, kept by the brokers of its queues."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self.table = OffsetTable()
        self._instance = instance
        self._group = group

    async def load(self) -> None:
        """Nothing is read before it is needed."""

    async def read(self, queue: MessageQueue) -> int:
        """Ask the broker."""
        return await self._instance.run(stored_offset(self._instance.routes, self._group, queue))

    async def persist(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Tell the brokers; one that does not hear it is told again next time.

        Each broker is told of one queue after the other: Java's loses the first offsets of a group
        when two of them come at the same time.
        """
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            if self.table.get(queue) is not None:
                by_broker.setdefault(queue.broker_name, []).append(queue)
        await asyncio.gather(*(self._persist_all(known, wait) for known in by_broker.values()))

    async def settle(self, queue: MessageQueue, sent_s: float) -> bool:
        """Commit, and look whether it counts.

        Java's brokers carry out a pull beside other requests: the older offset that one brings
        along may take the place of a newer one.
        """
        offset = self.table.get(queue)
        if offset is None:
            return True
        routes = self._instance.routes
        try:
            for pause_s in (max(OVERTAKEN_S - sent_s, 0), 0, 0):
                await self._instance.run(commit_offset(routes, self._group, queue, offset))
                await asyncio.sleep(pause_s)
                if await self.read(queue) >= offset:
                    break
        except OrbitError as error:
            if isinstance(error, BrokerRefused) and not isinstance(error, BrokerBusy):
                _log.warning("offset %d of %s could not be committed: %s", offset, queue, error)
                return True
            _log.debug("offset %d of %s waits for its broker: %s", offset, queue, error)
            return False
        return True

    def released(self, queue: MessageQueue) -> None:
        """Forget it: from now on another member moves its offset."""
        self.table.forget(queue)

    async def _persist_all(self, queues: list[MessageQueue], wait: bool) -> None:
        for queue in queues:
            # Of now: one that was given up meanwhile is another member's.
            offset = self.table.get(queue)
            if offset is not None:
                await self._persist(queue, offset, wait)

    async def _persist(self, queue: MessageQueue, offset: int, wait: bool) -> None:
        routes = self._instance.routes
        tell = commit_offset if wait else report_offset
        try:
            await self._instance.run(tell(routes, self._group, queue, offset))
        except OrbitError as error:
            _log.warning("offset %d of %s could not be committed: %s", offset, queue, error)


def default_directory() -> Path:
    """Return where Java keeps the files, too."""
    return Path.home() / ".rocketmq_offsets"


class LocalOffsets:
    """Offsets of one consumer, kept in a file."""

    def __init__(self, directory: Path, client_id: str, group: str) -> None:
        self.table = OffsetTable()
        self.path = directory / client_id / group / "offsets.json"
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Read the file, or the one before it when it is missing or broken."""
        for queue, offset in (await asyncio.to_thread(load, self.path, _parse) or {}).items():
            self.table.put(queue, offset)

    async def read(self, queue: MessageQueue) -> int:
        """Return what was in the file."""
        offset = self.table.get(queue)
        return -1 if offset is None else offset

    async def persist(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Write the file anew, with all queues that are known."""
        async with self._writing:
            offsets = {queue.as_key(): offset for queue, offset in self.table.of_topic("").items()}
            if offsets:
                await asyncio.to_thread(save, self.path, dumps_lenient({"offsetTable": offsets}))

    async def settle(self, queue: MessageQueue, sent_s: float) -> bool:
        """Write the file anew."""
        await self.persist([queue])
        return True

    def released(self, queue: MessageQueue) -> None:
        """Keep its offset for when it comes back."""


def _parse(content: bytes) -> dict[MessageQueue, int]:
    offsets = Members.read(content).table("offsetTable")
    return {
        MessageQueue.from_json(key): as_number(value, "offsetTable")
        for key, value in offsets.items()
    }
