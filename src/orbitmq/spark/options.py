"""Parsing of option texts by type; each mistake raises one line that names the option.

Spark passes every option as text and ignores upper and lower case. Some options are secrets: they
never appear in a `repr`, and `ConnectionOptions.hiding_secrets` removes them from errors that quote
a broker's answer.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from orbitmq.client.settings import ClientSettings
from orbitmq.errors import ConfigError
from orbitmq.remoting.tls import Tls

__all__ = ["CONNECTION_OPTIONS", "ConnectionOptions", "Options", "path_of"]

T = TypeVar("T", bound=str)

CONNECTION_OPTIONS = (
    "nameServer",
    "namesrvAddr",
    "namespace",
    "accessKey",
    "secretKey",
    "securityToken",
    "tls",
    "tlsCaFile",
    "tlsCertFile",
    "tlsKeyFile",
    "tlsKeyPassword",
    "tlsVerify",
    "timeoutMs",
)
"""Options for the connection to a cluster; sources and sinks have the same ones."""

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")
_UNITS_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"(\d+)\s*([bkmg]?)(?:i?b)?")


class Options:
    """Options of one data source, by name in any case."""

    def __init__(self, given: Mapping[str, str], known: Collection[str], what: str) -> None:
        self._given = {name.lower(): str(text) for name, text in given.items()}
        by_lower = {name.lower(): name for name in known}
        for name in self._given:
            if name not in by_lower and not name.startswith("__"):
                near = difflib.get_close_matches(name, by_lower, 1)
                hint = f"; did you mean {by_lower[near[0]]}?" if near else ""
                raise ConfigError(f"{what} has no option {name!r}{hint}")

    def text(self, name: str, *aliases: str) -> str | None:
        """Return an option by one of its names, None if it is missing or blank."""
        found = {}
        for each in (name, *aliases):
            value = self._given.get(each.lower())
            if value is not None and value.strip():
                found[each] = value.strip()
        if len(set(found.values())) > 1:
            raise ConfigError(f"options {' and '.join(found)} are the same thing, give one of them")
        return next(iter(found.values()), None)

    def flag(self, name: str, default: bool) -> bool:
        """Return an option that is true or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"option {name} is true or false, not {text!r}")
        return text.lower() == "true"

    def number(self, name: str, default: int, least: int = 1) -> int:
        """Return an option that is a whole number."""
        found = self.number_if_given(name, least)
        return default if found is None else found

    def number_if_given(self, name: str, least: int = 1) -> int | None:
        """Return an option that is a whole number, None if it is missing."""
        text = self.text(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            raise ConfigError(f"option {name} is a whole number, not {text!r}") from None
        if value < least:
            raise ConfigError(f"option {name} is {least} or more, not {value}")
        if value >= 1 << 63:
            raise ConfigError(f"option {name} is below 2^63, not {value}")
        return value

    def size_if_given(self, name: str) -> int | None:
        """Return an option that is a number of bytes, such as ``64m``."""
        text = self.text(name)
        if text is None:
            return None
        match = _SIZE.fullmatch(text.lower())
        if match is None or int(match[1]) == 0:
            raise ConfigError(f"option {name} is a size such as 1048576, 64m or 1g, not {text!r}")
        return int(match[1]) * _UNITS_BYTES[match[2]]

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return an option that is a time, such as ``15m``; a bare number is milliseconds."""
        text = self.text(name)
        if text is None:
            return default_ms
        match = _DURATION.fullmatch(text.lower())
        if match is None or (match[2] or "ms") not in _UNITS_MS:
            raise ConfigError(f"option {name} is a time such as 500ms, 30s or 15m, not {text!r}")
        return int(match[1]) * _UNITS_MS[match[2] or "ms"]

    def choice(self, name: str, choices: Mapping[str, T], default: T) -> T:
        """Return an option that is one of the words in `choices`."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in choices:
            raise ConfigError(f"option {name} is {' or '.join(choices)}, not {text!r}")
        return choices[text.lower()]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Connection settings of a cluster; equal ones can share their connections."""

    nameservers: tuple[str, ...]
    namespace: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: Tls | None = field(default=None, repr=False)
    timeout_ms: int = 5000

    @classmethod
    def of(cls, options: Options) -> ConnectionOptions:
        """Parse and check the connection options, without connecting."""
        try:
            settings = ClientSettings.of(
                options.text("nameServer", "namesrvAddr"),
                namespace=options.text("namespace"),
                access_key=options.text("accessKey"),
                secret_key=options.text("secretKey"),
                security_token=options.text("securityToken"),
            )
        except ConfigError as error:
            raise ConfigError(_in_options(str(error))) from None
        connection = cls(
            settings.nameservers,
            settings.namespace,
            settings.access_key,
            settings.secret_key,
            settings.security_token,
            _tls(options),
            options.number("timeoutMs", 5000),
        )
        with connection.hiding_secrets():
            connection.client_settings().make_tls()
        return connection

    def client_settings(self) -> ClientSettings:
        """Return these options as settings of the client."""
        return ClientSettings.of(
            list(self.nameservers),
            namespace=self.namespace,
            access_key=self.access_key,
            secret_key=self.secret_key,
            security_token=self.security_token,
            tls=self.tls,
            timeout_ms=self.timeout_ms,
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no output may contain."""
        password = self.tls.key_password if self.tls is not None else None
        given = (self.access_key, self.secret_key, self.security_token, password)
        return tuple(secret for secret in given if secret)

    def hide_secrets(self, text: str) -> str:
        """Return the text with every secret replaced by asterisks."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "********")
        return text

    @contextlib.contextmanager
    def hiding_secrets(self) -> Iterator[None]:
        """Replace secrets in every exception raised inside, including its causes."""
        try:
            yield
        except Exception as raised:
            error: BaseException | None = raised
            seen: set[int] = set()
            while error is not None and id(error) not in seen:
                seen.add(id(error))
                error.args = tuple(self._hidden(value) for value in error.args)
                error = error.__cause__ or error.__context__
            raise

    def _hidden(self, value: Any) -> Any:
        return self.hide_secrets(value) if isinstance(value, str) else value


def _in_options(text: str) -> str:
    if text.startswith("no nameserver is known"):
        return (
            "option nameServer is missing: give the addresses of the nameservers, such as "
            "127.0.0.1:9876, or set NAMESRV_ADDR in the environment"
        )
    return text.replace("access_key and secret_key", "options accessKey and secretKey")


def _tls(options: Options) -> Tls | None:
    verify = options.flag("tlsVerify", True)
    tls = Tls(
        ca_file=options.text("tlsCaFile"),
        cert_file=options.text("tlsCertFile"),
        key_file=options.text("tlsKeyFile"),
        key_password=options.text("tlsKeyPassword"),
        verify=verify,
    )
    says_how = tls != Tls()
    if options.flag("tls", says_how):
        return tls
    if says_how:
        raise ConfigError("options tlsCaFile and its like say how to use TLS, but tls is false")
    return None


# ---- ``file:`` URLs
#
# Spark's users write paths as URLs; this code reads some of these paths without Spark.

SCHEME = "file:"


def path_of(url: str) -> str:
    """Return the path of a ``file:`` URL; its host can only be this machine, so it is dropped.

    >>> path_of("file:///var/store"), path_of("file:/var/store"), path_of("file:store")
    ('/var/store', '/var/store', 'store')
    """
    path = url[len(SCHEME) :]
    return "/" + path[2:].partition("/")[2] if path.startswith("//") else path
