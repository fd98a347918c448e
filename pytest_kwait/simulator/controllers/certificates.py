"""Certificate signing requests: kubelets' are approved, approved ones signed, old ones dropped.

Source: kube-controller-manager, pkg/controller/certificates/{approver,signer,cleaner}.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from pytest_kwait.simulator.authorization.attributes import Attributes
from pytest_kwait.simulator.conditions import parse_timestamp
from pytest_kwait.simulator.controllers.certificate_signing import (
    SIGNERS,
    clamp_duration,
    is_kubelet_client_request,
    sign_certificate,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, clone, name_of
from pytest_kwait.simulator.users import User
from pytest_kwait.simulator.validation.certificate_changes import (
    APPROVED,
    DENIED,
    FAILED,
    get_conditions_of_type,
)

if TYPE_CHECKING:
    from cryptography.x509 import CertificateSigningRequest

    from pytest_kwait.simulator.cluster import SimulatedCluster

__all__ = ["REQUESTS", "CertificateController"]

REQUESTS = "certificatesigningrequests.certificates.k8s.io"

_KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"

# Seconds that requests are kept after their decision, and without any.
# Source: cleaner.go; there they are looked for once an hour, here when their time has come.
_DECIDED_EXPIRATION = 3600.0
_PENDING_EXPIRATION = 24 * 3600.0


class CertificateController:
    """Does with requests what the cluster's own signers do.

    Args:
        api: the cluster.
        authority: who signs: the certificate and the key, as PEM.
    """

    def __init__(self, api: SimulatedCluster, authority: tuple[bytes, bytes]) -> None:
        self._api = api
        self._authority = authority
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, "certificate-controller")
        self._old: Workqueue[str] = Workqueue(api.clock, self._drop, "certificate-cleaner")
        api.subscribe(REQUESTS, self._changed)

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
                parse_timestamp(one["lastUpdateTime"])
                for one in decided
                if one.get("lastUpdateTime")
            ),
            default=None,
        )
        now = self._api.clock.time()
        if since is not None:
            return since + _DECIDED_EXPIRATION - now
        return parse_timestamp(request["metadata"]["creationTimestamp"]) + _PENDING_EXPIRATION - now

    def _drop(self, name: str) -> None:
        request = self._api.find(REQUESTS, name)
        if request is None:
            return
        left = self._left(request)
        if left > 0:
            self._old.add_after(name, left)
        else:
            self._api.delete(REQUESTS, name, uid=request["metadata"]["uid"])

    def _sync(self, name: str) -> None:
        request = self._api.find(REQUESTS, name)
        if request is None or (request.get("status") or {}).get("certificate"):
            return
        from cryptography import x509

        asked = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
        if get_conditions_of_type(request, APPROVED):
            self._sign(request, asked)
        elif not get_conditions_of_type(request, DENIED):
            self._approve(request, asked)

    def _sign(self, request: Obj, asked: CertificateSigningRequest) -> None:
        spec = request["spec"]
        fault_of = SIGNERS.get(spec.get("signerName", ""))
        if fault_of is None or get_conditions_of_type(request, FAILED):
            return
        usages = spec.get("usages") or []
        fault = fault_of(asked, usages)
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
            now = self._api.clock.time()
            signed = sign_certificate(asked, usages, life, now, self._authority)
            status["certificate"] = base64.b64encode(signed).decode()
        self._api.update_status(REQUESTS, {**request, "status": status})

    def _approve(self, request: Obj, asked: CertificateSigningRequest) -> None:
        """Approve what a kubelet, or who may speak for all, asks for as a client."""
        from cryptography.x509.oid import NameOID

        spec = request["spec"]
        if spec.get("signerName") != _KUBELET_CLIENT:
            return
        if not is_kubelet_client_request(asked, spec.get("usages") or []):
            return
        names = asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        ways = [("nodeclient", "")]
        if names and names[-1].value == spec.get("username"):
            ways.insert(0, ("selfnodeclient", "self "))
        extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
        user = User(
            spec.get("username", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra
        )
        group, resource = "certificates.k8s.io", "certificatesigningrequests"
        for subresource, whose in ways:
            if not self._api.rbac.decide(
                Attributes(user, "create", group, resource, subresource)
            ).allowed:
                continue
            text = f"Auto approving {whose}kubelet client certificate after SubjectAccessReview."
            condition = {"type": APPROVED, "status": "True", "reason": "AutoApproved"}
            changed = clone(request)
            conditions = changed.setdefault("status", {}).setdefault("conditions", [])
            conditions.append({**condition, "message": text})
            self._api.update(REQUESTS, changed, subresource="approval")
            return
