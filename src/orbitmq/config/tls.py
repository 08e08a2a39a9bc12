"""Settings of TLS under RocketMQ's keys, for servers and for the connections a broker opens.

In Java they are system properties, and so no part of a broker's configuration: they are not shown
by ``getBrokerConfig`` and no request changes them. Here they stand in the same file as the other
settings, or in a file of their own (``tls.config.file``), which wins, as in Java.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from orbitmq.config.properties import decode, parse_properties
from orbitmq.config.settings import LetsPass, Settings, fixed
from orbitmq.errors import ConfigError

__all__ = ["PREFIX", "TlsSettings", "WithTls"]

PREFIX = "tls."
OWN_FILE = "/etc/rocketmq/tls.properties"


class TlsSettings(Settings):
    """How TLS is spoken; all files are PEM."""

    enable: bool = fixed(
        False,
        "Encrypts the connections that this process opens; an enforcing server does so anyway.",
        key="tls.enable",
    )
    config_file: str = fixed(
        OWN_FILE, "A file of these settings, which wins over the other.", key="tls.config.file"
    )
    test_mode_enable: bool = fixed(
        True,
        "RocketMQ's default: the server signs its certificate itself, clients believe any.",
        key="tls.test.mode.enable",
    )

    server_mode: str = fixed(
        "permissive",
        "Permissive servers speak TLS with those who begin with it, enforcing ones with all.",
        key="tls.server.mode",
        choices=("disabled", "permissive", "enforcing"),
    )
    server_need_client_auth: str = fixed(
        "none",
        "Asks clients for a certificate, or requires one.",
        key="tls.server.need.client.auth",
        choices=("none", "optional", "require"),
    )
    server_key_path: str = fixed("", "The server's key.", key="tls.server.keyPath")
    server_key_password: str = fixed(
        "", "The password of the server's key.", key="tls.server.keyPassword"
    )
    server_cert_path: str = fixed("", "The server's certificate.", key="tls.server.certPath")
    server_auth_client: bool = fixed(
        False,
        "A client's certificate must be signed by one of `tls.server.trustCertPath`.",
        key="tls.server.authClient",
    )
    server_trust_cert_path: str = fixed(
        "", "Certificates that clients' are checked against.", key="tls.server.trustCertPath"
    )

    client_key_path: str = fixed("", "The key that this process shows.", key="tls.client.keyPath")
    client_key_password: str = fixed("", "The password of that key.", key="tls.client.keyPassword")
    client_cert_path: str = fixed(
        "", "The certificate that this process shows.", key="tls.client.certPath"
    )
    client_auth_server: bool = fixed(
        False,
        "A server's certificate must be signed by one of `tls.client.trustCertPath`.",
        key="tls.client.authServer",
    )
    client_trust_cert_path: str = fixed(
        "", "Certificates that servers' are checked against.", key="tls.client.trustCertPath"
    )

    def read_own_file(self) -> None:
        """Take over what stands in `tls.config.file`; the default one need not be there."""
        path = Path(self.config_file)
        try:
            content = path.read_bytes()
        except OSError as error:
            if "tls.config.file" in self.given:
                reason = error.strerror
                raise ConfigError(f"cannot read tls.config.file={path}: {reason}") from error
            return
        self.take(parse_properties(decode(content)), source=str(path), lets_pass="anything")

    @property
    def encrypts_own_connections(self) -> bool:
        """Whether connections that this process opens are encrypted."""
        return self.enable or self.server_mode == "enforcing"


class WithTls(Settings):
    """Settings that hold those of TLS, too, without showing them to anybody."""

    tls: TlsSettings = dataclasses.field(default_factory=TlsSettings, repr=False)

    def take(
        self,
        properties: Mapping[str, str],
        *,
        source: str = "configuration",
        lets_pass: LetsPass = "nothing",
    ) -> list[str]:
        """Take over settings to start with; keys of TLS go to where they belong."""
        of_tls = {key: text for key, text in properties.items() if key.startswith(PREFIX)}
        rest = {key: text for key, text in properties.items() if key not in of_tls}
        wrong = []
        taken: list[str] = []
        for take, some in ((self.tls.take, of_tls), (super().take, rest)):
            try:
                taken = take(some, source=source, lets_pass=lets_pass)
            except ConfigError as error:
                wrong.append(str(error).removeprefix(f"{source}: "))
        if wrong:
            raise ConfigError(f"{source}: {'; '.join(wrong)}")
        return taken

    def refused(self, properties: Mapping[str, str]) -> list[str]:
        """Return the settings among these keys that a request may not change."""
        return [key for key in properties if key.startswith(PREFIX)] + super().refused(properties)
