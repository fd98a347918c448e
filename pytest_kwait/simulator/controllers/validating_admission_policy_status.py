"""The policy status controller: type-checks the expressions of ValidatingAdmissionPolicies.

Source: kube-controller-manager, validatingadmissionpolicystatus/controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

__all__ = ["POLICIES", "PolicyStatusController"]

POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"


class PolicyStatusController:
    """Type checks each generation of a validating policy once."""

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._queue: Workqueue[str] = Workqueue(
            api.clock, self._sync, "validatingadmissionpolicy-status"
        )
        api.subscribe(POLICIES, self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "DELETED":
            self._queue.add(name_of(new))

    def _sync(self, name: str) -> None:
        policy = self._api.find(POLICIES, name)
        if policy is None:
            return
        generation = policy["metadata"].get("generation", 0)
        if generation <= (policy.get("status") or {}).get("observedGeneration", 0):
            return
        # Imported late: the expressions' library is loaded with the first policy.
        from pytest_kwait.simulator.admission.policy_typecheck import type_check_warnings

        warnings = type_check_warnings(policy, self._api.kinds)
        checked: Obj = {"expressionWarnings": warnings} if warnings else {}

        def set_status(changed: Obj) -> None:
            status = changed.get("status") or {}
            changed["status"] = {
                **status,
                "observedGeneration": generation,
                "typeChecking": checked,
            }

        self._api.modify(POLICIES, name, "", set_status, subresource="status")
