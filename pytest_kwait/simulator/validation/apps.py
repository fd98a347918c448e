"""Validation of workloads with replicas, and of pod disruption budgets.

Covers deployments, replica sets, daemon sets, stateful sets and replication controllers: their
selectors, the pod templates that these select, int-or-percent fields, numbers in the status.

Source: k8s.io/kubernetes pkg/apis/{apps,policy}/validation/validation.go,
ValidatePodTemplateSpecForReplicaSet, ValidatePositiveIntOrPercent, ValidateDeploymentStatus and
its like; pkg/apis/core/validation/validation.go, ValidateReplicationControllerSpec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import NEGATIVE, ErrorList
from pytest_kwait.apimachinery.selectors import matches_label_selector
from pytest_kwait.apimachinery.validation import dns_label_texts, percent_texts
from pytest_kwait.simulator.validation.core.persistent_volume_claims import (
    validate_persistent_volume_claim_spec,
)
from pytest_kwait.simulator.validation.core.pods.pod_spec import (
    validate_pod_annotations,
    validate_pod_template_spec,
)
from pytest_kwait.simulator.validation.internal_types import format_internal
from pytest_kwait.simulator.validation.objectmeta import (
    validate_annotations,
    validate_label_selector,
    validate_labels,
)

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import Rendered
    from pytest_kwait.simulator.objects import Obj

SELECTOR_MISMATCH = "`selector` does not match template `labels`"

_ALL_PERCENT = 100
_MAX_DIGITS = 18
"""Digits of a percentage that are parsed; longer ones exceed every limit anyway."""

_STATUS_COUNTS = {
    "Deployment": (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ),
    "ReplicaSet": (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ),
    "ReplicationController": (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ),
    "StatefulSet": (
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ),
    "DaemonSet": (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ),
}
_AT_MOST_REPLICAS = {
    "Deployment": ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "ReplicaSet": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "ReplicationController": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "StatefulSet": ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
}
_WITH_COLLISION_COUNT = ("Deployment", "StatefulSet", "DaemonSet")

_RETENTIONS = ("Retain", "Delete")
_STATEFUL_SET_MUTABLE_FIELDS = frozenset(
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
_STATEFUL_SET_IMMUTABLE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def render_selector(selector: Obj | None) -> Rendered:
    """Return a label selector as error messages show it."""
    return format_internal("v1.LabelSelector", selector)


def validate_workload_selector(spec: Obj, noun: str) -> ErrorList:
    """Validate that the selector is present, well-formed and not empty."""
    errors = ErrorList()
    selector = spec.get("selector")
    if selector is None:
        errors.required("spec.selector")
        return errors
    errors += validate_label_selector(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        text = f"empty selector is invalid for {noun}"
        errors.invalid("spec.selector", render_selector(selector), text)
    return errors


def _is_selector_malformed(spec: Obj) -> bool:
    selector = spec.get("selector")
    return selector is not None and bool(validate_label_selector(selector, "spec.selector"))


def validate_template_for_selector(spec: Obj) -> ErrorList:
    """Validate a pod template, whose labels the selector must match."""
    errors = ErrorList()
    template, selector = spec["template"], spec.get("selector")
    labels = template.get("metadata", {}).get("labels")
    if selector != {} and not matches_label_selector(selector, labels or {}):
        errors.invalid("spec.template.metadata.labels", labels, SELECTOR_MISMATCH)
    errors += validate_pod_template_spec(template, "spec.template")
    return errors


def validate_restart_policy_always(spec: Obj, noun: str) -> ErrorList:
    """Validate that the template's restart policy is `Always`."""
    errors = ErrorList()
    pod = spec["template"].get("spec", {})
    policy = pod.get("restartPolicy", "")
    if policy != "Always":
        errors.not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in pod:
        text = f"activeDeadlineSeconds in {noun} is not Supported"
        errors.forbidden("spec.template.spec.activeDeadlineSeconds", text)
    return errors


