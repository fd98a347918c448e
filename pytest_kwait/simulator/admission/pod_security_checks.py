"""The checks of the level `baseline`: known ways out of a container.

Source: k8s.io/pod-security-admission policy/check_*.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.admission.pod_security_findings import (
    Check,
    CheckResult,
    container_names,
    format_containers,
    has_user_namespace,
    join_quoted,
    list_containers,
    pluralize,
    security_context_field,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["BASELINE_CHECKS", "check_proc_mount", "format_setters", "is_valid_seccomp"]

_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_ALLOWED_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_SECCOMP_PROFILES = ("Localhost", "RuntimeDefault")
_ALLOWED_SELINUX_TYPES = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))
_SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    )
)
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def format_setters(of_pod: bool, names: list[str]) -> str:
    """Who sets what is not allowed: `pod and container "a"`; empty for nobody."""
    found = ["pod"] if of_pod else []
    if names:
        found.append(format_containers(names))
    return " and ".join(found)


def is_valid_seccomp(profile: Any) -> bool:
    """Whether the profile confines anything."""
    return profile.get("type") in _SECCOMP_PROFILES


def _app_armor(metadata: Obj, spec: Obj) -> CheckResult | None:
    def wrong(part: Obj) -> str | None:
        profile = security_context_field(part, "appArmorProfile")
        if profile is None or profile.get("type") in _SECCOMP_PROFILES:
            return None
        return str(profile.get("type", ""))

    containers = [one for one in list_containers(spec) if wrong(one) is not None]
    values = {wrong(part) or "" for part in [spec, *containers] if wrong(part) is not None}
    annotations = sorted(
        f"{key}={_go_quoted(value)}"
        for key, value in metadata.get("annotations", {}).items()
        if key.startswith(_APPARMOR)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    shown = [*sorted(values), *annotations]
    who = [format_setters(wrong(spec) is not None, container_names(containers))]
    if annotations:
        who.append(pluralize("annotation", annotations))
    if not shown:
        return None
    by = " and ".join(one for one in who if one)
    return CheckResult(
        pluralize("forbidden AppArmor profile", shown),
        f"{by} must not set AppArmor profile type to {join_quoted(shown)}",
    )


def _go_quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _capabilities_baseline(_: Obj, spec: Obj) -> CheckResult | None:
    more: set[str] = set()
    names = []
    for container in list_containers(spec):
        added = (security_context_field(container, "capabilities") or {}).get("add", ())
        beyond = set(added) - _ALLOWED_CAPABILITIES
        if beyond:
            names.append(container.get("name", ""))
            more |= beyond
    if not names:
        return None
    return CheckResult(
        "non-default capabilities",
        f"{format_containers(names)} must not include {join_quoted(sorted(more))} in "
        "securityContext.capabilities.add",
    )


def _host_namespaces(_: Obj, spec: Obj) -> CheckResult | None:
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return CheckResult("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(_: Obj, spec: Obj) -> CheckResult | None:
    names = [one.get("name", "") for one in spec.get("volumes", ()) if "hostPath" in one]
    if not names:
        return None
    return CheckResult("hostPath volumes", f"{pluralize('volume', names)} {join_quoted(names)}")


def _host_ports(_: Obj, spec: Obj) -> CheckResult | None:
    names = []
    ports: set[str] = set()
    for container in list_containers(spec):
        taken = {str(one["hostPort"]) for one in container.get("ports", ()) if one.get("hostPort")}
        if taken:
            names.append(container.get("name", ""))
            ports |= taken
    if not names:
        return None
    uses = "uses" if len(names) == 1 else "use"
    shown = sorted(ports)
    return CheckResult(
        "hostPort",
        f"{format_containers(names)} {uses} {pluralize('hostPort', shown)} {', '.join(shown)}",
    )


def _probe_hosts_of(handlers: Iterable[Obj]) -> set[str]:
    return {
        handler[kind]["host"]
        for handler in handlers
        for kind in ("httpGet", "tcpSocket")
        if handler.get(kind, {}).get("host")
    }


def _probe_hosts(_: Obj, spec: Obj) -> CheckResult | None:
    names: set[str] = set()
    hosts: set[str] = set()
    for container in list_containers(spec):
        probes = [container.get(f"{one}Probe", {}) for one in ("liveness", "readiness", "startup")]
        lifecycle = container.get("lifecycle", {})
        found = _probe_hosts_of(
            [*probes, lifecycle.get("postStart", {}), lifecycle.get("preStop", {})]
        )
        if found:
            names.add(container.get("name", ""))
            hosts |= found
    if not names:
        return None
    uses = "uses" if len(names) == 1 else "use"
    shown = sorted(hosts)
    return CheckResult(
        "probe or lifecycle host",
        f"{format_containers(sorted(names))} {uses} {pluralize('probe or lifecycle host', shown)} "
        f"{join_quoted(shown)}",
    )


def _privileged(_: Obj, spec: Obj) -> CheckResult | None:
    names = container_names(
        one for one in list_containers(spec) if security_context_field(one, "privileged")
    )
    if not names:
        return None
    text = f"{format_containers(names)} must not set securityContext.privileged=true"
    return CheckResult("privileged", text)


def check_proc_mount(_: Obj, spec: Obj) -> CheckResult | None:
    """`/proc` stays masked."""
    found = [
        (container.get("name", ""), security_context_field(container, "procMount"))
        for container in list_containers(spec)
        if security_context_field(container, "procMount") not in (None, "Default")
    ]
    if not found:
        return None
    names = [name for name, _ in found]
    types = join_quoted(sorted({kind for _, kind in found}))
    text = f"{format_containers(names)} must not set securityContext.procMount to {types}"
    return CheckResult("procMount", text)


def _proc_mount_35(metadata: Obj, spec: Obj) -> CheckResult | None:
    return None if has_user_namespace(spec) else check_proc_mount(metadata, spec)


def _selinux(types: frozenset[str]) -> Check:
    def check(_: Obj, spec: Obj) -> CheckResult | None:
        def wrong(part: Obj) -> bool:
            options = security_context_field(part, "seLinuxOptions") or {}
            return bool(
                options.get("type", "") not in types or options.get("user") or options.get("role")
            )

        containers = [one for one in list_containers(spec) if wrong(one)]
        who = format_setters(wrong(spec), container_names(containers))
        if not who:
            return None
        given = [
            security_context_field(part, "seLinuxOptions") or {} for part in [spec, *containers]
        ]
        bad = sorted({one.get("type", "") for one in given} - types)
        data = [f"{pluralize('type', bad)} {join_quoted(bad)}"] if bad else []
        own = [field for field in ("user", "role") if any(one.get(field) for one in given)]
        data += [f"{field} may not be set" for field in own]
        text = f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return CheckResult("seLinuxOptions", text)

    return check


def _seccomp_annotations(metadata: Obj, spec: Obj) -> CheckResult | None:
    annotations = metadata.get("annotations", {})
    keys = [
        _SECCOMP_POD,
        *(f"{_SECCOMP_CONTAINER}{name}" for name in container_names(list_containers(spec))),
    ]
    found = sorted(
        {
            f"{key}={_go_quoted(annotations[key])}"
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    if not found:
        return None
    text = f"forbidden {pluralize('annotation', found)} {', '.join(found)}"
    return CheckResult("seccompProfile", text)


def _seccomp_baseline(_: Obj, spec: Obj) -> CheckResult | None:
    def wrong(part: Obj) -> bool:
        profile = security_context_field(part, "seccompProfile")
        return profile is not None and not is_valid_seccomp(profile)

    containers = [one for one in list_containers(spec) if wrong(one)]
    who = format_setters(wrong(spec), container_names(containers))
    if not who:
        return None
    types = {security_context_field(part, "seccompProfile").get("type", "") for part in containers}
    if wrong(spec):
        types.add(security_context_field(spec, "seccompProfile").get("type", ""))
    text = f"{who} must not set securityContext.seccompProfile.type to {join_quoted(sorted(types))}"
    return CheckResult("seccompProfile", text)


def _sysctls(allowed: frozenset[str]) -> Check:
    def check(_: Obj, spec: Obj) -> CheckResult | None:
        given = security_context_field(spec, "sysctls") or ()
        names = [one.get("name", "") for one in given if one.get("name", "") not in allowed]
        return CheckResult("forbidden sysctls", ", ".join(names)) if names else None

    return check


def _host_process(_: Obj, spec: Obj) -> CheckResult | None:
    def wrong(part: Obj) -> bool:
        return bool((security_context_field(part, "windowsOptions") or {}).get("hostProcess"))

    who = format_setters(
        wrong(spec), container_names(one for one in list_containers(spec) if wrong(one))
    )
    if not who:
        return None
    text = f"{who} must not set securityContext.windowsOptions.hostProcess=true"
    return CheckResult("hostProcess", text)


BASELINE_CHECKS: dict[str, tuple[tuple[int, Check], ...]] = {
    "appArmorProfile": ((0, _app_armor),),
    "capabilities_baseline": ((0, _capabilities_baseline),),
    "hostNamespaces": ((0, _host_namespaces),),
    "hostPathVolumes": ((0, _host_paths),),
    "hostPorts": ((0, _host_ports),),
    "hostProbesAndHostLifecycle": ((34, _probe_hosts),),
    "privileged": ((0, _privileged),),
    "procMount": ((0, check_proc_mount), (35, _proc_mount_35)),
    "seLinuxOptions": (
        (0, _selinux(_ALLOWED_SELINUX_TYPES)),
        (31, _selinux(_ALLOWED_SELINUX_TYPES | {"container_engine_t"})),
    ),
    "seccompProfile_baseline": ((0, _seccomp_annotations), (19, _seccomp_baseline)),
    "sysctls": (
        (0, _sysctls(_SYSCTLS)),
        (27, _sysctls(_SYSCTLS_27)),
        (29, _sysctls(_SYSCTLS_29)),
        (32, _sysctls(_SYSCTLS_32)),
    ),
    "windowsHostProcess": ((0, _host_process),),
}
"""Each check, from which minor version on it is which, in the order in which they are told."""
