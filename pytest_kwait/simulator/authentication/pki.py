"""The cluster's certificate authority and client certificates.

One authority per process: only the kubeconfig is kept on disk. A client certificate's common name
is the user, its organizations are the groups. A certificate that the authority did not sign or
that is expired ends the connection where upstream answers 401: the TLS library refuses it.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.simulator.request_info import User

FRONT_PROXY_USER = "front-proxy-client"

_VALIDITY = timedelta(days=365)
_BACKDATE = timedelta(hours=1)
"""Certificates are valid from so long ago, for clients whose clocks are slow."""


def make_client_context(authority: str) -> ssl.SSLContext:
    """Return the TLS context of connections to webhooks and aggregated servers.

    A server is trusted if its chain reaches any of the given certificates, which may be its own.
    Its names are the subject alternative names; the common name does not count.

    Args:
        authority: the trusted certificates as PEM; empty for the system's.

    Raises:
        ValueError: `authority` has no certificate.
        ssl.SSLError: the same.

    Source: Go, crypto/x509 Certificate.Verify and VerifyHostname.
    """
    context = ssl.create_default_context(cadata=authority or None)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # The default from Python 3.13; envtest's certificates lack what it requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    return context


class FrontProxy:
    """The client certificate by which aggregated servers trust the headers of forwarded requests.

    Its authority is not the cluster's: no other certificate of the cluster may name users so.
    """

    def __init__(self) -> None:
        import trustme

        authority = trustme.CA()
        self._certificate = authority.issue_cert(FRONT_PROXY_USER, common_name=FRONT_PROXY_USER)
        self.authority = authority.cert_pem.bytes().decode()
        """The certificate of the authority, as PEM."""

    def identify(self, context: ssl.SSLContext) -> None:
        """Show the certificate in the connections of a client's context."""
        self._certificate.configure_cert(context)


class CertificateAuthority:
    """A certificate authority and the server's certificate.

    Args:
        hosts: the server's names and addresses.
        serving: files of another certificate for the server and of its key.
        client_authority: the file of a further authority of client certificates.

    Raises:
        OSError: a file cannot be read.
        ssl.SSLError: a file has no certificate or key.
    """

    def __init__(
        self,
        *hosts: str,
        serving: tuple[Path, Path] | None = None,
        client_authority: Path | None = None,
    ) -> None:
        import trustme

        authority = trustme.CA()
        certificate = authority.issue_cert(*hosts)
        self.pem = authority.cert_pem.bytes().decode()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.set_alpn_protocols(["http/1.1"])
        self.trusted_pem = self.pem
        """The certificates by which clients trust the server."""
        if serving is None:
            certificate.configure_cert(self.tls)
        else:
            self.tls.load_cert_chain(*serving)
            self.trusted_pem = serving[0].read_text(encoding="ascii")
        # Client certificates are optional; one of this authority names the user.
        authority.configure_trust(self.tls)
        if client_authority is not None:
            self.tls.load_verify_locations(client_authority)
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
