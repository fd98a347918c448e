"""Validation of pod updates: spec, status, resize and ephemeral containers.

Other than upstream, a resize does not depend on the node's version: all nodes here have the same.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePodUpdate,
ValidatePodStatusUpdate, validatePodConditions, validatePodIPs, validateHostIPs, ValidatePodResize,
ValidatePodEphemeralContainersUpdate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import (
    dns_subdomain_texts,
    ip_texts,
    label_key_texts,
    range_texts,
)
from pytest_kwait.simulator.api_errors import Rendered
from pytest_kwait.simulator.objects import annotations_of, clone
from pytest_kwait.simulator.validation.core.pods.annotations import (
    validate_pod_annotation_update,
    validate_pod_annotations,
)
from pytest_kwait.simulator.validation.core.pods.containers import validate_image_whitespace
from pytest_kwait.simulator.validation.core.pods.pod_spec import validate_pod
from pytest_kwait.simulator.validation.core.resources import qos_class
from pytest_kwait.simulator.validation.core.scheduling import validate_only_added_tolerations
from pytest_kwait.simulator.validation.field_errors import diff_internal, format_internal

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.field_errors import ErrorList

__all__ = [
    "validate_ephemeral_containers_update",
    "validate_pod_resize",
    "validate_pod_status_update",
    "validate_pod_update",
]

_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_NOT_NEGATIVE = "must be a non-negative integer"
_ONE_IP_PER_FAMILY = "may specify no more than one IP for each IP family"


def validate_pod_status_update(new: Obj, old: Obj, found: ErrorList) -> None:
    """A pod's status, beside what it was."""
    status, before = new.get("status") or {}, old.get("status") or {}
    for index, condition in enumerate(status.get("conditions") or ()):
        generation, kind = condition.get("observedGeneration", 0), condition.get("type", "")
        if generation < 0:
            here = f"status.conditions[{index}].observedGeneration"
            found.invalid(here, generation, _NOT_NEGATIVE)
        if kind not in _SYSTEM_CONDITIONS:
            found.texts(f"status.conditions[{index}].Type", kind, label_key_texts(kind))
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName"):
        here = "status.nominatedNodeName"
        found.texts(here, nominated, dns_subdomain_texts(nominated))
    if status.get("observedGeneration", 0) < 0:
        found.invalid("status.observedGeneration", status["observedGeneration"], _NOT_NEGATIVE)
    quality = status.get("qosClass", "")
    if quality != before.get("qosClass", ""):
        found.invalid("status.qosClass", quality, "field is immutable")
    _validate_pod_ips(status, before, "podIPs", found)
    hosts = status.get("hostIPs") or []
    if hosts and hosts[0].get("ip") != status.get("hostIP"):
        text = "must be equal to `hostIP`"
        found.invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), text)
    _validate_pod_ips(status, before, "hostIPs", found)


def _validate_pod_ips(status: Obj, before: Obj, field: str, found: ErrorList) -> None:
    addresses = [one.get("ip", "") for one in status.get(field) or ()]
    known = [one.get("ip", "") for one in before.get(field) or ()]
    if addresses == known:
        return
    for index, address in enumerate(addresses):
        if address not in known:
            found.texts(f"status.{field}[{index}]", address, ip_texts(address))
    if len(addresses) > 1:
        families = {":" in address for address in addresses}
        if len(addresses) > len(families):
            shown = [{"IP": address} for address in addresses]
            found.invalid(f"status.{field}", shown, _ONE_IP_PER_FAMILY)


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


_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_RESIZABLE = ("cpu", "memory")
_RESOURCE_FIELDS = ("requests", "limits")
_ONLY_CPU_AND_MEMORY = "only cpu and memory resources are mutable"
_INIT_RESTART_FORBIDDEN = (
    "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
)


def validate_ephemeral_containers_update(new: Obj, old: Obj, found: ErrorList) -> None:
    """They are added, never taken away or changed."""
    validate_pod(new, found)
    if _MIRROR_ANNOTATION in annotations_of(old):
        found.clear()
        found.forbidden("[]", "static pods do not support ephemeral containers")
        return
    at = "spec.ephemeralContainers"
    present = {one.get("name", ""): one for one in new["spec"].get("ephemeralContainers", ())}
    for was in old["spec"].get("ephemeralContainers", ()):
        now, name = present.get(was["name"]), f'existing ephemeral containers "{was["name"]}"'
        if now is None:
            found.forbidden(at, f"{name} may not be removed\n")
        elif now != was:
            changed = diff_internal("core.EphemeralContainer", was, now)
            found.forbidden(at, f"{name} may not be changed\n{changed}")


