"""The checks of the level `baseline`: known ways out of a container.

Source: k8s.io/pod-security-admission policy/check_*.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.admission.pod_security_findings import (
    Check,
    Finding,
    containers_of,
    context_of,
    in_user_namespace,
    named,
    named_containers,
    plural,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["BASELINE", "proc_mount", "setters", "valid_seccomp"]

_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_CAPABILITIES = frozenset(
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
_PROFILES = ("Localhost", "RuntimeDefault")
_SELINUX = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))
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


def setters(of_pod: bool, names: list[str]) -> str:
    """Who sets what is not allowed: `pod and container "a"`; empty for nobody."""
    found = ["pod"] if of_pod else []
    if names:
        found.append(named_containers(names))
    return " and ".join(found)


def valid_seccomp(profile: Any) -> bool:
    """Whether the profile confines anything."""
    return profile.get("type") in _PROFILES


def _app_armor(metadata: Obj, spec: Obj) -> Finding | None:
    def wrong(part: Obj) -> str | None:
        profile = context_of(part, "appArmorProfile")
        if profile is None or profile.get("type") in _PROFILES:
            return None
        return str(profile.get("type", ""))

    containers = [one for one in containers_of(spec) if wrong(one) is not None]
    values = {wrong(part) or "" for part in [spec, *containers] if wrong(part) is not None}
    annotations = sorted(
        f"{key}={_go_quoted(value)}"
        for key, value in metadata.get("annotations", {}).items()
        if key.startswith(_APPARMOR)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    shown = [*sorted(values), *annotations]
    who = [setters(wrong(spec) is not None, named(containers))]
    if annotations:
        who.append(plural("annotation", annotations))
    if not shown:
        return None
    by = " and ".join(one for one in who if one)
    return Finding(
        plural("forbidden AppArmor profile", shown),
        f"{by} must not set AppArmor profile type to {quoted(shown)}",
    )


def _go_quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _capabilities(_: Obj, spec: Obj) -> Finding | None:
    more: set[str] = set()
    names = []
    for container in containers_of(spec):
        added = (context_of(container, "capabilities") or {}).get("add", ())
        beyond = set(added) - _CAPABILITIES
        if beyond:
            names.append(container.get("name", ""))
            more |= beyond
    if not names:
        return None
    return Finding(
        "non-default capabilities",
        f"{named_containers(names)} must not include {quoted(sorted(more))} in "
        "securityContext.capabilities.add",
    )


def _host_namespaces(_: Obj, spec: Obj) -> Finding | None:
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return Finding("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(_: Obj, spec: Obj) -> Finding | None:
    names = [one.get("name", "") for one in spec.get("volumes", ()) if "hostPath" in one]
    if not names:
        return None
    return Finding("hostPath volumes", f"{plural('volume', names)} {quoted(names)}")


def _host_ports(_: Obj, spec: Obj) -> Finding | None:
    names = []
    ports: set[str] = set()
    for container in containers_of(spec):
        taken = {str(one["hostPort"]) for one in container.get("ports", ()) if one.get("hostPort")}
        if taken:
            names.append(container.get("name", ""))
            ports |= taken
    if not names:
        return None
    uses = "uses" if len(names) == 1 else "use"
    shown = sorted(ports)
    return Finding(
        "hostPort",
        f"{named_containers(names)} {uses} {plural('hostPort', shown)} {', '.join(shown)}",
    )


def _hosts(handlers: Iterable[Obj]) -> set[str]:
    return {
        handler[kind]["host"]
        for handler in handlers
        for kind in ("httpGet", "tcpSocket")
        if handler.get(kind, {}).get("host")
    }


def _probe_hosts(_: Obj, spec: Obj) -> Finding | None:
    names: set[str] = set()
    hosts: set[str] = set()
    for container in containers_of(spec):
        probes = [container.get(f"{one}Probe", {}) for one in ("liveness", "readiness", "startup")]
        lifecycle = container.get("lifecycle", {})
        found = _hosts([*probes, lifecycle.get("postStart", {}), lifecycle.get("preStop", {})])
        if found:
            names.add(container.get("name", ""))
            hosts |= found
    if not names:
        return None
    uses = "uses" if len(names) == 1 else "use"
    shown = sorted(hosts)
    return Finding(
        "probe or lifecycle host",
        f"{named_containers(sorted(names))} {uses} {plural('probe or lifecycle host', shown)} "
        f"{quoted(shown)}",
    )


def _privileged(_: Obj, spec: Obj) -> Finding | None:
    names = named(one for one in containers_of(spec) if context_of(one, "privileged"))
    if not names:
        return None
    text = f"{named_containers(names)} must not set securityContext.privileged=true"
    return Finding("privileged", text)


def proc_mount(_: Obj, spec: Obj) -> Finding | None:
    """`/proc` stays masked."""
    found = [
        (container.get("name", ""), context_of(container, "procMount"))
        for container in containers_of(spec)
        if context_of(container, "procMount") not in (None, "Default")
    ]
    if not found:
        return None
    names = [name for name, _ in found]
    types = quoted(sorted({kind for _, kind in found}))
    text = f"{named_containers(names)} must not set securityContext.procMount to {types}"
    return Finding("procMount", text)


def _proc_mount_35(metadata: Obj, spec: Obj) -> Finding | None:
    return None if in_user_namespace(spec) else proc_mount(metadata, spec)


def _selinux(types: frozenset[str]) -> Check:
    def check(_: Obj, spec: Obj) -> Finding | None:
        def wrong(part: Obj) -> bool:
            options = context_of(part, "seLinuxOptions") or {}
            return bool(
                options.get("type", "") not in types or options.get("user") or options.get("role")
            )

        containers = [one for one in containers_of(spec) if wrong(one)]
        who = setters(wrong(spec), named(containers))
        if not who:
            return None
        given = [context_of(part, "seLinuxOptions") or {} for part in [spec, *containers]]
        bad = sorted({one.get("type", "") for one in given} - types)
        data = [f"{plural('type', bad)} {quoted(bad)}"] if bad else []
        own = [field for field in ("user", "role") if any(one.get(field) for one in given)]
        data += [f"{field} may not be set" for field in own]
        text = f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return Finding("seLinuxOptions", text)

    return check


def _seccomp_annotations(metadata: Obj, spec: Obj) -> Finding | None:
    annotations = metadata.get("annotations", {})
    keys = [_SECCOMP_POD, *(f"{_SECCOMP}{name}" for name in named(containers_of(spec)))]
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
    text = f"forbidden {plural('annotation', found)} {', '.join(found)}"
    return Finding("seccompProfile", text)


def _seccomp(_: Obj, spec: Obj) -> Finding | None:
    def wrong(part: Obj) -> bool:
        profile = context_of(part, "seccompProfile")
        return profile is not None and not valid_seccomp(profile)

    containers = [one for one in containers_of(spec) if wrong(one)]
    who = setters(wrong(spec), named(containers))
    if not who:
        return None
    types = {context_of(part, "seccompProfile").get("type", "") for part in containers}
    if wrong(spec):
        types.add(context_of(spec, "seccompProfile").get("type", ""))
    text = f"{who} must not set securityContext.seccompProfile.type to {quoted(sorted(types))}"
    return Finding("seccompProfile", text)


def _sysctls(allowed: frozenset[str]) -> Check:
    def check(_: Obj, spec: Obj) -> Finding | None:
        given = context_of(spec, "sysctls") or ()
        names = [one.get("name", "") for one in given if one.get("name", "") not in allowed]
        return Finding("forbidden sysctls", ", ".join(names)) if names else None

    return check


def _host_process(_: Obj, spec: Obj) -> Finding | None:
    def wrong(part: Obj) -> bool:
        return bool((context_of(part, "windowsOptions") or {}).get("hostProcess"))

    who = setters(wrong(spec), named(one for one in containers_of(spec) if wrong(one)))
    if not who:
        return None
    text = f"{who} must not set securityContext.windowsOptions.hostProcess=true"
    return Finding("hostProcess", text)


BASELINE: dict[str, tuple[tuple[int, Check], ...]] = {
    "appArmorProfile": ((0, _app_armor),),
    "capabilities_baseline": ((0, _capabilities),),
    "hostNamespaces": ((0, _host_namespaces),),
    "hostPathVolumes": ((0, _host_paths),),
    "hostPorts": ((0, _host_ports),),
    "hostProbesAndHostLifecycle": ((34, _probe_hosts),),
    "privileged": ((0, _privileged),),
    "procMount": ((0, proc_mount), (35, _proc_mount_35)),
    "seLinuxOptions": ((0, _selinux(_SELINUX)), (31, _selinux(_SELINUX | {"container_engine_t"}))),
    "seccompProfile_baseline": ((0, _seccomp_annotations), (19, _seccomp)),
    "sysctls": (
        (0, _sysctls(_SYSCTLS)),
        (27, _sysctls(_SYSCTLS_27)),
        (29, _sysctls(_SYSCTLS_29)),
        (32, _sysctls(_SYSCTLS_32)),
    ),
    "windowsHostProcess": ((0, _host_process),),
}
"""Each check, from which minor version on it is which, in the order in which they are told."""
