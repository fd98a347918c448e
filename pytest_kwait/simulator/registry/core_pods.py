"""The strategy of pods.

Source: pkg/registry/core/pod/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.registry.pod_defaults import (
    default_pod,
    default_pod_spec,
    drop_disabled_fields,
)
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.pods.annotations import APP_ARMOR_ANNOTATION_PREFIX
from pytest_kwait.simulator.validation.core.pods.pod_spec import validate_pod_create
from pytest_kwait.simulator.validation.core.pods.pod_update import (
    validate_pod_status_update,
    validate_pod_update,
)
from pytest_kwait.simulator.validation.core.pods.warnings import get_name_warnings, get_pod_warnings
from pytest_kwait.simulator.validation.core.pods.windows import visit_containers_with_path
from pytest_kwait.simulator.validation.core.resources import qos_class

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = ["PodStrategy"]

_REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"


class PodStrategy(Strategy):
    """Pods."""

    validates_metadata_on_update = True

    def default(self, obj: Obj) -> None:
        """Set the defaults of the spec."""
        super().default(obj)
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        default_pod(spec)

    def prepare_create(self, obj: Obj) -> None:
        """Set phase Pending and the QoS class."""
        super().prepare_create(obj)
        spec = obj["spec"]
        drop_disabled_fields(spec)
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": obj["metadata"]["creationTimestamp"],
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]
        if "affinity" in spec or "topologySpreadConstraints" in spec:
            _apply_label_keys(spec, obj["metadata"].get("labels", {}))

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Restore the status."""
        super().prepare_update(new, old)
        drop_disabled_fields(new["spec"])

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the spec."""
        return validate_pod_create(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; few fields of a spec may change."""
        return validate_pod_update(new, old)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Copy old annotations to fields, then warn."""
        annotations = obj["metadata"].get("annotations", {})
        if annotations:
            _apply_apparmor_annotations(obj["spec"], annotations, caller)
        for text in get_name_warnings(obj, "the Pod's hostname"):
            caller.warn(text)
        for text in get_pod_warnings(obj["spec"], obj["metadata"], ""):
            caller.warn(text)

    def grace(self, obj: Obj, asked: int | None) -> int | None:
        """Return the requested or the pod's own period; 0 if pending or ended."""
        spec, status = obj.get("spec", {}), obj.get("status", {})
        period = asked if asked is not None else int(spec.get("terminationGracePeriodSeconds", 0))
        if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
            return 0
        return 1 if period < 0 else period

    def prepare_status(self, new: Obj, old: Obj) -> None:
        """Restore the QoS class and the observed generations."""
        super().prepare_status(new, old)
        before = old.get("status", {})
        status = new.setdefault("status", {})
        for field in ("qosClass", "observedGeneration"):
            if field in before and not status.get(field):
                status[field] = before[field]
        forgotten = any(not one.get("observedGeneration") for one in status.get("conditions") or ())
        if forgotten and any("observedGeneration" in one for one in before.get("conditions", ())):
            status["conditions"] = _keep_condition_generations(
                status["conditions"], before["conditions"]
            )

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate conditions, addresses and immutable fields."""
        return validate_pod_status_update(new, old)


def _keep_condition_generations(conditions: list[Obj], before: list[Obj]) -> list[Obj]:
    """Return the conditions with their earlier generations."""
    known: dict[str, list[int]] = {}
    for one in before:
        known.setdefault(one.get("type", ""), []).append(one.get("observedGeneration", 0))
    kept = []
    for one in conditions:
        earlier = known.get(one.get("type", ""))
        generation = earlier.pop(0) if earlier else 0
        if generation and not one.get("observedGeneration"):
            one = {**one, "observedGeneration": generation}
        kept.append(one)
    return kept


def _apply_label_keys(spec: Obj, labels: dict[str, str]) -> None:
    """Add the pod's own values of `matchLabelKeys` to selectors."""
    affinity = spec.get("affinity", {})
    for field in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(field, {})
        for term in terms.get(_REQUIRED_TERMS, ()):
            _apply_to_term(term, labels)
        for weighted in terms.get(_PREFERRED_TERMS, ()):
            _apply_to_term(weighted.get("podAffinityTerm", {}), labels)
    for constraint in spec.get("topologySpreadConstraints", ()):
        _apply_to_term(constraint, labels)


def _apply_to_term(term: Obj, labels: dict[str, str]) -> None:
    if "labelSelector" not in term:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field, ()):
            if key in labels:
                rule = {"key": key, "operator": operator, "values": [labels[key]]}
                term["labelSelector"].setdefault("matchExpressions", []).append(rule)


def _apply_apparmor_annotations(spec: Obj, annotations: dict[str, str], caller: Caller) -> None:
    """Copy AppArmor annotations to fields."""
    if (spec.get("os") or {}).get("name") == "windows":
        return
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container, _ in visit_containers_with_path(spec, ""):
        key = APP_ARMOR_ANNOTATION_PREFIX + container.get("name", "")
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        if key not in annotations or own is not None:
            continue
        profile = _parse_apparmor_profile(annotations[key])
        if profile is not None and profile != of_pod:
            container.setdefault("securityContext", {})["appArmorProfile"] = profile
        if profile is None or profile != of_pod:
            text = 'deprecated since v1.30; use the "appArmorProfile" field instead'
            caller.warn(f"metadata.annotations[{key}]: {text}")


def _parse_apparmor_profile(annotation: str) -> Obj | None:
    kind, _, local = annotation.partition("/")
    if annotation == "unconfined":
        return {"type": "Unconfined"}
    if annotation == "runtime/default":
        return {"type": "RuntimeDefault"}
    if kind == "localhost" and local:
        return {"type": "Localhost", "localhostProfile": local} if local == local.strip() else None
    return None
