"""What a StatefulSet and its pods are: pure functions on the API's JSON, whole or trimmed."""

from __future__ import annotations

from typing import Any, TypedDict

from pytest_kwait.client.responses import ObjectMeta

__all__ = [
    "StatefulSetFields",
    "claim_names_of",
    "describe_ordinals",
    "first_ordinal",
    "is_parallel",
    "parse_ordinal",
]


class _Ordinals(TypedDict, total=False):
    start: int | None


class _Template(TypedDict, total=False):
    metadata: ObjectMeta


class _Spec(TypedDict, total=False):
    replicas: int | None
    selector: dict[str, Any] | None
    podManagementPolicy: str | None
    ordinals: _Ordinals | None
    volumeClaimTemplates: list[_Template] | None


class _Status(TypedDict, total=False):
    observedGeneration: int | None
    replicas: int | None
    readyReplicas: int | None
    availableReplicas: int | None
    currentRevision: str | None
    updateRevision: str | None


class StatefulSetFields(TypedDict, total=False):
    """The fields of a StatefulSet that waits read."""

    metadata: ObjectMeta
    spec: _Spec | None
    status: _Status | None


def parse_ordinal(stateful_set: str, pod: str) -> int | None:
    """Return the ordinal that a pod's name gives it in a set; None for no name of a pod of it.

    Source: kubernetes/pkg/controller/statefulset/stateful_set_utils.go getParentNameAndOrdinal.
    """
    lead, _, digits = pod.rpartition("-")
    if lead != stateful_set or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits) if digits == str(int(digits)) else None


def first_ordinal(stateful_set: dict[str, Any]) -> int:
    """Return the ordinal of the set's first pod: 0 unless its spec says another."""
    start = ((stateful_set.get("spec") or {}).get("ordinals") or {}).get("start")
    return start if isinstance(start, int) else 0


def describe_ordinals(stateful_set: dict[str, Any], replicas: int) -> str:
    """Say which pods a set is to have: `web-0 to web-2`, `web-0` or `no pods`."""
    name, first = stateful_set["metadata"].get("name"), first_ordinal(stateful_set)
    if replicas < 1:
        return "no pods"
    last = f" to {name}-{first + replicas - 1}" if replicas > 1 else ""
    return f"{name}-{first}{last}"


def is_parallel(stateful_set: dict[str, Any]) -> bool:
    """Whether it starts and stops its pods without waiting for one another."""
    return (stateful_set.get("spec") or {}).get("podManagementPolicy") == "Parallel"


def claim_names_of(stateful_set: dict[str, Any], pod: str) -> list[str]:
    """Return the names of the claims that a set makes for one of its pods.

    Source: kubernetes/pkg/controller/statefulset/stateful_set_utils.go
    getPersistentVolumeClaimName.
    """
    templates = (stateful_set.get("spec") or {}).get("volumeClaimTemplates") or ()
    names = [(template.get("metadata") or {}).get("name") for template in templates]
    return [f"{name}-{pod}" for name in names if name]
