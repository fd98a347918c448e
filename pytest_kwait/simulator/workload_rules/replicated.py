"""Deployments, replica sets, daemon sets, stateful sets, replication controllers.

Source: pkg/apis/apps/validation/validation.go; pkg/apis/core/validation/validation.go,
ValidateReplicationControllerSpec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import dns_label_texts
from pytest_kwait.simulator.internal_values import internal_json
from pytest_kwait.simulator.pod_rules.annotations import check_pod_annotations
from pytest_kwait.simulator.pod_rules.pod_spec import check_template
from pytest_kwait.simulator.rules.claim_specs import check_claim_spec
from pytest_kwait.simulator.selectors import matches
from pytest_kwait.simulator.validation import annotation_errors, label_errors, selector_errors
from pytest_kwait.simulator.workload_rules.selectors import (
    MISMATCH,
    check_immutable_selector,
    check_kept_running,
    check_not_more_than_all,
    check_percent,
    check_selected_template,
    check_selector,
    percent_of,
    shown_selector,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "check_controller",
    "check_daemon_set",
    "check_daemon_set_change",
    "check_deployment",
    "check_replica_set",
    "check_stateful_set",
    "check_stateful_set_change",
]

_RETENTIONS = ("Retain", "Delete")
_STATEFUL_CHANGES = frozenset(
    [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ]
)
_STATEFUL_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)


def check_replica_set(spec: Obj, found: Findings) -> None:
    """A replica set's spec."""
    found.not_negative(spec, "spec", "replicas", "minReadySeconds")
    _check_selected(spec, found)


def _check_selected(spec: Obj, found: Findings) -> None:
    if not check_selector(spec, "deployment", found):
        selector = shown_selector(spec["selector"])
        found.invalid("spec.selector", selector, "invalid label selector")
        return
    check_selected_template(spec, found)
    check_kept_running(spec, "ReplicaSet", found)


