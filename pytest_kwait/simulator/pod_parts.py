"""What may be written of a pod through a subresource: debug containers, resources.

Source: k8s.io/kubernetes pkg/registry/core/pod/strategy.go, pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.status_error import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.simulator.strategies.pod_defaults import quality_of_service
from pytest_kwait.simulator.validation import name_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["keep_the_rest", "part_errors"]

_DEBUG = "ephemeralContainers"
_LISTS = ("containers", "initContainers")
_ALLOWED = frozenset(
    {
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "envFrom",
        "env",
        "volumeMounts",
        "volumeDevices",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "securityContext",
        "stdin",
        "stdinOnce",
        "tty",
        "targetContainerName",
        "resources",
    }
)
"""What a debug container may have; `resources` only as long as it is empty."""

_RESIZABLE = ("cpu", "memory")


def keep_the_rest(subresource: str, new: Obj, old: Obj) -> None:
    """Undo in `new` what the subresource does not write."""
    if subresource == "resize":
        _keep_all_but_resources(new, old)
    else:
        spec = clone(old["spec"])
        debug = new.get("spec", {}).get(_DEBUG)
        if debug:
            for one in debug:
                one.setdefault("terminationMessagePath", "/dev/termination-log")
                one.setdefault("terminationMessagePolicy", "File")
            spec[_DEBUG] = debug
        else:
            spec.pop(_DEBUG, None)
        new["spec"] = spec
    before, metadata = old["metadata"], new["metadata"]
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    new["status"] = old["status"]


def _keep_all_but_resources(new: Obj, old: Obj) -> None:
    spec, sent = clone(old["spec"]), new.get("spec", {})
    for field in _LISTS:
        if len(sent.get(field, ())) != len(spec.get(field, ())):
            continue
        for container, wanted in zip(spec.get(field, ()), sent.get(field, ()), strict=True):
            if container["name"] != wanted.get("name"):
                continue
            for part in ("resources", "resizePolicy"):
                if part in wanted:
                    container[part] = wanted[part]
                else:
                    container.pop(part, None)
    new["spec"] = spec


def part_errors(subresource: str, new: Obj, old: Obj) -> list[FieldError]:
    """What is wrong with a part that was written."""
    if subresource == "resize":
        return _resize_errors(new, old)
    return _debug_errors(new["spec"], old["spec"])


def _debug_errors(spec: Obj, before: Obj) -> list[FieldError]:
    errors: list[FieldError] = []
    taken = {one["name"] for field in _LISTS for one in spec.get(field, ())}
    targets = {one["name"] for one in spec.get("containers", ())}
    for index, one in enumerate(spec.get(_DEBUG, ())):
        at = f"spec.{_DEBUG}[{index}]"
        errors += _container_errors(one, at, taken)
        taken.add(one.get("name", ""))
        target = one.get("targetContainerName")
        if target and target not in targets:
            errors.append(_not_found(f"{at}.targetContainerName", target))
    present = {one["name"]: one for one in spec.get(_DEBUG, ()) if one.get("name")}
    for was in before.get(_DEBUG, ()):
        found = present.get(was["name"])
        if found is None:
            why = f'existing ephemeral containers "{was["name"]}" may not be removed\n'
            errors.append(forbidden_field(f"spec.{_DEBUG}", why))
        elif found != was:
            why = f'existing ephemeral containers "{was["name"]}" may not be changed\n'
            errors.append(forbidden_field(f"spec.{_DEBUG}", why))
    return errors


def _container_errors(one: Obj, at: str, taken: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    name = one.get("name", "")
    if not name:
        errors.append(required(f"{at}.name"))
    else:
        errors += [invalid_value(f"{at}.name", name, why) for why in name_errors(name, label=True)]
    if name in taken:
        errors.append(duplicate(f"{at}.name", name))
    if not one.get("image"):
        errors.append(required(f"{at}.image"))
    policy = one.get("terminationMessagePolicy", "File")
    if policy not in ("File", "FallbackToLogsOnError"):
        valid = ("FallbackToLogsOnError", "File")
        errors.append(not_supported(f"{at}.terminationMessagePolicy", policy, valid))
    for field in one:
        if field not in _ALLOWED or (field == "resources" and one[field]):
            why = "cannot be set for an Ephemeral Container"
            errors.append(forbidden_field(f"{at}.{field}", why))
    return errors


def _not_found(at: str, value: str) -> FieldError:
    return FieldError("FieldValueNotFound", at, f'Not found: "{value}"')


def _resize_errors(new: Obj, old: Obj) -> list[FieldError]:
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return []
    if quality_of_service(spec) != quality_of_service(before):
        why = "Pod QOS Class may not change as a result of resizing"
        return [invalid_value("spec", quality_of_service(before), why)]
    for field in _LISTS:
        for one, was in zip(spec.get(field, ()), before.get(field, ()), strict=True):
            if _others(one) != _others(was):
                why = "only cpu and memory resources are mutable"
                return [forbidden_field("spec", why)]
    return []


def _others(container: Obj) -> Obj:
    """The container without what may be resized."""
    resources = {
        part: {name: value for name, value in values.items() if name not in _RESIZABLE}
        for part, values in container.get("resources", {}).items()
        if part in ("limits", "requests")
    }
    return {**container, "resources": {part: kept for part, kept in resources.items() if kept}}
