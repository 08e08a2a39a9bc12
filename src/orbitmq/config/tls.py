"""Settings of TLS under RocketMQ's keys, for servers and for the connections a broker opens.

In Java they are system properties, not part of a broker's configuration: ``getBrokerConfig`` does
not show them and no request changes them. Here they are in the same file as the other settings, or
in their own file (``tls.config.file``), which wins, as in Java.
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
    """Settings of TLS; all files are PEM."""

    enable: bool = fixed(
        False,
        "Encrypts the connections that this process opens; an enforcing server always does.",
        key="tls.enable",
    )
    config_file: str = fixed(
        OWN_FILE, "File with these settings; overrides the other file.", key="tls.config.file"
    )
    test_mode_enable: bool = fixed(
        True,
        "RocketMQ's default: the server's certificate is self-signed, and clients accept any.",
        key="tls.test.mode.enable",
    )

    server_mode: str = fixed(
        "permissive",
        "`permissive` accepts connections with and without TLS, `enforcing` only those with TLS.",
        key="tls.server.mode",
        choices=("disabled", "permissive", "enforcing"),
    )
    server_need_client_auth: str = fixed(
        "none",
        "Client certificates are not requested, requested, or required.",
        key="tls.server.need.client.auth",
        choices=("none", "optional", "require"),
    )
    server_key_path: str = fixed("", "Private key of the server.", key="tls.server.keyPath")
    server_key_password: str = fixed(
        "", "Password of the server's private key.", key="tls.server.keyPassword"
    )
    server_cert_path: str = fixed("", "Certificate of the server.", key="tls.server.certPath")
    server_auth_client: bool = fixed(
        False,
        "Client certificates must be signed by a CA in `tls.server.trustCertPath`.",
        key="tls.server.authClient",
    )
    server_trust_cert_path: str = fixed(
        "", "CA certificates used to verify clients.", key="tls.server.trustCertPath"
    )

    client_key_path: str = fixed(
        "", "Private key for connections that this process opens.", key="tls.client.keyPath"
    )
    client_key_password: str = fixed(
        "", "Password of this private key.", key="tls.client.keyPassword"
    )
    client_cert_path: str = fixed(
        "", "Certificate for connections that this process opens.", key="tls.client.certPath"
    )
    client_auth_server: bool = fixed(
        False,
        "Server certificates must be signed by a CA in `tls.client.trustCertPath`.",
        key="tls.client.authServer",
    )
    client_trust_cert_path: str = fixed(
        "", "CA certificates used to verify servers.", key="tls.client.trustCertPath"
    )

    def read_own_file(self) -> None:
        """Read the settings in `tls.config.file`; the default file may be missing."""
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
        """True if connections that this process opens are encrypted."""
        return self.enable or self.server_mode == "enforcing"


class WithTls(Settings):
    """Settings that also contain those of TLS, without showing them."""

    tls: TlsSettings = dataclasses.field(default_factory=TlsSettings, repr=False)

    def take(
        self,
        properties: Mapping[str, str],
        *,
        source: str = "configuration",
        lets_pass: LetsPass = "nothing",
    ) -> list[str]:
        """Set values to start with; keys of TLS go to `tls`."""
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
        """Return the keys among these that a request may not change."""
        return [key for key in properties if key.startswith(PREFIX)] + super().refused(properties)
