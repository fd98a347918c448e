"""The claims of a StatefulSet's pods, and who owns them.

Source: kube-controller-manager, statefulset/stateful_pod_control.go, stateful_set_utils.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.conditions import is_being_deleted
from pytest_kwait.simulator.controllers.controller_refs import make_controller_ref
from pytest_kwait.simulator.controllers.statefulset.stateful_pod_control import (
    KIND,
    get_ordinal,
    get_replicas,
    get_start_ordinal,
    make_claims,
)
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.event_recorder import EventRecorder

__all__ = ["ClaimControl", "calculate_owners"]

_CLAIMS = "persistentvolumeclaims"
_POD = ("v1", "Pod")


def _policy(stateful_set: Obj) -> tuple[str, str]:
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return policy.get("whenDeleted") or "Retain", policy.get("whenScaled") or "Retain"


def _is_condemned(stateful_set: Obj, pod: Obj) -> bool:
    index = get_ordinal(pod) - get_start_ordinal(stateful_set)
    return not 0 <= index < get_replicas(stateful_set)


def _is_reference_to(reference: Obj, obj: Obj, kind: tuple[str, str]) -> bool:
    named = (reference.get("apiVersion"), reference.get("kind"), reference.get("name"))
    return named == (*kind, name_of(obj))


def _is_stale(claim: Obj, obj: Obj, kind: tuple[str, str]) -> bool:
    """Whether the claim is owned by an earlier object of that name."""
    for reference in claim["metadata"].get("ownerReferences") or ():
        if _is_reference_to(reference, obj, kind):
            return bool(reference["uid"] != uid_of(obj))
    return False


def _has_other_controller(claim: Obj, stateful_set: Obj, pod: Obj) -> bool:
    """Whether somebody else controls the claim, where a policy is to be kept."""
    if _policy(stateful_set) == ("Retain", "Retain"):
        return False
    for reference in claim["metadata"].get("ownerReferences") or ():
        if _is_reference_to(reference, stateful_set, KIND):
            if reference["uid"] != uid_of(stateful_set):
                return True
        elif _is_reference_to(reference, pod, _POD):
            if reference["uid"] != uid_of(pod):
                return True
        elif reference.get("controller"):
            return True
    return False


def calculate_owners(claim: Obj, stateful_set: Obj, pod: Obj) -> list[Obj] | None:
    """Return the owner references that the claim must have; None where they are right.

    Scaled down under `Delete`, a claim is the pod's; else, `Delete` when the set is deleted makes
    it the set's.
    """
    if _is_stale(claim, stateful_set, KIND) or _is_stale(claim, pod, _POD):
        return None
    present: list[Obj] = claim["metadata"].get("ownerReferences") or []
    others = [
        one
        for one in present
        if not _is_reference_to(one, stateful_set, KIND) and not _is_reference_to(one, pod, _POD)
    ]
    if not _has_other_controller(claim, stateful_set, pod):
        deleted, scaled = _policy(stateful_set)
        if scaled == "Delete" and _is_condemned(stateful_set, pod):
            if uid_of(pod):
                others.append(make_controller_ref(pod, *_POD))
        elif deleted == "Delete":
            others.append(make_controller_ref(stateful_set, *KIND))
    owners = [(one["uid"], bool(one.get("controller"))) for one in others]
    if owners == [(one["uid"], bool(one.get("controller"))) for one in present]:
        return None
    return others


class ClaimControl:
    """Makes claims and keeps their owners.

    Args:
        api: the cluster.
        recorder: tells what was done.
    """

    def __init__(self, api: SimulatedCluster, recorder: EventRecorder) -> None:
        self._api = api
        self._recorder = recorder

    def is_stale(self, stateful_set: Obj, pod: Obj) -> bool:
        """Whether a claim is still an earlier pod's and about to go with it."""
        if _policy(stateful_set)[1] == "Retain":
            return False
        return any(
            found is not None and _is_stale(found, pod, _POD)
            for found in map(self._find, make_claims(stateful_set, pod))
        )

    def _find(self, claim: Obj) -> Obj | None:
        return self._api.find(_CLAIMS, name_of(claim), namespace_of(claim))

    def make(self, stateful_set: Obj, pod: Obj) -> None:
        """Make the claims of the pod that are missing.

        Raises:
            StatusError: the API server refused one, or one is being deleted.
        """
        refusal = None
        for claim in make_claims(stateful_set, pod):
            name, found = name_of(claim), self._find(claim)
            if found is not None:
                if is_being_deleted(found):
                    refusal = refusal or _make_claim_error(f"pvc {name} is being deleted")
                continue
            about = f"Pod {name_of(pod)} in StatefulSet {name_of(stateful_set)}"
            try:
                self._api.create(_CLAIMS, claim, namespace_of(claim))
            except StatusError as error:
                message = f"Create Claim {name} for {about} failed error: {error.message}"
                self._recorder.event(stateful_set, KIND, WARNING, "FailedCreate", message)
                refusal = refusal or _make_claim_error(
                    f"failed to create PVC {name}: {error.message}", error
                )
            else:
                message = f"Create Claim {name} {about} success"
                self._recorder.event(stateful_set, KIND, NORMAL, "SuccessfulCreate", message)
        if refusal is not None:
            raise refusal

    def are_owned(self, stateful_set: Obj, pod: Obj) -> bool:
        """Whether the claims have the owners that the policy gives them."""
        return all(
            found is None or calculate_owners(found, stateful_set, pod) is None
            for found in map(self._find, make_claims(stateful_set, pod))
        )

    def own(self, stateful_set: Obj, pod: Obj) -> None:
        """Give the claims the owners that the policy gives them."""
        for claim in make_claims(stateful_set, pod):
            found = self._find(claim)
            if found is None:
                continue
            if _has_other_controller(found, stateful_set, pod):
                message = (
                    f"PersistentVolumeClaim {name_of(claim)} has a conflicting OwnerReference that"
                    " acts as a manging controller, the retention policy is ignored for this claim"
                )
                self._recorder.event(stateful_set, KIND, WARNING, "ConflictingController", message)
            owners = calculate_owners(found, stateful_set, pod)
            if owners is None:
                continue
            metadata = {**found["metadata"], "ownerReferences": owners}
            if not owners:
                del metadata["ownerReferences"]
            self._api.update(_CLAIMS, {**found, "metadata": metadata})


def _make_claim_error(message: str, cause: StatusError | None = None) -> StatusError:
    if cause is None:
        return StatusError(409, "Conflict", message)
    return StatusError(cause.code, cause.reason, message, cause.details)
