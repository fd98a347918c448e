"""Validation of deployments, replica sets, daemon sets, stateful sets, replication controllers.

Also their selectors, the pod templates that these select, int-or-percent fields, and the numbers
in their status.

Source: k8s.io/kubernetes pkg/apis/apps/validation/validation.go,
ValidatePodTemplateSpecForReplicaSet, ValidatePositiveIntOrPercent, ValidateDeploymentStatus and
its like; pkg/apis/core/validation/validation.go, ValidateReplicationControllerSpec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import NEGATIVE, dns_label_texts, percent_texts
from pytest_kwait.simulator.selectors import matches_selector
from pytest_kwait.simulator.validation.core.pods.annotations import validate_pod_annotations
from pytest_kwait.simulator.validation.core.pods.pod_spec import validate_pod_template_spec
from pytest_kwait.simulator.validation.core.volumes.claims import (
    validate_persistent_volume_claim_spec,
)
from pytest_kwait.simulator.validation.field_errors import format_internal
from pytest_kwait.simulator.validation.objectmeta import (
    annotation_errors,
    label_errors,
    selector_errors,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import Rendered
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.field_errors import ErrorList

__all__ = [
    "SELECTOR_MISMATCH",
    "parse_int_or_percent",
    "render_selector",
    "validate_daemon_set_spec",
    "validate_daemon_set_spec_update",
    "validate_deployment_spec",
    "validate_immutable_selector",
    "validate_non_negative_int_or_percent",
    "validate_not_more_than_100_percent",
    "validate_replica_set_spec",
    "validate_replication_controller_spec",
    "validate_restart_policy_always",
    "validate_stateful_set_spec",
    "validate_stateful_set_spec_update",
    "validate_status_counts",
    "validate_template_for_selector",
    "validate_workload_selector",
]

SELECTOR_MISMATCH = "`selector` does not match template `labels`"


def render_selector(selector: Obj | None) -> Rendered:
    """A label selector as refusals show it."""
    return format_internal("v1.LabelSelector", selector)


def validate_workload_selector(spec: Obj, noun: str, found: ErrorList) -> bool:
    """The selector is there, sound and not empty; whether it can be used."""
    selector = spec.get("selector")
    if selector is None:
        found.required("spec.selector")
        return True
    wrong = selector_errors(selector, "spec.selector")
    found += wrong
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        text = f"empty selector is invalid for {noun}"
        found.invalid("spec.selector", render_selector(selector), text)
    return not wrong


def validate_template_for_selector(spec: Obj, found: ErrorList) -> None:
    """The selector finds what the template makes, and that is sound."""
    template, selector = spec["template"], spec.get("selector")
    labels = template.get("metadata", {}).get("labels")
    if selector != {} and not matches_selector(selector, labels or {}):
        found.invalid("spec.template.metadata.labels", labels, SELECTOR_MISMATCH)
    validate_pod_template_spec(template, "spec.template", found)


def validate_restart_policy_always(spec: Obj, noun: str, found: ErrorList) -> None:
    """Pods that are replaced when they end never end by themselves."""
    pod = spec["template"].get("spec", {})
    policy = pod.get("restartPolicy", "")
    if policy != "Always":
        found.unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in pod:
        text = f"activeDeadlineSeconds in {noun} is not Supported"
        found.forbidden("spec.template.spec.activeDeadlineSeconds", text)


def validate_immutable_selector(spec: Obj, before: Obj, found: ErrorList) -> None:
    """What a workload selects stays what it was."""
    selector = spec.get("selector")
    if selector != before.get("selector"):
        found.invalid("spec.selector", render_selector(selector), "field is immutable")


def validate_non_negative_int_or_percent(value: int | str, at: str, found: ErrorList) -> None:
    """A number that is not negative, or percent."""
    if isinstance(value, str):
        found.texts(at, value, percent_texts(value))
    elif value < 0:
        found.invalid(at, value, NEGATIVE)


def parse_int_or_percent(value: int | str) -> int:
    """The number, of things or of percent; 0 for what is neither."""
    if isinstance(value, str):
        return 0 if percent_texts(value) else int(value[:-1].lstrip("0")[:_MAX_DIGITS] or 0)
    return value


def validate_not_more_than_100_percent(value: int | str, at: str, found: ErrorList) -> None:
    """No more than 100 percent."""
    if isinstance(value, str) and parse_int_or_percent(value) > _ALL_PERCENT:
        found.invalid(at, value, "must not be greater than 100%")


_ALL_PERCENT = 100
_MAX_DIGITS = 18
"""Of a number that is read: what has more is more than all, however it goes on."""


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


def validate_status_counts(kind: str, new: Obj, old: Obj, found: ErrorList) -> None:
    """The status of a workload of that `kind`."""
    status, before = new.get("status") or {}, old.get("status") or {}
    if status == before:
        return
    found.not_negative(status, "status", *_STATUS_COUNTS[kind])
    for field in _AT_MOST_REPLICAS.get(kind, ()):
        count = status.get(field, 0)
        if count > status.get("replicas", 0):
            found.invalid(f"status.{field}", count, "cannot be greater than status.replicas")
    available = status.get("availableReplicas", 0)
    if kind in _AT_MOST_REPLICAS and available > status.get("readyReplicas", 0):
        ready = "status.readyReplicas" if kind == "StatefulSet" else "readyReplicas"
        found.invalid("status.availableReplicas", available, f"cannot be greater than {ready}")
    if kind in _WITH_COLLISION_COUNT and "collisionCount" in before:
        count = status.get("collisionCount", 0)
        if "collisionCount" not in status or count < before["collisionCount"]:
            found.invalid("status.collisionCount", count, "cannot be decremented")


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


def validate_replica_set_spec(spec: Obj, found: ErrorList) -> None:
    """A replica set's spec."""
    found.not_negative(spec, "spec", "replicas", "minReadySeconds")
    _validate_selector_and_template(spec, found)


