"""Annotations that mean something to pods, and must agree with its fields.

Source: pkg/apis/core/validation/validation.go, ValidatePodSpecificAnnotations,
ValidatePodSpecificAnnotationUpdates, validateSeccompAnnotationsAndFields,
validateAppArmorAnnotationsAndFieldsMatchOnCreate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.pod_rules.paths import check_descending
from pytest_kwait.simulator.pod_rules.windows import containers_at

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "APP_ARMOR",
    "SECCOMP_CONTAINER",
    "SECCOMP_POD",
    "check_annotation_changes",
    "check_pod_annotations",
    "check_profile_annotations",
]

_MIRROR = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_LOCAL = "localhost/"
_COST = re.compile(r"0|-?[1-9]\d*")
_MOST_COST = 2**31 - 1
_SECCOMP: dict[str, tuple[str, ...]] = {
    "Unconfined": ("unconfined",),
    "RuntimeDefault": ("runtime/default", "docker/default"),
}
_ARMOR: dict[str, tuple[str, ...]] = {
    "Unconfined": ("unconfined",),
    "RuntimeDefault": ("runtime/default",),
}


def check_pod_annotations(annotations: dict[str, str], spec: Obj, at: str, found: Findings) -> None:
    """The values that such annotations may have."""
    if _MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        found.invalid(f"{at}[{_MIRROR}]", annotations[_MIRROR], text)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not (
        _COST.fullmatch(cost) and -_MOST_COST - 1 <= int(cost) <= _MOST_COST
    ):
        found.invalid(f"{at}[{_DELETION_COST}]", cost, "must be a 32bit integer")
    if SECCOMP_POD in annotations:
        _check_seccomp(annotations[SECCOMP_POD], f"{at}.{SECCOMP_POD}", found)
    for key, value in sorted(annotations.items()):
        if key.startswith(SECCOMP_CONTAINER):
            _check_seccomp(value, f"{at}.{key}", found)
    for key, value in sorted(annotations.items()):
        if key.startswith(APP_ARMOR):
            name = key.removeprefix(APP_ARMOR)
            if all(one.get("name") != name for one, _ in containers_at(spec, "")):
                found.invalid(f"{at}[{key}]", name, "container not found")
            if value not in ("", "runtime/default", "unconfined") and not value.startswith(_LOCAL):
                text = f'invalid AppArmor profile name: "{value}"'
                found.invalid(f"{at}[{key}]", value, text)


def _check_seccomp(profile: str, at: str, found: Findings) -> None:
    if profile.startswith(_LOCAL):
        check_descending(profile.removeprefix(_LOCAL), at, found)
    elif profile not in ("runtime/default", "docker/default", "unconfined"):
        found.invalid(at, profile, "must be a valid seccomp profile")


def check_profile_annotations(metadata: Obj, spec: Obj, at: str, found: Findings) -> None:
    """Profiles that are given twice are the same."""
    annotations = metadata.get("annotations")
    if not annotations:
        return
    of_pod = spec.get("securityContext") or {}
    if "seccompProfile" in of_pod and SECCOMP_POD in annotations:
        here = f"{at}.securityContext.seccompProfile"
        value = annotations[SECCOMP_POD]
        _check_match(value, of_pod["seccompProfile"], _SECCOMP, "seccomp", here, found)
    for container, place in containers_at(spec, at):
        profile = (container.get("securityContext") or {}).get("seccompProfile")
        value = annotations.get(SECCOMP_CONTAINER + container.get("name", ""))
        if profile is not None and value is not None:
            here = f"{place}.securityContext.seccompProfile"
            _check_match(value, profile, _SECCOMP, "seccomp", here, found)
    if (spec.get("os") or {}).get("name") == "windows":
        return
    for container, place in containers_at(spec, at):
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        profile = own or of_pod.get("appArmorProfile")
        value = annotations.get(APP_ARMOR + container.get("name", ""))
        if profile is not None and value is not None:
            here = f"{place}.securityContext.appArmorProfile"
            _check_match(value, profile, _ARMOR, "apparmor", here, found)


def _check_match(
    value: str,
    profile: Obj,
    known: dict[str, tuple[str, ...]],
    called: str,
    at: str,
    found: Findings,
) -> None:
    kind = profile.get("type", "")
    if kind == "Localhost":
        if not value.startswith(_LOCAL):
            found.forbidden(f"{at}.type", f"{called} type in annotation and field must match")
        elif value.removeprefix(_LOCAL) != profile.get("localhostProfile"):
            text = f"{called} profile in annotation and field must match"
            found.forbidden(f"{at}.localhostProfile", text)
    elif kind in known and value not in known[kind]:
        found.forbidden(f"{at}.type", f"{called} type in annotation and field must match")


def check_annotation_changes(
    new: dict[str, str], old: dict[str, str], at: str, found: Findings
) -> None:
    """What describes how a pod was made stays as it was."""
    for key in sorted(old):
        if new.get(key) != old[key]:
            _check_kept(key, "remove or update", at, found)
    for key in sorted(new.keys() - old.keys()):
        _check_kept(key, "add", at, found)


def _check_kept(key: str, what: str, at: str, found: Findings) -> None:
    if key.startswith(APP_ARMOR):
        found.forbidden(f"{at}[{key}]", f"may not {what} AppArmor annotations")
    if key == _MIRROR:
        found.forbidden(f"{at}[{key}]", f"may not {what} mirror pod annotation")
