"""The controllers of CertificateSigningRequests: approver, signer and cleaner.

Requests of kubelets are approved, approved requests are signed, old ones are deleted.

Source: kube-controller-manager, pkg/controller/certificates/{approver,signer,cleaner},
pkg/controller/certificates/authority/{authority,policies}.go, pkg/apis/certificates/helpers.go.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID, ObjectIdentifier

from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, clone, name_of
from pytest_kwait.simulator.request_info import AuthorizationAttributes, User
from pytest_kwait.simulator.validation.certificates import (
    APPROVED,
    DENIED,
    FAILED,
    get_conditions_of_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from cryptography.x509 import CertificateSigningRequest

    from pytest_kwait.simulator.cluster_protocol import Cluster

REQUESTS = "certificatesigningrequests.certificates.k8s.io"

# Seconds after the first failed sync.
# Source: pkg/controller/certificates/certificate_controller.go, `NewCertificateController`.
_BASE_DELAY = 0.2

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
_KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"

# Seconds that requests are kept after their decision, and without one. Source: cleaner.go, which
# checks once an hour; here they are deleted in time.
_DECIDED_EXPIRATION = 3600.0
_PENDING_EXPIRATION = 24 * 3600.0


def _client_fault(_: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    for usage in usages:
        if usage not in ("digital signature", "key encipherment", "client auth"):
            return f"invalid usage for client certificate: {usage}"
    if "client auth" not in usages:
        return "missing required usage for client certificate: client auth"
    return ""


def _kubelet_client_fault(csr: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    if _subject_texts(csr, NameOID.ORGANIZATION_NAME) != [_NODES]:
        return "subject organization is not system:nodes"
    for kind, title in (
        (x509.DNSName, "DNS"),
        (x509.RFC822Name, "Email"),
        (x509.IPAddress, "IP"),
        (x509.UniformResourceIdentifier, "URI"),
    ):
        if _has_alternative_name(csr, kind):
            return f"{title} subjectAltNames are not allowed"
    return _name_fault(csr) or _usages_fault(usages, "client auth")


def _kubelet_serving_fault(csr: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    if _subject_texts(csr, NameOID.ORGANIZATION_NAME) != [_NODES]:
        return "subject organization is not system:nodes"
    if not _has_alternative_name(csr, x509.DNSName) and not _has_alternative_name(
        csr, x509.IPAddress
    ):
        return "DNS or IP subjectAltName is required"
    if _has_alternative_name(csr, x509.RFC822Name):
        return "Email subjectAltNames are not allowed"
    if _has_alternative_name(csr, x509.UniformResourceIdentifier):
        return "URI subjectAltNames are not allowed"
    return _usages_fault(usages, "server auth") or _name_fault(csr)


SIGNERS: dict[str, Callable[[x509.CertificateSigningRequest, Collection[str]], str]] = {
    "kubernetes.io/kube-apiserver-client": _client_fault,
    "kubernetes.io/kube-apiserver-client-kubelet": _kubelet_client_fault,
    "kubernetes.io/kubelet-serving": _kubelet_serving_fault,
}
"""The refusal of each signer for a request and its usages; empty if it signs.

The signer of legacy requests without a signer's name is missing, as none can be created any more.
"""


def is_kubelet_client_request(csr: x509.CertificateSigningRequest, usages: Collection[str]) -> bool:
    """Return whether the request is for a kubelet's client certificate."""
    return not _kubelet_client_fault(csr, usages)


def _name_fault(csr: x509.CertificateSigningRequest) -> str:
    names = _subject_texts(csr, NameOID.COMMON_NAME)
    if names and names[-1].startswith(_NODE):
        return ""
    return "subject common name does not begin with system:node:"


def _usages_fault(usages: Collection[str], purpose: str) -> str:
    expected_usages = sorted(("digital signature", "key encipherment", purpose))
    if set(usages) in ({*expected_usages}, {"digital signature", purpose}):
        return ""
    return f"usages did not match [{' '.join(expected_usages)}]"


def _subject_texts(csr: x509.CertificateSigningRequest, name: ObjectIdentifier) -> list[str]:
    return [str(attribute.value) for attribute in csr.subject.get_attributes_for_oid(name)]


def _get_alternative_names(
    csr: x509.CertificateSigningRequest,
) -> x509.SubjectAlternativeName | None:
    try:
        return csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def _has_alternative_name(
    csr: x509.CertificateSigningRequest, kind: type[x509.GeneralName]
) -> bool:
    return any(isinstance(name, kind) for name in _get_alternative_names(csr) or ())


def clamp_duration(seconds: int | None) -> timedelta:
    """Return the validity of a certificate for the requested number of seconds."""
    if seconds is None:
        return _LONGEST
    return max(_SHORTEST, min(_LONGEST, timedelta(seconds=seconds)))


