"""What may change of a pod once it exists.

Source: pkg/apis/core/validation/validation.go, ValidatePodUpdate, ValidatePodStatusUpdate,
ValidatePodEphemeralContainersUpdate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import Rendered
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.validation.core.pods.annotations import (
    validate_pod_annotation_update,
    validate_pod_annotations,
)
from pytest_kwait.simulator.validation.core.pods.containers import validate_image_whitespace
from pytest_kwait.simulator.validation.core.pods.pod_spec import validate_pod
from pytest_kwait.simulator.validation.core.tolerations import validate_only_added_tolerations
from pytest_kwait.simulator.validation.field_errors import diff_internal, format_internal
from pytest_kwait.simulator.validation.formats import range_texts

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_pod_update"]

_IMMUTABLE_FIELDS_CHANGED = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)\n"
)
_CONTAINER_LISTS = ("containers", "initContainers")
_MAX_SECONDS = 2**31 - 1
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ONLY_ADDITIONS = "(no mutations or deletions)"


def validate_pod_update(new: Obj, old: Obj, found: ErrorList) -> None:
    """Few things; and what holds of any pod goes on to hold."""
    spec, before = new["spec"], old["spec"]
    annotations = new["metadata"].get("annotations", {})
    earlier = old["metadata"].get("annotations", {})
    if spec == before and annotations == earlier:
        return
    validate_pod(new, found)
    validate_pod_annotation_update(annotations, earlier, "metadata.annotations", found)
    validate_pod_annotations(annotations, spec, "metadata.annotations", found)
    for field in _CONTAINER_LISTS:
        containers = spec.get(field, [])
        if len(containers) != len(before.get(field, [])):
            found.forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(containers):
            if not container.get("image"):
                found.required(f"spec.{field}[{index}].image")
            validate_image_whitespace(container, f"spec.{field}[{index}]", found)
    if not _is_deadline_update_valid(spec, before, found):
        return
    validate_only_added_tolerations(
        spec.get("tolerations", []), before.get("tolerations", []), "spec.tolerations", found
    )
    _validate_scheduling_gates_update(spec, before, found)
    allowed = _revert_mutable_fields(spec, before)
    if before.get("schedulingGates"):
        _revert_gated_pod_fields(allowed, before, found)
    if allowed != before:
        difference = diff_internal("core.PodSpec", before, allowed)
        found.forbidden("spec", _IMMUTABLE_FIELDS_CHANGED + difference)


def _is_deadline_update_valid(spec: Obj, before: Obj, found: ErrorList) -> bool:
    """Whether the server looks any further."""
    at = "spec.activeDeadlineSeconds"
    deadline, earlier = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is None:
        if earlier is not None:
            text = "must not update from a positive integer to nil value"
            found.invalid(at, Rendered("null"), text)
        return True
    texts = range_texts(deadline, 0, _MAX_SECONDS)
    if not texts and earlier is not None and earlier < deadline:
        texts = ["must be less than or equal to previous value"]
    found.texts(at, deadline, texts)
    return not texts


def _validate_scheduling_gates_update(spec: Obj, before: Obj, found: ErrorList) -> None:
    known = {gate.get("name", "") for gate in before.get("schedulingGates", ())}
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        name = gate.get("name", "")
        if name not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            found.forbidden(f"spec.schedulingGates[{index}].name", text)


def _revert_mutable_fields(spec: Obj, before: Obj) -> Obj:
    """The new spec with all that may change as it was."""
    allowed: Obj = clone(spec)
    for field in _CONTAINER_LISTS:
        for container, was in zip(allowed.get(field, ()), before.get(field, ()), strict=True):
            container["image"] = was.get("image", "")
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _restore_field(allowed, before, field)
    if (
        before.get("terminationGracePeriodSeconds", 0) < 0
        and spec.get("terminationGracePeriodSeconds") == 1
    ):
        _restore_field(allowed, before, "terminationGracePeriodSeconds")
    return allowed


def _restore_field(allowed: Obj, before: Obj, field: str) -> None:
    if field in before:
        allowed[field] = before[field]
    else:
        allowed.pop(field, None)


def _revert_gated_pod_fields(allowed: Obj, before: Obj, found: ErrorList) -> None:
    """What may still become stricter while a pod is not scheduled."""
    selector, earlier = allowed.get("nodeSelector", {}), before.get("nodeSelector", {})
    if any(selector.get(key) != value for key, value in earlier.items()):
        text = f"only additions to spec.nodeSelector are allowed {_ONLY_ADDITIONS}"
        found.invalid("spec.nodeSelector", selector or None, text)
    _restore_field(allowed, before, "nodeSelector")
    affinity, earlier = allowed.get("affinity", {}), before.get("affinity", {})
    nodes, were = affinity.get("nodeAffinity"), earlier.get("nodeAffinity")
    if nodes == were:
        return
    _validate_node_selector_terms_update(nodes or {}, were or {}, found)
    if were is not None:
        allowed["affinity"] = {**affinity, "nodeAffinity": were}
    elif "affinity" not in before and not (affinity.keys() - {"nodeAffinity"}):
        del allowed["affinity"]
    else:
        allowed["affinity"] = {
            field: value for field, value in affinity.items() if field != "nodeAffinity"
        }


def _validate_node_selector_terms_update(nodes: Obj, were: Obj, found: ErrorList) -> None:
    at = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    old = were.get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    new = nodes.get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    if old and len(old) != len(new):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        found.invalid(at, format_internal("core.NodeSelectorTerm", new or None), text)
        return
    for index, (term, was) in enumerate(zip(new, old, strict=False)):
        if not _has_only_additions(term, was):
            shown = format_internal("core.NodeSelectorTerm", term)
            found.invalid(f"{at}[{index}]", shown, f"only additions are allowed {_ONLY_ADDITIONS}")


def _has_only_additions(new: Obj, old: Obj) -> bool:
    lists = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in lists):
        return not any(new.get(field) for field in lists)
    return all(
        new.get(field, [])[: len(old.get(field, []))] == old.get(field, []) for field in lists
    )
