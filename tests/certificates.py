"""Certificates for tests: an authority, and what it has signed, as PEM files."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["Authority", "Certified"]


@dataclass(frozen=True)
class Certified:
    """A certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates; `cert` is what those who believe it are given."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.cert = directory / f"{name}.pem"
        signed = _certificate(self._name, self._key, self._name, self._key, is_authority=True)
        self.cert.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, password: str | None = None) -> Certified:
        """Make a key and a certificate for it."""
        key = ec.generate_private_key(ec.SECP256R1())
        signed = _certificate(_name(name), key, self._name, self._key, is_authority=False)
        made = Certified(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        made.cert.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        hidden = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        made.key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
        )
        return made

    def cluster_settings(self) -> dict[str, str]:
        """Settings of servers that let in only those it has signed, and believe only each other."""
        server, broker = self.sign("server"), self.sign("broker")
        return {
            "tls.server.mode": "enforcing",
            "tls.server.certPath": str(server.cert),
            "tls.server.keyPath": str(server.key),
            "tls.server.need.client.auth": "require",
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": str(self.cert),
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": str(self.cert),
            "tls.client.certPath": str(broker.cert),
            "tls.client.keyPath": str(broker.key),
        }


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name,
    key: EllipticCurvePrivateKey,
    issuer: x509.Name,
    signer: EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .sign(signer, hashes.SHA256())
    )
