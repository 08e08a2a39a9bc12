"""Changes of account files that administrators make by requests.

An entry is changed in the file that holds its key; a new one goes to the default file. Only the
given members change, and the rest of the file stays, comments included (`account_text`). The
changed entry becomes the last one, as in Java. Each change increments the file's version. A request
can only name files that already hold accounts.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orbitmq.errors import ConfigError
from orbitmq.remoting.access.account_text import dumped, rewritten
from orbitmq.remoting.access.accounts import MIN_KEY_LENGTH, Account
from orbitmq.remoting.access.addresses import address_pattern
from orbitmq.remoting.access.files import AccountFiles
from orbitmq.remoting.access.rights import PERMISSION_TEXTS

__all__ = ["AccountEditor"]

_log = logging.getLogger(__name__)


class AccountEditor:
    """Adds, changes and removes accounts."""

    def __init__(self, files: AccountFiles, clock: Callable[[], int]) -> None:
        self._files = files
        self._clock = clock

    def put(self, given: Mapping[str, Any]) -> None:
        """Add an account, or change the given members of one; `ConfigError` names the mistake."""
        access_key, secret_key = given.get("accessKey") or "", given.get("secretKey") or ""
        if min(len(access_key), len(secret_key)) < MIN_KEY_LENGTH:
            raise ConfigError(
                f"The accessKey={access_key or 'null'} and secretKey={secret_key or 'null'} cannot "
                "be null and length should longer than 6"
            )
        for line in [*given.get("topicPerms", ()), *given.get("groupPerms", ())]:
            _check_resource(line)
        path = self._files.file_of(access_key) or self._files.default
        content = self._files.content(path)
        entries = content.get("accounts") or []
        known: dict[str, Any] = next(
            (one for one in entries if one.get("accessKey") == access_key), {}
        )
        entry = {**known, **given}
        Account.from_entry(entry)
        content["accounts"] = [one for one in entries if one is not known] + [entry]
        self._write(path, content)

    def delete(self, access_key: str) -> bool:
        """Remove an account; False if there is none."""
        path = self._files.file_of(access_key)
        if path is None:
            return False
        content = self._files.content(path)
        entries = content.get("accounts") or []
        content["accounts"] = [one for one in entries if one.get("accessKey") != access_key]
        self._write(path, content)
        return True

    def set_white(self, patterns: list[str], file: str | None) -> bool:
        """Replace a file's white list; False if the file holds no accounts."""
        path = self._files.default if not file else Path(file)
        if path not in self._files.paths:
            return False
        for pattern in patterns:
            address_pattern(pattern)
        content = self._files.content(path)
        content["globalWhiteRemoteAddresses"] = patterns
        self._write(path, content)
        return True

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        version = self._files.version(path).next(self._clock())
        content["dataVersion"] = [{"timestamp": version.timestamp, "counter": version.counter}]
        text = rewritten(self._files.text(path), content)
        if text is None:
            _log.warning("%s is written anew, without its comments: its layout is unusual", path)
            text = dumped(content)
        fresh = path.with_name(path.name + ".tmp")
        # The file holds secrets, so it keeps its mode.
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, path.stat().st_mode & 0o777)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        fresh.replace(path)
        self._files.reload()


def _check_resource(line: str) -> None:
    parts = line.rstrip("=").split("=")  # Java's split drops empty parts at the end
    if len(parts) != 2:
        raise ConfigError(
            f"Parse Resource format error for {line}.\n"
            "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
        )
    if parts[1].strip() not in PERMISSION_TEXTS:
        raise ConfigError(
            f"Parse resource permission error for {line}.\n"
            "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
        )
