"""Translations of mqadmin's options: `Value`, `Argument`, `Flag`, `Switch` or `Ignored`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["Alias", "Argument", "Flag", "Ignored", "Option", "Switch", "Value"]


@dataclass(frozen=True, slots=True)
class Option:
    """An option of mqadmin: its letter, its long name and its translation."""

    letter: str
    name: str
    to: str = ""
    required: bool = False
    is_argument: bool = False
    takes_value: bool = True
    other: str = ""
    """Translation of false, for a switch."""
    is_switch: bool = False

    def ours(self, value: str) -> list[str]:
        """Return the arguments of ``orbitmq`` for a value."""
        if self.is_argument:
            return [value]
        if self.is_switch:
            word = self.to if value.lower() == "true" else self.other
            return [word] if word else []
        if not self.to:
            return []
        return [self.to, value] if self.takes_value else [self.to]

    def meaning(self) -> str:
        """Return the translation as text for the help."""
        if self.is_argument:
            return "the argument"
        if self.is_switch:
            return f"{self.to or 'nothing'} if true, {self.other or 'nothing'} if false"
        return self.to or "changes nothing here"


def Value(letter: str, name: str, to: str, *, required: bool = False) -> Option:
    """An option whose value is passed on with an option of ours."""
    return Option(letter, name, to, required)


def Argument(letter: str, name: str, *, required: bool = True) -> Option:
    """An option that becomes a positional argument."""
    return Option(letter, name, required=required, is_argument=True)


def Flag(letter: str, name: str, to: str) -> Option:
    """An option without a value."""
    return Option(letter, name, to, takes_value=False)


def Switch(letter: str, name: str, to: str, other: str = "") -> Option:
    """An option with the value true or false."""
    return Option(letter, name, to, other=other, is_switch=True)


def Ignored(letter: str, name: str) -> Option:
    """An option that has no effect here."""
    return Option(letter, name)


@dataclass(frozen=True, slots=True)
class Alias:
    """A command of mqadmin and its translation."""

    verb: tuple[str, ...]
    in_words: str
    options: tuple[Option, ...] = ()
    special: Callable[[Mapping[str, str]], list[str]] | None = field(default=None, compare=False)
    """Translates options by letter into a whole command line, if options select the command."""
