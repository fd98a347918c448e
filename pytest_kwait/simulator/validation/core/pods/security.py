"""Validation of security contexts, sysctls, and fields of one operating system.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, validatePodSpecSecurityContext,
ValidateSecurityContext, validateSysctls, validateSeccompProfileField, ValidateAppArmorProfileField,
validateWindowsSecurityContextOptions, validateWindowsHostProcessPod, validateLinux,
validateWindows; component-helpers node/util/sysctl.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList
from pytest_kwait.apimachinery.validation import dns_subdomain_texts, range_texts
from pytest_kwait.simulator.validation.core.volumes import validate_local_descending_path
from pytest_kwait.simulator.validation.internal_types import format_internal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.objects import Obj

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_SPECIFICATION_KIB = 64
_DOMAIN_MOST, _USER_MOST = 256, 104
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NET_BIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_INVALID_USER_CHARACTERS = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_DOTS_OR_SPACES = re.compile(r"[. ]+")
_LINUX_ONLY_POD_FIELDS = (
    # Paths below the spec, in kube-apiserver's order.
    ("securityContext", "appArmorProfile"),
    ("securityContext", "seLinuxOptions"),
    ("hostUsers",),
    ("hostPID",),
    ("hostIPC",),
    ("securityContext", "seccompProfile"),
    ("securityContext", "fsGroup"),
    ("securityContext", "fsGroupChangePolicy"),
    ("securityContext", "sysctls"),
    ("shareProcessNamespace",),
    ("securityContext", "runAsUser"),
    ("securityContext", "runAsGroup"),
    ("securityContext", "supplementalGroups"),
    ("securityContext", "supplementalGroupsPolicy"),
    ("securityContext", "seLinuxChangePolicy"),
)
_LINUX_ONLY_CONTAINER_FIELDS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
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


def visit_containers_with_path(spec: Obj, at: str) -> Iterator[tuple[Obj, str]]:
    """Yield every container with its path, in kube-apiserver's order."""
    for field in _CONTAINER_LISTS:
        for index, container in enumerate(spec.get(field, ())):
            yield container, f"{at}.{field}[{index}]"


def validate_windows_options(options: Obj, at: str) -> ErrorList:
    """Validate credentials and the user of Windows processes."""
    errors = ErrorList()
    name, credentials = options.get("gmsaCredentialSpecName"), options.get("gmsaCredentialSpec")
    if name is not None:
        errors.invalid_each(f"{at}.gmsaCredentialSpecName", name, dns_subdomain_texts(name))
    if credentials is not None:
        here = f"{at}.gmsaCredentialSpec"
        if not credentials:
            errors.invalid(here, credentials, "gmsaCredentialSpec cannot be an empty string")
        elif len(credentials.encode()) > _SPECIFICATION_KIB * 1024:
            text = f"gmsaCredentialSpec size must be under {_SPECIFICATION_KIB} KiB"
            errors.invalid(here, credentials, text)
    if "runAsUserName" in options:
        texts = _validate_user_name(options["runAsUserName"])
        errors.invalid_each(f"{at}.runAsUserName", options["runAsUserName"], texts)
    return errors


def _validate_user_name(name: str) -> list[str]:
    if not name:
        return ["runAsUserName cannot be an empty string"]
    if _CONTROL.search(name):
        return ["runAsUserName cannot contain control characters"]
    if name.count("\\") > 1:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, slash, user = name.rpartition("\\")
    named = _NET_BIOS.fullmatch(domain) or _DNS.fullmatch(domain)
    checks = (
        (
            len(domain) >= _DOMAIN_MOST,
            f"runAsUserName's Domain length must be under {_DOMAIN_MOST} characters",
        ),
        (
            bool(slash) and not named,
            "runAsUserName's Domain doesn't match the NetBios nor the DNS format",
        ),
        (not user, "runAsUserName's User cannot be empty"),
        (
            len(user) > _USER_MOST,
            f"runAsUserName's User length must not be longer than {_USER_MOST} characters",
        ),
        (
            bool(_DOTS_OR_SPACES.fullmatch(user)),
            "runAsUserName's User cannot contain only periods or spaces",
        ),
        (
            bool(_INVALID_USER_CHARACTERS.search(user)),
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
        ),
    )
    return [text for wrong, text in checks if wrong]


