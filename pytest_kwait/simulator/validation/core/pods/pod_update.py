"""Validation of pod updates: spec, status, resize and ephemeral containers.

Other than upstream, a resize does not depend on the node's version: all nodes here have the same.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePodUpdate,
ValidatePodStatusUpdate, validatePodConditions, validatePodIPs, validateHostIPs, ValidatePodResize,
ValidatePodEphemeralContainersUpdate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList, Rendered
from pytest_kwait.apimachinery.validation import (
    dns_subdomain_texts,
    ip_texts,
    label_key_texts,
    range_texts,
)
from pytest_kwait.simulator.objects import annotations_of, clone, copy_fields
from pytest_kwait.simulator.validation.core.pods.containers import validate_image_whitespace
from pytest_kwait.simulator.validation.core.pods.pod_spec import (
    validate_pod,
    validate_pod_annotation_update,
    validate_pod_annotations,
)
from pytest_kwait.simulator.validation.core.resources import qos_class
from pytest_kwait.simulator.validation.core.scheduling import validate_only_added_tolerations
from pytest_kwait.simulator.validation.internal_types import diff_internal, format_internal

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_NOT_NEGATIVE = "must be a non-negative integer"
_ONE_IP_PER_FAMILY = "may specify no more than one IP for each IP family"
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

_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_RESIZABLE = ("cpu", "memory")
_RESOURCE_FIELDS = ("requests", "limits")
_ONLY_CPU_AND_MEMORY = "only cpu and memory resources are mutable"
_INIT_RESTART_FORBIDDEN = (
    "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
)


def validate_pod_status_update(new: Obj, old: Obj) -> ErrorList:
    """Validate a change of a pod's status."""
    errors = ErrorList()
    status, before = new.get("status") or {}, old.get("status") or {}
    for index, condition in enumerate(status.get("conditions") or ()):
        generation, kind = condition.get("observedGeneration", 0), condition.get("type", "")
        if generation < 0:
            here = f"status.conditions[{index}].observedGeneration"
            errors.invalid(here, generation, _NOT_NEGATIVE)
        if kind not in _SYSTEM_CONDITIONS:
            errors.invalid_each(f"status.conditions[{index}].Type", kind, label_key_texts(kind))
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName"):
        here = "status.nominatedNodeName"
        errors.invalid_each(here, nominated, dns_subdomain_texts(nominated))
    if status.get("observedGeneration", 0) < 0:
        errors.invalid("status.observedGeneration", status["observedGeneration"], _NOT_NEGATIVE)
    quality = status.get("qosClass", "")
    if quality != before.get("qosClass", ""):
        errors.invalid("status.qosClass", quality, "field is immutable")
    errors += _validate_pod_ips(status, before, "podIPs")
    hosts = status.get("hostIPs") or []
    if hosts and hosts[0].get("ip") != status.get("hostIP"):
        text = "must be equal to `hostIP`"
        errors.invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), text)
    errors += _validate_pod_ips(status, before, "hostIPs")
    return errors


def _validate_pod_ips(status: Obj, before: Obj, field: str) -> ErrorList:
    errors = ErrorList()
    addresses = [pod_ip.get("ip", "") for pod_ip in status.get(field) or ()]
    known = [pod_ip.get("ip", "") for pod_ip in before.get(field) or ()]
    if addresses == known:
        return errors
    for index, address in enumerate(addresses):
        if address not in known:
            errors.invalid_each(f"status.{field}[{index}]", address, ip_texts(address))
    if len(addresses) > 1:
        families = {":" in address for address in addresses}
        if len(addresses) > len(families):
            internal_ips = [{"IP": address} for address in addresses]
            errors.invalid(f"status.{field}", internal_ips, _ONE_IP_PER_FAMILY)
    return errors


def validate_pod_update(new: Obj, old: Obj) -> ErrorList:
    """Validate a change of a pod; most fields of its spec are immutable."""
    errors = ErrorList()
    spec, before = new["spec"], old["spec"]
    annotations = new["metadata"].get("annotations", {})
    earlier = old["metadata"].get("annotations", {})
    if spec == before and annotations == earlier:
        return errors
    errors += validate_pod(new)
    errors += validate_pod_annotation_update(annotations, earlier, "metadata.annotations")
    errors += validate_pod_annotations(annotations, spec, "metadata.annotations")
    for field in _CONTAINER_LISTS:
        containers = spec.get(field, [])
        if len(containers) != len(before.get(field, [])):
            errors.forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return errors
        for index, container in enumerate(containers):
            if not container.get("image"):
                errors.required(f"spec.{field}[{index}].image")
            errors += validate_image_whitespace(container, f"spec.{field}[{index}]")
    deadline_errors = _validate_deadline_update(spec, before)
    errors += deadline_errors
    if deadline_errors and spec.get("activeDeadlineSeconds") is not None:
        return errors
    errors += validate_only_added_tolerations(
        spec.get("tolerations", []), before.get("tolerations", []), "spec.tolerations"
    )
    errors += _validate_scheduling_gates_update(spec, before)
    allowed = _revert_mutable_fields(spec, before)
    if before.get("schedulingGates"):
        errors += _revert_gated_pod_fields(allowed, before)
    if allowed != before:
        difference = diff_internal("core.PodSpec", before, allowed)
        errors.forbidden("spec", _IMMUTABLE_FIELDS_CHANGED + difference)
    return errors


