"""The checks of the pod security levels `baseline` and `restricted`.

Source: k8s.io/pod-security-admission policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.apimachinery.go_values import quote_go

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pytest_kwait.simulator.objects import Obj

OVERRIDDEN_CHECKS = {
    "capabilities_restricted": "capabilities_baseline",
    "procMount_restricted": "procMount",
    "restrictedVolumes": "hostPathVolumes",
    "seccompProfile_restricted": "seccompProfile_baseline",
}
"""The checks of `baseline` that a stricter one of `restricted` replaces."""

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

_ALLOWED_VOLUME_TYPES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)


class CheckResult(NamedTuple):
    """A violation of one check.

    Args:
        reason: a short text.
        detail: the violating fields and the required values.
    """

    reason: str
    detail: str


# A check of a pod's metadata and spec; None if it passes.
Check = Callable[["Obj", "Obj"], CheckResult | None]


def list_containers(spec: Obj) -> Iterator[Obj]:
    """Yield all containers, in the order in which they start."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field, ())


def security_context_field(part: Obj, field: str) -> Any:
    """Return a field of the security context of a pod or container; None if unset."""
    return part.get("securityContext", {}).get(field)


def container_names(containers: Iterable[Obj]) -> list[str]:
    """The containers' names."""
    return [container.get("name", "") for container in containers]


def join_quoted(items: Iterable[str]) -> str:
    """`"a", "b"`."""
    return ", ".join(f'"{item}"' for item in items)


def pluralize(word: str, items: Sequence[object]) -> str:
    """Return the word in singular or plural."""
    return word if len(items) == 1 else f"{word}s"


def format_containers(names: Sequence[str]) -> str:
    """Format names as `container "a"` or `containers "a", "b"`."""
    return f"{pluralize('container', names)} {join_quoted(names)}"


def is_windows_pod(spec: Obj) -> bool:
    """Return whether the pod's OS is Windows."""
    return bool(spec.get("os", {}).get("name") == "windows")


def has_user_namespace(spec: Obj) -> bool:
    """Return whether the pod has its own user namespace."""
    return spec.get("hostUsers") is False


def format_setters(of_pod: bool, names: list[str]) -> str:
    """Format the violating parts as `pod and container "a"`; empty for none."""
    setters = ["pod"] if of_pod else []
    if names:
        setters.append(format_containers(names))
    return " and ".join(setters)


def _find_setters(spec: Obj, is_wrong: Callable[[Obj], bool]) -> tuple[str, list[Obj]]:
    """Return the pod and containers that are wrong as text, and these containers."""
    containers = [container for container in list_containers(spec) if is_wrong(container)]
    return format_setters(is_wrong(spec), container_names(containers)), containers


def _collect(
    parts: Iterable[Obj], values_of: Callable[[Obj], Collection[str]]
) -> tuple[list[str], list[str]]:
    """Return the names of the parts with values, and all their values, sorted."""
    values_by_name = [
        (part.get("name", ""), values) for part in parts if (values := values_of(part))
    ]
    return [name for name, _ in values_by_name], sorted(
        {value for _, values in values_by_name for value in values}
    )


def _format_uses(noun: str, names: Sequence[str], what: str, values: Sequence[str]) -> str:
    """Format users of values as `containers "a", "b" use hostPort`, without the values."""
    uses = "uses" if len(names) == 1 else "use"
    return f"{pluralize(noun, names)} {join_quoted(names)} {uses} {pluralize(what, values)}"


def is_valid_seccomp(profile: Any) -> bool:
    """Return whether the profile restricts system calls."""
    return profile.get("type") in _SECCOMP_PROFILES


