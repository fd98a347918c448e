"""The pods of a StatefulSet: who they are, and what each of them must have.

Source: kube-controller-manager, statefulset/stateful_set_utils.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import is_being_deleted
from pytest_kwait.simulator.controllers.pod_control import (
    is_ready,
    make_pod_from_template,
    seconds_until_available,
)
from pytest_kwait.simulator.objects import Obj, clone, labels_of, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "HASH_LABEL",
    "KIND",
    "add_identity_labels",
    "calculate_counts",
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
    """How many pods it is to have."""
    replicas: int = stateful_set["spec"].get("replicas", 1)
    return replicas


def get_start_ordinal(stateful_set: Obj) -> int:
    """The number of its first pod."""
    start: int = (stateful_set["spec"].get("ordinals") or {}).get("start", 0)
    return start


def get_ordinal(pod: Obj) -> int:
    """The number in the pod's name; -1 where there is none."""
    match = _MEMBER.fullmatch(name_of(pod))
    number = int(match[2]) if match else -1
    return number if number < 2**31 else -1


def is_member_of(stateful_set: Obj, pod: Obj) -> bool:
    """Whether the pod's name is one that the set gives."""
    match = _MEMBER.fullmatch(name_of(pod))
    return match is not None and match[1] == name_of(stateful_set)


def get_phase(pod: Obj) -> str:
    """The pod's phase; empty for a pod that is yet to be made."""
    return str((pod.get("status") or {}).get("phase") or "")


def get_pod_revision(pod: Obj) -> str:
    """The name of the revision that the pod is of."""
    return labels_of(pod).get(HASH_LABEL, "")


def is_running_and_ready(pod: Obj) -> bool:
    """Whether it runs and is ready."""
    return get_phase(pod) == "Running" and is_ready(pod)


def is_unavailable(pod: Obj, min_ready: float, now: float) -> bool:
    """Whether it has not been ready for long enough, or is being deleted."""
    return seconds_until_available(pod, min_ready, now) != 0 or is_being_deleted(pod)


def make_claim_name(stateful_set: Obj, template: Obj, ordinal: int) -> str:
    """The name of a pod's claim."""
    return f"{name_of(template)}-{name_of(stateful_set)}-{ordinal}"


def make_claims(stateful_set: Obj, pod: Obj) -> list[Obj]:
    """Return the claims that the pod must have, as they would be made."""
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
    """Whether name and label are what the set gives."""
    return is_member_of(stateful_set, pod) and labels_of(pod).get(_NAME_LABEL) == name_of(pod)


def has_storage(stateful_set: Obj, pod: Obj) -> bool:
    """Whether the pod mounts its claims."""
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
    """Return the pod of that number, of the revision that it is to have now.

    Args:
        stateful_set: the set.
        current: the revision that the set leaves.
        update: the revision that it is to have.
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
    """Return the numbers of the status for these pods.

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
