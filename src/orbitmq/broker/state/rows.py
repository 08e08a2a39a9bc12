"""Rows of saved tables: valid rows are loaded, bad rows are kept in a separate file.

A file may come from an earlier version, from a Java broker or from a damaged disk. An invalid row
must neither prevent a start nor disappear at the next save. Therefore it is kept in a file next to
that of the table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from orbitmq import persist
from orbitmq._native import dumps_lenient
from orbitmq.errors import BodyFault
from orbitmq.protocol.bodies import DataVersion
from orbitmq.protocol.members import Members, as_number

__all__ = ["BadRows", "good_numbers", "good_rows", "saved_version", "set_aside"]

_log = logging.getLogger(__name__)

T = TypeVar("T")
BadRows = dict[Any, tuple[Any, str]]
"""Rejected values with the reason, by key."""
LOGGED_ROWS = 20


def good_rows(
    table: Mapping[Any, Any], read: Callable[[object, str], T]
) -> tuple[dict[str, T], BadRows]:
    """Read the rows of a table whose keys are names; a row that `read` rejects is bad."""
    good: dict[str, T] = {}
    bad: BadRows = {}
    for name, value in table.items():
        if not isinstance(name, str):
            bad[name] = (value, "the key is not a name")
            continue
        try:
            good[name] = read(value, name)
        except BodyFault as error:
            bad[name] = (value, str(error))
    return good, bad


def good_numbers(table: Mapping[Any, Any]) -> tuple[dict[int, int], BadRows]:
    """Read a table with numbers as keys and values, such as offsets by queue."""
    good: dict[int, int] = {}
    bad: BadRows = {}
    for key, value in table.items():
        try:
            good[as_number(key, "key")] = as_number(value, str(key))
        except BodyFault as error:
            bad[key] = (value, str(error))
    return good, bad


def saved_version(value: Members) -> DataVersion:
    """Read the version of a saved table; a damaged one counts as 0."""
    try:
        return DataVersion.from_json(value.member("dataVersion"))
    except BodyFault as error:
        _log.error("the version of a saved table is invalid, it starts again at 0: %s", error)
        return DataVersion()


def set_aside(path: Path, bad: BadRows) -> None:
    """Log the bad rows of a file, and keep them in ``<name>.rejected`` next to it."""
    if not bad:
        return
    kept = path.with_name(path.name + ".rejected")
    for key, (_, why) in list(bad.items())[:LOGGED_ROWS]:
        _log.error("row %r of %s is not loaded: %s. It is kept in %s", key, path, why, kept.name)
    if len(bad) > LOGGED_ROWS:
        _log.error(
            "%d more rows of %s are not loaded, they are kept, too", len(bad) - LOGGED_ROWS, path
        )
    try:
        persist.save(kept, dumps_lenient({key: value for key, (value, _) in bad.items()}))
    except OSError as error:
        _log.error("rejected rows of %s cannot be kept in %s: %s", path, kept, error)
