"""The files of accounts: ``conf/plain_acl.yml`` and all of ``conf/acl/``, below RocketMQ's home.

They are read again when one of them has changed, at most once in `RELOAD_S`, so an operator edits
them while the broker runs. A file that is broken then is left out with a line in the log, and what
it said before stays; one that is broken at the start is an error, so that nobody believes to be
protected who is not. An access key belongs to the first file that has it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from orbitmq.errors import ConfigError
from orbitmq.protocol.bodies import DataVersion
from orbitmq.remoting.access.accounts import Account
from orbitmq.remoting.access.addresses import AddressPattern, address_pattern

__all__ = ["RELOAD_S", "AccountFiles", "parse_accounts"]

_log = logging.getLogger(__name__)

RELOAD_S = 5.0

_Stamp = tuple[int, int]


def parse_accounts(text: str, path: Path) -> dict[str, Any]:
    """Read the text of a file; a `ConfigError` says where it is wrong, and quotes no secret."""
    try:
        # Everything is text: a secret of digits must not lose its zeros.
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
    """What one file says."""

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
            self.accounts = [Account.from_entry(entry) for entry in value.get("accounts") or ()]
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
            _log.warning("%s was not there; nobody but white addresses has access", self.default)
        self._files = {path: _File(path) for path in self._paths()}
        self.accounts: dict[str, Account] = {}
        self._white: list[AddressPattern] = []
        self._take()

    def _paths(self) -> Iterator[Path]:
        yield self.default
        below = self._conf / "acl"
        if below.is_dir():
            yield from sorted(p for p in below.rglob("*") if p.suffix in (".yml", ".yaml"))

    def is_white(self, address: str) -> bool:
        """Whether requests from there are not checked at all."""
        return any(matches(address) for matches in self._white)

    @property
    def white_texts(self) -> list[str]:
        """The patterns of addresses that are not checked."""
        return [text for file in self._files.values() for text in file.white_texts]

    @property
    def paths(self) -> list[Path]:
        """The files there are, the default one first."""
        return list(self._files)

    def file_of(self, access_key: str) -> Path | None:
        """Return the file whose account counts."""
        for path, file in self._files.items():
            if any(account.access_key == access_key for account in file.accounts):
                return path
        return None

    def content(self, path: Path) -> dict[str, Any]:
        """Return what a file says, to be changed."""
        return dict(self._files[path].value)

    def text(self, path: Path) -> str:
        """Return a file as it was written."""
        return self._files[path].text

    def version(self, path: Path) -> DataVersion:
        """Return which state of a file this is."""
        return self._files[path].version

    def reload(self) -> None:
        """Read what has changed."""
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
                _log.info("%s was read again", path)
            except ConfigError as error:
                _log.error("the change of an account file is left out: %s", error)
                if known is not None:
                    known.stamp = _stamp(path)
                    current[path] = known
        if changed or current.keys() != self._files.keys():
            self._files = current
            self._take()

    def _take(self) -> None:
        accounts: dict[str, Account] = {}
        for file in self._files.values():
            for account in file.accounts:
                if accounts.setdefault(account.access_key, account) is not account:
                    _log.warning("%s defines %s once more", file.path, account.access_key)
        self.accounts = accounts
        self._white = [pattern for file in self._files.values() for pattern in file.white]


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