def _validate_deadline_update(spec: Obj, before: Obj) -> ErrorList:
    errors = ErrorList()
    at = "spec.activeDeadlineSeconds"
    deadline, earlier = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is None:
        if earlier is not None:
            text = "must not update from a positive integer to nil value"
            errors.invalid(at, Rendered("null"), text)
        return errors
    texts = range_texts(deadline, 0, _MAX_SECONDS)
    if not texts and earlier is not None and earlier < deadline:
        texts = ["must be less than or equal to previous value"]
    errors.invalid_each(at, deadline, texts)
    return errors


def _validate_scheduling_gates_update(spec: Obj, before: Obj) -> ErrorList:
    errors = ErrorList()
    known = {gate.get("name", "") for gate in before.get("schedulingGates", ())}
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        name = gate.get("name", "")
        if name not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            errors.forbidden(f"spec.schedulingGates[{index}].name", text)
    return errors


def _revert_mutable_fields(spec: Obj, before: Obj) -> Obj:
    """Return the new spec with the old values of all mutable fields."""
    allowed: Obj = clone(spec)
    for field in _CONTAINER_LISTS:
        for container, was in zip(allowed.get(field, ()), before.get(field, ()), strict=True):
            container["image"] = was.get("image", "")
    copy_fields(allowed, before, "activeDeadlineSeconds", "tolerations", "schedulingGates")
    if (
        before.get("terminationGracePeriodSeconds", 0) < 0
        and spec.get("terminationGracePeriodSeconds") == 1
    ):
        copy_fields(allowed, before, "terminationGracePeriodSeconds")
    return allowed


def _revert_gated_pod_fields(allowed: Obj, before: Obj) -> ErrorList:
    """Validate and revert fields of a gated pod that may only become stricter."""
    errors = ErrorList()
    selector, earlier = allowed.get("nodeSelector", {}), before.get("nodeSelector", {})
    if any(selector.get(key) != value for key, value in earlier.items()):
        text = f"only additions to spec.nodeSelector are allowed {_ONLY_ADDITIONS}"
        errors.invalid("spec.nodeSelector", selector or None, text)
    copy_fields(allowed, before, "nodeSelector")
    affinity, earlier = allowed.get("affinity", {}), before.get("affinity", {})
    nodes, were = affinity.get("nodeAffinity"), earlier.get("nodeAffinity")
    if nodes == were:
        return errors
    errors += _validate_node_selector_terms_update(nodes or {}, were or {})
    if were is not None:
        allowed["affinity"] = {**affinity, "nodeAffinity": were}
    elif "affinity" not in before and not (affinity.keys() - {"nodeAffinity"}):
        del allowed["affinity"]
    else:
        allowed["affinity"] = {
            field: value for field, value in affinity.items() if field != "nodeAffinity"
        }
    return errors


def _validate_node_selector_terms_update(nodes: Obj, were: Obj) -> ErrorList:
    errors = ErrorList()
    at = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    old = were.get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    new = nodes.get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    if old and len(old) != len(new):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        errors.invalid(at, format_internal("core.NodeSelectorTerm", new or None), text)
        return errors
    for index, (term, was) in enumerate(zip(new, old, strict=False)):
        if not _has_only_additions(term, was):
            term_text = format_internal("core.NodeSelectorTerm", term)
            errors.invalid(
                f"{at}[{index}]", term_text, f"only additions are allowed {_ONLY_ADDITIONS}"
            )
    return errors


def _has_only_additions(new: Obj, old: Obj) -> bool:
    lists = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in lists):
        return not any(new.get(field) for field in lists)
    return all(
        new.get(field, [])[: len(old.get(field, []))] == old.get(field, []) for field in lists
    )


def validate_ephemeral_containers_update(new: Obj, old: Obj) -> ErrorList:
    """Validate that ephemeral containers are only added."""
    errors = validate_pod(new)
    if _MIRROR_ANNOTATION in annotations_of(old):
        errors.clear()
        errors.forbidden("[]", "static pods do not support ephemeral containers")
        return errors
    at = "spec.ephemeralContainers"
    containers_by_name = {
        container.get("name", ""): container
        for container in new["spec"].get("ephemeralContainers", ())
    }
    for was in old["spec"].get("ephemeralContainers", ()):
        now, name = (
            containers_by_name.get(was["name"]),
            f'existing ephemeral containers "{was["name"]}"',
        )
        if now is None:
            errors.forbidden(at, f"{name} may not be removed\n")
        elif now != was:
            changed = diff_internal("core.EphemeralContainer", was, now)
            errors.forbidden(at, f"{name} may not be changed\n{changed}")
    return errors


