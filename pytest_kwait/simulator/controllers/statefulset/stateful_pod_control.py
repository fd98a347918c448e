"""The pods of a StatefulSet, their identity, and their claims with owners.

Source: kube-controller-manager, statefulset/stateful_pod_control.go, stateful_set_utils.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_refs import make_controller_ref
from pytest_kwait.simulator.controllers.pod_control import (
    is_ready,
    make_pod_from_template,
    seconds_until_available,
)
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING
from pytest_kwait.simulator.objects import (
    Obj,
    clone,
    is_being_deleted,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.event_recorder import EventRecorder

__all__ = [
    "HASH_LABEL",
    "KIND",
    "ClaimControl",
    "add_identity_labels",
    "calculate_counts",
    "calculate_owners",
    "get_ordinal",
    "get_phase",
    "get_pod_revision",
    "get_replicas",
    "get_start_ordinal",
    "has_identity",
    "has_storage",
    "is_member_of",
    "is_running_and_ready",
    "is_unavailable",
    "make_claim_name",
    "make_claims",
    "make_versioned_pod",
]

KIND = ("apps/v1", "StatefulSet")
HASH_LABEL = "controller-revision-hash"
_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_MEMBER = re.compile(r"(.*)-([0-9]+)")


def get_replicas(stateful_set: Obj) -> int:
    """Return the desired number of pods."""
    replicas: int = stateful_set["spec"].get("replicas", 1)
    return replicas


def get_start_ordinal(stateful_set: Obj) -> int:
    """Return the number of its first pod."""
    start: int = (stateful_set["spec"].get("ordinals") or {}).get("start", 0)
    return start


def get_ordinal(pod: Obj) -> int:
    """Return the number in the pod's name; -1 without one."""
    match = _MEMBER.fullmatch(name_of(pod))
    number = int(match[2]) if match else -1
    return number if number < 2**31 else -1


def is_member_of(stateful_set: Obj, pod: Obj) -> bool:
    """Return whether the pod's name belongs to the set."""
    match = _MEMBER.fullmatch(name_of(pod))
    return match is not None and match[1] == name_of(stateful_set)


def get_phase(pod: Obj) -> str:
    """Return the pod's phase; empty for a pod that is not created yet."""
    return str((pod.get("status") or {}).get("phase") or "")


def get_pod_revision(pod: Obj) -> str:
    """Return the name of the pod's revision."""
    return labels_of(pod).get(HASH_LABEL, "")


def is_running_and_ready(pod: Obj) -> bool:
    """Return whether the pod is running and ready."""
    return get_phase(pod) == "Running" and is_ready(pod)


def is_unavailable(pod: Obj, min_ready: float, now: float) -> bool:
    """Return whether the pod is terminating, or not ready for long enough."""
    return seconds_until_available(pod, min_ready, now) != 0 or is_being_deleted(pod)


def make_claim_name(stateful_set: Obj, template: Obj, ordinal: int) -> str:
    """Return the name of a pod's claim."""
    return f"{name_of(template)}-{name_of(stateful_set)}-{ordinal}"


def make_claims(stateful_set: Obj, pod: Obj) -> list[Obj]:
    """Return the claims of the pod in the form in which they are created."""
    spec, claims = stateful_set["spec"], []
    for template in spec.get("volumeClaimTemplates") or ():
        claim = clone(template)
        metadata = claim["metadata"]
        metadata["name"] = make_claim_name(stateful_set, template, get_ordinal(pod))
        metadata["namespace"] = namespace_of(stateful_set)
        chosen = (spec.get("selector") or {}).get("matchLabels") or {}
        labels = {**(metadata.get("labels") or {}), **chosen}
        if labels:
            metadata["labels"] = labels
        claim.pop("status", None)
        claims.append(claim)
    return claims


def has_identity(stateful_set: Obj, pod: Obj) -> bool:
    """Return whether name and label are those that the set assigns."""
    return is_member_of(stateful_set, pod) and labels_of(pod).get(_NAME_LABEL) == name_of(pod)


def has_storage(stateful_set: Obj, pod: Obj) -> bool:
    """Return whether the pod mounts its claims."""
    volumes = {one["name"]: one for one in pod["spec"].get("volumes") or ()}
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        claim = (volumes.get(name_of(template)) or {}).get("persistentVolumeClaim") or {}
        if claim.get("claimName") != make_claim_name(stateful_set, template, get_ordinal(pod)):
            return False
    return True


def add_identity_labels(pod: Obj) -> Obj:
    """Return the pod with the labels of its name."""
    pod = clone(pod)
    labels = pod["metadata"].setdefault("labels", {})
    labels[_NAME_LABEL] = name_of(pod)
    labels[_INDEX_LABEL] = str(get_ordinal(pod))
    return pod


