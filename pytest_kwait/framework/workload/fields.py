"""Fields of the controllers of pods: selector, replicas, generation, revision, bounds.

Pure functions on the API's JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from pytest_kwait.apimachinery.conditions import StatusCondition
from pytest_kwait.apimachinery.quantities import resolve_int_or_percent
from pytest_kwait.apimachinery.selectors import format_label_selector
from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import (
    BUILT_IN,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.options import parse_target
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.object_sinks import SingleObject

CONTROLLERS = (
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
)

_REVISION = "deployment.kubernetes.io/revision"
_MAX = "deployment.kubernetes.io/max-replicas"


def parse_controller(what: str, value: object) -> tuple[Resource, str]:
    """Return the kind and the name of a controller, from a text like `rc/web`.

    Raises:
        InvalidArgument: the text names no controller.
    """
    valid = "use one of rc, rs, deployment, statefulset, daemonset and job with a name: 'rc/web'"
    kind, name, _ = parse_target(what, value)
    resource = match_resource(BUILT_IN.values(), kind, None)
    if resource is None or resource not in CONTROLLERS or not name:
        raise InvalidArgument(what, value, valid)
    return resource, check_name(what, name)


def selector_of(resource: Resource, spec: dict[str, Any]) -> str | None:
    """Return the text of a controller's selector; None if it has none."""
    selector = spec.get("selector")
    if resource not in CONTROLLERS or not isinstance(selector, dict):
        return None
    if resource == REPLICATION_CONTROLLERS:
        selector = {"matchLabels": selector}
    return format_label_selector(selector) or None


def desired_pods(controller: SingleObject) -> int:
    """Return the desired number of pods of a controller."""
    if controller.resource == DAEMON_SETS:
        return int(controller.status.get("desiredNumberScheduled") or 0)
    if controller.resource == JOBS:
        parallelism = controller.spec.get("parallelism")
        completions = controller.spec.get("completions")
        parallelism = 1 if parallelism is None else int(parallelism)
        return parallelism if completions is None else min(parallelism, int(completions))
    replicas = controller.spec.get("replicas")
    return 1 if replicas is None else int(replicas)


class _Container(TypedDict, total=False):
    name: str
    image: str | None


class _PodSpec(TypedDict, total=False):
    containers: list[_Container] | None


class _Template(TypedDict, total=False):
    spec: _PodSpec | None


class _RollingUpdate(TypedDict, total=False):
    maxSurge: int | str | None
    maxUnavailable: int | str | None


class _Strategy(TypedDict, total=False):
    type: str | None
    rollingUpdate: _RollingUpdate | None


class _DeploymentSpec(TypedDict, total=False):
    replicas: int | None
    paused: bool | None
    progressDeadlineSeconds: int | None
    selector: dict[str, Any] | None
    strategy: _Strategy | None
    template: _Template | None


class _DeploymentStatus(TypedDict, total=False):
    observedGeneration: int | None
    replicas: int | None
    updatedReplicas: int | None
    availableReplicas: int | None
    conditions: list[StatusCondition] | None


class DeploymentFields(TypedDict, total=False):
    """The fields of a Deployment that waits read."""

    metadata: ObjectMeta
    spec: _DeploymentSpec | None
    status: _DeploymentStatus | None


class _ReplicaSetSpec(TypedDict, total=False):
    replicas: int | None
    selector: dict[str, Any] | None
    template: _Template | None


class _ReplicaSetStatus(TypedDict, total=False):
    observedGeneration: int | None
    replicas: int | None
    readyReplicas: int | None
    availableReplicas: int | None
    conditions: list[StatusCondition] | None


class ReplicaSetFields(TypedDict, total=False):
    """The fields of a ReplicaSet that waits read."""

    metadata: ObjectMeta
    spec: _ReplicaSetSpec | None
    status: _ReplicaSetStatus | None


def count_of(workload: dict[str, Any], field: str) -> int:
    """Return a number of the status; the server omits 0."""
    value = (workload.get("status") or {}).get(field)
    return value if isinstance(value, int) else 0


def replicas_of(workload: dict[str, Any]) -> int:
    """Return the desired number of pods; 1 by default."""
    replicas = (workload.get("spec") or {}).get("replicas")
    return replicas if isinstance(replicas, int) else 1


def describe_generation_lag(workload: dict[str, Any], least: int = 1) -> str:
    """Return the lag of the observed generation as text; empty if its status is current.

    Args:
        workload: the object.
        least: the minimum observed generation.
    """
    generation = max(workload["metadata"].get("generation") or 0, least)
    observed = count_of(workload, "observedGeneration")
    if observed >= generation:
        return ""
    observed_text = f"of generation {observed}" if observed else "not written yet"
    return f"generation {generation} is not observed yet, its status is {observed_text}"


def revision_of(workload: dict[str, Any]) -> str:
    """Return the revision of a Deployment, or of one of its ReplicaSets; empty for none."""
    return (workload["metadata"].get("annotations") or {}).get(_REVISION) or ""


def images_of(workload: dict[str, Any]) -> list[str]:
    """Return the images of its pods' containers, without init containers."""
    template = (workload.get("spec") or {}).get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or ()
    return [container.get("image") or "" for container in containers]


class Bounds(NamedTuple):
    """Bounds on the pods of a Deployment during a rolling update.

    Args:
        most: the maximum number of pods.
        least: the minimum number of available pods.
    """

    most: int
    least: int


def rolling_bounds(deployment: dict[str, Any]) -> Bounds:
    """Return the bounds of a rolling update; other strategies allow zero pods.

    A share of the replicas is rounded up for maxSurge and down for maxUnavailable; if both are 0
    one pod may be unavailable.

    Source: kubernetes/pkg/controller/deployment/util/deployment_util.go ResolveFenceposts, MaxSurge
    and MinAvailable.
    """
    replicas = replicas_of(deployment)
    strategy = (deployment.get("spec") or {}).get("strategy") or {}
    if strategy.get("type") != "RollingUpdate":
        return Bounds(replicas, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = resolve_int_or_percent(rolling.get("maxSurge"), replicas, up=True)
    unavailable = resolve_int_or_percent(rolling.get("maxUnavailable"), replicas, up=False)
    if not surge and not unavailable:
        unavailable = 1
    return Bounds(replicas + surge, max(0, replicas - unavailable))


def least_available(deployment: dict[str, Any]) -> int:
    """Return the number of pods with which a Deployment's condition Available is True.

    Only a rolling update may leave some out.

    Source: kubernetes/pkg/controller/deployment/sync.go calculateStatus.
    """
    strategy = (deployment.get("spec") or {}).get("strategy") or {}
    rolling = strategy.get("type") == "RollingUpdate"
    return rolling_bounds(deployment).least if rolling else replicas_of(deployment)


def desired_replicas_annotation_of(replica_set: dict[str, Any]) -> int:
    """Return the Deployment's maximum pods when the ReplicaSet was scaled; 0 if not noted.

    Source: kubernetes/pkg/controller/deployment/util/deployment_util.go SetReplicasAnnotations.
    """
    most = (replica_set["metadata"].get("annotations") or {}).get(_MAX) or ""
    return int(most) if most.isdecimal() else 0
