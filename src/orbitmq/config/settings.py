"""Settings as typed attributes under RocketMQ's keys.

A settings class lists its keys as attributes in Python's spelling: ``listen_port`` is the key
``listenPort``. Each is `fixed` or `live`; a request over the wire may change live ones only, and
none that names a file, a class, a command or an address is live.

Texts become values as Java's setters would make them: a boolean is ``true`` in any case or else
false, numbers are decimal, without blanks, and of 32 bits unless `long`. What Java ignores in
silence is said here in a warning: a value that is none keeps the setting as it was, a key nobody
knows is kept and shown but does nothing.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, dataclass_transform, get_type_hints

from orbitmq.config.properties import decode, parse_properties
from orbitmq.errors import ConfigError

__all__ = ["Settings", "fixed", "live"]

_log = logging.getLogger(__name__)

_NUMBER = re.compile(r"[+-]?[0-9]+")


def fixed(
    default: Any = dataclasses.MISSING,
    *,
    factory: Any = dataclasses.MISSING,
    key: str | None = None,
    shown_as: str | None = None,
    choices: tuple[str, ...] = (),
    long: bool = False,
    remote: bool = False,
) -> Any:
    """Declare a setting that only the configuration file or the command line sets."""
    metadata = {
        "key": key,
        "shown_as": shown_as,
        "choices": choices,
        "bits": 64 if long else 32,
        "remote": remote,
    }
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def live(default: Any, *, key: str | None = None, long: bool = False) -> Any:
    """Declare a setting that a request may change while the program runs."""
    return fixed(default, key=key, long=long, remote=True)


@dataclasses.dataclass(frozen=True)
class _Setting:
    """What is known of one attribute."""

    name: str
    key: str
    shown_as: str
    kind: Any
    bits: int
    choices: tuple[str, ...]
    remote: bool

    def read(self, text: str) -> Any:
        """Turn a text into a value; ValueError says what it is not."""
        if self.kind is bool:
            return text.lower() == "true"
        if self.kind is int:
            number = int(text) if _NUMBER.fullmatch(text) else None
            limit = 1 << (self.bits - 1)
            if number is None or not -limit <= number < limit:
                raise ValueError(f"not a number of {self.bits} bits")
            return number
        if self.choices and text not in self.choices:
            raise ValueError(f"none of {', '.join(self.choices)}")
        return text


@dataclass_transform(kw_only_default=True)
@dataclasses.dataclass(kw_only=True)
class Settings:
    """The base of all settings; a subclass is a keyword-only dataclass."""

    also_known: ClassVar[frozenset[str]] = frozenset()
    """Keys that are no settings of ours and yet no mistake."""
    _settings: ClassVar[dict[str, _Setting]] = {}

    given: set[str] = dataclasses.field(default_factory=set, init=False, repr=False)
    """The keys that somebody has set."""
    unknown: dict[str, str] = dataclasses.field(default_factory=dict, init=False, repr=False)
    """The keys that mean nothing to us, as they were found."""

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(kw_only=True)(cls)
        hints = get_type_hints(cls)
        cls._settings = {}
        for field in dataclasses.fields(cls):
            if not field.metadata:
                continue
            key = field.metadata["key"] or _camel(field.name)
            kind = hints[field.name]
            cls._settings[key] = _Setting(
                name=field.name,
                key=key,
                shown_as=field.metadata["shown_as"] or key,
                kind=kind if kind in (int, bool) else str,
                bits=field.metadata["bits"],
                choices=field.metadata["choices"],
                remote=field.metadata["remote"],
            )

    @classmethod
    def load(cls, path: Path | str | None = None) -> Self:
        """Read a properties file; without one, everything is as RocketMQ has it."""
        settings = cls()
        if path is not None:
            try:
                content = Path(path).read_bytes()
            except OSError as error:
                raise ConfigError(f"cannot read {path}: {error.strerror}") from error
            settings.take(parse_properties(decode(content)), source=str(path))
        return settings

    def take(self, properties: Mapping[str, str], *, source: str = "configuration") -> list[str]:
        """Take over what can be understood, warn of the rest. Returns the keys taken over."""
        taken = []
        for key, text in properties.items():
            setting = self._settings.get(key)
            if setting is None:
                self.unknown[key] = text
                if key not in self.also_known:
                    _log.warning("%s: unknown key %s%s", source, key, self._suggestion(key))
                continue
            try:
                value = setting.read(text)
            except ValueError as error:
                kept = getattr(self, setting.name)
                _log.warning("%s: %s=%r is %s, keeping %s", source, key, text, error, kept)
                continue
            setattr(self, setting.name, value)
            self.given.add(key)
            taken.append(key)
        return taken

    def _suggestion(self, key: str) -> str:
        by_lower = {known.lower(): known for known in self._settings}
        close = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=0.75)
        return f", did you mean {by_lower[close[0]]}?" if close else ""

    def update(self, properties: Mapping[str, str]) -> list[str]:
        """Take over what a request may change. Returns the keys that were."""
        allowed = {
            key: text
            for key, text in properties.items()
            if key in self._settings and self._settings[key].remote
        }
        return self.take(allowed, source="request")

    def refused(self, properties: Mapping[str, str]) -> list[str]:
        """Return the settings among these keys that a request may not change."""
        return [
            key for key in properties if key in self._settings and not self._settings[key].remote
        ]

    def as_properties(self) -> dict[str, str]:
        """Return every key with the text of its value; what has no value is left out."""
        shown = {}
        for setting in self._settings.values():
            value = getattr(self, setting.name)
            if isinstance(value, bool):
                shown[setting.shown_as] = "true" if value else "false"
            elif value is not None:
                shown[setting.shown_as] = str(value)
        return {**shown, **self.unknown}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
