"""Validation of security contexts of pods and containers, and of sysctls.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, validatePodSpecSecurityContext,
ValidateSecurityContext, validateSysctls, validateSeccompProfileField,
ValidateAppArmorProfileField; component-helpers node/util/sysctl.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import range_texts
from pytest_kwait.simulator.validation.core.pods.windows import validate_windows_options
from pytest_kwait.simulator.validation.core.volumes.sources import validate_local_descending_path
from pytest_kwait.simulator.validation.field_errors import ErrorList, format_internal

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["validate_container_security_context", "validate_pod_security_context"]

_MAX_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS = ("Default", "Unmasked")
_GROUP_CHANGES = ("Always", "OnRootMismatch")
_GROUP_POLICIES = ("Merge", "Strict")
_MAX_PATH_LENGTH = 4095
_MAX_SYSCTL_LENGTH = 253
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_FORM = rf"^({_SEGMENT}[\./])*{_SEGMENT}$"
_SYSCTL = re.compile(_SYSCTL_FORM)
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_IPC_EXACT = "kernel.sem"


def validate_pod_security_context(spec: Obj, at: str) -> ErrorList:
    """Validate the security context of a pod."""
    errors = ErrorList()
    context = spec.get("securityContext") or {}
    if not context and not spec.get("shareProcessNamespace"):
        return errors
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        errors += _validate_id(context.get(field), f"{at}.{field}")
    for index, group in enumerate(context.get("supplementalGroups", ())):
        errors += _validate_id(group, f"{at}.supplementalGroups[{index}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.invalid(f"{at}.shareProcessNamespace", True, text)
    for index, sysctl in enumerate(context.get("sysctls", ())):
        errors += _validate_sysctl(spec, context["sysctls"], index, sysctl.get("name", ""), at)
    change = context.get("fsGroupChangePolicy")
    if change is not None and change not in _GROUP_CHANGES:
        errors.not_supported(f"{at}.fsGroupChangePolicy", change, _GROUP_CHANGES)
    errors += _validate_profiles(context, at)
    policy = context.get("supplementalGroupsPolicy")
    if policy is not None and policy not in _GROUP_POLICIES:
        errors.not_supported(f"{at}.supplementalGroupsPolicy", policy, _GROUP_POLICIES)
    labels = context.get("seLinuxChangePolicy")
    if labels not in (None, "Recursive"):
        errors.not_supported(f"{at}.seLinuxChangePolicy", labels, ("Recursive",))
    return errors


def _validate_id(value: int | None, at: str) -> ErrorList:
    errors = ErrorList()
    if value is not None:
        errors.invalid_each(at, value, range_texts(value, 0, _MAX_ID))
    return errors


def _validate_sysctl(spec: Obj, sysctls: list[Obj], index: int, name: str, at: str) -> ErrorList:
    errors = ErrorList()
    here = f"{at}.sysctls[{index}].name"
    if not name:
        errors.required(here)
    elif len(name) > _MAX_SYSCTL_LENGTH or not _SYSCTL.match(name):
        text = f"must have at most {_MAX_SYSCTL_LENGTH} characters and match regex {_SYSCTL_FORM}"
        errors.invalid(here, name, text)
    elif any(one.get("name") == name for one in sysctls[:index]):
        errors.duplicate(here, name)
    dotted = _normalize_sysctl(name)
    if spec.get("hostNetwork") and dotted.startswith("net."):
        errors.invalid(here, name, "may not be specified when 'hostNetwork' is true")
    elif spec.get("hostIPC") and (dotted.startswith(_IPC_SYSCTLS) or dotted == _IPC_EXACT):
        errors.invalid(here, name, "may not be specified when 'hostIPC' is true")
    return errors


def _normalize_sysctl(name: str) -> str:
    """Return the sysctl with dots as separators."""
    first = re.search(r"[./]", name)
    if first is None or first[0] == ".":
        return name
    return name.translate(str.maketrans("./", "/."))


def _validate_profiles(context: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    if "seccompProfile" in context:
        errors += _validate_seccomp_profile(context["seccompProfile"], f"{at}.seccompProfile")
    if "windowsOptions" in context:
        errors += validate_windows_options(context["windowsOptions"], f"{at}.windowsOptions")
    if "appArmorProfile" in context:
        errors += _validate_app_armor_profile(context["appArmorProfile"], f"{at}.appArmorProfile")
    return errors


def _validate_seccomp_profile(profile: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        errors.required(f"{at}.type", "type is required when seccompProfile is set")
    elif kind not in _PROFILES:
        errors.not_supported(f"{at}.type", kind, _PROFILES)
    here = f"{at}.localhostProfile"
    if kind != "Localhost":
        if local is not None:
            shown = format_internal("core.SeccompProfile", profile)
            errors.invalid(here, shown, "can only be set when seccomp type is Localhost")
    elif local is None:
        errors.required(here, "must be set when seccomp type is Localhost")
    else:
        errors += validate_local_descending_path(local, here)
    return errors


def _validate_app_armor_profile(profile: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    here = f"{at}.localhostProfile"
    if not kind:
        errors.required(f"{at}.type", "type is required when appArmorProfile is set")
    elif kind not in _PROFILES:
        errors.not_supported(f"{at}.type", kind, _PROFILES)
    elif kind != "Localhost":
        if local is not None:
            errors.invalid(here, local, "can only be set when AppArmor type is Localhost")
    elif not local:
        errors.required(here, "must be set when AppArmor type is Localhost")
    else:
        if local != local.strip():
            errors.invalid(here, local, "must not be padded with whitespace")
        if len(local.encode()) > _MAX_PATH_LENGTH:
            errors.too_long(here, _MAX_PATH_LENGTH)
    return errors


def validate_container_security_context(context: Obj, at: str, *, host_users: bool) -> ErrorList:
    """Validate the security context of a container."""
    errors = ErrorList()
    for field in ("runAsUser", "runAsGroup"):
        errors += _validate_id(context.get(field), f"{at}.{field}")
    mount = context.get("procMount")
    if mount is not None and mount not in _PROC_MOUNTS:
        errors.not_supported(f"{at}.procMount", mount, _PROC_MOUNTS)
    if mount == "Unmasked" and host_users:
        errors.invalid(f"{at}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    if "seccompProfile" in context:
        errors += _validate_seccomp_profile(context["seccompProfile"], f"{at}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        cannot = "cannot set `allowPrivilegeEscalation` to false and"
        shown = format_internal("core.SecurityContext", context)
        if context.get("privileged"):
            errors.invalid(at, shown, f"{cannot} `privileged` to true")
        for name in context.get("capabilities", {}).get("add", ()):
            if name == "CAP_SYS_ADMIN":
                errors.invalid(at, shown, f"{cannot} `capabilities.Add` CAP_SYS_ADMIN")
    if "windowsOptions" in context:
        errors += validate_windows_options(context["windowsOptions"], f"{at}.windowsOptions")
    if "appArmorProfile" in context:
        errors += _validate_app_armor_profile(context["appArmorProfile"], f"{at}.appArmorProfile")
    return errors
