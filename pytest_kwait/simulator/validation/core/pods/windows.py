"""Validation of fields that only Windows pods or only Linux pods may set.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go,
validateWindowsSecurityContextOptions, validateWindowsHostProcessPod, validateLinux,
validateWindows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import dns_subdomain_texts
from pytest_kwait.simulator.validation.field_errors import ErrorList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "validate_os_fields",
    "validate_windows_host_process",
    "validate_windows_options",
    "visit_containers_with_path",
]

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
