"""What may change of a pod once it exists.

Source: pkg/apis/core/validation/validation.go, ValidatePodUpdate, ValidatePodStatusUpdate,
ValidatePodEphemeralContainersUpdate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import range_texts
from pytest_kwait.simulator.internal_values import internal_diff, internal_json
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.pod_rules.annotations import (
    check_annotation_changes,
    check_pod_annotations,
)
from pytest_kwait.simulator.pod_rules.containers import check_image_blanks
from pytest_kwait.simulator.pod_rules.pod_spec import check_pod
from pytest_kwait.simulator.pod_rules.tolerations import check_added_tolerations
from pytest_kwait.simulator.status_error import Rendered

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_pod_change"]

_CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)\n"
)
_LISTS = ("containers", "initContainers")
_MOST_SECONDS = 2**31 - 1
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ADDITIONS = "(no mutations or deletions)"


def check_pod_change(new: Obj, old: Obj, found: Findings) -> None:
    """Few things; and what holds of any pod goes on to hold."""
    spec, before = new["spec"], old["spec"]
    annotations = new["metadata"].get("annotations", {})
    earlier = old["metadata"].get("annotations", {})
    if spec == before and annotations == earlier:
        return
    check_pod(new, found)
    check_annotation_changes(annotations, earlier, "metadata.annotations", found)
    check_pod_annotations(annotations, spec, "metadata.annotations", found)
    for field in _LISTS:
        containers = spec.get(field, [])
        if len(containers) != len(before.get(field, [])):
            found.forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(containers):
            if not container.get("image"):
                found.required(f"spec.{field}[{index}].image")
            check_image_blanks(container, f"spec.{field}[{index}]", found)
    if not _deadline_holds(spec, before, found):
        return
    check_added_tolerations(
        spec.get("tolerations", []), before.get("tolerations", []), "spec.tolerations", found
    )
    _check_gates(spec, before, found)
    allowed = _without_changes(spec, before)
    if before.get("schedulingGates"):
        _check_gated(allowed, before, found)
    if allowed != before:
        difference = internal_diff("core.PodSpec", before, allowed)
        found.forbidden("spec", _CHANGEABLE + difference)


def _deadline_holds(spec: Obj, before: Obj, found: Findings) -> bool:
    """Whether the server looks any further."""
    at = "spec.activeDeadlineSeconds"
    deadline, earlier = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is None:
        if earlier is not None:
            text = "must not update from a positive integer to nil value"
            found.invalid(at, Rendered("null"), text)
        return True
    texts = range_texts(deadline, 0, _MOST_SECONDS)
    if not texts and earlier is not None and earlier < deadline:
        texts = ["must be less than or equal to previous value"]
    found.texts(at, deadline, texts)
    return not texts


def _check_gates(spec: Obj, before: Obj, found: Findings) -> None:
    known = {gate.get("name", "") for gate in before.get("schedulingGates", ())}
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        name = gate.get("name", "")
        if name not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            found.forbidden(f"spec.schedulingGates[{index}].name", text)


def _without_changes(spec: Obj, before: Obj) -> Obj:
    """The new spec with all that may change as it was."""
    allowed: Obj = clone(spec)
    for field in _LISTS:
        for container, was in zip(allowed.get(field, ()), before.get(field, ()), strict=True):
            container["image"] = was.get("image", "")
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _restore(allowed, before, field)
    if (
        before.get("terminationGracePeriodSeconds", 0) < 0
        and spec.get("terminationGracePeriodSeconds") == 1
    ):
        _restore(allowed, before, "terminationGracePeriodSeconds")
    return allowed


def _restore(allowed: Obj, before: Obj, field: str) -> None:
    if field in before:
        allowed[field] = before[field]
    else:
        allowed.pop(field, None)


def _check_gated(allowed: Obj, before: Obj, found: Findings) -> None:
    """What may still become stricter while a pod is not scheduled."""
    selector, earlier = allowed.get("nodeSelector", {}), before.get("nodeSelector", {})
    if any(selector.get(key) != value for key, value in earlier.items()):
        text = f"only additions to spec.nodeSelector are allowed {_ADDITIONS}"
        found.invalid("spec.nodeSelector", selector or None, text)
    _restore(allowed, before, "nodeSelector")
    affinity, earlier = allowed.get("affinity", {}), before.get("affinity", {})
    nodes, were = affinity.get("nodeAffinity"), earlier.get("nodeAffinity")
    if nodes == were:
        return
    _check_terms(nodes or {}, were or {}, found)
    if were is not None:
        allowed["affinity"] = {**affinity, "nodeAffinity": were}
    elif "affinity" not in before and not (affinity.keys() - {"nodeAffinity"}):
        del allowed["affinity"]
    else:
        allowed["affinity"] = {
            field: value for field, value in affinity.items() if field != "nodeAffinity"
        }


def _check_terms(nodes: Obj, were: Obj, found: Findings) -> None:
    at = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    old = were.get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    new = nodes.get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    if old and len(old) != len(new):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        found.invalid(at, internal_json("core.NodeSelectorTerm", new or None), text)
        return
    for index, (term, was) in enumerate(zip(new, old, strict=False)):
        if not _only_added(term, was):
            shown = internal_json("core.NodeSelectorTerm", term)
            found.invalid(f"{at}[{index}]", shown, f"only additions are allowed {_ADDITIONS}")


def _only_added(new: Obj, old: Obj) -> bool:
    lists = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in lists):
        return not any(new.get(field) for field in lists)
    return all(
        new.get(field, [])[: len(old.get(field, []))] == old.get(field, []) for field in lists
    )
