"""Values from the environment, and secrets, which must never be shown.

``${NAME}`` in any text of a pipeline's file stands for the environment variable NAME,
``${NAME:-text}`` has a default, ``$${`` is a plain ``${``. A key that names a secret accepts only
variables without a default, because a secret in a file ends up in a repository. `Secrets` keeps
every value of such a key and strikes it out of all texts that are shown, whatever their origin.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from orbitmq.spark.pipelines.tables import Mistakes

__all__ = ["REDACTED", "RedactingFilter", "Secrets", "is_secret"]

REDACTED: Final = "***"

_VARIABLE = re.compile(r"\$?\$\{(\w+)(?::-([^}]*))?\}")
_SECRET = re.compile(
    r"sas\.fixed\.token|(secret|access|account|api)\.?key|private\.?key(?!\.?(file|path|id))|credential"
    r"|securitytoken|password|passwd|passphrase|(secret|token|pwd)(\[\d+\])?$|(^|\.)(secret|token)s$"
)


def is_secret(key: str) -> bool:
    """Return True if a key's value must not be shown.

    >>> is_secret("secretKey"), is_secret("spark.ssl.keyPassword"), is_secret("topic")
    (True, True, False)
    """
    return _SECRET.search(key.lower().replace("_", "").replace("-", "")) is not None


def _written_down(text: str) -> str | None:
    """Return the part of a secret that is in the file: the whole text or a variable's default.

    Return None if the text contains only variables without a default.
    """
    variables = [found for found in _VARIABLE.finditer(text) if not found[0].startswith("$$")]
    if not variables:
        return text
    return next((found[2] for found in variables if found[2]), None)


class Secrets:
    """Secrets of one file, collected while its variables are replaced."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def fill_in(
        self, tree: Any, environment: Mapping[str, str], mistakes: Mistakes, key: str = ""
    ) -> Any:
        """Return the tree with its variables replaced; note missing variables as mistakes."""
        if isinstance(tree, dict):
            return {
                name: self.fill_in(
                    item, environment, mistakes, f"{key}.{name}" if key else str(name)
                )
                for name, item in tree.items()
            }
        if isinstance(tree, list):
            return [
                self.fill_in(item, environment, mistakes, f"{key}[{at}]")
                for at, item in enumerate(tree)
            ]
        secret = is_secret(key.rsplit(".", 1)[-1]) or is_secret(key)
        if secret and isinstance(tree, int | float) and not isinstance(tree, bool):
            tree = str(tree)
        if not isinstance(tree, str):
            return tree
        if secret and (written := _written_down(tree)):
            self._values.add(written)
            mistakes.add(
                key,
                "is a secret and does not belong into a file: "
                'write "${NAME}" and set the environment variable NAME',
            )
            return tree

        def value(found: re.Match[str]) -> str:
            if found[0].startswith("$$"):
                return found[0][1:]
            text: str | None = environment.get(found[1], found[2])
            if text is None:
                mistakes.add(key, f"the environment variable {found[1]} is not set")
                return found[0]  # an empty value would cause a second mistake
            return text

        filled = _VARIABLE.sub(value, tree)
        if secret and filled:
            self._values.add(filled)
        return filled

    def strike_out(self, text: str) -> str:
        """Return the text with `REDACTED` in place of each secret."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, REDACTED)
        return text

    def shown(self, tree: Any, key: str = "") -> Any:
        """Return the tree without secrets: values of secret keys and secrets in other texts."""
        if isinstance(tree, dict):
            return {name: self.shown(item, str(name)) for name, item in tree.items()}
        if isinstance(tree, list | tuple):
            return [self.shown(item, key) for item in tree]
        if isinstance(tree, str):
            return REDACTED if tree and is_secret(key) else self.strike_out(tree)
        return tree


class RedactingFilter(logging.Filter):
    """Logging filter that keeps secrets out of the log."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        """Strike the secrets out of a log record; return True, because every record is kept."""
        record.msg = self._secrets.strike_out(record.getMessage())
        record.args = ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._secrets.strike_out(record.exc_text)
        return True
