from __future__ import annotations

import ssl
from contextlib import suppress

import pytest
import trustme

from pytest_kwait.simulator.authentication.pki import (
    CertificateAuthority,
    make_client_context,
)


def _handshake(issued: trustme.LeafCert, authority: bytes, host: str) -> None:
    """Connect a client that trusts `authority` to the server of `issued`, in memory."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(server)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = make_client_context(authority.decode())
    ends = (
        client.wrap_bio(down, up, server_hostname=host),
        server.wrap_bio(up, down, server_side=True),
    )
    for _ in range(3):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    assert ends[0].getpeercert()


def test_a_servers_own_certificate_is_an_authority() -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    own = issued.cert_chain_pems[0].bytes()
    _handshake(issued, authority.cert_pem.bytes(), "127.0.0.1")
    _handshake(issued, own, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        _handshake(issued, own, "127.0.0.2")
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        _handshake(issued, trustme.CA().cert_pem.bytes(), "127.0.0.1")


def test_a_common_name_is_no_name_of_a_server() -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("other@example.com", common_name="web.t.svc")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        _handshake(issued, authority.cert_pem.bytes(), "web.t.svc")


def test_an_authority_has_a_certificate_for_the_server() -> None:
    authority = CertificateAuthority("127.0.0.1")
    assert authority.pem.startswith("-----BEGIN CERTIFICATE-----")
    assert authority.tls.cert_store_stats()["x509"] == 1
