"""What may be written of a pod by its own subresources: resources, and containers to debug it with.

Source: pkg/apis/core/validation/validation.go, ValidatePodResize,
ValidatePodEphemeralContainersUpdate. Other than there, nobody asks whether the node can resize:
every node here is of one version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.registry.pod_defaults import qos_class
from pytest_kwait.simulator.validation.core.pods.pod_spec import validate_pod
from pytest_kwait.simulator.validation.field_errors import diff_internal

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_ephemeral_containers_update", "validate_pod_resize"]

_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_CONTAINER_LISTS = ("containers", "initContainers")
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
