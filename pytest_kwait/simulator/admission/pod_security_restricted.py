"""The checks of the level `restricted`: what a hardened pod says of itself.

Source: k8s.io/pod-security-admission policy/check_*.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.pod_security_checks import (
    check_proc_mount,
    format_setters,
    is_valid_seccomp,
)
from pytest_kwait.simulator.admission.pod_security_findings import (
    Check,
    CheckResult,
    container_names,
    format_containers,
    has_user_namespace,
    is_windows_pod,
    join_quoted,
    list_containers,
    pluralize,
    security_context_field,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["OVERRIDDEN_CHECKS", "RESTRICTED_CHECKS"]

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


def _privilege_escalation(_: Obj, spec: Obj) -> CheckResult | None:
    field = "allowPrivilegeEscalation"
    names = container_names(
        one for one in list_containers(spec) if security_context_field(one, field) is not False
    )
    if not names:
        return None
    return CheckResult(
        "allowPrivilegeEscalation != false",
        f"{format_containers(names)} must set securityContext.allowPrivilegeEscalation=false",
    )


def _capabilities_restricted(_: Obj, spec: Obj) -> CheckResult | None:
    keeping, adding = [], []
    more: set[str] = set()
    for container in list_containers(spec):
        given = security_context_field(container, "capabilities") or {}
        if "ALL" not in given.get("drop", ()):
            keeping.append(container.get("name", ""))
        beyond = set(given.get("add", ())) - {"NET_BIND_SERVICE"}
        if beyond:
            adding.append(container.get("name", ""))
            more |= beyond
    texts = []
    if keeping:
        text = 'must set securityContext.capabilities.drop=["ALL"]'
        texts.append(f"{format_containers(keeping)} {text}")
    if adding:
        shown = join_quoted(sorted(more))
        texts.append(
            f"{format_containers(adding)} must not include {shown} in "
            "securityContext.capabilities.add"
        )
    return CheckResult("unrestricted capabilities", "; ".join(texts)) if texts else None


def _volume_types(_: Obj, spec: Obj) -> CheckResult | None:
    names = []
    types: set[str] = set()
    for volume in spec.get("volumes", ()):
        kinds = volume.keys() - {"name"}
        if not kinds & _ALLOWED_VOLUME_TYPES:
            names.append(volume.get("name", ""))
            types.add(min(kinds, default="unknown"))
    if not names:
        return None
    uses = "uses" if len(names) == 1 else "use"
    shown = sorted(types)
    return CheckResult(
        "restricted volume types",
        f"{pluralize('volume', names)} {join_quoted(names)} {uses} "
        f"{pluralize('restricted volume type', shown)} {join_quoted(shown)}",
    )


def _run_as_non_root(_: Obj, spec: Obj) -> CheckResult | None:
    of_pod = security_context_field(spec, "runAsNonRoot")
    against, without = [], []
    for container in list_containers(spec):
        said = security_context_field(container, "runAsNonRoot")
        if said is False:
            against.append(container.get("name", ""))
        elif said is None and not of_pod:
            without.append(container.get("name", ""))
    who = format_setters(of_pod is False, against)
    if who:
        text = f"{who} must not set securityContext.runAsNonRoot=false"
    elif without:
        text = f"pod or {format_containers(without)} must set securityContext.runAsNonRoot=true"
    else:
        return None
    return CheckResult("runAsNonRoot != true", text)


def _run_as_user(_: Obj, spec: Obj) -> CheckResult | None:
    def is_root(part: Obj) -> bool:
        user = security_context_field(part, "runAsUser")
        return user is not None and int(user) == 0

    who = format_setters(
        is_root(spec), container_names(one for one in list_containers(spec) if is_root(one))
    )
    return CheckResult("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def _seccomp_restricted(_: Obj, spec: Obj) -> CheckResult | None:
    of_pod = security_context_field(spec, "seccompProfile")
    types = set() if of_pod is None or is_valid_seccomp(of_pod) else {of_pod.get("type", "")}
    who_of_pod = bool(types)
    against, without = [], []
    for container in list_containers(spec):
        profile = security_context_field(container, "seccompProfile")
        if profile is None:
            if of_pod is None or who_of_pod:
                without.append(container.get("name", ""))
        elif not is_valid_seccomp(profile):
            against.append(container.get("name", ""))
            types.add(profile.get("type", ""))
    who = format_setters(who_of_pod, against)
    if who:
        text = f"{who} must not set securityContext.seccompProfile.type to {join_quoted(sorted(types))}"
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
"""As `BASELINE_CHECKS`."""

OVERRIDDEN_CHECKS = {
    "capabilities_restricted": "capabilities_baseline",
    "procMount_restricted": "procMount",
    "restrictedVolumes": "hostPathVolumes",
    "seccompProfile_restricted": "seccompProfile_baseline",
}
"""Which check of `baseline` is not made where the stricter one is."""