def validate_pod_resize(new: Obj, old: Obj) -> ErrorList:
    """Validate a resize: CPU and memory only, and the QoS class must not change."""
    errors = validate_pod(new)
    spec, before = new["spec"], old["spec"]
    for refused, why in (
        (_MIRROR_ANNOTATION in annotations_of(old), "static pods cannot be resized"),
        (before.get("os", {}).get("name") == "windows", "windows pods cannot be resized"),
    ):
        if refused:
            errors.clear()
            errors.forbidden("[]", why)
            return errors
    quality = (old.get("status") or {}).get("qosClass") or qos_class(before)
    if quality != qos_class(spec):
        text = "Pod QOS Class may not change as a result of resizing"
        errors.invalid("spec", quality, text)
    earlier = len(errors)
    errors += _validate_pod_level_resources(spec, before)
    container_errors = _validate_same_containers(spec, before)
    errors += container_errors
    if container_errors:
        return errors
    for field in reversed(_CONTAINER_LISTS):
        for index, (container, was) in enumerate(_pair_containers(spec, before, field)):
            at = f"spec.{field}[{index}].resources"
            for part in _RESOURCE_FIELDS:
                if _is_resource_removed(container.get("resources"), was.get("resources"), part):
                    errors.forbidden(f"{at}.{part}", f"resource {part} cannot be removed")
    for container, was in _pair_containers(spec, before, "containers"):
        if _drop_resizable_fields(container) != _drop_resizable_fields(was):
            errors.forbidden("spec", _ONLY_CPU_AND_MEMORY)
    for index, (container, was) in enumerate(_pair_containers(spec, before, "initContainers")):
        errors += _validate_init_container_resize(container, was, f"spec.initContainers[{index}]")
    if len(errors) == earlier and _drop_container_resources(spec) != _drop_container_resources(
        before
    ):
        errors.forbidden("spec", _ONLY_CPU_AND_MEMORY)
    return errors


def _validate_pod_level_resources(spec: Obj, before: Obj) -> ErrorList:
    """Validate a resize of pod-level resources."""
    errors = ErrorList()
    now, was = spec.get("resources"), before.get("resources")
    if not any(
        resources and (resources.get("requests") or resources.get("limits"))
        for resources in (now, was)
    ):
        return errors
    at = "spec.resources"
    if was is not None and now is None:
        errors.forbidden(at, "pod-level resources cannot be removed")
        return errors
    for part in _RESOURCE_FIELDS if was is not None else ():
        if _is_resource_removed(now, was, part):
            errors.forbidden(f"{at}.{part}", f"pod-level resource {part} cannot be removed")
    if _drop_resizable_fields({"resources": now or {}}) != _drop_resizable_fields(
        {"resources": was or {}}
    ):
        errors.forbidden("spec", f"{_ONLY_CPU_AND_MEMORY} at pod-level")
    return errors


def _validate_same_containers(spec: Obj, before: Obj) -> ErrorList:
    """Validate that a resize neither adds, removes, renames nor reorders containers."""
    errors = ErrorList()
    for field in _CONTAINER_LISTS:
        names, were = (
            [container.get("name", "") for container in of.get(field, ())] for of in (spec, before)
        )
        if len(names) != len(were):
            errors.forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")
            continue
        for index, (name, was) in enumerate(zip(names, were, strict=True)):
            if name != was:
                text = f"{field} may not be renamed or reordered on resize"
                errors.forbidden(f"spec.{field}[{index}].name", text)
    return errors


def _validate_init_container_resize(container: Obj, was: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    if _drop_resizable_fields(container) != _drop_resizable_fields(was):
        text = "only cpu and memory resources for init or sidecar containers are mutable"
        errors.forbidden(at, text)
    if container != was and container.get("restartPolicy") != "Always":
        for policy in container.get("resizePolicy", ()):
            if policy.get("restartPolicy") == "RestartContainer":
                errors.forbidden(at, _INIT_RESTART_FORBIDDEN)
    return errors


def _pair_containers(spec: Obj, before: Obj, field: str) -> list[tuple[Obj, Obj]]:
    return list(zip(spec.get(field, ()), before.get(field, ()), strict=True))


def _is_resource_removed(now: Obj | None, was: Obj | None, part: str) -> bool:
    """Return whether a request or limit was removed."""
    after, before = (((resources or {}).get(part) or {}).keys() for resources in (now, was))
    return bool(before - after)


def _drop_resizable_fields(container: Obj) -> Obj:
    resources = {
        part: (
            {name: amount for name, amount in value.items() if name not in _RESIZABLE}
            if part in _RESOURCE_FIELDS
            else value
        )
        for part, value in (container.get("resources") or {}).items()
    }
    return {
        **container,
        "resources": {part: amounts for part, amounts in resources.items() if amounts},
    }


def _drop_container_resources(spec: Obj) -> Obj:
    return {
        name: value for name, value in spec.items() if name not in (*_CONTAINER_LISTS, "resources")
    }