def _app_armor(metadata: Obj, spec: Obj) -> CheckResult | None:
    def wrong(part: Obj) -> str | None:
        profile = security_context_field(part, "appArmorProfile")
        if profile is None or profile.get("type") in _SECCOMP_PROFILES:
            return None
        return str(profile.get("type", ""))

    containers = [container for container in list_containers(spec) if wrong(container) is not None]
    values = {wrong(part) or "" for part in [spec, *containers] if wrong(part) is not None}
    annotations = sorted(
        f"{key}={quote_go(value)}"
        for key, value in metadata.get("annotations", {}).items()
        if key.startswith(_APPARMOR)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    types = [*sorted(values), *annotations]
    setters = [format_setters(wrong(spec) is not None, container_names(containers))]
    if annotations:
        setters.append(pluralize("annotation", annotations))
    if not types:
        return None
    by = " and ".join(setter for setter in setters if setter)
    return CheckResult(
        pluralize("forbidden AppArmor profile", types),
        f"{by} must not set AppArmor profile type to {join_quoted(types)}",
    )


def _capabilities_baseline(_: Obj, spec: Obj) -> CheckResult | None:
    text = _describe_added_capabilities(spec, _ALLOWED_CAPABILITIES)
    return CheckResult("non-default capabilities", text) if text else None


def _describe_added_capabilities(spec: Obj, allowed: frozenset[str]) -> str:
    def added(container: Obj) -> set[str]:
        capabilities = security_context_field(container, "capabilities") or {}
        return set(capabilities.get("add", ())) - allowed

    names, more = _collect(list_containers(spec), added)
    if not names:
        return ""
    return (
        f"{format_containers(names)} must not include {join_quoted(more)} in "
        "securityContext.capabilities.add"
    )


def _host_namespaces(_: Obj, spec: Obj) -> CheckResult | None:
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return CheckResult("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(_: Obj, spec: Obj) -> CheckResult | None:
    names = [volume.get("name", "") for volume in spec.get("volumes", ()) if "hostPath" in volume]
    if not names:
        return None
    return CheckResult("hostPath volumes", f"{pluralize('volume', names)} {join_quoted(names)}")


def _host_ports(_: Obj, spec: Obj) -> CheckResult | None:
    names, ports = _collect(
        list_containers(spec),
        lambda container: [
            str(port["hostPort"]) for port in container.get("ports", ()) if port.get("hostPort")
        ],
    )
    if not names:
        return None
    text = f"{_format_uses('container', names, 'hostPort', ports)} {', '.join(ports)}"
    return CheckResult("hostPort", text)


def _probe_hosts_of(container: Obj) -> set[str]:
    handlers = [
        container.get(f"{probe_name}Probe", {})
        for probe_name in ("liveness", "readiness", "startup")
    ]
    handlers += [
        container.get("lifecycle", {}).get(hook_name, {}) for hook_name in ("postStart", "preStop")
    ]
    return {
        handler[kind]["host"]
        for handler in handlers
        for kind in ("httpGet", "tcpSocket")
        if handler.get(kind, {}).get("host")
    }


def _probe_hosts(_: Obj, spec: Obj) -> CheckResult | None:
    names, hosts = _collect(list_containers(spec), _probe_hosts_of)
    if not names:
        return None
    what = "probe or lifecycle host"
    text = f"{_format_uses('container', sorted(names), what, hosts)} {join_quoted(hosts)}"
    return CheckResult(what, text)


def _privileged(_: Obj, spec: Obj) -> CheckResult | None:
    names = container_names(
        container
        for container in list_containers(spec)
        if security_context_field(container, "privileged")
    )
    if not names:
        return None
    text = f"{format_containers(names)} must not set securityContext.privileged=true"
    return CheckResult("privileged", text)


def check_proc_mount(_: Obj, spec: Obj) -> CheckResult | None:
    """Check that `/proc` is masked."""
    violations = [
        (container.get("name", ""), security_context_field(container, "procMount"))
        for container in list_containers(spec)
        if security_context_field(container, "procMount") not in (None, "Default")
    ]
    if not violations:
        return None
    names = [name for name, _ in violations]
    types = join_quoted(sorted({kind for _, kind in violations}))
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

        setters, containers = _find_setters(spec, wrong)
        if not setters:
            return None
        options = [
            security_context_field(part, "seLinuxOptions") or {} for part in [spec, *containers]
        ]
        bad = sorted({option.get("type", "") for option in options} - types)
        data = [f"{pluralize('type', bad)} {join_quoted(bad)}"] if bad else []
        own = [field for field in ("user", "role") if any(option.get(field) for option in options)]
        data += [f"{field} may not be set" for field in own]
        text = f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return CheckResult("seLinuxOptions", text)

    return check


def _seccomp_annotations(metadata: Obj, spec: Obj) -> CheckResult | None:
    annotations = metadata.get("annotations", {})
    keys = [
        _SECCOMP_POD,
        *(f"{_SECCOMP_CONTAINER}{name}" for name in container_names(list_containers(spec))),
    ]
    pairs = sorted(
        {
            f"{key}={quote_go(annotations[key])}"
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    if not pairs:
        return None
    text = f"forbidden {pluralize('annotation', pairs)} {', '.join(pairs)}"
    return CheckResult("seccompProfile", text)


def _seccomp_baseline(_: Obj, spec: Obj) -> CheckResult | None:
    def wrong(part: Obj) -> bool:
        profile = security_context_field(part, "seccompProfile")
        return profile is not None and not is_valid_seccomp(profile)

    setters, containers = _find_setters(spec, wrong)
    if not setters:
        return None
    types = {security_context_field(part, "seccompProfile").get("type", "") for part in containers}
    if wrong(spec):
        types.add(security_context_field(spec, "seccompProfile").get("type", ""))
    types_text = join_quoted(sorted(types))
    text = f"{setters} must not set securityContext.seccompProfile.type to {types_text}"
    return CheckResult("seccompProfile", text)


def _sysctls(allowed: frozenset[str]) -> Check:
    def check(_: Obj, spec: Obj) -> CheckResult | None:
        pod_sysctls = security_context_field(spec, "sysctls") or ()
        names = [
            sysctl.get("name", "")
            for sysctl in pod_sysctls
            if sysctl.get("name", "") not in allowed
        ]
        return CheckResult("forbidden sysctls", ", ".join(names)) if names else None

    return check


def _host_process(_: Obj, spec: Obj) -> CheckResult | None:
    def wrong(part: Obj) -> bool:
        return bool((security_context_field(part, "windowsOptions") or {}).get("hostProcess"))

    setters = _find_setters(spec, wrong)[0]
    if not setters:
        return None
    text = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
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
"""The versions of each check by their first minor version, in the order of messages."""


def _privilege_escalation(_: Obj, spec: Obj) -> CheckResult | None:
    field = "allowPrivilegeEscalation"
    names = container_names(
        container
        for container in list_containers(spec)
        if security_context_field(container, field) is not False
    )
    if not names:
        return None
    return CheckResult(
        "allowPrivilegeEscalation != false",
        f"{format_containers(names)} must set securityContext.allowPrivilegeEscalation=false",
    )


def _capabilities_restricted(_: Obj, spec: Obj) -> CheckResult | None:
    keeping = container_names(
        container
        for container in list_containers(spec)
        if "ALL" not in (security_context_field(container, "capabilities") or {}).get("drop", ())
    )
    texts = []
    if keeping:
        text = 'must set securityContext.capabilities.drop=["ALL"]'
        texts.append(f"{format_containers(keeping)} {text}")
    if added := _describe_added_capabilities(spec, frozenset({"NET_BIND_SERVICE"})):
        texts.append(added)
    return CheckResult("unrestricted capabilities", "; ".join(texts)) if texts else None


def _volume_types(_: Obj, spec: Obj) -> CheckResult | None:
    def restricted(volume: Obj) -> list[str]:
        kinds = volume.keys() - {"name"}
        return [] if kinds & _ALLOWED_VOLUME_TYPES else [min(kinds, default="unknown")]

    names, types = _collect(spec.get("volumes", ()), restricted)
    if not names:
        return None
    text = _format_uses("volume", names, "restricted volume type", types)
    return CheckResult("restricted volume types", f"{text} {join_quoted(types)}")


def _run_as_non_root(_: Obj, spec: Obj) -> CheckResult | None:
    of_pod = security_context_field(spec, "runAsNonRoot")
    against, without = [], []
    for container in list_containers(spec):
        value = security_context_field(container, "runAsNonRoot")
        if value is False:
            against.append(container.get("name", ""))
        elif value is None and not of_pod:
            without.append(container.get("name", ""))
    setters = format_setters(of_pod is False, against)
    if setters:
        text = f"{setters} must not set securityContext.runAsNonRoot=false"
    elif without:
        text = f"pod or {format_containers(without)} must set securityContext.runAsNonRoot=true"
    else:
        return None
    return CheckResult("runAsNonRoot != true", text)


def _run_as_user(_: Obj, spec: Obj) -> CheckResult | None:
    def is_root(part: Obj) -> bool:
        user = security_context_field(part, "runAsUser")
        return user is not None and int(user) == 0

    setters = _find_setters(spec, is_root)[0]
    return CheckResult("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _seccomp_restricted(_: Obj, spec: Obj) -> CheckResult | None:
    of_pod = security_context_field(spec, "seccompProfile")
    types = set() if of_pod is None or is_valid_seccomp(of_pod) else {of_pod.get("type", "")}
    set_by_pod = bool(types)
    against, without = [], []
    for container in list_containers(spec):
        profile = security_context_field(container, "seccompProfile")
        if profile is None:
            if of_pod is None or set_by_pod:
                without.append(container.get("name", ""))
        elif not is_valid_seccomp(profile):
            against.append(container.get("name", ""))
            types.add(profile.get("type", ""))
    setters = format_setters(set_by_pod, against)
    if setters:
        types_text = join_quoted(sorted(types))
        text = f"{setters} must not set securityContext.seccompProfile.type to {types_text}"
    elif without:
        text = (
            f"pod or {format_containers(without)} must set securityContext.seccompProfile.type to "
            '"RuntimeDefault" or "Localhost"'
        )
    else:
        return None
    return CheckResult("seccompProfile", text)


def _except_on_windows(check: Check) -> Check:
    return lambda metadata, spec: None if is_windows_pod(spec) else check(metadata, spec)


def _except_in_user_namespaces(check: Check) -> Check:
    return lambda metadata, spec: None if has_user_namespace(spec) else check(metadata, spec)


RESTRICTED_CHECKS: dict[str, tuple[tuple[int, Check], ...]] = {
    "allowPrivilegeEscalation": (
        (8, _privilege_escalation),
        (25, _except_on_windows(_privilege_escalation)),
    ),
    "capabilities_restricted": (
        (22, _capabilities_restricted),
        (25, _except_on_windows(_capabilities_restricted)),
    ),
    "procMount_restricted": ((35, check_proc_mount),),
    "restrictedVolumes": ((0, _volume_types),),
    "runAsNonRoot": ((0, _run_as_non_root), (35, _except_in_user_namespaces(_run_as_non_root))),
    "runAsUser": ((23, _run_as_user), (35, _except_in_user_namespaces(_run_as_user))),
    "seccompProfile_restricted": (
        (19, _seccomp_restricted),
        (25, _except_on_windows(_seccomp_restricted)),
    ),
}
"""The checks of `restricted`, as `BASELINE_CHECKS`."""
