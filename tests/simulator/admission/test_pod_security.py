from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.admission.pod_security import Level, parse_policy
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.request_info import Caller
from tests.objects import pod

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

Obj = dict[str, Any]

_PREFIX = "pod-security.kubernetes.io/"
_GOOD: Obj = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_GOOD_POD: Obj = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def label(api: SimulatedCluster, **labels: str | None) -> list[str]:
    """Label the namespace and return the warnings."""
    caller = Caller()
    changed = api.get("namespaces", "default")
    own = dict(changed["metadata"]["labels"])
    for name, value in labels.items():
        key = _PREFIX + name.replace("_", "-")
        if value is None:
            own.pop(key, None)
        else:
            own[key] = value
    changed = {**changed, "metadata": {**changed["metadata"], "labels": own}}
    api.update("namespaces", changed, caller=caller)
    return caller.warnings


def secured(name: str = "c", **context: Any) -> Obj:
    return {"name": name, "image": "x", "securityContext": context}


def refused(api: SimulatedCluster, annotations: Obj | None = None, **spec: Any) -> str:
    asked = pod(**spec)
    asked["metadata"]["annotations"] = annotations or {}
    with pytest.raises(StatusError) as error:
        api.create("pods", asked, "default")
    assert (error.value.code, error.value.reason) == (403, "Forbidden")
    return error.value.message.partition('" is forbidden: violates PodSecurity ')[2]


def test_unlabelled_namespace_admits_every_pod(api: SimulatedCluster) -> None:
    assert api.create("pods", pod(hostNetwork=True), "default")


def test_the_hardened_pod_passes_every_level(api: SimulatedCluster) -> None:
    label(api, enforce="restricted")
    assert api.create(
        "pods", pod(securityContext=_GOOD_POD, containers=[secured(**_GOOD)]), "default"
    )


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"hostNetwork": True, "hostPID": True, "hostIPC": True},
            "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
        ),
        (
            {
                "containers": [secured(privileged=True)],
                "initContainers": [secured("i", privileged=True)],
            },
            'privileged (containers "i", "c" must not set securityContext.privileged=true)',
        ),
        (
            {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]},
            'hostPath volumes (volume "h")',
        ),
        (
            {
                "containers": [
                    {
                        "name": "c",
                        "image": "x",
                        "ports": [
                            {"containerPort": 80, "hostPort": 80},
                            {"containerPort": 9, "hostPort": 443},
                        ],
                    }
                ]
            },
            'hostPort (container "c" uses hostPorts 443, 80)',
        ),
        (
            {"containers": [secured(capabilities={"add": ["NET_RAW", "CHOWN"]})]},
            'non-default capabilities (container "c" must not include "NET_RAW" in '
            "securityContext.capabilities.add)",
        ),
        (
            {
                "securityContext": {"seLinuxOptions": {"user": "u"}},
                "containers": [secured(seLinuxOptions={"type": "odd_t", "role": "r"})],
            },
            'seLinuxOptions (pod and container "c" set forbidden securityContext.seLinuxOptions: '
            'type "odd_t"; user may not be set; role may not be set)',
        ),
        (
            {
                "securityContext": {"seccompProfile": {"type": "Unconfined"}},
                "containers": [secured(seccompProfile={"type": "Unconfined"})],
            },
            'seccompProfile (pod and container "c" must not set '
            'securityContext.seccompProfile.type to "Unconfined")',
        ),
        (
            {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            {
                "hostNetwork": True,
                "containers": [secured(windowsOptions={"hostProcess": True})],
            },
            'host namespaces (hostNetwork=true), hostProcess (container "c" must not set '
            "securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            {
                "containers": [
                    {
                        "name": "c",
                        "image": "x",
                        "startupProbe": {"tcpSocket": {"host": "h", "port": 1}},
                    }
                ]
            },
            'probe or lifecycle host (container "c" uses probe or lifecycle host "h")',
        ),
        (
            {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
            'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
        ),
    ],
)
def test_baseline_violations_are_denied(api: SimulatedCluster, spec: Obj, why: str) -> None:
    label(api, enforce="baseline")
    assert refused(api, **spec) == f'"baseline:latest": {why}'


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"containers": [secured(capabilities={"drop": ["ALL"]})]},
            'allowPrivilegeEscalation != false (container "c" must set '
            "securityContext.allowPrivilegeEscalation=false)",
        ),
        (
            {"containers": [secured(allowPrivilegeEscalation=False, capabilities={"add": ["A"]})]},
            'unrestricted capabilities (container "c" must set '
            'securityContext.capabilities.drop=["ALL"]; container "c" must not include "A" in '
            "securityContext.capabilities.add)",
        ),
        (
            {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]},
            'restricted volume types (volume "h" uses restricted volume type "hostPath")',
        ),
        (
            {"containers": [secured(**_GOOD, runAsNonRoot=False)]},
            'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
        ),
        (
            {"containers": [secured(**_GOOD, runAsUser=0)]},
            'runAsUser=0 (container "c" must not set runAsUser=0)',
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}},
            'runAsNonRoot != true (pod or container "c" must set '
            "securityContext.runAsNonRoot=true)",
        ),
        (
            {"securityContext": {"runAsNonRoot": True}},
            'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to '
            '"RuntimeDefault" or "Localhost")',
        ),
        (
            {"securityContext": {**_GOOD_POD, "seccompProfile": {"type": "Unconfined"}}},
            'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
    ],
)
def test_restricted_violations_are_denied(api: SimulatedCluster, spec: Obj, why: str) -> None:
    label(api, enforce="restricted")
    full: Obj = {"securityContext": _GOOD_POD, "containers": [secured(**_GOOD)], **spec}
    assert refused(api, **full) == f'"restricted:latest": {why}'


