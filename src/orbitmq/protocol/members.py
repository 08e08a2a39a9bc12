"""Typed access to the members of a JSON object that a peer or a file supplied.

`loads_lenient` accepts fastjson's dialect and returns plain values. `Members` reads those values as
fastjson would: a member that is missing or null takes its default, numbers and booleans may be
written as text. Anything else of the wrong type, and a number out of its range, is a `BodyFault`
that names the member, so no value of an unexpected type gets past the place where it enters.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from orbitmq._native import loads_lenient
from orbitmq.errors import BodyFault

__all__ = ["INT", "LONG", "Members", "as_number"]

INT = (-(1 << 31), (1 << 31) - 1)
"""The range of Java's int."""
LONG = (-(1 << 63), (1 << 63) - 1)
"""The range of Java's long."""

MAX_DIGITS = 20
"""Characters of a number of 64 bits."""
_SHOWN = 60
"""Characters of a bad value that an error repeats."""


class Members:
    """The members of one JSON object; `place` is the object's path in its body.

    >>> body = Members({"groupName": "g", "retryQueueNums": "3"})
    >>> body.text("groupName"), body.number("retryQueueNums", 1), body.flag("consumeEnable", True)
    ('g', 3, True)
    """

    __slots__ = ("place", "values")

    def __init__(self, value: object, place: str = "") -> None:
        if isinstance(value, tuple):  # an object in the place of a key
            value = dict(value)
        if not isinstance(value, Mapping):
            raise _fault(place or "the body", value, "an object")
        self.values: Mapping[Any, Any] = value
        self.place = place

    @classmethod
    def of(cls, value: object) -> Members:
        """Return `value` itself if it is typed already, else its members."""
        return value if isinstance(value, cls) else cls(value)

    @classmethod
    def read(cls, body: bytes) -> Members:
        """Parse a body that must be a JSON object."""
        return cls(loads_lenient(body))

    def _at(self, name: object) -> str:
        return f"{self.place}.{name}" if self.place else str(name)

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise _fault(self._at(name), value, "text")
        return value

    def number(self, name: str, default: int = 0, within: tuple[int, int] = INT) -> int:
        """Return a whole number within a range, both ends included."""
        value = self.values.get(name)
        return default if value is None else as_number(value, self._at(name), within)

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise _fault(self._at(name), value, "true or false")
        return value

    def member(self, name: str) -> Members:
        """Return the members of an inner object; none if it is missing."""
        value = self.values.get(name)
        return Members({} if value is None else value, self._at(name))

    def table(self, name: str) -> Mapping[Any, Any]:
        """Return an inner object whose member names are data; the values are unchecked."""
        return self.member(name).values

    def names(self, name: str) -> list[str]:
        """Return the names of an inner object whose names are data."""
        table = self.member(name)
        for key in table.values:
            if not isinstance(key, str):
                raise _fault(f"a name in {table.place}", key, "text")
        return list(table.values)

    def items(self, name: str) -> Iterator[tuple[str, Any]]:
        """Yield the elements of an array, each with its place."""
        values = self.values.get(name)
        if values is None:
            return
        if not isinstance(values, list | tuple):
            raise _fault(self._at(name), values, "an array")
        for number, value in enumerate(values):
            yield f"{self._at(name)}[{number}]", value

    def objects(self, name: str) -> list[Members]:
        """Return the elements of an array of objects."""
        return [Members(value, place) for place, value in self.items(name)]

    def texts(self, name: str) -> list[str]:
        """Return the elements of an array of texts."""
        found = []
        for place, value in self.items(name):
            if not isinstance(value, str):
                raise _fault(place, value, "text")
            found.append(value)
        return found

    def numbers(self, name: str, within: tuple[int, int] = INT) -> list[int]:
        """Return the elements of an array of whole numbers."""
        return [as_number(value, place, within) for place, value in self.items(name)]


def as_number(value: object, place: str, within: tuple[int, int] = LONG) -> int:
    """Return a whole number that may be written as text; `place` names it in the error."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = int(value) if len(value) <= MAX_DIGITS else value
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _fault(place, value, "a whole number")
    least, most = within
    if not least <= value <= most:
        raise _fault(place, value, f"between {least} and {most}")
    return value


def _fault(place: str, value: object, wanted: str) -> BodyFault:
    shown = repr(value)
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "…"
    return BodyFault(f"field {place} is {shown}, must be {wanted}")
