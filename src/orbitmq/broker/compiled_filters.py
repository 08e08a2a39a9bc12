"""Compiled SQL filters, each made when a pull first needs it and kept while there is room.

Expressions come from clients, so compiling is left until somebody pulls with one: a heartbeat or a
saved file may bring thousands. `Filter` bounds a single expression, this table bounds all of them
together. The one used longest ago goes first and is compiled again when it is wanted again.
"""

from __future__ import annotations

from collections import OrderedDict

from orbitmq._native import Filter
from orbitmq.errors import FilterTooLarge, MalformedFilter

__all__ = ["SQL92", "CompiledFilters"]

SQL92 = "SQL92"
MAX_CHARS = 2 << 20
"""All expressions together; a compiled one takes at most some ten times its text."""
ENTRY_CHARS = 256
"""An expression counts as at least so many, whatever its length."""


class CompiledFilters:
    """Filters by their expression."""

    def __init__(self, max_chars: int = MAX_CHARS) -> None:
        self._max_chars = max_chars
        self._chars = 0
        self._kept: OrderedDict[str, Filter | MalformedFilter] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, expression_type: str, expression: str) -> Filter | None:
        """Return the filter that an expression stands for, None if it is malformed.

        Raises `FilterTooLarge` for one that Java would take and this broker does not.
        """
        if expression_type != SQL92:
            return None
        found = self._kept.get(expression)
        if found is None:
            found = _compiled(expression)
            self._keep(expression, found)
        else:
            self._kept.move_to_end(expression)
        if isinstance(found, FilterTooLarge):
            raise FilterTooLarge(*found.args)
        return None if isinstance(found, MalformedFilter) else found

    def _keep(self, expression: str, found: Filter | MalformedFilter) -> None:
        if len(expression) > Filter.MAX_TEXT_BYTES:
            return  # it was refused for its length, which costs nothing
        self._kept[expression] = found
        self._chars += len(expression) + ENTRY_CHARS
        while self._chars > self._max_chars:
            oldest, _ = self._kept.popitem(last=False)
            self._chars -= len(oldest) + ENTRY_CHARS


def _compiled(expression: str) -> Filter | MalformedFilter:
    try:
        return Filter(expression)
    except MalformedFilter as error:
        return error.with_traceback(None)
