"""What may be written of a pod by its own subresources: resources, and containers to debug it with.

Source: pkg/apis/core/validation/validation.go, ValidatePodResize,
ValidatePodEphemeralContainersUpdate. Other than there, nobody asks whether the node can resize:
every node here is of one version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.internal_values import internal_diff
from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.pod_rules.pod_spec import check_pod
from pytest_kwait.simulator.strategies.pod_defaults import quality_of_service

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_debug_containers", "check_pod_resize"]

_MIRROR = "kubernetes.io/config.mirror"
_LISTS = ("containers", "initContainers")
_RESIZABLE = ("cpu", "memory")
_PARTS = ("requests", "limits")
_ONLY = "only cpu and memory resources are mutable"
_RESTARTED = (
    "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
)


def check_debug_containers(new: Obj, old: Obj, found: Findings) -> None:
    """They are added, never taken away or changed."""
    check_pod(new, found)
    if _MIRROR in annotations_of(old):
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
            changed = internal_diff("core.EphemeralContainer", was, now)
            found.forbidden(at, f"{name} may not be changed\n{changed}")


def check_pod_resize(new: Obj, old: Obj, found: Findings) -> None:
    """Processors and memory of what is there, as long as the pod keeps its class."""
    check_pod(new, found)
    spec, before = new["spec"], old["spec"]
    for refused, why in (
        (_MIRROR in annotations_of(old), "static pods cannot be resized"),
        (before.get("os", {}).get("name") == "windows", "windows pods cannot be resized"),
    ):
        if refused:
            found.clear()
            found.forbidden("[]", why)
            return
    quality = (old.get("status") or {}).get("qosClass") or quality_of_service(before)
    if quality != quality_of_service(spec):
        text = "Pod QOS Class may not change as a result of resizing"
        found.invalid("spec", quality, text)
    earlier = len(found)
    _check_whole(spec, before, found)
    if not _in_order(spec, before, found):
        return
    for field in reversed(_LISTS):
        for index, (one, was) in enumerate(_pairs(spec, before, field)):
            at = f"spec.{field}[{index}].resources"
            for part in _PARTS:
                if _removed(one.get("resources"), was.get("resources"), part):
                    found.forbidden(f"{at}.{part}", f"resource {part} cannot be removed")
    for one, was in _pairs(spec, before, "containers"):
        if _others(one) != _others(was):
            found.forbidden("spec", _ONLY)
    for index, (one, was) in enumerate(_pairs(spec, before, "initContainers")):
        _check_init(one, was, f"spec.initContainers[{index}]", found)
    if len(found) == earlier and _rest(spec) != _rest(before):
        found.forbidden("spec", _ONLY)


def _check_whole(spec: Obj, before: Obj, found: Findings) -> None:
    """The resources of the pod as a whole."""
    now, was = spec.get("resources"), before.get("resources")
    if not any(one and (one.get("requests") or one.get("limits")) for one in (now, was)):
        return
    at = "spec.resources"
    if was is not None and now is None:
        found.forbidden(at, "pod-level resources cannot be removed")
        return
    for part in _PARTS if was is not None else ():
        if _removed(now, was, part):
            found.forbidden(f"{at}.{part}", f"pod-level resource {part} cannot be removed")
    if _others({"resources": now or {}}) != _others({"resources": was or {}}):
        found.forbidden("spec", f"{_ONLY} at pod-level")


def _in_order(spec: Obj, before: Obj, found: Findings) -> bool:
    """Whether the containers are those that were, one by one."""
    earlier = len(found)
    for field in _LISTS:
        names, were = ([one.get("name", "") for one in of.get(field, ())] for of in (spec, before))
        if len(names) != len(were):
            found.forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")
            continue
        for index, (name, was) in enumerate(zip(names, were, strict=True)):
            if name != was:
                text = f"{field} may not be renamed or reordered on resize"
                found.forbidden(f"spec.{field}[{index}].name", text)
    return len(found) == earlier


def _check_init(one: Obj, was: Obj, at: str, found: Findings) -> None:
    if _others(one) != _others(was):
        text = "only cpu and memory resources for init or sidecar containers are mutable"
        found.forbidden(at, text)
    if one != was and one.get("restartPolicy") != "Always":
        for policy in one.get("resizePolicy", ()):
            if policy.get("restartPolicy") == "RestartContainer":
                found.forbidden(at, _RESTARTED)


def _pairs(spec: Obj, before: Obj, field: str) -> list[tuple[Obj, Obj]]:
    return list(zip(spec.get(field, ()), before.get(field, ()), strict=True))


def _removed(now: Obj | None, was: Obj | None, part: str) -> bool:
    """Whether an amount is told no more."""
    kept, told = (((one or {}).get(part) or {}).keys() for one in (now, was))
    return bool(told - kept)


def _others(container: Obj) -> Obj:
    """The container without what may be resized."""
    resources = {
        part: (
            {name: amount for name, amount in value.items() if name not in _RESIZABLE}
            if part in _PARTS
            else value
        )
        for part, value in (container.get("resources") or {}).items()
    }
    return {**container, "resources": {part: kept for part, kept in resources.items() if kept}}


def _rest(spec: Obj) -> Obj:
    return {name: value for name, value in spec.items() if name not in (*_LISTS, "resources")}
