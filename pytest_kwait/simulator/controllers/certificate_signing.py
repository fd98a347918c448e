"""Requests for certificates as signers read them, and the certificates that they make of them.

Source: k8s.io/kubernetes pkg/controller/certificates/authority/{authority,policies}.go,
pkg/controller/certificates/signer/signer.go, pkg/apis/certificates/helpers.go.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID, ObjectIdentifier

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = ["SIGNERS", "clamp_duration", "is_kubelet_client_request", "sign_certificate"]

_KEY_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_PURPOSES = {
    "any": "2.5.29.37.0",
    "server auth": "1.3.6.1.5.5.7.3.1",
    "client auth": "1.3.6.1.5.5.7.3.2",
    "code signing": "1.3.6.1.5.5.7.3.3",
    "email protection": "1.3.6.1.5.5.7.3.4",
    "s/mime": "1.3.6.1.5.5.7.3.4",
    "ipsec end system": "1.3.6.1.5.5.7.3.5",
    "ipsec tunnel": "1.3.6.1.5.5.7.3.6",
    "ipsec user": "1.3.6.1.5.5.7.3.7",
    "timestamping": "1.3.6.1.5.5.7.3.8",
    "ocsp signing": "1.3.6.1.5.5.7.3.9",
    "microsoft sgc": "1.3.6.1.4.1.311.10.3.3",
    "netscape sgc": "2.16.840.1.113730.4.1",
}
_NODES, _NODE = "system:nodes", "system:node:"
_BACKDATE = timedelta(minutes=5)
_SHORT = timedelta(hours=8)
_LONGEST, _SHORTEST = timedelta(days=365), timedelta(minutes=10)


def _client_fault(_: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    for usage in usages:
        if usage not in ("digital signature", "key encipherment", "client auth"):
            return f"invalid usage for client certificate: {usage}"
    if "client auth" not in usages:
        return "missing required usage for client certificate: client auth"
    return ""


def _kubelet_client_fault(asked: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    if _subject_texts(asked, NameOID.ORGANIZATION_NAME) != [_NODES]:
        return "subject organization is not system:nodes"
    for kind, told in (
        (x509.DNSName, "DNS"),
        (x509.RFC822Name, "Email"),
        (x509.IPAddress, "IP"),
        (x509.UniformResourceIdentifier, "URI"),
    ):
        if _has_alternative_name(asked, kind):
            return f"{told} subjectAltNames are not allowed"
    return _name_fault(asked) or _usages_fault(usages, "client auth")


def _kubelet_serving_fault(asked: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    if _subject_texts(asked, NameOID.ORGANIZATION_NAME) != [_NODES]:
        return "subject organization is not system:nodes"
    if not _has_alternative_name(asked, x509.DNSName) and not _has_alternative_name(
        asked, x509.IPAddress
    ):
        return "DNS or IP subjectAltName is required"
    if _has_alternative_name(asked, x509.RFC822Name):
        return "Email subjectAltNames are not allowed"
    if _has_alternative_name(asked, x509.UniformResourceIdentifier):
        return "URI subjectAltNames are not allowed"
    return _usages_fault(usages, "server auth") or _name_fault(asked)


SIGNERS: dict[str, Callable[[x509.CertificateSigningRequest, Collection[str]], str]] = {
    "kubernetes.io/kube-apiserver-client": _client_fault,
    "kubernetes.io/kube-apiserver-client-kubelet": _kubelet_client_fault,
    "kubernetes.io/kubelet-serving": _kubelet_serving_fault,
}
"""By the signer's name why it does not sign a request for such usages, empty where it does.

The one for requests from before signers had names is left out: none can be made any more.
"""


def is_kubelet_client_request(
    asked: x509.CertificateSigningRequest, usages: Collection[str]
) -> bool:
    """Whether a kubelet asks for what it is known to the API server by."""
    return not _kubelet_client_fault(asked, usages)


def _name_fault(asked: x509.CertificateSigningRequest) -> str:
    names = _subject_texts(asked, NameOID.COMMON_NAME)
    if names and names[-1].startswith(_NODE):
        return ""
    return "subject common name does not begin with system:node:"


def _usages_fault(usages: Collection[str], purpose: str) -> str:
    wanted = sorted(("digital signature", "key encipherment", purpose))
    if set(usages) in ({*wanted}, {"digital signature", purpose}):
        return ""
    return f"usages did not match [{' '.join(wanted)}]"


def _subject_texts(asked: x509.CertificateSigningRequest, name: ObjectIdentifier) -> list[str]:
    return [str(one.value) for one in asked.subject.get_attributes_for_oid(name)]


def _get_alternative_names(
    asked: x509.CertificateSigningRequest,
) -> x509.SubjectAlternativeName | None:
    try:
        return asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def _has_alternative_name(
    asked: x509.CertificateSigningRequest, kind: type[x509.GeneralName]
) -> bool:
    return any(isinstance(name, kind) for name in _get_alternative_names(asked) or ())


def clamp_duration(seconds: int | None) -> timedelta:
    """How long a certificate is good where so many seconds are asked for."""
    if seconds is None:
        return _LONGEST
    return max(_SHORTEST, min(_LONGEST, timedelta(seconds=seconds)))


def sign_certificate(
    asked: x509.CertificateSigningRequest,
    usages: Collection[str],
    life: timedelta,
    now: float,
    authority: tuple[bytes, bytes],
) -> bytes:
    """The certificate for a request, as PEM.

    Args:
        asked: the request; its names and its key count, and no other extension.
        usages: what the certificate is for.
        life: how long it is good.
        now: seconds since the epoch.
        authority: who signs: the certificate and the key, as PEM.
    """
    issuer = x509.load_pem_x509_certificate(authority[0])
    key = serialization.load_pem_private_key(authority[1], None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is of an unexpected kind")
    start = datetime.fromtimestamp(int(now), UTC)
    end = start + life - (_BACKDATE if life >= _SHORT else timedelta())
    builder = (
        x509.CertificateBuilder()
        .subject_name(asked.subject)
        .issuer_name(issuer.subject)
        .public_key(asked.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _BACKDATE)
        .not_valid_after(min(end, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
    )
    uses = {_KEY_USAGES[usage] for usage in usages if usage in _KEY_USAGES}
    if uses:
        known = {*_KEY_USAGES.values()}
        builder = builder.add_extension(
            x509.KeyUsage(**{name: name in uses for name in known}), critical=True
        )
    purposes = sorted({_PURPOSES[usage] for usage in usages if usage in _PURPOSES})
    if purposes:
        found = x509.ExtendedKeyUsage([ObjectIdentifier(purpose) for purpose in purposes])
        builder = builder.add_extension(found, critical=False)
    names = _get_alternative_names(asked)
    if names is not None:
        builder = builder.add_extension(names, critical=not list(asked.subject))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
