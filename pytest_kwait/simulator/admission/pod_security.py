"""PodSecurity: enforce the pod security level of the namespace's labels.

Source: k8s.io/pod-security-admission admission/admission.go, api/{helpers,constants}.go;
k8s.io/kubernetes plugin/pkg/admission/security/podsecurity/admission.go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.apimachinery.field_errors import FieldError, invalid_value
from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.pod_security_checks import (
    BASELINE_CHECKS,
    OVERRIDDEN_CHECKS,
    RESTRICTED_CHECKS,
    Check,
    CheckResult,
)
from pytest_kwait.simulator.api_errors import invalid
from pytest_kwait.simulator.objects import labels_of, name_of, owner_of
from pytest_kwait.simulator.suspendable import beside_loop

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

LABEL_PREFIX = "pod-security.kubernetes.io/"
"""The prefix of the labels."""

LEVELS = ("privileged", "baseline", "restricted")
"""The levels, from the most permissive to the most restricted."""

_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")

_LATEST_MINOR = 35
"""The latest minor version that changed a check."""

_MAX_NAMESPACE_PODS = 3000
_TEMPLATES = {
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
    "daemonsets.apps": ("spec", "template"),
    "deployments.apps": ("spec", "template"),
    "jobs.batch": ("spec", "template"),
    "podtemplates": ("template",),
    "replicasets.apps": ("spec", "template"),
    "replicationcontrollers": ("spec", "template"),
    "statefulsets.apps": ("spec", "template"),
}
_OTHER_SUBRESOURCES = frozenset(
    ("attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status")
)


class Level(NamedTuple):
    """A pod security level at a version.

    Args:
        name: one of `LEVELS`.
        minor: the minor version of Kubernetes; None for the latest.
    """

    name: str
    minor: int | None = None

    def __str__(self) -> str:
        return f"{self.name}:{'latest' if self.minor is None else f'v1.{self.minor}'}"

    def is_stricter_than(self, other: Level) -> bool:
        """Return whether the level is stricter, whatever the version."""
        return LEVELS.index(self.name) > LEVELS.index(other.name)


class Policy(NamedTuple):
    """The levels of a namespace: enforced, audited and warned of."""

    enforce: Level = Level("privileged")
    audit: Level = Level("privileged")
    warn: Level = Level("privileged")


def parse_policy(labels: Mapping[str, str]) -> tuple[Policy, list[FieldError]]:
    """Parse a namespace's labels; return the policy and the errors.

    An invalid enforced level counts as `restricted`, an invalid version as the latest.
    """
    errors: list[FieldError] = []

    def level(mode: str, otherwise: str) -> str:
        label = f"{LABEL_PREFIX}{mode}"
        level_name = labels.get(label, "privileged")
        if level_name in LEVELS:
            return level_name
        text = f"must be one of {', '.join(LEVELS)}"
        errors.append(invalid_value(f"metadata.labels[{label}]", level_name, text))
        return otherwise

    def version(mode: str) -> int | None:
        label = f"{LABEL_PREFIX}{mode}-version"
        version_text = labels.get(label, "latest")
        match = _VERSION.fullmatch(version_text)
        if version_text != "latest" and match is None:
            text = 'must be "latest" or "v1.x"'
            errors.append(invalid_value(f"metadata.labels[{label}]", version_text, text))
        return int(match[1]) if match is not None else None

    enforce = Level(level("enforce", "restricted"), version("enforce"))
    valid = labels.get(f"{LABEL_PREFIX}enforce") in LEVELS
    audit = Level(level("audit", "privileged"), version("audit"))
    warn = Level(level("warn", "privileged"), version("warn"))
    if f"{LABEL_PREFIX}warn" not in labels and valid and enforce.is_stricter_than(warn):
        own = f"{LABEL_PREFIX}warn-version" in labels
        warn = Level(enforce.name, warn.minor if own else enforce.minor)
    return Policy(enforce, audit, warn), errors


class PodSecurity(AdmissionPlugin):
    """The PodSecurity plugin."""

    buckets = frozenset({"namespaces", "pods", *_TEMPLATES})

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def validate(self, attributes: Attributes) -> None:
        """Deny pods that violate the namespace's level, and add warnings.

        Raises:
            StatusError: 403 for a pod, 422 for invalid labels of a namespace.
        """
        bucket, obj = attributes.kind.bucket, attributes.obj
        if obj is None:
            return
        if bucket == "namespaces":
            if not attributes.subresource:
                self._namespace(attributes, obj)
        elif bucket == "pods":
            if attributes.subresource not in _OTHER_SUBRESOURCES and (
                attributes.old is None or _has_container_changes(obj, attributes.old)
            ):
                self._check(attributes, obj, enforce=True)
        elif bucket in _TEMPLATES and not attributes.subresource:
            template: Obj = obj
            for field in _TEMPLATES[bucket]:
                template = template.get(field, {})
            if template:
                self._check(attributes, template, enforce=False)

    def _check(self, attributes: Attributes, pod: Obj, *, enforce: bool) -> None:
        namespace = self._cluster.find("namespaces", attributes.namespace)
        if namespace is None:
            return
        labels = labels_of(namespace)
        if not any(label.startswith(LABEL_PREFIX) for label in labels):
            return
        policy, _ = parse_policy(labels)
        if enforce:
            with beside_loop():
                findings = _evaluate_level(policy.enforce, pod)
            if findings:
                raise attributes.forbidden(
                    f'violates PodSecurity "{policy.enforce}": {_format_details(findings)}'
                )
        with beside_loop():
            findings = _evaluate_level(policy.warn, pod)
        if findings:
            text = f'would violate PodSecurity "{policy.warn}": {_format_details(findings)}'
            attributes.caller.warn(text)

    def _namespace(self, attributes: Attributes, namespace: Obj) -> None:
        labels = labels_of(namespace)
        old = labels_of(attributes.old) if attributes.old is not None else {}
        if attributes.old is not None and labels == old:
            return
        policy, errors = parse_policy(labels)
        before, errors_before = parse_policy(old)
        if errors and errors != errors_before:
            kind = attributes.kind
            raise invalid(kind.group, kind.kind, attributes.name, errors)
        level, last = policy.enforce, before.enforce
        if attributes.old is None or level == last or level.name == "privileged":
            return
        if level.minor == last.minor and not level.is_stricter_than(last):
            return
        for text in self._warnings(name_of(namespace), level):
            attributes.caller.warn(text)

    def _warnings(self, namespace: str, level: Level) -> list[str]:
        """Return the warnings about existing pods for a stricter level."""
        pods = _one_pod_per_owner_first(self._cluster.list("pods", namespace))
        names: dict[str, list[str]] = {}
        for pod in pods[:_MAX_NAMESPACE_PODS]:
            findings = _evaluate_level(level, pod)
            if findings:
                reasons = ", ".join(finding.reason for finding in findings)
                names.setdefault(reasons, []).append(name_of(pod))
        texts = []
        if len(pods) > _MAX_NAMESPACE_PODS:
            texts.append(
                "new PodSecurity enforce level only checked against the first "
                f"{_MAX_NAMESPACE_PODS} of {len(pods)} existing pods"
            )
        if names:
            texts.append(
                f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce '
                f'level "{level}"'
            )
        return texts + sorted(
            f"{_format_names(pods)}: {reasons}" for reasons, pods in names.items()
        )


def _format_names(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    other_text = "1 other pod" if len(names) == 2 else f"{len(names) - 1} other pods"
    return f"{min(names)} (and {other_text})"


def _one_pod_per_owner_first(pods: Iterable[Obj]) -> list[Obj]:
    """Order pods: the first of each owner, then the others."""
    first, rest, owners = [], [], set()
    for pod in pods:
        owner = owner_of(pod)
        if owner is not None and owner["uid"] in owners:
            rest.append(pod)
            continue
        first.append(pod)
        if owner is not None:
            owners.add(owner["uid"])
    return first + rest


def _has_container_changes(pod: Obj, old: Obj) -> bool:
    def images(of: Obj, field: str) -> list[str]:
        return [container.get("image", "") for container in of["spec"].get(field, ())]

    if any(images(pod, field) != images(old, field) for field in ("containers", "initContainers")):
        return True
    before = {
        container.get("name"): container.get("image")
        for container in old["spec"].get("ephemeralContainers", ())
    }
    return any(
        container.get("name") not in before
        or before[container.get("name")] != container.get("image")
        for container in pod["spec"].get("ephemeralContainers", ())
    )


def _evaluate_level(level: Level, pod: Obj) -> list[CheckResult]:
    """Return the violations of a level; `pod` is a pod or a template."""
    if level.name == "privileged":
        return []
    minor = _LATEST_MINOR if level.minor is None else min(level.minor, _LATEST_MINOR)
    metadata, spec = pod.get("metadata", {}), pod.get("spec", {})
    results = [check(metadata, spec) for check in _checks_of_level(level.name, minor)]
    return [finding for finding in results if finding is not None]


def _format_details(findings: Iterable[CheckResult]) -> str:
    return ", ".join(
        f"{finding.reason} ({finding.detail})" if finding.detail else finding.reason
        for finding in findings
    )


@lru_cache(maxsize=128)
def _checks_of_level(level: str, minor: int) -> tuple[Check, ...]:
    """Return the checks of a level at a version, in their order."""
    # Few namespaces have a level.

    chosen = _checks_at_version(BASELINE_CHECKS, minor)
    if level == "restricted":
        more = _checks_at_version(RESTRICTED_CHECKS, minor)
        for name in more:
            chosen.pop(OVERRIDDEN_CHECKS.get(name, ""), None)
        chosen.update(more)
    return tuple(chosen.values())


def _checks_at_version(
    checks: dict[str, tuple[tuple[int, Check], ...]], minor: int
) -> dict[str, Check]:
    chosen = {}
    for name, versions in checks.items():
        for since, check in versions:
            if since <= minor:
                chosen[name] = check
    return chosen
