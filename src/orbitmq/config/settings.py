"""Settings as typed attributes under RocketMQ's keys.

A settings class lists its keys as attributes in Python's spelling: ``listen_port`` is the key
``listenPort``. Each setting is `fixed` or `live`; a request over the wire may change only live
ones. Settings that name a file, a class, a command or an address are never live.

Texts are converted as Java's setters do: a boolean is ``true`` or ``false`` in any case, a number
is decimal without blanks, with 32 bits unless `long`. Java silently ignores invalid settings and
uses its defaults: with asynchronous flushes, or without access control. OrbitMQ does not start
with them (`Settings.take`):

- An invalid value, or a key that resembles a key of RocketMQ, is always refused.
- A key that RocketMQ has and OrbitMQ lacks logs a warning if it is in a file.
- Any other unknown key is refused. In the files of ``mqbroker`` and ``mqnamesrv`` it only logs a
  warning, because Java's plug-ins read their own keys from the same file. RocketMQ's own programs
  start with such keys as well. The keys are kept and shown.

A request differs from a start: an invalid value changes nothing, as in Java, and is logged.

Each setting is declared with its effect in OrbitMQ (`Meaning`). `check` refuses and warns
accordingly; the reference page contains the same texts.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, dataclass_transform, get_type_hints

from orbitmq.config.properties import decode, parse_properties
from orbitmq.config.rocketmq_keys import ROCKETMQ_5_KEYS
from orbitmq.errors import ConfigError

__all__ = [
    "LetsPass",
    "Meaning",
    "Setting",
    "Settings",
    "Use",
    "fixed",
    "idle",
    "live",
    "refused",
    "warned",
]

# ---- Meanings of settings
#
# A setting works, is idle, is warned of, or is refused. The meaning is part of the declaration, so
# that a starting broker and the reference page (`orbitmq.config.reference`) agree.


class Use(Enum):
    """Kinds of effect that a setting has in OrbitMQ."""

    WORKS = "works"
    IDLE = "idle"
    WARNED = "warned"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Meaning:
    """Effect of one setting; `refused_when` gets all settings and decides about a refusal."""

    use: Use
    text: str
    refused_when: Callable[[Any], bool] | None = None

    @classmethod
    def of(cls, says: str | Meaning) -> Meaning:
        """Return the meaning of a setting; a plain text describes a setting that works."""
        return says if isinstance(says, Meaning) else cls(Use.WORKS, says)


def idle(reason: str) -> Meaning:
    """Declare that a setting is accepted, and that ignoring it is harmless."""
    return Meaning(Use.IDLE, reason)


def warned(reason: str) -> Meaning:
    """Declare that a setting has no effect; any value but the default logs a warning at start."""
    return Meaning(Use.WARNED, reason)


def refused(reason: str, *, when: Callable[[Any], bool] | None = None) -> Meaning:
    """Declare that the program does not start with this setting.

    It starts with the default value or, if given, while `when` is false. To be used where ignoring
    the setting would lose messages or change their meaning.
    """
    return Meaning(Use.REFUSED, reason, when)


_log = logging.getLogger(__name__)

LetsPass = Literal["nothing", "rocketmq", "anything"]
"""Unknown keys that log a warning instead of an error: none, those of RocketMQ, or all but typos.