def sign_certificate(
    csr: x509.CertificateSigningRequest,
    usages: Collection[str],
    life: timedelta,
    now: float,
    authority: tuple[bytes, bytes],
) -> bytes:
    """Return the certificate for a request, as PEM.

    Args:
        csr: the request; only its names and its key are used, no other extensions.
        life: its validity.
        now: seconds since the epoch.
        authority: the signing certificate and key, as PEM.
    """
    issuer = x509.load_pem_x509_certificate(authority[0])
    key = serialization.load_pem_private_key(authority[1], None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is of an unexpected kind")
    start = datetime.fromtimestamp(int(now), UTC)
    end = start + life - (_BACKDATE if life >= _SHORT else timedelta())
    builder = (
        x509.CertificateBuilder()
        .subject_name(csr.subject)
        .issuer_name(issuer.subject)
        .public_key(csr.public_key())
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
        extended_usage = x509.ExtendedKeyUsage([ObjectIdentifier(purpose) for purpose in purposes])
        builder = builder.add_extension(extended_usage, critical=False)
    names = _get_alternative_names(csr)
    if names is not None:
        builder = builder.add_extension(names, critical=not list(csr.subject))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class CertificateController:
    """Signs, approves and deletes requests as the cluster's own signers do.

    Args:
        authority: the signing certificate and key, as PEM.
    """

    def __init__(self, cluster: Cluster, authority: tuple[bytes, bytes]) -> None:
        self._cluster = cluster
        self._authority = authority
        self._queue: Workqueue[str] = Workqueue(
            cluster, self._sync, "certificate-controller", base_delay=_BASE_DELAY
        )
        self._old: Workqueue[str] = Workqueue(cluster, self._drop, "certificate-cleaner")
        cluster.subscribe(REQUESTS, self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        name = name_of(new)
        if change == "DELETED":
            self._queue.forget(name)
            self._old.forget(name)
            return
        self._queue.add(name)
        self._old.forget(name)
        self._old.add_after(name, self._left(new))

    def _left(self, request: Obj) -> float:
        """Seconds for which the request is still kept."""
        decided = (
            get_conditions_of_type(request, APPROVED)
            + get_conditions_of_type(request, DENIED)
            + get_conditions_of_type(request, FAILED)
        )
        since = max(
            (
                parse_time(condition["lastUpdateTime"])
                for condition in decided
                if condition.get("lastUpdateTime")
            ),
            default=None,
        )
        now = self._cluster.clock.time()
        if since is not None:
            return since + _DECIDED_EXPIRATION - now
        return parse_time(request["metadata"]["creationTimestamp"]) + _PENDING_EXPIRATION - now

    def _drop(self, name: str) -> None:
        request = self._cluster.find(REQUESTS, name)
        if request is None:
            return
        remaining_seconds = self._left(request)
        if remaining_seconds > 0:
            self._old.add_after(name, remaining_seconds)
        else:
            self._cluster.delete(REQUESTS, name, uid=request["metadata"]["uid"])

    def _sync(self, name: str) -> None:
        request = self._cluster.find(REQUESTS, name)
        if request is None or (request.get("status") or {}).get("certificate"):
            return
        from cryptography import x509

        csr = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
        if get_conditions_of_type(request, APPROVED):
            self._sign(request, csr)
        elif not get_conditions_of_type(request, DENIED):
            self._approve(request, csr)

    def _sign(self, request: Obj, csr: CertificateSigningRequest) -> None:
        spec = request["spec"]
        fault_of = SIGNERS.get(spec.get("signerName", ""))
        if fault_of is None or get_conditions_of_type(request, FAILED):
            return
        usages = spec.get("usages") or []
        fault = fault_of(csr, usages)
        status = clone(request["status"])
        if fault:
            status["conditions"].append(
                {
                    "type": FAILED,
                    "status": "True",
                    "reason": "SignerValidationFailure",
                    "message": fault,
                }
            )
        else:
            life = clamp_duration(spec.get("expirationSeconds"))
            now = self._cluster.clock.time()
            signed = sign_certificate(csr, usages, life, now, self._authority)
            status["certificate"] = base64.b64encode(signed).decode()
        self._cluster.update_status(REQUESTS, {**request, "status": status})

    def _approve(self, request: Obj, csr: CertificateSigningRequest) -> None:
        """Approve the client certificate of a kubelet or of an authorized user."""
        from cryptography.x509.oid import NameOID

        spec = request["spec"]
        if spec.get("signerName") != _KUBELET_CLIENT:
            return
        if not is_kubelet_client_request(csr, spec.get("usages") or []):
            return
        names = csr.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        ways = [("nodeclient", "")]
        if names and names[-1].value == spec.get("username"):
            ways.insert(0, ("selfnodeclient", "self "))
        extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
        user = User(
            spec.get("username", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra
        )
        group, resource = "certificates.k8s.io", "certificatesigningrequests"
        for subresource, prefix in ways:
            if not self._cluster.rbac.decide(
                AuthorizationAttributes(user, "create", group, resource, subresource)
            ).allowed:
                continue
            text = f"Auto approving {prefix}kubelet client certificate after SubjectAccessReview."
            condition = {"type": APPROVED, "status": "True", "reason": "AutoApproved"}
            changed = clone(request)
            conditions = changed.setdefault("status", {}).setdefault("conditions", [])
            conditions.append({**condition, "message": text})
            self._cluster.update(REQUESTS, changed, subresource="approval")
            return
