"""Validation of pod annotations that mirror fields: seccomp and AppArmor profiles, deletion cost.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePodSpecificAnnotations,
ValidatePodSpecificAnnotationUpdates, validateSeccompAnnotationsAndFields,
validateAppArmorAnnotationsAndFieldsMatchOnCreate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.core.pods.windows import visit_containers_with_path
from pytest_kwait.simulator.validation.core.volumes.sources import validate_local_descending_path
from pytest_kwait.simulator.validation.field_errors import ErrorList

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "APP_ARMOR_ANNOTATION_PREFIX",
    "SECCOMP_CONTAINER_ANNOTATION_PREFIX",
    "SECCOMP_POD_ANNOTATION",
    "validate_pod_annotation_update",
    "validate_pod_annotations",
    "validate_profile_annotations",
]

_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER_ANNOTATION_PREFIX = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR_ANNOTATION_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST_PREFIX = "localhost/"
_INTEGER = re.compile(r"0|-?[1-9]\d*")
_MAX_DELETION_COST = 2**31 - 1
_SECCOMP: dict[str, tuple[str, ...]] = {
    "Unconfined": ("unconfined",),
    "RuntimeDefault": ("runtime/default", "docker/default"),
}
_ARMOR: dict[str, tuple[str, ...]] = {
    "Unconfined": ("unconfined",),
    "RuntimeDefault": ("runtime/default",),
}


def validate_pod_annotations(annotations: dict[str, str], spec: Obj, at: str) -> ErrorList:
    """Validate the values of annotations that mirror fields."""
    errors = ErrorList()
    if _MIRROR_ANNOTATION in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.invalid(f"{at}[{_MIRROR_ANNOTATION}]", annotations[_MIRROR_ANNOTATION], text)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not (
        _INTEGER.fullmatch(cost) and -_MAX_DELETION_COST - 1 <= int(cost) <= _MAX_DELETION_COST
    ):
        errors.invalid(f"{at}[{_DELETION_COST}]", cost, "must be a 32bit integer")
    if SECCOMP_POD_ANNOTATION in annotations:
        errors += _validate_seccomp_annotation(
            annotations[SECCOMP_POD_ANNOTATION], f"{at}.{SECCOMP_POD_ANNOTATION}"
        )
    for key, value in sorted(annotations.items()):
        if key.startswith(SECCOMP_CONTAINER_ANNOTATION_PREFIX):
            errors += _validate_seccomp_annotation(value, f"{at}.{key}")
    for key, value in sorted(annotations.items()):
        if key.startswith(APP_ARMOR_ANNOTATION_PREFIX):
            name = key.removeprefix(APP_ARMOR_ANNOTATION_PREFIX)
            if all(one.get("name") != name for one, _ in visit_containers_with_path(spec, "")):
                errors.invalid(f"{at}[{key}]", name, "container not found")
            if value not in ("", "runtime/default", "unconfined") and not value.startswith(
                _LOCALHOST_PREFIX
            ):
                text = f'invalid AppArmor profile name: "{value}"'
                errors.invalid(f"{at}[{key}]", value, text)
    return errors


def _validate_seccomp_annotation(profile: str, at: str) -> ErrorList:
    errors = ErrorList()
    if profile.startswith(_LOCALHOST_PREFIX):
        errors += validate_local_descending_path(profile.removeprefix(_LOCALHOST_PREFIX), at)
    elif profile not in ("runtime/default", "docker/default", "unconfined"):
        errors.invalid(at, profile, "must be a valid seccomp profile")
    return errors


def validate_profile_annotations(metadata: Obj, spec: Obj, at: str) -> ErrorList:
    """Validate that profiles in annotations equal those in fields."""
    errors = ErrorList()
    annotations = metadata.get("annotations")
    if not annotations:
        return errors
    of_pod = spec.get("securityContext") or {}
    if "seccompProfile" in of_pod and SECCOMP_POD_ANNOTATION in annotations:
        here = f"{at}.securityContext.seccompProfile"
        value = annotations[SECCOMP_POD_ANNOTATION]
        errors += _validate_profile_match(
            value, of_pod["seccompProfile"], _SECCOMP, "seccomp", here
        )
    for container, place in visit_containers_with_path(spec, at):
        profile = (container.get("securityContext") or {}).get("seccompProfile")
        value = annotations.get(SECCOMP_CONTAINER_ANNOTATION_PREFIX + container.get("name", ""))
        if profile is not None and value is not None:
            here = f"{place}.securityContext.seccompProfile"
            errors += _validate_profile_match(value, profile, _SECCOMP, "seccomp", here)
    if (spec.get("os") or {}).get("name") == "windows":
        return errors
    for container, place in visit_containers_with_path(spec, at):
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        profile = own or of_pod.get("appArmorProfile")
        value = annotations.get(APP_ARMOR_ANNOTATION_PREFIX + container.get("name", ""))
        if profile is not None and value is not None:
            here = f"{place}.securityContext.appArmorProfile"
            errors += _validate_profile_match(value, profile, _ARMOR, "apparmor", here)
    return errors


def _validate_profile_match(
    value: str,
    profile: Obj,
    known: dict[str, tuple[str, ...]],
    called: str,
    at: str,
) -> ErrorList:
    errors = ErrorList()
    kind = profile.get("type", "")
    if kind == "Localhost":
        if not value.startswith(_LOCALHOST_PREFIX):
            errors.forbidden(f"{at}.type", f"{called} type in annotation and field must match")
        elif value.removeprefix(_LOCALHOST_PREFIX) != profile.get("localhostProfile"):
            text = f"{called} profile in annotation and field must match"
            errors.forbidden(f"{at}.localhostProfile", text)
    elif kind in known and value not in known[kind]:
        errors.forbidden(f"{at}.type", f"{called} type in annotation and field must match")
    return errors


def validate_pod_annotation_update(new: dict[str, str], old: dict[str, str], at: str) -> ErrorList:
    """Validate changes of annotations; some are immutable."""
    errors = ErrorList()
    for key in sorted(old):
        if new.get(key) != old[key]:
            errors += _validate_annotation_immutable(key, "remove or update", at)
    for key in sorted(new.keys() - old.keys()):
        errors += _validate_annotation_immutable(key, "add", at)
    return errors


def _validate_annotation_immutable(key: str, what: str, at: str) -> ErrorList:
    errors = ErrorList()
    if key.startswith(APP_ARMOR_ANNOTATION_PREFIX):
        errors.forbidden(f"{at}[{key}]", f"may not {what} AppArmor annotations")
    if key == _MIRROR_ANNOTATION:
        errors.forbidden(f"{at}[{key}]", f"may not {what} mirror pod annotation")
    return errors