@pytest.mark.parametrize(
    ("version", "spec", "allowed"),
    [
        ("v1.7", {"securityContext": {"runAsNonRoot": True}}, True),
        ("v1.8", {"securityContext": {"runAsNonRoot": True}}, False),
        ("v1.34", {"hostUsers": False, "containers": [secured(**_GOOD)]}, False),
        ("v1.24", {"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}}, False),
        ("v1.25", {"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}}, True),
    ],
)
def test_level_version_selects_checks(
    api: SimulatedCluster, version: str, spec: Obj, *, allowed: bool
) -> None:
    label(api, enforce="restricted", enforce_version=version)
    if allowed:
        assert api.create("pods", pod(**spec), "default")
    else:
        assert f'"restricted:{version}": ' in refused(api, **spec)


def test_user_namespace_allows_root(api: SimulatedCluster) -> None:
    label(api, enforce="restricted")
    spec: Obj = {
        "hostUsers": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [secured(**_GOOD, runAsUser=0, procMount="Unmasked")],
    }
    assert refused(api, **spec).startswith('"restricted:latest": procMount (')
    label(api, enforce="baseline")
    assert api.create("pods", pod(**spec), "default")


def test_legacy_seccomp_annotations_are_checked(api: SimulatedCluster) -> None:
    label(api, enforce="baseline", enforce_version="v1.18")
    seccomp = {"container.seccomp.security.alpha.kubernetes.io/main": "unconfined"}
    assert refused(api, seccomp) == (
        '"baseline:v1.18": seccompProfile (forbidden annotation '
        'container.seccomp.security.alpha.kubernetes.io/main="unconfined")'
    )
    armor = {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}
    assert refused(api, armor) == (
        '"baseline:v1.18": forbidden AppArmor profiles (container "main" and annotation must not '
        'set AppArmor profile type to "Unconfined", '
        '"container.apparmor.security.beta.kubernetes.io/main="unconfined"")'
    )


def test_pod_templates_cause_warnings(api: SimulatedCluster) -> None:
    label(api, enforce="baseline")
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": pod(hostPID=True)["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    caller = Caller()
    made = {"metadata": {"name": "d"}, "spec": spec}
    api.create("deployments.apps", made, "default", caller=caller)
    assert caller.warnings == [
        'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    ]


def test_warn_level_does_not_deny(api: SimulatedCluster) -> None:
    label(api, warn="baseline", warn_version="v1.30")
    caller = Caller()
    api.create("pods", pod(hostPID=True), "default", caller=caller)
    assert caller.warnings == [
        'would violate PodSecurity "baseline:v1.30": host namespaces (hostPID=true)'
    ]


def test_new_level_warns_of_existing_pods(api: SimulatedCluster) -> None:
    for name in ("b", "a", "c"):
        api.create("pods", pod(name, hostPID=True), "default")
    api.create("pods", pod("d", containers=[secured(privileged=True)]), "default")
    assert label(api, enforce="baseline") == [
        'existing pods in namespace "default" violate the new PodSecurity enforce level '
        '"baseline:latest"',
        "a (and 2 other pods): host namespaces",
        "d: privileged",
    ]
    assert label(api, enforce="privileged") == []


def test_existing_pod_may_be_labelled(api: SimulatedCluster) -> None:
    api.create("pods", pod(hostPID=True), "default")
    label(api, enforce="baseline")

    def mark(changed: Obj) -> None:
        changed["metadata"]["labels"] = {"a": "b"}

    def other_image(changed: Obj) -> None:
        changed["spec"]["containers"][0]["image"] = "y"

    api.modify("pods", "p", "default", mark)
    with pytest.raises(StatusError, match="violates PodSecurity"):
        api.modify("pods", "p", "default", other_image)


def test_invalid_labels_are_rejected(api: SimulatedCluster) -> None:
    with pytest.raises(StatusError) as error:
        label(api, enforce="tight", warn_version="1.2")
    assert (error.value.code, error.value.message) == (
        422,
        'Namespace "default" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: '
        'Invalid value: "tight": must be one of privileged, baseline, restricted, '
        'metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "1.2": must be '
        '"latest" or "v1.x"]',
    )


@pytest.mark.parametrize(
    ("labels", "enforce", "warn"),
    [
        ({}, "privileged:latest", "privileged:latest"),
        ({"enforce": "baseline"}, "baseline:latest", "baseline:latest"),
        ({"enforce": "baseline", "enforce-version": "v1.9"}, "baseline:v1.9", "baseline:v1.9"),
        ({"enforce": "baseline", "warn": "privileged"}, "baseline:latest", "privileged:latest"),
        ({"enforce": "baseline", "warn-version": "v1.2"}, "baseline:latest", "baseline:v1.2"),
        ({"enforce": "odd"}, "restricted:latest", "privileged:latest"),
        ({"warn": "odd"}, "privileged:latest", "privileged:latest"),
    ],
)
def test_policy_is_parsed_from_labels(labels: dict[str, str], enforce: str, warn: str) -> None:
    policy, _ = parse_policy({f"{_PREFIX}{key}": value for key, value in labels.items()})
    assert (str(policy.enforce), str(policy.warn)) == (enforce, warn)


def test_levels_are_ordered() -> None:
    assert Level("restricted").is_stricter_than(Level("baseline", 9))
    assert not Level("baseline").is_stricter_than(Level("baseline", 9))