def _make_pod(stateful_set: Obj, template: Obj, ordinal: int, revision: str) -> Obj:
    pod = make_pod_from_template(template, stateful_set, *KIND)
    metadata, spec = pod["metadata"], pod["spec"]
    del metadata["generateName"]
    metadata["name"] = f"{name_of(stateful_set)}-{ordinal}"
    pod = add_identity_labels(pod)
    spec = pod["spec"]
    spec["hostname"] = name_of(pod)
    if stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = stateful_set["spec"]["serviceName"]
    claims = {
        name_of(one): make_claim_name(stateful_set, one, ordinal)
        for one in stateful_set["spec"].get("volumeClaimTemplates") or ()
    }
    volumes = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for name, claim in claims.items()
    ]
    volumes += [one for one in spec.get("volumes") or () if one["name"] not in claims]
    if volumes:
        spec["volumes"] = volumes
    pod["metadata"]["labels"][HASH_LABEL] = revision
    return pod


def make_versioned_pod(stateful_set: Obj, current: Obj, update: Obj, ordinal: int) -> Obj:
    """Return the pod with an ordinal, of the revision that it should have now.

    Args:
        stateful_set: the set.
        current: the revision before the update.
        update: the revision of the update.
        ordinal: the pod's number.
    """
    spec = stateful_set["spec"]
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        old = get_start_ordinal(stateful_set) + (rolling.get("partition") or 0)
    elif strategy.get("type") == "RollingUpdate":
        status = stateful_set.get("status") or {}
        old = get_start_ordinal(stateful_set) + status.get("currentReplicas", 0)
    else:
        old = -1
    revision = current if ordinal < old else update
    template = {**revision["data"]["spec"]["template"]}
    template.pop("$patch", None)
    return _make_pod(stateful_set, template, ordinal, name_of(revision))


def calculate_counts(
    pods: Iterable[Obj], min_ready: float, current: str, update: str, now: float
) -> dict[str, int]:
    """Return the counts of the status.

    Source: kube-controller-manager, statefulset/stateful_set_control.go, `computeReplicaStatus`.
    """
    found = dict.fromkeys(
        (
            "replicas",
            "readyReplicas",
            "availableReplicas",
            "currentReplicas",
            "updatedReplicas",
        ),
        0,
    )
    for pod in pods:
        made = bool(get_phase(pod))
        found["replicas"] += made
        if is_running_and_ready(pod):
            found["readyReplicas"] += 1
            found["availableReplicas"] += seconds_until_available(pod, min_ready, now) == 0
        if made and not is_being_deleted(pod):
            found["currentReplicas"] += get_pod_revision(pod) == current
            found["updatedReplicas"] += get_pod_revision(pod) == update
    return found


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
    """Return whether the claim is owned by an earlier object of that name."""
    for reference in claim["metadata"].get("ownerReferences") or ():
        if _is_reference_to(reference, obj, kind):
            return bool(reference["uid"] != uid_of(obj))
    return False


def _has_other_controller(claim: Obj, stateful_set: Obj, pod: Obj) -> bool:
    """Return whether another controller owns the claim, so that a policy cannot be applied."""
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
    """Return the owner references that the claim should have; None if it has them.

    With `whenScaled: Delete` a claim of a condemned pod belongs to the pod. Otherwise, with
    `whenDeleted: Delete`, it belongs to the set.
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
    """Creates claims and maintains their owner references."""

    def __init__(self, api: Cluster, recorder: EventRecorder) -> None:
        self._api = api
        self._recorder = recorder

    def is_stale(self, stateful_set: Obj, pod: Obj) -> bool:
        """Return whether a claim belongs to a deleted pod and is about to be deleted."""
        if _policy(stateful_set)[1] == "Retain":
            return False
        return any(
            found is not None and _is_stale(found, pod, _POD)
            for found in map(self._find, make_claims(stateful_set, pod))
        )

    def _find(self, claim: Obj) -> Obj | None:
        return self._api.find(_CLAIMS, name_of(claim), namespace_of(claim))

    def make(self, stateful_set: Obj, pod: Obj) -> None:
        """Create the missing claims of the pod.

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
        """Return whether the claims have the owners required by the policy."""
        return all(
            found is None or calculate_owners(found, stateful_set, pod) is None
            for found in map(self._find, make_claims(stateful_set, pod))
        )

    def own(self, stateful_set: Obj, pod: Obj) -> None:
        """Set the owners of the claims as required by the policy."""
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
