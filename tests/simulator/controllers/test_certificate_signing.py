"""Certificate requests: approval, signing, validity and clean-up."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.authentication.pki import CertificateAuthority
from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.controllers.certificate_signing import (
    REQUESTS,
    CertificateController,
    clamp_duration,
    sign_certificate,
)
from tests.simulator.manual_clock import START, ManualClock

if TYPE_CHECKING:
    from collections.abc import Collection

Obj = dict[str, Any]

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
USAGES = ("digital signature", "client auth")


def request(name: str, *groups: str, dns: Collection[str] = ()) -> x509.CertificateSigningRequest:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if dns:
        names = x509.SubjectAlternativeName([x509.DNSName(one) for one in dns])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())


class Signing:
    """A cluster with signers, and one request in it."""

    def __init__(
        self,
        asked: x509.CertificateSigningRequest,
        signer: str = CLIENT,
        usages: Collection[str] = USAGES,
        seconds: int | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.api = SimulatedCluster(self.clock)
        self.api.bootstrap()
        self.authority = CertificateAuthority("127.0.0.1")
        CertificateController(self.api, self.authority.pair)
        content = asked.public_bytes(serialization.Encoding.PEM)
        spec: Obj = {
            "request": base64.b64encode(content).decode(),
            "signerName": signer,
            "usages": list(usages),
        }
        if seconds is not None:
            spec["expirationSeconds"] = seconds
        self.api.create(REQUESTS, {"metadata": {"name": "r"}, "spec": spec})
        self.clock.advance()

    @property
    def status(self) -> Obj:
        found: Obj = self.api.get(REQUESTS, "r")["status"]
        return found

    @property
    def told(self) -> list[tuple[str, str, str]]:
        conditions = self.status.get("conditions", [])
        return [(one["type"], one["reason"], one["message"]) for one in conditions]

    @property
    def certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(base64.b64decode(self.status["certificate"]))

    def decide(self, verdict: str = "Approved") -> None:
        condition = {"type": verdict, "status": "True", "reason": "R", "message": "m"}

        def change(found: Obj) -> None:
            found.setdefault("status", {}).setdefault("conditions", []).append(condition)

        self.api.modify(REQUESTS, "r", "", change, subresource="approval")
        self.clock.advance()


def test_approved_request_is_signed_by_the_clusters_authority() -> None:
    signing = Signing(request("jane", "team"), seconds=3600)
    assert signing.status == {}
    signing.decide()
    found = signing.certificate
    found.verify_directly_issued_by(x509.load_pem_x509_certificate(signing.authority.pair[0]))
    assert found.subject.rfc4514_string() == "CN=jane,O=team"
    now = datetime.fromtimestamp(START, UTC)
    assert found.not_valid_before_utc == now - timedelta(minutes=5)
    assert found.not_valid_after_utc == now + timedelta(hours=1)
    purposes = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    uses = found.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (uses.digital_signature, uses.key_cert_sign) == (True, False)
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert signing.told == [("Approved", "R", "m")]


@pytest.mark.parametrize(
    ("seconds", "life"),
    [
        (None, timedelta(days=365)),
        (600, timedelta(minutes=10)),
        (10, timedelta(minutes=10)),
        (10**9, timedelta(days=365)),
    ],
)
def test_lifetimes_have_bounds(seconds: int | None, life: timedelta) -> None:
    assert clamp_duration(seconds) == life


def test_long_life_begins_and_ends_earlier_and_not_after_the_authoritys() -> None:
    authority = CertificateAuthority("127.0.0.1").pair
    end = x509.load_pem_x509_certificate(authority[0]).not_valid_after_utc
    now = datetime.fromtimestamp(START, UTC)
    for life, wanted in (
        (timedelta(hours=9), now + timedelta(hours=9, minutes=-5)),
        (timedelta(days=365 * 2000), end),
    ):
        found = x509.load_pem_x509_certificate(
            sign_certificate(request("jane"), USAGES, life, START, authority)
        )
        assert found.not_valid_after_utc == wanted


@pytest.mark.parametrize(
    ("asked", "signer", "usages", "why"),
    [
        (("jane",), CLIENT, ("server auth",), "invalid usage for client certificate: server auth"),
        (
            ("jane",),
            CLIENT,
            ("digital signature",),
            "missing required usage for client certificate: client auth",
        ),
        (("jane",), KUBELET, USAGES, "subject organization is not system:nodes"),
        (
            ("jane", "system:nodes"),
            KUBELET,
            USAGES,
            "subject common name does not begin with system:node:",
        ),
        (
            ("system:node:n", "system:nodes"),
            SERVING,
            ("digital signature", "server auth"),
            "DNS or IP subjectAltName is required",
        ),
    ],
)
def test_refused_request_gets_failed_condition(
    asked: tuple[str, ...], signer: str, usages: tuple[str, ...], why: str
) -> None:
    signing = Signing(request(*asked), signer, usages)
    signing.decide()
    assert signing.told[1:] == [("Failed", "SignerValidationFailure", why)]
    assert "certificate" not in signing.status


@pytest.mark.parametrize(
    ("usages", "why"),
    [
        (
            ("client auth", "digital signature"),
            "DNS subjectAltNames are not allowed",
        ),
    ],
)
def test_kubelet_client_certificates_have_no_alternative_names(
    usages: tuple[str, ...], why: str
) -> None:
    signing = Signing(request("system:node:n", "system:nodes", dns=["n"]), KUBELET, usages)
    signing.decide()
    assert signing.told[-1][2] == why


def test_alternative_names_of_servers_are_signed() -> None:
    asked = request("system:node:n", "system:nodes", dns=["n", "n.example"])
    signing = Signing(asked, SERVING, ("digital signature", "server auth"))
    signing.decide()
    names = signing.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == ["n", "n.example"]


def test_kubelet_usages_must_match_exactly() -> None:
    asked = request("system:node:n", "system:nodes", dns=["n"])
    signing = Signing(asked, SERVING, ("server auth",))
    signing.decide()
    wanted = "usages did not match [digital signature key encipherment server auth]"
    assert signing.told[-1][2] == wanted


def test_kubelet_client_requests_are_approved() -> None:
    signing = Signing(request("system:node:n", "system:nodes"), KUBELET)
    text = "Auto approving kubelet client certificate after SubjectAccessReview."
    assert signing.told == [("Approved", "AutoApproved", text)]
    assert signing.certificate.subject.rfc4514_string() == "CN=system:node:n,O=system:nodes"


@pytest.mark.parametrize("signer", ["kubernetes.io/unknown", "a.example/b"])
def test_requests_of_other_signers_are_ignored(signer: str) -> None:
    signing = Signing(request("jane"), signer)
    signing.decide()
    assert signing.told == [("Approved", "R", "m")]
    assert "certificate" not in signing.status


def test_denied_request_is_not_signed() -> None:
    signing = Signing(request("jane"))
    signing.decide("Denied")
    with pytest.raises(StatusError, match="Approved and Denied conditions are mutually exclusive"):
        signing.decide()
    assert "certificate" not in signing.status


def test_requests_are_kept_for_an_hour_after_their_decision_and_a_day_without() -> None:
    signing = Signing(request("jane"))
    signing.clock.advance(24 * 3600 - 10)
    signing.decide()
    signing.clock.advance(3590)
    assert signing.api.find(REQUESTS, "r") is not None
    signing.clock.advance(20)
    assert signing.api.find(REQUESTS, "r") is None
    waiting = Signing(request("jane"))
    waiting.clock.advance(24 * 3600 - 10)
    assert waiting.api.find(REQUESTS, "r") is not None
    waiting.clock.advance(20)
    assert waiting.api.find(REQUESTS, "r") is None