def _get_host_process(holder: Obj) -> bool | None:
    context = holder.get("securityContext") or {}
    value: bool | None = (context.get("windowsOptions") or {}).get("hostProcess")
    return value


def validate_windows_host_process(spec: Obj, at: str) -> ErrorList:
    """Validate host process containers: all or none, and with the host's network."""
    errors = ErrorList()
    of_pod, count, processes = _get_host_process(spec), 0, 0
    lists = (spec.get(field, ()) for field in _CONTAINER_LISTS)
    if of_pod is None and not any(
        "windowsOptions" in (container.get("securityContext") or ())
        for containers in lists
        for container in containers
    ):
        return errors
    for container, here in visit_containers_with_path(spec, at):
        count += 1
        own = _get_host_process(container)
        if of_pod is not None and own is not None and own != of_pod:
            text = "pod hostProcess value must be identical if both are specified, was "
            where = f"{here}.securityContext.windowsOptions.hostProcess"
            errors.invalid(where, own, text + str(of_pod).lower())
        processes += bool(of_pod if own is None else own)
    if not processes:
        return errors
    if processes != count:
        text = (
            "If pod contains any hostProcess containers then all containers must be HostProcess "
            "containers"
        )
        errors.invalid(at, "", text)
    if not spec.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.invalid(f"{at}.hostNetwork", False, text)
    return errors


def validate_os_fields(spec: Obj, at: str) -> ErrorList:
    """Validate that no field of another operating system is set."""
    errors = ErrorList()
    name = spec["os"].get("name", "")
    if not name:
        errors.required(f"{at}.os.name")
    elif name == "linux":
        for holder, here in ((spec, at), *visit_containers_with_path(spec, at)):
            if "windowsOptions" in (holder.get("securityContext") or {}):
                text = "windows options cannot be set for a linux pod"
                errors.forbidden(f"{here}.securityContext.windowsOptions", text)
    elif name == "windows":
        errors += _validate_windows_pod(spec, at)
    else:
        errors.not_supported(f"{at}.os", name, ("linux", "windows"))
    return errors


def _validate_windows_pod(spec: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    text = "cannot be set for a windows pod"
    for path in _LINUX_ONLY_POD_FIELDS:
        holder = spec if len(path) == 1 else spec.get(path[0]) or {}
        value = holder.get(path[-1])
        if value is not None and not (path[0] in ("hostPID", "hostIPC") and not value):
            errors.forbidden(".".join((at, *path)), text)
    for container, here in visit_containers_with_path(spec, at):
        context = container.get("securityContext") or {}
        for field in _LINUX_ONLY_CONTAINER_FIELDS:
            if field in context:
                errors.forbidden(f"{here}.securityContext.{field}", text)
    return errors


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
    errors.require_supported(f"{at}.fsGroupChangePolicy", change, _GROUP_CHANGES)
    errors += _validate_profiles(context, at)
    policy = context.get("supplementalGroupsPolicy")
    errors.require_supported(f"{at}.supplementalGroupsPolicy", policy, _GROUP_POLICIES)
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
    elif any(sysctl.get("name") == name for sysctl in sysctls[:index]):
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
            profile_text = format_internal("core.SeccompProfile", profile)
            errors.invalid(here, profile_text, "can only be set when seccomp type is Localhost")
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
    errors.require_supported(f"{at}.procMount", mount, _PROC_MOUNTS)
    if mount == "Unmasked" and host_users:
        errors.invalid(f"{at}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    if "seccompProfile" in context:
        errors += _validate_seccomp_profile(context["seccompProfile"], f"{at}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        cannot = "cannot set `allowPrivilegeEscalation` to false and"
        context_text = format_internal("core.SecurityContext", context)
        if context.get("privileged"):
            errors.invalid(at, context_text, f"{cannot} `privileged` to true")
        for name in context.get("capabilities", {}).get("add", ()):
            if name == "CAP_SYS_ADMIN":
                errors.invalid(at, context_text, f"{cannot} `capabilities.Add` CAP_SYS_ADMIN")
    if "windowsOptions" in context:
        errors += validate_windows_options(context["windowsOptions"], f"{at}.windowsOptions")
    if "appArmorProfile" in context:
        errors += _validate_app_armor_profile(context["appArmorProfile"], f"{at}.appArmorProfile")
    return errors