def validate_immutable_selector(spec: Obj, before: Obj) -> ErrorList:
    """Validate that the selector does not change."""
    errors = ErrorList()
    selector = spec.get("selector")
    if selector != before.get("selector"):
        errors.invalid("spec.selector", render_selector(selector), "field is immutable")
    return errors


def validate_non_negative_int_or_percent(value: int | str, at: str) -> ErrorList:
    """Validate a number or percentage of zero or more."""
    errors = ErrorList()
    if isinstance(value, str):
        errors.invalid_each(at, value, percent_texts(value))
    elif value < 0:
        errors.invalid(at, value, NEGATIVE)
    return errors


def parse_int_or_percent(value: int | str) -> int:
    """Return the number of an int-or-percent; 0 if it is neither."""
    if isinstance(value, str):
        return 0 if percent_texts(value) else int(value[:-1].lstrip("0")[:_MAX_DIGITS] or 0)
    return value


def validate_not_more_than_100_percent(value: int | str, at: str) -> ErrorList:
    """Validate that a percentage is at most 100."""
    errors = ErrorList()
    if isinstance(value, str) and parse_int_or_percent(value) > _ALL_PERCENT:
        errors.invalid(at, value, "must not be greater than 100%")
    return errors


def validate_status_counts(kind: str, new: Obj, old: Obj) -> ErrorList:
    """Validate the numbers in the status of a workload of that `kind`."""
    errors = ErrorList()
    status, before = new.get("status") or {}, old.get("status") or {}
    if status == before:
        return errors
    errors.require_not_negative(status, "status", *_STATUS_COUNTS[kind])
    for field in _AT_MOST_REPLICAS.get(kind, ()):
        count = status.get(field, 0)
        if count > status.get("replicas", 0):
            errors.invalid(f"status.{field}", count, "cannot be greater than status.replicas")
    available = status.get("availableReplicas", 0)
    if kind in _AT_MOST_REPLICAS and available > status.get("readyReplicas", 0):
        ready = "status.readyReplicas" if kind == "StatefulSet" else "readyReplicas"
        errors.invalid("status.availableReplicas", available, f"cannot be greater than {ready}")
    if kind in _WITH_COLLISION_COUNT and "collisionCount" in before:
        count = status.get("collisionCount", 0)
        if "collisionCount" not in status or count < before["collisionCount"]:
            errors.invalid("status.collisionCount", count, "cannot be decremented")
    return errors


def validate_replica_set_spec(spec: Obj) -> ErrorList:
    """Validate a replica set's spec."""
    errors = ErrorList()
    errors.require_not_negative(spec, "spec", "replicas", "minReadySeconds")
    errors += _validate_selector_and_template(spec)
    return errors


def _validate_selector_and_template(spec: Obj) -> ErrorList:
    errors = validate_workload_selector(spec, "deployment")
    if _is_selector_malformed(spec):
        selector = render_selector(spec["selector"])
        errors.invalid("spec.selector", selector, "invalid label selector")
        return errors
    errors += validate_template_for_selector(spec)
    errors += validate_restart_policy_always(spec, "ReplicaSet")
    return errors