def validate_pod_resize(new: Obj, old: Obj, found: ErrorList) -> None:
    """Processors and memory of what is there, as long as the pod keeps its class."""
    validate_pod(new, found)
    spec, before = new["spec"], old["spec"]
    for refused, why in (
        (_MIRROR_ANNOTATION in annotations_of(old), "static pods cannot be resized"),
        (before.get("os", {}).get("name") == "windows", "windows pods cannot be resized"),
    ):
        if refused:
            found.clear()
            found.forbidden("[]", why)
            return
    quality = (old.get("status") or {}).get("qosClass") or qos_class(before)
    if quality != qos_class(spec):
        text = "Pod QOS Class may not change as a result of resizing"
        found.invalid("spec", quality, text)
    earlier = len(found)
    _validate_pod_level_resources(spec, before, found)
    if not _has_same_containers(spec, before, found):
        return
    for field in reversed(_CONTAINER_LISTS):
        for index, (one, was) in enumerate(_pair_containers(spec, before, field)):
            at = f"spec.{field}[{index}].resources"
            for part in _RESOURCE_FIELDS:
                if _is_resource_removed(one.get("resources"), was.get("resources"), part):
                    found.forbidden(f"{at}.{part}", f"resource {part} cannot be removed")
    for one, was in _pair_containers(spec, before, "containers"):
        if _drop_resizable_fields(one) != _drop_resizable_fields(was):
            found.forbidden("spec", _ONLY_CPU_AND_MEMORY)
    for index, (one, was) in enumerate(_pair_containers(spec, before, "initContainers")):
        _validate_init_container_resize(one, was, f"spec.initContainers[{index}]", found)
    if len(found) == earlier and _drop_container_resources(spec) != _drop_container_resources(
        before
    ):
        found.forbidden("spec", _ONLY_CPU_AND_MEMORY)


def _validate_pod_level_resources(spec: Obj, before: Obj, found: ErrorList) -> None:
    """The resources of the pod as a whole."""
    now, was = spec.get("resources"), before.get("resources")
    if not any(one and (one.get("requests") or one.get("limits")) for one in (now, was)):
        return
    at = "spec.resources"
    if was is not None and now is None:
        found.forbidden(at, "pod-level resources cannot be removed")
        return
    for part in _RESOURCE_FIELDS if was is not None else ():
        if _is_resource_removed(now, was, part):
            found.forbidden(f"{at}.{part}", f"pod-level resource {part} cannot be removed")
    if _drop_resizable_fields({"resources": now or {}}) != _drop_resizable_fields(
        {"resources": was or {}}
    ):
        found.forbidden("spec", f"{_ONLY_CPU_AND_MEMORY} at pod-level")


def _has_same_containers(spec: Obj, before: Obj, found: ErrorList) -> bool:
    """Whether the containers are those that were, one by one."""
    earlier = len(found)
    for field in _CONTAINER_LISTS:
        names, were = ([one.get("name", "") for one in of.get(field, ())] for of in (spec, before))
        if len(names) != len(were):
            found.forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")
            continue
        for index, (name, was) in enumerate(zip(names, were, strict=True)):
            if name != was:
                text = f"{field} may not be renamed or reordered on resize"
                found.forbidden(f"spec.{field}[{index}].name", text)
    return len(found) == earlier


def _validate_init_container_resize(one: Obj, was: Obj, at: str, found: ErrorList) -> None:
    if _drop_resizable_fields(one) != _drop_resizable_fields(was):
        text = "only cpu and memory resources for init or sidecar containers are mutable"
        found.forbidden(at, text)
    if one != was and one.get("restartPolicy") != "Always":
        for policy in one.get("resizePolicy", ()):
            if policy.get("restartPolicy") == "RestartContainer":
                found.forbidden(at, _INIT_RESTART_FORBIDDEN)


def _pair_containers(spec: Obj, before: Obj, field: str) -> list[tuple[Obj, Obj]]:
    return list(zip(spec.get(field, ()), before.get(field, ()), strict=True))


def _is_resource_removed(now: Obj | None, was: Obj | None, part: str) -> bool:
    """Whether an amount is told no more."""
    kept, told = (((one or {}).get(part) or {}).keys() for one in (now, was))
    return bool(told - kept)


def _drop_resizable_fields(container: Obj) -> Obj:
    """The container without what may be resized."""
    resources = {
        part: (
            {name: amount for name, amount in value.items() if name not in _RESIZABLE}
            if part in _RESOURCE_FIELDS
            else value
        )
        for part, value in (container.get("resources") or {}).items()
    }
    return {**container, "resources": {part: kept for part, kept in resources.items() if kept}}


def _drop_container_resources(spec: Obj) -> Obj:
    return {
        name: value for name, value in spec.items() if name not in (*_CONTAINER_LISTS, "resources")
    }
