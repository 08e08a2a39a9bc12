"""Settings that all clients share, and the client id.

Brokers identify a client by its id, ``<ip>@<instance name>[@<unit>][@STREAM]``. Brokers would treat
two clients with one id as one client, so a client without an `instance_name` generates its own.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from orbitmq.errors import ConfigError
from orbitmq.remoting.address import look_up, split_address
from orbitmq.remoting.hooks import RequestHook, mark_stream, signing
from orbitmq.remoting.tls import Tls, client_context

__all__ = ["ClientSettings", "local_ip", "look_up_nameservers"]

_INSTANCE_ENDPOINT = re.compile(r"(\w+://|)(MQ_INST_\w+_\w+)\..*")
_next_instance = itertools.count(1).__next__


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Settings of producers, consumers and admins; create them with `ClientSettings.of`.

    ::

        settings = ClientSettings.of("127.0.0.1:9876", access_key="shop", secret_key="...")
        producer = Producer(settings, group="shop")
    """

    nameservers: tuple[str, ...]
    """Addresses of the nameservers, ``host:port``."""
    nameserver_domain: str | None = None
    """Address server, ``host[:port]``, that returns the nameservers if none are given."""
    nameserver_subgroup: str = "nsaddr"
    """List of the address server to use: ``http://<domain>:8080/rocketmq/<subgroup>``."""
    namespace: str | None = None
    """Prefix of the names of topics and groups, so that tenants can share a cluster."""
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: Tls | ssl.SSLContext | bool = False
    instance_name: str | None = None
    """Part of the client id; None generates a unique name."""
    unit_name: str | None = None
    unit_mode: bool = False
    vip_channel: bool = False
    """Send to the broker's second port, which is its main port minus 2."""
    client_ip: str | None = None
    timeout_ms: float = 3000
    """Timeout of a request that has none of its own."""
    route_refresh_s: float = 30
    heartbeat_s: float = 30
    offset_persist_s: float = 5

    @classmethod
    def of(
        cls, nameservers: str | Iterable[str] | ClientSettings | None = None, **settings: Any
    ) -> ClientSettings:
        """Return settings with nameserver addresses in any of their forms, and other settings.

        >>> ClientSettings.of("127.0.0.1:9876;127.0.0.2:9876").nameservers
        ('127.0.0.1:9876', '127.0.0.2:9876')

        Without addresses, ``NAMESRV_ADDR`` in the environment is read. If that is missing, too, the
        addresses come from the address server at `nameserver_domain`, if that is given.
        """
        given = {name: value for name, value in settings.items() if value is not None}
        if isinstance(nameservers, ClientSettings):
            return replace(nameservers, **given).checked()
        if nameservers is None:
            nameservers = os.environ.get("NAMESRV_ADDR") or ""
        texts = nameservers.split(";") if isinstance(nameservers, str) else list(nameservers)
        addresses = []
        for text in (text.strip() for text in texts):
            if not text:
                continue
            instance = _INSTANCE_ENDPOINT.fullmatch(text)
            if instance is not None:
                given.setdefault("namespace", instance[2])
            addresses.append(text.rpartition("/")[2])
        try:
            return cls(nameservers=tuple(dict.fromkeys(addresses)), **given).checked()
        except TypeError as error:
            raise ConfigError(f"no such setting: {error}") from None

    def checked(self) -> ClientSettings:
        """Return the settings if a client can start with them, else raise `ConfigError`.

        >>> ClientSettings(nameservers=("127.0.0.1:9876",)).checked().timeout_ms
        3000
        """
        if not self.nameservers and not self.looks_up_nameservers:
            raise ConfigError(
                "no nameserver is known: pass its address, such as "
                "Producer('127.0.0.1:9876', ...), or set NAMESRV_ADDR in the environment"
            )
        for address in self.nameservers:
            try:
                split_address(address)
            except ValueError as error:
                raise ConfigError(f"nameserver address {error}") from None
        if (self.access_key is None) != (self.secret_key is None):
            raise ConfigError("access_key and secret_key belong together; only one is given")
        if self.timeout_ms <= 0:
            raise ConfigError(f"timeout_ms must be positive, it is {self.timeout_ms}")
        return self

    @property
    def looks_up_nameservers(self) -> bool:
        """True if the nameservers' addresses come from an address server."""
        return not self.nameservers and bool(self.nameserver_domain)

    def make_client_id(self, *, stream: bool = False) -> str:
        """Return the id for a client that starts now.

        >>> settings = ClientSettings.of("127.0.0.1:9876", client_ip="10.0.0.5", instance_name="a")
        >>> settings.make_client_id(stream=True)
        '10.0.0.5@a@STREAM'
        """
        name = self.instance_name
        if name is None:
            name = f"{os.getpid()}#{time.time_ns()}{_next_instance()}"
        parts = [self.client_ip or local_ip(), name]
        if self.unit_name:
            parts.append(self.unit_name)
        if stream:
            parts.append("STREAM")
        return "@".join(parts)

    def make_hooks(self, *, stream: bool = False) -> tuple[RequestHook, ...]:
        """Return the hooks of every request: the mark of pull clients, then the signature.

        >>> ClientSettings.of("127.0.0.1:9876").make_hooks()
        ()
        """
        hooks: list[RequestHook] = [mark_stream] if stream else []
        if self.access_key is not None and self.secret_key is not None:
            hooks.append(signing(self.access_key, self.secret_key, self.security_token))
        return tuple(hooks)

    def make_tls(self) -> ssl.SSLContext | None:
        """Return the TLS context of the client's connections, or None without TLS.

        >>> ClientSettings.of("127.0.0.1:9876").make_tls() is None
        True
        """
        return client_context(self.tls)


def local_ip() -> str:
    """Return the address at which other machines see this one, or the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing; it only looks up the route. The address is
            # reserved for documentation.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        ip: str = probe.getsockname()[0]
        return ip


# ---- Nameservers from an address server


def look_up_nameservers(settings: ClientSettings) -> tuple[str, ...]:
    """Return the addresses of nameservers from the settings' address server; blocks."""
    return look_up(
        settings.nameserver_domain or "",
        settings.nameserver_subgroup,
        unit_name=settings.unit_name,
        advice="Check nameserver_domain, or pass the nameservers' addresses",
    )
