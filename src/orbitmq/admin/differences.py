"""Differences between existing and requested configurations."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.errors import AlreadyExists

__all__ = ["differences", "refuse_existing"]


def differences(known: object, wanted: object, names: Mapping[str, str]) -> str:
    """Return a text of the fields that differ between two configurations; empty without any."""
    return ", ".join(
        f"{text} {_shown(getattr(known, name))} instead of {_shown(getattr(wanted, name))}"
        for name, text in names.items()
        if getattr(known, name) != getattr(wanted, name)
    )


def refuse_existing(thing: str, differing: Mapping[str, str]) -> None:
    """Raise `AlreadyExists` if a broker has the thing in another form than requested."""
    told = "; ".join(f"on {broker} with {text}" for broker, text in differing.items() if text)
    if told:
        raise AlreadyExists(
            f"{thing} exists already, {told}. Nothing was changed: update it to change it, or "
            "create it only where it does not exist (if_not_exists, --if-not-exists)"
        )


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
