"""Ext fields as typed values.

A header class lists its fields in Python's spelling; on the wire they have Java's (``queue_id`` is
``queueId``) unless the class says otherwise. Numbers are decimal text, `int` of 32 bits and `Long`
of 64, booleans are ``true`` in any case or else false. A field without a default is required: if it
is missing or not a number, `HeaderFault` names it. An invalid number in a field with a default
counts as missing, except in headers that are `strict`. Both rules are Java's.

Headers are read once per request, so the native core reads them; each class describes its fields to
the core once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, dataclass_transform, get_type_hints

from orbitmq._native import Command, HeaderReader

__all__ = ["Header", "Long"]

Long = Annotated[int, 64]
"""A number of 64 bits on the wire."""

_KINDS: dict[Any, str] = {
    str: "str",
    int: "int",
    bool: "bool",
    Long: "long",
    str | None: "str",
    int | None: "int",
    bool | None: "bool",
    Long | None: "long",
}


@dataclass_transform(kw_only_default=True)
class Header:
    """Base class of all headers; a subclass is a keyword-only dataclass."""

    wire_names: ClassVar[Mapping[str, str]] = {}
    """Names on the wire that are not the Python name in camel case."""
    strict: ClassVar[bool] = False
    """Whether a bad number is a fault even where there need not be one."""
    _names: ClassVar[tuple[tuple[str, str], ...]] = ()
    _reader: ClassVar[HeaderReader]

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(kw_only=True)(cls)
        hints = get_type_hints(cls, include_extras=True)
        fields = []
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            wire_name = cls.wire_names.get(field.name) or _camel(field.name)
            default = () if field.default is dataclasses.MISSING else (field.default,)
            fields.append((field.name, wire_name, _KINDS[hints[field.name]], default))
        cls._names = tuple((name, wire_name) for name, wire_name, _, _ in fields)
        cls._reader = HeaderReader(fields, strict=cls.strict)

    @classmethod
    def decode(cls, command: Command) -> Self:
        """Read the header from a command's ext fields."""
        header = object.__new__(cls)
        header.__dict__ = cls._reader.read(command)
        return header

    def encode(self) -> dict[str, str]:
        """Return the header as ext fields, without fields that are None."""
        ext = {}
        for name, wire_name in self._names:
            value = getattr(self, name)
            if value is True or value is False:
                ext[wire_name] = "true" if value else "false"
            elif value is not None:
                ext[wire_name] = str(value)
        return ext


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
