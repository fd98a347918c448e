"""The plugin RuntimeClass: overhead and scheduling of a pod, from its class.

Source: k8s.io/kubernetes plugin/pkg/admission/runtimeclass,
pkg/util/tolerations/tolerations.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes, get_new_pod
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.objects import clone, emptied_fields

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

_RUNTIME_CLASSES = "runtimeclasses.node.k8s.io"
_OVERHEAD_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_OVERHEAD_WITHOUT_CLASS = (
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
)


class RuntimeClass(AdmissionPlugin):
    """The RuntimeClass plugin."""

    buckets = frozenset({"pods"})

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def admit(self, attributes: Attributes) -> None:
        """Set a new pod's overhead, node selector and tolerations from its class.

        Raises:
            StatusError: 403, the class is missing or contradicts the pod.
        """
        pod = get_new_pod(attributes)
        if pod is None or "runtimeClassName" not in pod["spec"]:
            return
        spec, chosen = pod["spec"], self._class_of(attributes, pod["spec"])
        overhead, scheduling = chosen.get("overhead"), chosen.get("scheduling")
        if overhead is not None:
            fixed = overhead.get("podFixed") or {}
            if spec.get("overhead") and not _equal_overheads(fixed, spec["overhead"]):
                raise attributes.forbidden(_OVERHEAD_MISMATCH)
            spec.pop("overhead", None)
            if fixed:
                spec["overhead"] = clone(fixed)
        if scheduling is not None:
            _apply_scheduling(attributes, spec, clone(scheduling))

    def validate(self, attributes: Attributes) -> None:
        """Check that a new pod still has the overhead of its class.

        Raises:
            StatusError: 403, the overhead differs.
        """
        pod = get_new_pod(attributes)
        if pod is None:
            return
        spec = pod["spec"]
        given = "overhead" in spec or "overhead" in emptied_fields(spec)
        if "runtimeClassName" not in spec and not given:
            return
        overhead = self._class_of(attributes, spec).get("overhead")
        if overhead is not None and not _equal_overheads(
            overhead.get("podFixed") or {}, spec.get("overhead") or {}
        ):
            raise attributes.forbidden(_OVERHEAD_MISMATCH)
        if overhead is None and given:
            raise attributes.forbidden(_OVERHEAD_WITHOUT_CLASS)

    def _class_of(self, attributes: Attributes, spec: Obj) -> Obj:
        """Return the pod's class; empty if it names none."""
        name = spec.get("runtimeClassName")
        if name is None:
            return {}
        if not name:
            raise StatusError(500, "", "resource name may not be empty")
        runtime_class = self._cluster.find(_RUNTIME_CLASSES, name)
        if runtime_class is None:
            raise attributes.forbidden(f'pod rejected: RuntimeClass "{name}" not found')
        return runtime_class


def _equal_overheads(first: dict[str, str], second: dict[str, str]) -> bool:
    return first.keys() == second.keys() and all(
        parse_quantity(amount) == parse_quantity(second[name]) for name, amount in first.items()
    )


def _apply_scheduling(attributes: Attributes, spec: Obj, scheduling: Obj) -> None:
    node_selector: dict[str, str] = scheduling.get("nodeSelector") or {}
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in node_selector.items():
        if selector.setdefault(key, value) != value:
            raise attributes.forbidden(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
    if selector:
        spec["nodeSelector"] = selector
    tolerations = _merge_tolerations(
        [*spec.get("tolerations", ()), *(scheduling.get("tolerations") or ())]
    )
    if tolerations:
        spec["tolerations"] = tolerations


def _merge_tolerations(tolerations: list[Obj]) -> list[Obj]:
    """Drop tolerations that others cover, and later duplicates."""
    merged: list[Obj] = []
    for index, toleration in enumerate(tolerations):
        later = (
            other_toleration
            for other_toleration in tolerations[index + 1 :]
            if other_toleration != toleration
        )
        if not any(_covers(other_toleration, toleration) for other_toleration in (*merged, *later)):
            merged.append(toleration)
    return merged


def _covers(wide: Obj, narrow: Obj) -> bool:
    """Return whether `wide` tolerates everything that `narrow` does."""
    if wide == narrow:
        return True
    exists = wide.get("operator") == "Exists"
    if wide.get("key", "") != narrow.get("key", "") and (wide.get("key") or not exists):
        return False
    if wide.get("effect") and wide["effect"] != narrow.get("effect", ""):
        return False
    most, requested = wide.get("tolerationSeconds"), narrow.get("tolerationSeconds")
    bounded = wide.get("effect") == "NoExecute" and most is not None
    if bounded and (requested is None or requested > most):
        return False
    if wide.get("operator", "Equal") in ("Equal", ""):
        same = wide.get("value", "") == narrow.get("value", "")
        return narrow.get("operator") == "Equal" and same
    return exists
