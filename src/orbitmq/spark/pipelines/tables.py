"""Conversion of tables of a TOML or YAML file to frozen dataclasses, with a list of all mistakes.

A spec class is a dataclass. Its attributes are the keys of a table, and their types determine the
possible values:

===========================  =====================================================================
``str``, ``int``, ``bool``   a value of this type; similar values are not converted
``float``                    any number
``Literal["a", "b"]``        one of these texts
``X | None``                 X; None if the key is missing
``tuple[str, ...]``          a list of texts, or one text
``dict[str, str]``           a table of settings: numbers and booleans become text as Spark writes
                             them, lists and tables become JSON
a dataclass                  a table
``tuple[Spec, ...]``         a list of tables
``dict[str, Spec]``          a table of tables; the user chooses the keys
a class with ``parse``       a text that ``parse(text)`` accepts; the message of its ValueError is
                             the mistake. Other types of values are possible if the attribute
                             ``accepts`` of the class names them
===========================  =====================================================================

The key of an attribute without a default is required. The method ``check(mistakes, key)`` of a spec
class, if it exists, checks conditions that types cannot express. It runs if the table has no
mistake.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import types
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from orbitmq.errors import BadPipeline

__all__ = ["Mistakes", "read_table", "suggestion"]

S = TypeVar("S")

_MISSING: Any = object()
"""Placeholder for a value that could not be read; its mistake is noted already."""

_NAMES: dict[type, str] = {str: "a text", int: "a whole number", bool: "true or false"}


class Mistakes:
    """Mistakes of a file, one line each, with the file and the key.

    >>> mistakes = Mistakes("orders.toml")
    >>> mistakes.add("trigger", "'soon' is not a time such as '5 seconds'")
    >>> mistakes.lines
    ["orders.toml: trigger: 'soon' is not a time such as '5 seconds'"]
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: list[str] = []

    def add(self, key: str, text: str) -> None:
        """Note a mistake; `key` is its path through the tables, joined with dots."""
        self.lines.append(f"{self.file}: {key}: {text}" if key else f"{self.file}: {text}")

    def raise_if_any(self) -> None:
        """Raise `BadPipeline` with all mistakes, if there are any."""
        if self.lines:
            raise BadPipeline(self.lines)


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the end of a message: the most similar known word, or all words if at most 20."""
    known = sorted(filter(None, known))
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), lowered, 1, 0.6)
    if close:
        return f"; did you mean '{lowered[close[0]]}'?"
    return f"; there is {', '.join(known)}" if 0 < len(known) <= 20 else ""


def read_table(cls: type[S], table: object, mistakes: Mistakes, key: str = "") -> S | None:
    """Return a table as a `cls`; None after mistakes, which are added to `mistakes`."""
    value = _Reader(mistakes).table(cls, table, key)
    return None if value is _MISSING else value


def _join(key: str, name: object) -> str:
    return f"{key}.{name}" if key else str(name)


class _Reader:
    def __init__(self, mistakes: Mistakes) -> None:
        self.mistakes = mistakes

    def wrong(self, key: str, text: str) -> Any:
        self.mistakes.add(key, text)
        return _MISSING

    def table(self, cls: type[Any], table: object, key: str) -> Any:
        if not isinstance(table, dict):
            return self.wrong(key, f"must be a table, not {_kind(table)}")
        hints = get_type_hints(cls)
        fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
        before = len(self.mistakes.lines)
        for name in table:
            if not isinstance(name, str):
                self.wrong(_join(key, name), "a key must be a text: put it into quotes")
            elif name not in fields:
                hint = suggestion(name, fields.keys() - table.keys())
                self.wrong(_join(key, name), f"unknown key{hint}")
        values = {}
        for name, field in fields.items():
            if name in table:
                values[name] = self.value(hints[name], table[name], _join(key, name))
            elif (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            ):
                self.wrong(_join(key, name), "is needed, but not there")
        if len(self.mistakes.lines) > before:
            return _MISSING
        made = cls(**values)
        check: Callable[[Mistakes, str], None] | None = getattr(made, "check", None)
        if check is not None:
            check(self.mistakes, key)
        return made

    def value(self, hint: Any, value: object, key: str) -> Any:
        origin = get_origin(hint)
        if origin in (Union, types.UnionType):
            (hint,) = (choice for choice in get_args(hint) if choice is not types.NoneType)
            return self.value(hint, value, key)
        if origin is Literal:
            return self.choice(get_args(hint), value, key)
        if origin is tuple:
            return self.many(get_args(hint)[0], value, key)
        if origin is dict:
            return self.named(get_args(hint)[1], value, key)
        if dataclasses.is_dataclass(hint) and not hasattr(hint, "parse"):
            return self.table(hint, value, key)  # type: ignore[arg-type]
        if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if hint in _NAMES:
            if type(value) is hint:
                return value
            return self.wrong(key, f"must be {_NAMES[hint]}, not {_kind(value)}")
        if hint is float:
            return self.wrong(key, f"must be a number, not {_kind(value)}")
        return self.parsed(hint, value, key)

    def choice(self, choices: tuple[Any, ...], value: object, key: str) -> Any:
        if value in choices:
            return value
        hint = suggestion(str(value), choices)
        return self.wrong(key, f"{value!r} is not possible{hint}")

    def many(self, hint: Any, value: object, key: str) -> Any:
        if hint is str and isinstance(value, str):
            return (value,)
        if dataclasses.is_dataclass(hint) and isinstance(value, dict):
            return self.wrong(key, f"must be a list of tables: write [[{key}]], not [{key}]")
        if not isinstance(value, list):
            return self.wrong(key, f"must be a list, not {_kind(value)}")
        items = [self.value(hint, item, f"{key}[{at}]") for at, item in enumerate(value)]
        return _MISSING if _MISSING in items else tuple(items)

    def named(self, hint: Any, value: object, key: str) -> Any:
        if not isinstance(value, dict):
            return self.wrong(key, f"must be a table, not {_kind(value)}")
        if hint is str:
            empty = [name for name, item in value.items() if item is None]
            for name in empty:
                self.wrong(_join(key, name), "has no value")
            texts = {str(name): _as_text(item) for name, item in value.items()}
            return _MISSING if empty else texts
        items = {
            str(name): self.value(hint, item, _join(key, name)) for name, item in value.items()
        }
        return _MISSING if any(item is _MISSING for item in items.values()) else items

    def parsed(self, hint: Any, value: object, key: str) -> Any:
        if not isinstance(value, getattr(hint, "accepts", str)) or isinstance(value, bool):
            return self.wrong(key, f"must be a text, not {_kind(value)}")
        try:
            return hint.parse(value)
        except ValueError as error:
            return self.wrong(key, str(error))


def _as_text(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _kind(value: object) -> str:
    for cls, name in ((bool, "a boolean"), (int, "a number"), (float, "a number")):
        if isinstance(value, cls):
            return f"{name} ({json.dumps(value)})"
    if isinstance(value, str):
        return f"a text ({value!r})"
    return {dict: "a table", list: "a list", types.NoneType: "nothing"}.get(
        type(value), f"a {type(value).__name__}"
    )