def _validate_selector_and_template(spec: Obj, found: ErrorList) -> None:
    if not validate_workload_selector(spec, "deployment", found):
        selector = render_selector(spec["selector"])
        found.invalid("spec.selector", selector, "invalid label selector")
        return
    validate_template_for_selector(spec, found)
    validate_restart_policy_always(spec, "ReplicaSet", found)


def validate_deployment_spec(spec: Obj, found: ErrorList) -> None:
    """A deployment's spec."""
    found.not_negative(spec, "spec", "replicas")
    _validate_selector_and_template(spec, found)
    strategy = spec.get("strategy", {})
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    at = "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            found.forbidden(at, text)
    elif kind == "RollingUpdate":
        unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
        validate_non_negative_int_or_percent(unavailable, f"{at}.maxUnavailable", found)
        validate_non_negative_int_or_percent(surge, f"{at}.maxSurge", found)
        if parse_int_or_percent(unavailable) == 0 and parse_int_or_percent(surge) == 0:
            text = "may not be 0 when `maxSurge` is 0"
            found.invalid(f"{at}.maxUnavailable", unavailable, text)
        validate_not_more_than_100_percent(unavailable, f"{at}.maxUnavailable", found)
    else:
        shown = format_internal("apps.DeploymentStrategy", strategy)
        found.unsupported("spec.strategy", shown, ("Recreate", "RollingUpdate"))
    found.not_negative(
        spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        at = "spec.progressDeadlineSeconds"
        found.invalid(at, deadline, "must be greater than minReadySeconds")


def validate_daemon_set_spec(spec: Obj, found: ErrorList) -> None:
    """A daemon set's spec."""
    selector, template = spec.get("selector"), spec["template"]
    wrong = [] if selector is None else selector_errors(selector, "spec.selector")
    found += wrong
    labels = template.get("metadata", {}).get("labels")
    if not wrong and selector != {} and not matches_selector(selector, labels or {}):
        found.invalid("spec.template.metadata.labels", labels, SELECTOR_MISMATCH)
    if selector is not None and not any(selector.values()):
        text = "empty selector is invalid for daemonset"
        found.invalid("spec.selector", render_selector(selector), text)
    validate_pod_template_spec(template, "spec.template", found)
    validate_restart_policy_always(spec, "DaemonSet", found)
    found.not_negative(spec, "spec", "minReadySeconds")
    strategy = spec.get("updateStrategy", {})
    kind = strategy.get("type", "")
    if kind == "RollingUpdate":
        _validate_rolling_update_daemon_set(
            strategy["rollingUpdate"], "spec.updateStrategy.rollingUpdate", found
        )
    elif kind != "OnDelete":
        shown = format_internal("apps.DaemonSetUpdateStrategy", strategy)
        found.unsupported("spec.updateStrategy", shown, ("RollingUpdate", "OnDelete"))
    found.not_negative(spec, "spec", "revisionHistoryLimit")


def _validate_rolling_update_daemon_set(rolling: Obj, at: str, found: ErrorList) -> None:
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    for check in (validate_non_negative_int_or_percent, validate_not_more_than_100_percent):
        check(unavailable, f"{at}.maxUnavailable", found)
        check(surge, f"{at}.maxSurge", found)
    if parse_int_or_percent(unavailable) and parse_int_or_percent(surge):
        text = "may not be set when maxUnavailable is non-zero"
        found.invalid(f"{at}.maxSurge", surge, text)
    elif not parse_int_or_percent(unavailable) and not parse_int_or_percent(surge):
        found.required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def validate_daemon_set_spec_update(spec: Obj, before: Obj, found: ErrorList) -> None:
    """A change of a daemon set's spec."""
    validate_immutable_selector(spec, before, found)
    validate_daemon_set_spec(spec, found)


def validate_stateful_set_spec(spec: Obj, found: ErrorList, *, changed: bool = False) -> None:
    """A stateful set's spec; what can not change is not looked at when the rest is `changed`."""
    _validate_ordinals_and_policies(spec, found)
    retention = spec.get("persistentVolumeClaimRetentionPolicy", {})
    for field in ("whenDeleted", "whenScaled"):
        policy = retention.get(field, "")
        if retention and policy not in _RETENTIONS:
            at = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            found.unsupported(at, policy, _RETENTIONS)
    if not changed:
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
            validate_persistent_volume_claim_spec(
                claim.get("spec", {}), f"spec.volumeClaimTemplates[{index}].spec", found
            )
    found.not_negative(spec, "spec", "replicas", "minReadySeconds")
    found.not_negative(
        {"ordinals.start": spec.get("ordinals", {}).get("start")}, "spec", "ordinals.start"
    )
    service = spec.get("serviceName", "")
    if service and not changed:
        found.texts("spec.serviceName", service, dns_label_texts(service))
    if validate_workload_selector(spec, "statefulset", found):
        _validate_stateful_template(spec, found)
    else:
        found.invalid("spec.selector", render_selector(spec["selector"]), "")
    validate_restart_policy_always(spec, "StatefulSet", found)


def _validate_ordinals_and_policies(spec: Obj, found: ErrorList) -> None:
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        found.invalid("spec.podManagementPolicy", policy, text)
    strategy, at = spec.get("updateStrategy", {}), "spec.updateStrategy"
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            shown = format_internal("apps.RollingUpdateStatefulSetStrategy", rolling)
            text = "only allowed for updateStrategy 'RollingUpdate'"
            found.invalid(f"{at}.rollingUpdate", shown, text)
    elif kind != "RollingUpdate":
        shown = format_internal("apps.StatefulSetUpdateStrategy", strategy)
        found.invalid(at, shown, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        found.not_negative(rolling, f"{at}.rollingUpdate", "partition")


def _validate_stateful_template(spec: Obj, found: ErrorList) -> None:
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
    validate_template_for_selector({**spec, "template": template}, found)
    found += label_errors(metadata.get("labels", {}), "spec.template.labels")
    if "annotations" in metadata:
        at = "spec.template.annotations"
        found += annotation_errors(metadata["annotations"], at)
        validate_pod_annotations(metadata["annotations"], pod, at, found)


def validate_stateful_set_spec_update(spec: Obj, before: Obj, found: ErrorList) -> None:
    """A change of a stateful set's spec."""
    validate_stateful_set_spec(spec, found, changed=True)
    for field in (spec.keys() | before.keys()) - _STATEFUL_SET_MUTABLE_FIELDS:
        if spec.get(field) != before.get(field):
            found.forbidden("spec", _STATEFUL_SET_IMMUTABLE)
            return


def validate_replication_controller_spec(spec: Obj, found: ErrorList) -> None:
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
            found.invalid("spec.template.metadata.labels", labels, SELECTOR_MISMATCH)
        validate_pod_template_spec(template, "spec.template", found)
        validate_restart_policy_always(spec, "ReplicationController", found)
