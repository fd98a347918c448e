from __future__ import annotations

import base64
from itertools import count

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ed25519, x25519

from pytest_kwait.simulator.validation.core.config import get_secret_warnings, pem_blocks

AUTHORITY = trustme.CA()
ISSUED = AUTHORITY.issue_cert("a.example")
CERTIFICATE = ISSUED.cert_chain_pems[0].bytes()
KEY = ISSUED.private_key_pem.bytes()
RSA = AUTHORITY.issue_cert("b.example", key_type=trustme.KeyType.RSA)
TYPES = "tls: private key type does not match public key type"
NO_CERTIFICATE = (
    'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of '
    "the following types: [{}]"
)
NO_KEY = (
    'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping '
    "PEM blocks of the following types: [{}]"
)
NO_DATA = "tls: failed to find any PEM data in {} input"


def block(kind: str, text: str = "YWJj") -> bytes:
    return f"-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n".encode()


def pkcs8(key: ed25519.Ed25519PrivateKey | x25519.X25519PrivateKey | dsa.DSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def list_warnings(certificate: bytes, key: bytes) -> list[str]:
    data = {"tls.crt": certificate, "tls.key": key}
    encoded = {name: base64.b64encode(content).decode() for name, content in data.items()}
    return get_secret_warnings({"type": "kubernetes.io/tls", "data": encoded})


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        (CERTIFICATE, KEY),
        (RSA.cert_chain_pems[0].bytes(), RSA.private_key_pem.bytes()),
        (CERTIFICATE + AUTHORITY.cert_pem.bytes(), KEY),
        (block("OTHER") + CERTIFICATE, block("EC PARAMETERS") + KEY),
        (b"text\n" + CERTIFICATE.replace(b"\n", b"\r\n"), KEY.rstrip()),
        (CERTIFICATE.replace(b"CERTIFICATE-----\n", b"CERTIFICATE-----\nA: b\n\n", 1), KEY),
        (b"-----BEGIN CERTIFICATE-----\nabc\n" + CERTIFICATE, KEY),
    ],
    ids=count(),
)
def test_pairs_are_not_warned_of(certificate: bytes, key: bytes) -> None:
    assert list_warnings(certificate, key) == []


@pytest.mark.parametrize(
    ("certificate", "key", "text"),
    [
        (b"", b"", NO_DATA.format("certificate")),
        (CERTIFICATE, b"a", NO_DATA.format("key")),
        (b" " + CERTIFICATE, KEY, NO_DATA.format("certificate")),
        (block("CERTIFICATE", "a*b"), KEY, NO_DATA.format("certificate")),
        (
            KEY,
            CERTIFICATE,
            "tls: failed to find certificate PEM data in certificate input, but did find a private "
            "key; PEM inputs may have been switched",
        ),
        (block("A") + block("B"), KEY, NO_CERTIFICATE.format("A B")),
        (CERTIFICATE, block("A") + block("B"), NO_KEY.format("A B")),
        (
            CERTIFICATE,
            CERTIFICATE,
            "tls: found a certificate rather than a key in the PEM for the private key",
        ),
        (block("CERTIFICATE"), KEY, "x509: malformed certificate"),
        (CERTIFICATE, block("PRIVATE KEY"), "tls: failed to parse private key"),
        (
            CERTIFICATE,
            AUTHORITY.issue_cert("c.example").private_key_pem.bytes(),
            "tls: private key does not match public key",
        ),
        (CERTIFICATE, RSA.private_key_pem.bytes(), TYPES),
        (CERTIFICATE, pkcs8(ed25519.Ed25519PrivateKey.generate()), TYPES),
        (
            CERTIFICATE,
            pkcs8(x25519.X25519PrivateKey.generate()),
            "tls: found unknown private key type in PKCS#8 wrapping",
        ),
        (
            CERTIFICATE,
            pkcs8(dsa.generate_private_key(1024)),
            "tls: failed to parse private key",
        ),
    ],
    ids=count(),
)  # fmt: skip
def test_other_inputs_have_the_warning_of_go(certificate: bytes, key: bytes, text: str) -> None:
    assert list_warnings(certificate, key) == [text]


def test_other_secrets_are_not_warned_of() -> None:
    assert get_secret_warnings({"type": "Opaque", "data": {"tls.crt": "YQ=="}}) == []


def test_malformed_pem_blocks_are_skipped() -> None:
    data = block("A") + block("B", "*") + block("C", "YQ==")
    assert [*pem_blocks(data)] == [("A", b"abc"), ("C", b"a")]
