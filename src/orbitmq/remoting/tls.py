"""TLS contexts of outgoing and of accepted connections.

Outgoing connections use TLS from the first byte, as brokers expect it. RocketMQ's default is a test
mode: servers present a self-signed certificate and clients accept any certificate. An OrbitMQ
client verifies the certificate unless it is configured not to.
"""

from __future__ import annotations

import datetime
import logging
import ssl
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from orbitmq.config import TlsSettings
from orbitmq.errors import ConfigError

__all__ = ["ServerTls", "Tls", "client_context", "own_connections_context"]


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings for connections to nameservers and brokers; all files are PEM.

    >>> Tls(ca_file="ca.pem").check_hostname   # servers are known by certificate, not by name
    False
    """

    ca_file: Path | str | None = None
    """CA certificates used to verify servers; by default the system's authorities."""
    cert_file: Path | str | None = None
    """Client certificate, for servers that request one."""
    key_file: Path | str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    """False accepts any certificate, as RocketMQ's test mode does."""
    check_hostname: bool = False
    """True if a certificate must contain the host's name; brokers register IP addresses."""


def client_context(tls: Tls | ssl.SSLContext | bool) -> ssl.SSLContext | None:
    """Return the context for outgoing connections, None for no TLS.

    ``True`` means TLS with the system's certificate authorities.
    """
    if tls is False:
        return None
    if isinstance(tls, ssl.SSLContext):
        return tls
    wanted = Tls() if tls is True else tls
    try:
        context = ssl.create_default_context(
            cafile=None if wanted.ca_file is None else str(wanted.ca_file)
        )
        context.check_hostname = wanted.check_hostname and wanted.verify
        if not wanted.verify:
            context.verify_mode = ssl.CERT_NONE
        if wanted.cert_file is not None:
            context.load_cert_chain(
                str(wanted.cert_file),
                None if wanted.key_file is None else str(wanted.key_file),
                wanted.key_password,
            )
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"TLS cannot be set up with {wanted}: {error}") from error
    return context


# ---- TLS of accepted connections
#
# The mode decides by the first byte of a connection (a TLS handshake begins with 0x16; a frame
# never does, because it would be 352 MiB long)::
#
#     disabled     no TLS
#     permissive   both kinds on one port; RocketMQ's default
#     enforcing    TLS only
#
# The certificate is the configured one. Without one, in RocketMQ's test mode, the server generates
# a self-signed one at the first handshake; it protects against eavesdroppers only. Files that are
# replaced while the server runs are read again before the next handshake; if they cannot be used,
# the old certificate stays.

_log = logging.getLogger(__name__)

LOOK_AGAIN_S = 5.0
"""Shortest time between two checks whether the files have changed."""
SELF_SIGNED_DAYS = 3650
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "require": ssl.CERT_REQUIRED,
}


class ServerTls:
    """The TLS mode and context of a server."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self.is_enforcing = settings.server_mode == "enforcing"
        self._context: ssl.SSLContext | None = None
        self._seen: list[tuple[int, int, int] | None] = []
        self._looked_s = 0.0
        if not _is_test_mode(settings, settings.server_cert_path):
            self._seen = self._look()
            self._context = self._of_files()

    @classmethod
    def of(cls, settings: TlsSettings) -> ServerTls | None:
        """Return the TLS of a server with these settings, or None for no TLS."""
        if settings.server_mode == "disabled":
            return None
        has_none = not settings.server_cert_path
        if has_none and not _is_test_mode(settings, settings.server_cert_path):
            problem = "tls.test.mode.enable=false needs tls.server.certPath and tls.server.keyPath"
            if settings.server_mode == "enforcing":
                raise ConfigError(problem)
            _log.warning("TLS connections are not accepted: %s", problem)
            return None
        return cls(settings)

    def context(self) -> ssl.SSLContext:
        """Return the context for the next handshake."""
        if self._context is None:
            self._context = _self_signed()
        elif self._seen and time.monotonic() - self._looked_s > LOOK_AGAIN_S:
            seen = self._look()
            if seen != self._seen:
                self._seen = seen
                try:
                    self._context = self._of_files()
                    _log.info("reloaded the certificate %s", self._settings.server_cert_path)
                except ConfigError as error:
                    _log.error(
                        "cannot reload the certificate, the current one stays in use: %s", error
                    )
        return self._context

    def _look(self) -> list[tuple[int, int, int] | None]:
        self._looked_s = time.monotonic()
        settings = self._settings
        paths = (
            settings.server_cert_path,
            settings.server_key_path,
            settings.server_trust_cert_path,
        )
        return [_version(path) for path in paths if path]

    def _of_files(self) -> ssl.SSLContext:
        settings = self._settings
        wanted = _CLIENT_AUTH[settings.server_need_client_auth]
        if wanted is not ssl.CERT_NONE and not settings.server_auth_client:
            raise ConfigError(
                f"tls.server.need.client.auth={settings.server_need_client_auth} would let any "
                "certificate pass; set tls.server.authClient=true and tls.server.trustCertPath"
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(
                settings.server_cert_path,
                settings.server_key_path or None,
                # An empty password, so that OpenSSL never prompts at a terminal.
                settings.server_key_password or "",
            )
            if wanted is not ssl.CERT_NONE:
                context.verify_mode = wanted
                if settings.server_trust_cert_path:
                    context.load_verify_locations(settings.server_trust_cert_path)
                else:
                    context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"TLS cannot be served with tls.server.certPath={settings.server_cert_path}, "
                f"keyPath={settings.server_key_path}, "
                f"trustCertPath={settings.server_trust_cert_path}: {error}"
            ) from error
        return context


def own_connections_context(settings: TlsSettings, *, use_tls: bool) -> ssl.SSLContext | None:
    """Return the context for connections that a server opens itself, or None for no TLS."""
    if not use_tls and not settings.encrypts_own_connections:
        return None
    if _is_test_mode(settings, settings.client_cert_path or settings.client_trust_cert_path):
        return client_context(Tls(verify=False))
    return client_context(
        Tls(
            ca_file=settings.client_trust_cert_path or None,
            cert_file=settings.client_cert_path or None,
            key_file=settings.client_key_path or None,
            key_password=settings.client_key_password or None,
            verify=settings.client_auth_server,
        )
    )


def _is_test_mode(settings: TlsSettings, file: str) -> bool:
    """Return True in RocketMQ's test mode, the default without a configured certificate."""
    if file and "tls.test.mode.enable" not in settings.given:
        return False
    return settings.test_mode_enable


def _version(path: str) -> tuple[int, int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _self_signed() -> ssl.SSLContext:
    """Generate a self-signed certificate."""
    # Imported here: few servers need it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "self-signed by OrbitMQ")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=SELF_SIGNED_DAYS))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # OpenSSL loads certificates from files only.
    with tempfile.TemporaryDirectory(prefix="orbitmq-tls-") as directory:
        file = Path(directory) / "certificate-and-key.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
        context.load_cert_chain(file)
    _log.info("generated a self-signed certificate for TLS (test mode)")
    return context
