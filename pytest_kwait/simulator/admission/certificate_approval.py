"""CertificateApproval, CertificateSigning, CertificateSubjectRestriction: signer permissions.

Source: k8s.io/kubernetes plugin/pkg/admission/certificates, pkg/certauthorization.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.authorization.attributes import Attributes as AuthorizationAttributes
from pytest_kwait.simulator.request_info import MASTERS

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["CertificateApproval"]

_GROUP = "certificates.k8s.io"
_BUCKET = f"certificatesigningrequests.{_GROUP}"
_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


class CertificateApproval(AdmissionPlugin):
    """The three certificate plugins; each handles other writes."""

    buckets = frozenset({_BUCKET})

    def __init__(self, api: Cluster) -> None:
        self._api = api

    def validate(self, attributes: Attributes) -> None:
        """Check the permissions of approvers and signers, and the subject of requests.

        Raises:
            StatusError: 403, the write is not allowed.
        """
        if attributes.kind.bucket != _BUCKET or attributes.obj is None:
            return
        new, old = attributes.obj, attributes.old
        if old is None:
            self._check_subject(attributes, new)
        elif attributes.subresource == "approval":
            self._check_permission(attributes, "approve", old)
        elif attributes.subresource == "status" and _signing_changed(new) != _signing_changed(old):
            self._check_permission(attributes, "sign", old)

    def _check_permission(self, attributes: Attributes, verb: str, request: Obj) -> None:
        signer = request["spec"].get("signerName", "")
        user = attributes.caller.identity
        for name in (signer, f"{signer.partition('/')[0]}/*"):
            requested = AuthorizationAttributes(user, verb, _GROUP, "signers", name=name)
            if self._api.rbac.decide(requested).allowed:
                return
        raise attributes.forbidden(
            f'user not permitted to {verb} requests with signerName "{signer}"'
        )

    def _check_subject(self, attributes: Attributes, request: Obj) -> None:
        if request["spec"].get("signerName") != _CLIENT_SIGNER:
            return
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        requested = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
        groups = requested.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        if any(group.value == MASTERS for group in groups):
            raise attributes.forbidden(
                f"use of {_CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
            )


def _signing_changed(request: Obj) -> tuple[object, object]:
    status = request.get("status") or {}
    return status.get("certificate") or "", status.get("conditions") or []
