"""Ext fields as typed values.

A header class lists its fields in Python's spelling; on the wire they have Java's (``queue_id`` is
``queueId``) unless the class says otherwise. Numbers are decimal text, booleans ``true`` in any
case or else false. A field without a default is required: its absence, like a number that is none,
is a `HeaderFault` that names it. A number that is none in the place of a field with a default is as
if it were not there; but not in headers that are `strict`. Both are as in Java.

Reading a header is done once per request, so each class gets a reader compiled from its fields; the
general code behind it only runs to find out what is wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, dataclass_transform, get_type_hints

from orbitmq.errors import HeaderFault

__all__ = ["Header"]


def _boolean(text: str) -> bool:
    return text.lower() == "true"


_READERS: dict[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    bool: _boolean,
    str | None: str,
    int | None: int,
    bool | None: _boolean,
}


@dataclass_transform(kw_only_default=True)
class Header:
    """The base of all headers; a subclass is a keyword-only dataclass with slots for its fields."""

    wire_names: ClassVar[Mapping[str, str]] = {}
    """Names on the wire that are not the Python name in camel case."""
    strict: ClassVar[bool] = False
    """Whether a bad number is a fault even where there need not be one."""
    _codec: ClassVar[tuple[tuple[str, str, Callable[[str], Any], bool], ...]] = ()
    _read: ClassVar[Callable[[Mapping[str, str]], Any]]

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(kw_only=True)(cls)
        hints = get_type_hints(cls)
        cls._codec = tuple(
            (
                field.name,
                cls.wire_names.get(field.name) or _camel(field.name),
                _READERS[hints[field.name]],
                field.default is dataclasses.MISSING,
            )
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        )
        cls._read = staticmethod(_compiled(cls))

    @classmethod
    def decode(cls, ext: Mapping[str, str] | None) -> Self:
        """Read the header from a command's ext fields."""
        ext = ext or {}
        try:
            header: Self = cls._read(ext)
        except (KeyError, ValueError):
            header = cls._read_slowly(ext)
        return header

    @classmethod
    def _read_slowly(cls, ext: Mapping[str, str]) -> Self:
        values: dict[str, Any] = {}
        for name, wire_name, read, required in cls._codec:
            text = ext.get(wire_name)
            if text is not None:
                try:
                    values[name] = read(text)
                except ValueError:
                    if required or cls.strict:
                        fault = f"field {wire_name} is not a number: {text!r}"
                        raise HeaderFault(fault) from None
            elif required:
                raise HeaderFault(f"field {wire_name} is missing")
        return cls(**values)

    def encode(self) -> dict[str, str]:
        """Write the header as ext fields; what is None is left out."""
        ext = {}
        for name, wire_name, _, _ in self._codec:
            value = getattr(self, name)
            if value is True or value is False:
                ext[wire_name] = "true" if value else "false"
            elif value is not None:
                ext[wire_name] = str(value)
        return ext


def _compiled(cls: type[Header]) -> Callable[[Mapping[str, str]], Any]:
    """Return ``lambda ext: cls(topic=ext['topic'], queue_id=int(ext['queueId']), …)``."""
    arguments = []
    names: dict[str, Any] = {"cls": cls}
    for name, wire_name, read, required in cls._codec:
        value = f"ext[{wire_name!r}]" if required else "text"
        if read is int:
            value = f"int({value})"
        elif read is _boolean:
            value = f"{value}.lower() == 'true'"
        if not required:
            names[f"default_{name}"] = getattr(cls, name)
            given = f"(text := ext.get({wire_name!r})) is not None"
            value = f"({value} if {given} else default_{name})"
        arguments.append(f"{name}={value}")
    reader: Callable[[Mapping[str, str]], Any] = eval(
        f"lambda ext: cls({', '.join(arguments)})", names
    )
    return reader


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
