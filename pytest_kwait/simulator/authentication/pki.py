"""The cluster's certificate authority, client certificates, the kubeconfig, and X.509 users.

One authority per process: only the kubeconfig is kept on disk. A client certificate's common name
is the user, its organizations are the groups. A certificate that the authority did not sign or
that is expired ends the connection where upstream answers 401: the TLS library refuses it.
Source: k8s.io/apiserver pkg/authentication/request/x509/x509.go.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pytest_kwait.simulator.request_info import AUTHENTICATED, User, add_group

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["CertificateAuthority", "read_certificate_user", "write_kubeconfig"]

CONTEXT_NAME = "kwait"
_VALIDITY = timedelta(days=365)
_BACKDATE = timedelta(hours=1)
"""How much slower than ours a clock may be."""


class CertificateAuthority:
    """A certificate authority and the server's certificate.

    Args:
        hosts: the server's names and addresses.
    """

    def __init__(self, *hosts: str) -> None:
        import trustme

        authority = trustme.CA()
        certificate = authority.issue_cert(*hosts)
        self.pem = authority.cert_pem.bytes().decode()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.set_alpn_protocols(["http/1.1"])
        certificate.configure_cert(self.tls)
        # Client certificates are optional; one of this authority names the user.
        authority.configure_trust(self.tls)
        self.tls.verify_mode = ssl.CERT_OPTIONAL
        self._key_pem = authority.private_key_pem.bytes()

    @property
    def pair(self) -> tuple[bytes, bytes]:
        """The certificate and the key, as PEM."""
        return self.pem.encode(), self._key_pem

    def client_certificate(self, user: User, now: float) -> tuple[str, str]:
        """Return a certificate for a user, valid for a year from `now`, and its key, as PEM."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        issuer = x509.load_pem_x509_certificate(self.pem.encode())
        issuer_key = serialization.load_pem_private_key(self._key_pem, None)
        if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
            raise TypeError("the authority's key is of an unexpected kind")
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in user.groups]
        names.append(x509.NameAttribute(NameOID.COMMON_NAME, user.name))
        start = datetime.fromtimestamp(now, UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(names))
            .issuer_name(issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start - _BACKDATE)
            .not_valid_after(start + _VALIDITY)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(issuer_key, hashes.SHA256())
        )
        written = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return certificate.public_bytes(serialization.Encoding.PEM).decode(), written.decode()


def write_kubeconfig(
    path: Path,
    server: str,
    ca: str,
    tokens: Mapping[str, str],
    certificates: Mapping[str, tuple[str, str]] | None = None,
) -> None:
    """Write a kubeconfig atomically, readable by its owner only.

    Args:
        path: where.
        server: the server's URL.
        ca: its certificate authority as PEM.
        tokens: bearer tokens by user; the first user's context is the current one.
        certificates: client certificates and their keys as PEM, by user.

    Raises:
        OSError: the folder cannot be written to.
    """
    users = {name: {"token": token} for name, token in tokens.items()}
    for name, (certificate, key) in (certificates or {}).items():
        users[name] = {
            "client-certificate-data": base64.b64encode(certificate.encode()).decode(),
            "client-key-data": base64.b64encode(key.encode()).decode(),
        }
    names = list(users)
    contexts = {CONTEXT_NAME if index == 0 else name: name for index, name in enumerate(names)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": CONTEXT_NAME,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(ca.encode()).decode(),
                },
            }
        ],
        "users": [{"name": name, "user": user} for name, user in users.items()],
        "contexts": [
            {"name": context, "context": {"cluster": CONTEXT_NAME, "user": user}}
            for context, user in contexts.items()
        ],
        "current-context": CONTEXT_NAME,
    }
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


_UID_OID = "1.3.6.1.4.1.57683.2"
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


def read_certificate_user(transport: asyncio.BaseTransport | None) -> User | None:
    """Return the user of a connection's client certificate, None without one."""
    shown = transport.get_extra_info("peercert") if transport is not None else None
    if not shown or transport is None:
        return None
    name, uid = "", ""
    groups: tuple[str, ...] = ()
    for entry in shown["subject"]:
        for field, value in entry:
            if field == "commonName":
                name = value
            elif field == "organizationName":
                groups = (*groups, value)
            elif field == _UID_OID:
                uid = value
    if not name:
        return None
    raw: bytes = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    seen = f"X509SHA256={hashlib.sha256(raw).hexdigest()}"
    return User(name, add_group(groups, AUTHENTICATED), uid, {_CREDENTIAL_ID: (seen,)})
