"""The nameserver's table of configuration values: namespace → key → value.

It is the only thing a nameserver keeps on disk, as ``{"configTable": {namespace: {key: value}}}``.
A thread writes the whole file, with many changes at once; the answer to a change waits until the
change is on disk. A namespace stays when its last key is removed, and so do other members of the
file.

Without access control any client may put values, so the size of the table is limited.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orbitmq import persist
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.members import Members
from orbitmq.remoting.router import Refused
from orbitmq.table_saver import TableSaver

__all__ = ["KvTable"]

_log = logging.getLogger(__name__)

Table = dict[str, dict[str, str]]

MAX_CHARS = 4 << 20
"""All names and values together: the answer that lists a namespace must fit a frame."""
ENTRY_CHARS = 64
"""Cost of an entry beside its characters, so that empty names have a bound, too."""


class KvTable:
    """The table and its file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._table: Table = {}
        self._besides: dict[str, Any] = {}
        self._chars = 0
        self._saver = TableSaver(path, self._snapshot)

    def load(self) -> None:
        """Read the file, if there is one."""
        self._table, self._besides = persist.load(self._path, _parse) or ({}, {})
        self._chars = sum(
            _cost(namespace) + sum(_cost(key, value) for key, value in values.items())
            for namespace, values in self._table.items()
        )

    def put(self, namespace: str, key: str, value: str | None) -> None:
        """Set a value; None creates the namespace and removes the key, as Java's table behaves.

        Refuses a value that would exceed the table's limit.
        """
        known = self._table.get(namespace)
        grown = 0 if known is not None else _cost(namespace)
        if known is not None and key in known:
            grown -= _cost(key, known[key])
        if value is not None:
            grown += _cost(key, value)
        if grown > 0 and self._chars + grown > MAX_CHARS:
            remark = (
                f"the table of values has {self._chars} of at most {MAX_CHARS} characters; delete "
                "values that are not needed"
            )
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        values = self._table.setdefault(namespace, {})
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        self._chars += grown
        self._saver.changed()

    def delete(self, namespace: str, key: str) -> None:
        """Remove a value, if it is there."""
        values = self._table.get(namespace, {})
        if key in values:
            self._chars -= _cost(key, values.pop(key))
            self._saver.changed()

    def get(self, namespace: str, key: str) -> str | None:
        """Look a value up."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return all values of a namespace; None if it was never created."""
        return self._table.get(namespace)

    async def saved(self) -> None:
        """Wait until all changes so far are on disk."""
        await self._saver.saved()

    async def close(self) -> None:
        """Save unsaved changes."""
        await self._saver.close()

    def _snapshot(self) -> Callable[[], dict[str, Any]]:
        table = {namespace: dict(values) for namespace, values in self._table.items()}
        return lambda: self._besides | {"configTable": table}


def _cost(*texts: str) -> int:
    return ENTRY_CHARS + sum(map(len, texts))


def _parse(content: bytes) -> tuple[Table, dict[str, Any]]:
    """Parse the table; values other than text cannot come from requests and are skipped."""
    members = Members.read(content)
    namespaces = members.member("configTable")
    table: Table = {}
    for namespace in namespaces.values:
        table[str(namespace)] = values = {}
        for key, text in namespaces.member(namespace).values.items():
            if isinstance(text, str):
                values[str(key)] = text
            elif text is not None:
                _log.error("%s of namespace %s is not loaded: it is not text", key, namespace)
    besides = {name: value for name, value in members.values.items() if name != "configTable"}
    return table, besides