def check_deployment(spec: Obj, found: Findings) -> None:
    """A deployment's spec."""
    found.not_negative(spec, "spec", "replicas")
    _check_selected(spec, found)
    strategy = spec.get("strategy", {})
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    at = "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            found.forbidden(at, text)
    elif kind == "RollingUpdate":
        unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
        check_percent(unavailable, f"{at}.maxUnavailable", found)
        check_percent(surge, f"{at}.maxSurge", found)
        if percent_of(unavailable) == 0 and percent_of(surge) == 0:
            text = "may not be 0 when `maxSurge` is 0"
            found.invalid(f"{at}.maxUnavailable", unavailable, text)
        check_not_more_than_all(unavailable, f"{at}.maxUnavailable", found)
    else:
        shown = internal_json("apps.DeploymentStrategy", strategy)
        found.unsupported("spec.strategy", shown, ("Recreate", "RollingUpdate"))
    found.not_negative(
        spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        at = "spec.progressDeadlineSeconds"
        found.invalid(at, deadline, "must be greater than minReadySeconds")


def check_daemon_set(spec: Obj, found: Findings) -> None:
    """A daemon set's spec."""
    selector, template = spec.get("selector"), spec["template"]
    wrong = [] if selector is None else selector_errors(selector, "spec.selector")
    found += wrong
    labels = template.get("metadata", {}).get("labels")
    if not wrong and selector != {} and not matches(selector, labels or {}):
        found.invalid("spec.template.metadata.labels", labels, MISMATCH)
    if selector is not None and not any(selector.values()):
        text = "empty selector is invalid for daemonset"
        found.invalid("spec.selector", shown_selector(selector), text)
    check_template(template, "spec.template", found)
    check_kept_running(spec, "DaemonSet", found)
    found.not_negative(spec, "spec", "minReadySeconds")
    strategy = spec.get("updateStrategy", {})
    kind = strategy.get("type", "")
    if kind == "RollingUpdate":
        _check_rolling_daemons(
            strategy["rollingUpdate"], "spec.updateStrategy.rollingUpdate", found
        )
    elif kind != "OnDelete":
        shown = internal_json("apps.DaemonSetUpdateStrategy", strategy)
        found.unsupported("spec.updateStrategy", shown, ("RollingUpdate", "OnDelete"))
    found.not_negative(spec, "spec", "revisionHistoryLimit")


def _check_rolling_daemons(rolling: Obj, at: str, found: Findings) -> None:
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    for check in (check_percent, check_not_more_than_all):
        check(unavailable, f"{at}.maxUnavailable", found)
        check(surge, f"{at}.maxSurge", found)
    if percent_of(unavailable) and percent_of(surge):
        text = "may not be set when maxUnavailable is non-zero"
        found.invalid(f"{at}.maxSurge", surge, text)
    elif not percent_of(unavailable) and not percent_of(surge):
        found.required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def check_daemon_set_change(spec: Obj, before: Obj, found: Findings) -> None:
    """A change of a daemon set's spec."""
    check_immutable_selector(spec, before, found)
    check_daemon_set(spec, found)


def check_stateful_set(spec: Obj, found: Findings, *, changed: bool = False) -> None:
    """A stateful set's spec; what can not change is not looked at when the rest is `changed`."""
    _check_order(spec, found)
    retention = spec.get("persistentVolumeClaimRetentionPolicy", {})
    for field in ("whenDeleted", "whenScaled"):
        policy = retention.get(field, "")
        if retention and policy not in _RETENTIONS:
            at = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            found.unsupported(at, policy, _RETENTIONS)
    if not changed:
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
            check_claim_spec(
                claim.get("spec", {}), f"spec.volumeClaimTemplates[{index}].spec", found
            )
    found.not_negative(spec, "spec", "replicas", "minReadySeconds")
    found.not_negative(
        {"ordinals.start": spec.get("ordinals", {}).get("start")}, "spec", "ordinals.start"
    )
    service = spec.get("serviceName", "")
    if service and not changed:
        found.texts("spec.serviceName", service, dns_label_texts(service))
    if check_selector(spec, "statefulset", found):
        _check_stateful_template(spec, found)
    else:
        found.invalid("spec.selector", shown_selector(spec["selector"]), "")
    check_kept_running(spec, "StatefulSet", found)


def _check_order(spec: Obj, found: Findings) -> None:
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        found.invalid("spec.podManagementPolicy", policy, text)
    strategy, at = spec.get("updateStrategy", {}), "spec.updateStrategy"
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            shown = internal_json("apps.RollingUpdateStatefulSetStrategy", rolling)
            text = "only allowed for updateStrategy 'RollingUpdate'"
            found.invalid(f"{at}.rollingUpdate", shown, text)
    elif kind != "RollingUpdate":
        shown = internal_json("apps.StatefulSetUpdateStrategy", strategy)
        found.invalid(at, shown, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        found.not_negative(rolling, f"{at}.rollingUpdate", "partition")


def _check_stateful_template(spec: Obj, found: Findings) -> None:
    template = spec["template"]
    metadata, pod = template.get("metadata", {}), template.get("spec", {})
    claims = [
        one.get("metadata", {}).get("name", "") for one in spec.get("volumeClaimTemplates", ())
    ]
    if claims or "hostname" in pod or "subdomain" in pod:
        volumes = [
            {"name": name, "persistentVolumeClaim": {"claimName": name}}
            for name in dict.fromkeys(claims)
        ]
        volumes += [one for one in pod.get("volumes", ()) if one.get("name", "") not in claims]
        kept = {
            field: value
            for field, value in pod.items()
            if field not in ("hostname", "subdomain", "volumes")
        }
        template = {**template, "spec": {**kept, "volumes": volumes}}
    check_selected_template({**spec, "template": template}, found)
    found += label_errors(metadata.get("labels", {}), "spec.template.labels")
    if "annotations" in metadata:
        at = "spec.template.annotations"
        found += annotation_errors(metadata["annotations"], at)
        check_pod_annotations(metadata["annotations"], pod, at, found)


def check_stateful_set_change(spec: Obj, before: Obj, found: Findings) -> None:
    """A change of a stateful set's spec."""
    check_stateful_set(spec, found, changed=True)
    for field in (spec.keys() | before.keys()) - _STATEFUL_CHANGES:
        if spec.get(field) != before.get(field):
            found.forbidden("spec", _STATEFUL_FIXED)
            return


def check_controller(spec: Obj, found: Findings) -> None:
    """A replication controller's spec."""
    selector, template = spec.get("selector") or {}, spec.get("template")
    found.not_negative(spec, "spec", "minReadySeconds")
    if not selector:
        found.required("spec.selector")
    found.not_negative(spec, "spec", "replicas")
    if template is None:
        found.required("spec.template")
    else:
        labels = template.get("metadata", {}).get("labels")
        if any((labels or {}).get(key) != value for key, value in selector.items()):
            found.invalid("spec.template.metadata.labels", labels, MISMATCH)
        check_template(template, "spec.template", found)
        check_kept_running(spec, "ReplicationController", found)
