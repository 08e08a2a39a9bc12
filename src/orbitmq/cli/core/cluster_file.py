"""Files with cluster options, for options that neither command line nor environment sets.

There are two files, and the first one wins::

    $ORBITMQ_CONFIG, else ~/.config/orbitmq/cluster.conf      properties with the options' names
        namesrv=10.0.0.1:9876;10.0.0.2:9876
        access-key=manager
        secret-key=…
        tls-ca=/etc/orbitmq/ca.pem

    $ROCKETMQ_HOME/conf/tools.yml                             mqadmin's own
        accessKey: manager
        secretKey: …

An explicitly named file that cannot be used is an error. A missing default file is not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

__all__ = ["kept"]

_OF_TOOLS: Final = {"access-key": "accessKey", "secret-key": "secretKey"}


def kept(option: str, known: frozenset[str]) -> str | None:
    """Return the value of an option from the files, or None; `known` are all valid options."""
    values = _own(known)
    if option in values:
        return values[option]
    return _of_tools().get(_OF_TOOLS.get(option, ""))


def _own(known: frozenset[str]) -> Mapping[str, str]:
    named = os.environ.get("ORBITMQ_CONFIG")
    path = Path(named) if named else Path.home() / ".config" / "orbitmq" / "cluster.conf"
    text = _text(path, is_needed=bool(named))
    if text is None:
        return {}
    # Imported late: most users have no such file.
    from orbitmq.config import parse_properties
    from orbitmq.errors import OrbitError

    try:
        values = parse_properties(text)
    except OrbitError as error:
        raise click.UsageError(f"{path}: {error}") from error
    if unknown := sorted(values.keys() - known):
        raise click.UsageError(
            f"{path}: there is no option {unknown[0]}; there are: {', '.join(sorted(known))}"
        )
    return values


def _of_tools() -> Mapping[str, str]:
    home = os.environ.get("ROCKETMQ_HOME")
    path = Path(home or "") / "conf" / "tools.yml"
    text = _text(path, is_needed=False) if home else None
    if text is None:
        return {}
    import yaml

    try:
        value: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # The error text of YAML quotes the line, which may contain the secret key.
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f": line {mark.line + 1}, column {mark.column + 1}"
        raise click.UsageError(f"{path} is not valid YAML{place}") from None
    if not isinstance(value, dict):
        return {}
    return {key: str(value[key]) for key in _OF_TOOLS.values() if value.get(key)}


def _text(path: Path, *, is_needed: bool) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if is_needed:
            raise click.UsageError(f"ORBITMQ_CONFIG names {path}, which is not there") from error
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} cannot be read: {error}") from error
