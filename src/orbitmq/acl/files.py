"""Account files: ``conf/plain_acl.yml`` and all of ``conf/acl/``, below RocketMQ's home.

Changed files are reloaded, at most once in `RELOAD_S`, so operators can edit them while the broker
runs. If a file cannot be parsed on reload, the error is logged and its previous content stays in
force. At start it is an error, because a broker must not start without the protection that its
operator configured. An access key belongs to the first file that defines it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from orbitmq.acl.accounts import AclAccount, AddressPattern, address_pattern
from orbitmq.errors import ConfigError
from orbitmq.protocol.bodies import DataVersion

__all__ = ["RELOAD_S", "AccountFiles", "parse_accounts"]

_log = logging.getLogger(__name__)

RELOAD_S = 5.0

_Stamp = tuple[int, int]


def parse_accounts(text: str, path: Path) -> dict[str, Any]:
    """Parse the text of a file; a `ConfigError` names line and column, and quotes no secret."""
    try:
        # Read all scalars as text: a secret of digits must keep its leading zeros.
        value = yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML{_place(error)}") from None
    if value in (None, ""):
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{path} is not a table of accounts")
    return value


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f": line {mark.line + 1}, column {mark.column + 1}"


class _File:
    """Parsed content of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stamp = _stamp(path)
        try:
            self.text = path.read_text("utf-8")
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            remark = f"{path} cannot be read: byte {error.start} is no UTF-8"
            raise ConfigError(remark) from None
        value = self.value = parse_accounts(self.text, path)
        try:
            self.white_texts = [str(t) for t in value.get("globalWhiteRemoteAddresses") or ()]
            self.white = [address_pattern(text) for text in self.white_texts]
            self.accounts = [AclAccount.from_entry(entry) for entry in value.get("accounts") or ()]
            stated = value.get("dataVersion") or [{"timestamp": self.stamp[0] // 1_000_000}]
            self.version = DataVersion.from_json(stated[0])
        except (ConfigError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ConfigError(f"{path}: {error}") from None


class AccountFiles:
    """All accounts and white addresses."""

    def __init__(self, home: Path | str | None) -> None:
        if not home:
            raise ConfigError("aclEnable=true needs rocketmqHome, where conf/plain_acl.yml is")
        self._conf = Path(home) / "conf"
        self.default = self._conf / "plain_acl.yml"
        if not self.default.exists():
            self.default.parent.mkdir(parents=True, exist_ok=True)
            self.default.touch()
            _log.warning("created missing %s: only white addresses have access", self.default)
        self._files = {path: _File(path) for path in self._paths()}
        self.accounts: dict[str, AclAccount] = {}
        self._white: list[AddressPattern] = []
        self._take()

    def _paths(self) -> Iterator[Path]:
        yield self.default
        below = self._conf / "acl"
        if below.is_dir():
            yield from sorted(p for p in below.rglob("*") if p.suffix in (".yml", ".yaml"))

    def is_white(self, address: str) -> bool:
        """Return True if requests from an address skip all checks."""
        return any(matches(address) for matches in self._white)

    @property
    def white_texts(self) -> list[str]:
        """Patterns of the global white list."""
        return [text for file in self._files.values() for text in file.white_texts]

    @property
    def paths(self) -> list[Path]:
        """Paths of the existing files, the default file first."""
        return list(self._files)

    def file_of(self, access_key: str) -> Path | None:
        """Return the file that defines an access key."""
        for path, file in self._files.items():
            if any(account.access_key == access_key for account in file.accounts):
                return path
        return None

    def content(self, path: Path) -> dict[str, Any]:
        """Return a copy of a file's parsed content, for changes."""
        return dict(self._files[path].value)

    def text(self, path: Path) -> str:
        """Return a file's text."""
        return self._files[path].text

    def version(self, path: Path) -> DataVersion:
        """Return a file's version, which counts its changes."""
        return self._files[path].version

    def reload(self) -> None:
        """Reload changed files."""
        current: dict[Path, _File] = {}
        changed = False
        for path in self._paths():
            known = self._files.get(path)
            if known is not None and known.stamp == _stamp(path):
                current[path] = known
                continue
            changed = True
            try:
                current[path] = _File(path)
                _log.info("reloaded account file %s", path)
            except ConfigError as error:
                _log.error("cannot reload an account file, its previous content stays: %s", error)
                if known is not None:
                    known.stamp = _stamp(path)
                    current[path] = known
        if changed or current.keys() != self._files.keys():
            self._files = current
            self._take()

    def _take(self) -> None:
        accounts: dict[str, AclAccount] = {}
        for file in self._files.values():
            for account in file.accounts:
                if accounts.setdefault(account.access_key, account) is not account:
                    _log.warning(
                        "%s: ignoring %s: it is defined already", file.path, account.access_key
                    )
        self.accounts = accounts
        self._white = [pattern for file in self._files.values() for pattern in file.white]


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
