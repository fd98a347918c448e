"""A certificate authority and the certificates that it signs."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LIFE = datetime.timedelta(days=30)


@dataclass(frozen=True)
class Pair:
    """The files of a certificate and of its private key."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates into one folder, all by the same new root."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("pytest-kwait", ())
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        root = (
            _unsigned(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(root.public_bytes(serialization.Encoding.PEM))
        self.key = self._write_key("ca", self._key)

    def client(self, user: str, *groups: str) -> Pair:
        """Sign a certificate that authenticates a user and its groups."""
        return self._sign(_name(user, groups), user, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def server(self, name: str, hosts: Sequence[str]) -> Pair:
        """Sign a certificate for host names and addresses."""
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        return self._sign(_name(name, ()), name, ExtendedKeyUsageOID.SERVER_AUTH, names)

    def tokens(self) -> Pair:
        """Make the key pair that signs the tokens of service accounts."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = self._folder / "service-accounts.pub"
        public.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        return Pair(public, self._write_key("service-accounts", key))

    def _sign(
        self,
        subject: x509.Name,
        file: str,
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _unsigned(subject, self._name, key.public_key())
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        file = file.replace(":", "-")
        certificate = self._folder / f"{file}.crt"
        signed = builder.sign(self._key, hashes.SHA256())
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return Pair(certificate, self._write_key(file, key))

    def _write_key(self, file: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> Path:
        path = self._folder / f"{file}.key"
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        return path


def _unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)  # noqa: TID251 - a tool, outside of the product
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + _LIFE)
    )


def _name(user: str, groups: Sequence[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
