"""The nameserver's table of configuration values: namespace → key → value.

It is the only thing a nameserver keeps on disk, as ``{"configTable": {namespace: {key: value}}}``,
written whole with every change. A namespace stays when its last key goes, and so does what else
the file says.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from orbitmq import persist
from orbitmq._native import dumps_lenient
from orbitmq.protocol.members import Members

__all__ = ["KvTable"]

_log = logging.getLogger(__name__)

Table = dict[str, dict[str, str]]


class KvTable:
    """The table and its file; without a path it lives in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._table: Table = {}
        self._besides: dict[str, Any] = {}

    def load(self) -> None:
        """Read the file, if there is one."""
        if self._path is not None:
            self._table, self._besides = persist.load(self._path, _parse) or ({}, {})

    def put(self, namespace: str, key: str, value: str | None) -> None:
        """Set a value; None makes the namespace and removes the key, as a read would show it."""
        values = self._table.setdefault(namespace, {})
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        self._save()

    def delete(self, namespace: str, key: str) -> None:
        """Remove a value, if it is there."""
        self._table.get(namespace, {}).pop(key, None)
        self._save()

    def get(self, namespace: str, key: str) -> str | None:
        """Look a value up."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return all values of a namespace; None when there never was one."""
        return self._table.get(namespace)

    def _save(self) -> None:
        if self._path is not None:
            persist.save(self._path, dumps_lenient(self._besides | {"configTable": self._table}))


def _parse(content: bytes) -> tuple[Table, dict[str, Any]]:
    """Read the table; a value that is not text was never set by a request, and is left out."""
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
