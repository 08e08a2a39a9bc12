"""TLS of outgoing connections: from the first byte, as brokers expect it.

RocketMQ's default is a test mode: servers present a self-signed certificate and clients accept any.
An OrbitMQ client verifies the certificate unless it is configured not to.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from orbitmq.errors import ConfigError

__all__ = ["Tls", "client_context"]


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings for connections to nameservers and brokers; all files are PEM.

    >>> Tls(ca_file="ca.pem").check_hostname   # servers are known by certificate, not by name
    False
    """

    ca_file: Path | str | None = None
    """Whose signatures to believe; the system's authorities when there is none."""
    cert_file: Path | str | None = None
    """Our own certificate, for servers that ask for one."""
    key_file: Path | str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    """False believes any certificate, as RocketMQ's test mode does."""
    check_hostname: bool = False
    """Whether a certificate must carry the host's name; brokers register IP addresses."""


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