The command line passes nothing, a file RocketMQ's keys, and a file of ``mqbroker`` anything.
"""

_SLIP: Final = 0.85
"""Similarity from which a key is a typo of a known key: one letter of six, or two of fourteen."""
_SIMILAR: Final = 0.75
"""Similarity from which a known key is suggested."""

_NUMBER = re.compile(r"[+-]?[0-9]+")


def fixed(
    default: Any = dataclasses.MISSING,
    says: str | Meaning = "",
    *,
    factory: Any = dataclasses.MISSING,
    otherwise: str | None = None,
    key: str | None = None,
    shown_as: str | None = None,
    choices: tuple[str, ...] = (),
    long: bool = False,
    remote: bool = False,
    read_at_start: bool = True,
    important: bool = False,
) -> Any:
    """Declare a setting that only the configuration file or the command line sets.

    `says` describes its effect, `otherwise` a default that depends on the machine. ``mqbroker -m``
    prints the `important` settings.
    """
    metadata = {
        "key": key,
        "shown_as": shown_as,
        "choices": choices,
        "bits": 64 if long else 32,
        "remote": remote,
        "read_at_start": read_at_start,
        "important": important,
        "meaning": Meaning.of(says),
        "otherwise": otherwise,
    }
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def live(
    default: Any,
    says: str | Meaning,
    *,
    key: str | None = None,
    long: bool = False,
    otherwise: str | None = None,
    read_at_start: bool = False,
    important: bool = False,
) -> Any:
    """Declare a setting that a request may change while the program runs.

    With `read_at_start` the change is accepted and shown, as in Java, but has no effect.
    """
    return fixed(
        default,
        says,
        key=key,
        long=long,
        otherwise=otherwise,
        remote=True,
        read_at_start=read_at_start,
        important=important,
    )


@dataclasses.dataclass(frozen=True)
class Setting:
    """Description of one attribute of a settings class."""

    name: str
    key: str
    shown_as: str
    kind: Any
    bits: int
    choices: tuple[str, ...]
    remote: bool
    read_at_start: bool
    important: bool
    meaning: Meaning
    default: Any
    """None if a factory makes the default; then `otherwise` describes it."""
    otherwise: str | None

    def read(self, text: str) -> Any:
        """Convert a text to a value; the text of `ValueError` names the problem."""
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise ValueError("neither true nor false")
            return text.lower() == "true"
        if self.kind is int:
            number = int(text) if _NUMBER.fullmatch(text) else None
            limit = 1 << (self.bits - 1)
            if number is None or not -limit <= number < limit:
                raise ValueError(f"not a number of {self.bits} bits")
            return number
        if self.choices and text not in self.choices:
            close = [one for one in self.choices if text and one.lower().startswith(text.lower())]
            close = close or difflib.get_close_matches(text.upper(), self.choices, n=1)
            hint = f", did you mean {close[0]}?" if len(close) == 1 else ""
            raise ValueError(f"none of {', '.join(self.choices)}{hint}")
        return text


@dataclass_transform(kw_only_default=True)
@dataclasses.dataclass(kw_only=True)
class Settings:
    """Base class of all settings; each subclass becomes a keyword-only dataclass."""

    _settings: ClassVar[dict[str, Setting]] = {}

    given: set[str] = dataclasses.field(default_factory=set, init=False, repr=False)
    """Keys that a file, the command line or a request has set."""
    unknown: dict[str, str] = dataclasses.field(default_factory=dict, init=False, repr=False)
    """Unknown keys with their texts."""

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(kw_only=True)(cls)
        hints = get_type_hints(cls)
        cls._settings = {}
        for field in dataclasses.fields(cls):
            if not field.metadata:
                continue
            key = field.metadata["key"] or _camel(field.name)
            kind = hints[field.name]
            default = field.default
            cls._settings[key] = Setting(
                name=field.name,
                key=key,
                shown_as=field.metadata["shown_as"] or key,
                kind=kind if kind in (int, bool) else str,
                bits=field.metadata["bits"],
                choices=field.metadata["choices"],
                remote=field.metadata["remote"],
                read_at_start=field.metadata["read_at_start"],
                important=field.metadata["important"],
                meaning=field.metadata["meaning"],
                default=None if default is dataclasses.MISSING else default,
                otherwise=field.metadata["otherwise"],
            )

    @classmethod
    def known(cls) -> dict[str, Setting]:
        """Return all settings by key."""
        return dict(cls._settings)

    def check(self) -> None:
        """Raise `ConfigError` for refused settings, warn of ignored ones; to be called at start."""
        for setting in self._settings.values():
            value = getattr(self, setting.name)
            meaning = setting.meaning
            if meaning.use is not Use.REFUSED:
                continue
            when = meaning.refused_when
            if when(self) if when is not None else value != setting.default:
                raise ConfigError(f"{setting.key}={_text(value)} is not supported: {meaning.text}")
        for setting in self._settings.values():
            if setting.meaning.use is Use.WARNED:
                self._warn_if_set(setting, "configuration")

    def _warn_if_set(self, setting: Setting, source: str) -> None:
        value = getattr(self, setting.name)
        if value != setting.default:
            text = f"{setting.key}={_text(value)}"
            _log.warning("%s: %s has no effect: %s", source, text, setting.meaning.text)

    @classmethod
    def load(cls, path: Path | str | None = None, *, lets_pass: LetsPass = "rocketmq") -> Self:
        """Read settings from a properties file; without a path, return RocketMQ's defaults.

        Raises `ConfigError`, which names all mistakes; see `take`.
        """
        settings = cls()
        if path is not None:
            try:
                content = Path(path).read_bytes()
            except OSError as error:
                raise ConfigError(f"cannot read {path}: {error.strerror}") from error
            properties = parse_properties(decode(content))
            settings.take(properties, source=str(path), lets_pass=lets_pass)
        return settings

    def take(
        self,
        properties: Mapping[str, str],
        *,
        source: str = "configuration",
        lets_pass: LetsPass = "nothing",
    ) -> list[str]:
        """Set values to start with, and return their keys.

        Raises `ConfigError` with all mistakes: invalid values, typos, and unknown keys. Unknown
        keys that `lets_pass` allows only log a warning.
        """
        values: dict[str, Any] = {}
        wrong = []
        for key, text in properties.items():
            setting = self._settings.get(key)
            if setting is None:
                if (complaint := self._complaint(key, source, lets_pass)) is not None:
                    wrong.append(complaint)
                continue
            try:
                values[key] = setting.read(text)
            except ValueError as error:
                wrong.append(f"{key}={text!r} is {error}")
        if wrong:
            raise ConfigError(f"{source}: {'; '.join(wrong)}")
        self.unknown |= {key: text for key, text in properties.items() if key not in values}
        for key, value in values.items():
            setattr(self, self._settings[key].name, value)
        self.given |= values.keys()
        return list(values)

    def _complaint(self, key: str, source: str, lets_pass: LetsPass) -> str | None:
        """Return why an unknown key is refused; for an allowed key warn and return None."""
        elsewhere = self._elsewhere()
        if key in elsewhere:
            text = f"{key} is a setting of RocketMQ that has no effect here"
            if lets_pass == "nothing":
                return text
            _log.warning("%s: %s", source, text)
            return None
        likeness, known = _most_alike(key, {*self._settings, *elsewhere})
        hint = f", did you mean {known}?" if likeness >= _SIMILAR else ""
        if lets_pass != "anything" or likeness >= _SLIP:
            return f"unknown key {key}{hint}"
        _log.warning("%s: unknown key %s%s", source, key, hint)
        return None

    def _elsewhere(self) -> Set[str]:
        """Return the keys of RocketMQ that OrbitMQ lacks."""
        return ROCKETMQ_5_KEYS

    def update(self, properties: Mapping[str, str]) -> list[str]:
        """Set those values that a request may change, and return their keys."""
        taken = []
        for key, text in properties.items():
            setting = self._settings.get(key)
            if setting is None or not setting.remote:
                continue
            try:
                value = text.lower() == "true" if setting.kind is bool else setting.read(text)
            except ValueError as error:
                kept = getattr(self, setting.name)
                _log.warning("request: %s=%r is %s, keeping %s", key, text, error, kept)
                continue
            setattr(self, setting.name, value)
            self.given.add(key)
            taken.append(key)
        for setting in map(self._settings.__getitem__, taken):
            if setting.meaning.use is Use.WARNED:
                self._warn_if_set(setting, "request")
            elif setting.meaning.use is Use.WORKS and setting.read_at_start:
                _log.warning(
                    "request: %s is read at start; the new value changes nothing until it stands "
                    "in the configuration file and this process is started again",
                    setting.key,
                )
        return taken

    def refused(self, properties: Mapping[str, str]) -> list[str]:
        """Return the keys among these that a request may not change."""
        return [
            key for key in properties if key in self._settings and not self._settings[key].remote
        ]

    def as_properties(self, *, important: bool = False) -> dict[str, str]:
        """Return all keys with the texts of their values, except those without a value.

        With `important`, return only the keys that ``mqbroker -m`` prints.
        """
        shown = {}
        for setting in self._settings.values():
            value = getattr(self, setting.name)
            if value is not None and (setting.important or not important):
                shown[setting.shown_as] = _text(value)
        return shown if important else {**shown, **self.unknown}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _most_alike(key: str, known: Set[str]) -> tuple[float, str]:
    """Return the similarity and the name of the most similar known key; 1 means equal."""

    def letters(text: str) -> str:
        return re.sub(r"[^a-z0-9.]", "", text.lower())

    plain = letters(key)
    likeness = {
        one: difflib.SequenceMatcher(None, plain, letters(one)).ratio() for one in sorted(known)
    }
    best = max(likeness, key=lambda one: likeness[one])
    return likeness[best], best
