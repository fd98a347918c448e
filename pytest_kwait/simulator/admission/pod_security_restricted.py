"""The checks of the level `restricted`: what a hardened pod says of itself.

Source: k8s.io/pod-security-admission policy/check_*.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.pod_security_baseline import (
    proc_mount,
    setters,
    valid_seccomp,
)
from pytest_kwait.simulator.admission.pod_security_findings import (
    Check,
    Finding,
    containers_of,
    context_of,
    in_user_namespace,
    named,
    named_containers,
    on_windows,
    plural,
    quoted,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["OVERRIDES", "RESTRICTED"]

_VOLUMES = frozenset(
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


def _escalation(_: Obj, spec: Obj) -> Finding | None:
    field = "allowPrivilegeEscalation"
    names = named(one for one in containers_of(spec) if context_of(one, field) is not False)
    if not names:
        return None
    return Finding(
        "allowPrivilegeEscalation != false",
        f"{named_containers(names)} must set securityContext.allowPrivilegeEscalation=false",
    )


def _capabilities(_: Obj, spec: Obj) -> Finding | None:
    keeping, adding = [], []
    more: set[str] = set()
    for container in containers_of(spec):
        given = context_of(container, "capabilities") or {}
        if "ALL" not in given.get("drop", ()):
            keeping.append(container.get("name", ""))
        beyond = set(given.get("add", ())) - {"NET_BIND_SERVICE"}
        if beyond:
            adding.append(container.get("name", ""))
            more |= beyond
    texts = []
    if keeping:
        text = 'must set securityContext.capabilities.drop=["ALL"]'
        texts.append(f"{named_containers(keeping)} {text}")
    if adding:
        shown = quoted(sorted(more))
        texts.append(
            f"{named_containers(adding)} must not include {shown} in "
            "securityContext.capabilities.add"
        )
    return Finding("unrestricted capabilities", "; ".join(texts)) if texts else None


def _volumes(_: Obj, spec: Obj) -> Finding | None:
    names = []
    types: set[str] = set()
    for volume in spec.get("volumes", ()):
        kinds = volume.keys() - {"name"}
        if not kinds & _VOLUMES:
            names.append(volume.get("name", ""))
            types.add(min(kinds, default="unknown"))
    if not names:
        return None
    uses = "uses" if len(names) == 1 else "use"
    shown = sorted(types)
    return Finding(
        "restricted volume types",
        f"{plural('volume', names)} {quoted(names)} {uses} "
        f"{plural('restricted volume type', shown)} {quoted(shown)}",
    )


def _not_root(_: Obj, spec: Obj) -> Finding | None:
    of_pod = context_of(spec, "runAsNonRoot")
    against, without = [], []
    for container in containers_of(spec):
        said = context_of(container, "runAsNonRoot")
        if said is False:
            against.append(container.get("name", ""))
        elif said is None and not of_pod:
            without.append(container.get("name", ""))
    who = setters(of_pod is False, against)
    if who:
        text = f"{who} must not set securityContext.runAsNonRoot=false"
    elif without:
        text = f"pod or {named_containers(without)} must set securityContext.runAsNonRoot=true"
    else:
        return None
    return Finding("runAsNonRoot != true", text)


def _user(_: Obj, spec: Obj) -> Finding | None:
    def is_root(part: Obj) -> bool:
        user = context_of(part, "runAsUser")
        return user is not None and int(user) == 0

    who = setters(is_root(spec), named(one for one in containers_of(spec) if is_root(one)))
    return Finding("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def _seccomp(_: Obj, spec: Obj) -> Finding | None:
    of_pod = context_of(spec, "seccompProfile")
    types = set() if of_pod is None or valid_seccomp(of_pod) else {of_pod.get("type", "")}
    who_of_pod = bool(types)
    against, without = [], []
    for container in containers_of(spec):
        profile = context_of(container, "seccompProfile")
        if profile is None:
            if of_pod is None or who_of_pod:
                without.append(container.get("name", ""))
        elif not valid_seccomp(profile):
            against.append(container.get("name", ""))
            types.add(profile.get("type", ""))
    who = setters(who_of_pod, against)
    if who:
        text = f"{who} must not set securityContext.seccompProfile.type to {quoted(sorted(types))}"
    elif without:
        text = (
            f"pod or {named_containers(without)} must set securityContext.seccompProfile.type to "
            '"RuntimeDefault" or "Localhost"'
        )
    else:
        return None
    return Finding("seccompProfile", text)


def _but_on_windows(check: Check) -> Check:
    return lambda metadata, spec: None if on_windows(spec) else check(metadata, spec)


def _but_in_user_namespaces(check: Check) -> Check:
    return lambda metadata, spec: None if in_user_namespace(spec) else check(metadata, spec)


RESTRICTED: dict[str, tuple[tuple[int, Check], ...]] = {
    "allowPrivilegeEscalation": ((8, _escalation), (25, _but_on_windows(_escalation))),
    "capabilities_restricted": ((22, _capabilities), (25, _but_on_windows(_capabilities))),
    "procMount_restricted": ((35, proc_mount),),
    "restrictedVolumes": ((0, _volumes),),
    "runAsNonRoot": ((0, _not_root), (35, _but_in_user_namespaces(_not_root))),
    "runAsUser": ((23, _user), (35, _but_in_user_namespaces(_user))),
    "seccompProfile_restricted": ((19, _seccomp), (25, _but_on_windows(_seccomp))),
}
"""As `BASELINE`."""

OVERRIDES = {
    "capabilities_restricted": "capabilities_baseline",
    "procMount_restricted": "procMount",
    "restrictedVolumes": "hostPathVolumes",
    "seccompProfile_restricted": "seccompProfile_baseline",
}
"""Which check of `baseline` is not made where the stricter one is."""