def validate_deployment_spec(spec: Obj) -> ErrorList:
    """Validate a deployment's spec."""
    errors = ErrorList()
    errors.require_not_negative(spec, "spec", "replicas")
    errors += _validate_selector_and_template(spec)
    strategy = spec.get("strategy", {})
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    at = "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            errors.forbidden(at, text)
    elif kind == "RollingUpdate":
        unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
        errors += validate_non_negative_int_or_percent(unavailable, f"{at}.maxUnavailable")
        errors += validate_non_negative_int_or_percent(surge, f"{at}.maxSurge")
        if parse_int_or_percent(unavailable) == 0 and parse_int_or_percent(surge) == 0:
            text = "may not be 0 when `maxSurge` is 0"
            errors.invalid(f"{at}.maxUnavailable", unavailable, text)
        errors += validate_not_more_than_100_percent(unavailable, f"{at}.maxUnavailable")
    else:
        internal_strategy = format_internal("apps.DeploymentStrategy", strategy)
        errors.not_supported("spec.strategy", internal_strategy, ("Recreate", "RollingUpdate"))
    errors.require_not_negative(
        spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        at = "spec.progressDeadlineSeconds"
        errors.invalid(at, deadline, "must be greater than minReadySeconds")
    return errors


def validate_daemon_set_spec(spec: Obj) -> ErrorList:
    """Validate a daemon set's spec."""
    errors = ErrorList()
    selector, template = spec.get("selector"), spec["template"]
    wrong = [] if selector is None else validate_label_selector(selector, "spec.selector")
    errors += wrong
    labels = template.get("metadata", {}).get("labels")
    if not wrong and selector != {} and not matches_label_selector(selector, labels or {}):
        errors.invalid("spec.template.metadata.labels", labels, SELECTOR_MISMATCH)
    if selector is not None and not any(selector.values()):
        text = "empty selector is invalid for daemonset"
        errors.invalid("spec.selector", render_selector(selector), text)
    errors += validate_pod_template_spec(template, "spec.template")
    errors += validate_restart_policy_always(spec, "DaemonSet")
    errors.require_not_negative(spec, "spec", "minReadySeconds")
    strategy = spec.get("updateStrategy", {})
    kind = strategy.get("type", "")
    if kind == "RollingUpdate":
        errors += _validate_rolling_update_daemon_set(
            strategy["rollingUpdate"], "spec.updateStrategy.rollingUpdate"
        )
    elif kind != "OnDelete":
        internal_strategy = format_internal("apps.DaemonSetUpdateStrategy", strategy)
        errors.not_supported(
            "spec.updateStrategy", internal_strategy, ("RollingUpdate", "OnDelete")
        )
    errors.require_not_negative(spec, "spec", "revisionHistoryLimit")
    return errors


def _validate_rolling_update_daemon_set(rolling: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    for check in (validate_non_negative_int_or_percent, validate_not_more_than_100_percent):
        errors += check(unavailable, f"{at}.maxUnavailable")
        errors += check(surge, f"{at}.maxSurge")
    if parse_int_or_percent(unavailable) and parse_int_or_percent(surge):
        text = "may not be set when maxUnavailable is non-zero"
        errors.invalid(f"{at}.maxSurge", surge, text)
    elif not parse_int_or_percent(unavailable) and not parse_int_or_percent(surge):
        errors.required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    return errors


def validate_daemon_set_spec_update(spec: Obj, before: Obj) -> ErrorList:
    """Validate a change of a daemon set's spec."""
    errors = validate_immutable_selector(spec, before)
    errors += validate_daemon_set_spec(spec)
    return errors


def validate_stateful_set_spec(spec: Obj, *, changed: bool = False) -> ErrorList:
    """Validate a stateful set's spec; with `changed`, immutable fields are skipped."""
    errors = _validate_ordinals_and_policies(spec)
    retention = spec.get("persistentVolumeClaimRetentionPolicy", {})
    for field in ("whenDeleted", "whenScaled"):
        policy = retention.get(field, "")
        if retention and policy not in _RETENTIONS:
            at = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            errors.not_supported(at, policy, _RETENTIONS)
    if not changed:
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
            errors += validate_persistent_volume_claim_spec(
                claim.get("spec", {}), f"spec.volumeClaimTemplates[{index}].spec"
            )
    errors.require_not_negative(spec, "spec", "replicas", "minReadySeconds")
    errors.require_not_negative(
        {"ordinals.start": spec.get("ordinals", {}).get("start")}, "spec", "ordinals.start"
    )
    service = spec.get("serviceName", "")
    if service and not changed:
        errors.invalid_each("spec.serviceName", service, dns_label_texts(service))
    errors += validate_workload_selector(spec, "statefulset")
    if _is_selector_malformed(spec):
        errors.invalid("spec.selector", render_selector(spec["selector"]), "")
    else:
        errors += _validate_stateful_template(spec)
    errors += validate_restart_policy_always(spec, "StatefulSet")
    return errors


def _validate_ordinals_and_policies(spec: Obj) -> ErrorList:
    errors = ErrorList()
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        errors.invalid("spec.podManagementPolicy", policy, text)
    strategy, at = spec.get("updateStrategy", {}), "spec.updateStrategy"
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            internal_strategy = format_internal("apps.RollingUpdateStatefulSetStrategy", rolling)
            text = "only allowed for updateStrategy 'RollingUpdate'"
            errors.invalid(f"{at}.rollingUpdate", internal_strategy, text)
    elif kind != "RollingUpdate":
        internal_strategy = format_internal("apps.StatefulSetUpdateStrategy", strategy)
        errors.invalid(at, internal_strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        errors.require_not_negative(rolling, f"{at}.rollingUpdate", "partition")
    return errors


def _validate_stateful_template(spec: Obj) -> ErrorList:
    errors = ErrorList()
    template = spec["template"]
    metadata, pod = template.get("metadata", {}), template.get("spec", {})
    claims = [
        claim_template.get("metadata", {}).get("name", "")
        for claim_template in spec.get("volumeClaimTemplates", ())
    ]
    if claims or "hostname" in pod or "subdomain" in pod:
        volumes = [
            {"name": name, "persistentVolumeClaim": {"claimName": name}}
            for name in dict.fromkeys(claims)
        ]
        volumes += [
            volume for volume in pod.get("volumes", ()) if volume.get("name", "") not in claims
        ]
        checked_fields = {
            field: value
            for field, value in pod.items()
            if field not in ("hostname", "subdomain", "volumes")
        }
        template = {**template, "spec": {**checked_fields, "volumes": volumes}}
    errors += validate_template_for_selector({**spec, "template": template})
    errors += validate_labels(metadata.get("labels", {}), "spec.template.labels")
    if "annotations" in metadata:
        at = "spec.template.annotations"
        errors += validate_annotations(metadata["annotations"], at)
        errors += validate_pod_annotations(metadata["annotations"], pod, at)
    return errors


def validate_stateful_set_spec_update(spec: Obj, before: Obj) -> ErrorList:
    """Validate a change of a stateful set's spec."""
    errors = validate_stateful_set_spec(spec, changed=True)
    for field in (spec.keys() | before.keys()) - _STATEFUL_SET_MUTABLE_FIELDS:
        if spec.get(field) != before.get(field):
            errors.forbidden("spec", _STATEFUL_SET_IMMUTABLE)
            return errors
    return errors


def validate_replication_controller_spec(spec: Obj) -> ErrorList:
    """Validate a replication controller's spec."""
    errors = ErrorList()
    selector, template = spec.get("selector") or {}, spec.get("template")
    errors.require_not_negative(spec, "spec", "minReadySeconds")
    if not selector:
        errors.required("spec.selector")
    errors.require_not_negative(spec, "spec", "replicas")
    if template is None:
        errors.required("spec.template")
    else:
        labels = template.get("metadata", {}).get("labels")
        if any((labels or {}).get(key) != value for key, value in selector.items()):
            errors.invalid("spec.template.metadata.labels", labels, SELECTOR_MISMATCH)
        errors += validate_pod_template_spec(template, "spec.template")
        errors += validate_restart_policy_always(spec, "ReplicationController")
    return errors


def validate_pod_disruption_budget_spec(spec: Obj) -> ErrorList:
    """Validate a budget's spec: `minAvailable` or `maxUnavailable`, not both."""
    errors = ErrorList()
    if "minAvailable" in spec and "maxUnavailable" in spec:
        internal_spec = format_internal("policy.PodDisruptionBudgetSpec", spec)
        errors.invalid("spec", internal_spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            errors += validate_non_negative_int_or_percent(spec[field], f"spec.{field}")
            errors += validate_not_more_than_100_percent(spec[field], f"spec.{field}")
    if "selector" in spec:
        errors += validate_label_selector(spec["selector"], "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    errors.require_supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES)
    return errors


def validate_pod_disruption_budget_status(status: Obj) -> ErrorList:
    """Validate a budget's status."""
    errors = ErrorList()
    errors.require_not_negative(
        status, "status", "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"
    )
    return errors
