"""The Deployment controller.

In reading order: the arithmetic of a rollout, a Deployment with its ReplicaSets, the status and its
deadline, the newest ReplicaSet and the revisions, one step of a rollout, the controller.

Source: kube-controller-manager,
deployment/{deployment_controller,sync,progress,rolling,recreate}.go,
deployment/util/deployment_util.go.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.apimachinery.quantities import resolve_int_or_percent
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_refs import OwnerIndex, make_controller_ref
from pytest_kwait.simulator.controllers.pod_control import (
    compute_template_hash,
    is_namespace_terminating,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.objects import (
    Obj,
    clone,
    is_being_deleted,
    name_of,
    namespace_of,
    owner_of,
    uid_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager

HASH_LABEL = "pod-template-hash"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
KIND = ("apps/v1", "Deployment")
REPLICA_SET_RESOURCE = "replicasets.apps"
DEPLOYMENT_RESOURCE = "deployments.apps"

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NO_DEADLINE = 2**31 - 1


def get_desired_replicas(deployment: Obj) -> int:
    """Return the desired number of replicas."""
    replicas: int = deployment["spec"].get("replicas", 1)
    return replicas


def resolve_fenceposts(deployment: Obj) -> tuple[int, int]:
    """Return the maximum surge and the maximum unavailability, never both zero.

    Surge rounds up, unavailability down. A Recreate rollout has neither.

    Source: kube-controller-manager, deployment_util.go, `ResolveFenceposts`.
    """
    strategy = deployment["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return 0, 0
    rolling = strategy.get("rollingUpdate") or {}
    replicas = get_desired_replicas(deployment)
    surge = resolve_int_or_percent(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = resolve_int_or_percent(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, replicas)


def sum_replicas(sets: Iterable[Obj], field: str) -> int:
    """Return the sum of `spec.replicas` or of one of the counts in the status."""
    if field == "spec":
        return sum(replica_set["spec"].get("replicas", 1) for replica_set in sets)
    return sum((replica_set.get("status") or {}).get(field, 0) for replica_set in sets)


def calculate_new_replicas(deployment: Obj, sets: Sequence[Obj], new_set: Obj | None) -> int:
    """Return the replicas that the newest ReplicaSet may have now.

    Source: kube-controller-manager, deployment_util.go, `NewRSNewReplicas`.
    """
    desired_replicas = get_desired_replicas(deployment)
    if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
        return desired_replicas
    surge, _ = resolve_fenceposts(deployment)
    current = sum_replicas(sets, "spec")
    own: int = new_set["spec"].get("replicas", 1) if new_set is not None else 0
    if current >= desired_replicas + surge:
        return own
    return own + min(desired_replicas + surge - current, desired_replicas - own)


def calculate_proportions(deployment: Obj, sets: Sequence[Obj]) -> dict[str, int]:
    """Return the sizes of ReplicaSets by name after proportional scaling.

    Source: kube-controller-manager, sync.go, `scale`; deployment_util.go, `getReplicaSetFraction`.
    """
    desired_replicas = get_desired_replicas(deployment)
    surge, _ = resolve_fenceposts(deployment)
    allowed = desired_replicas + surge if desired_replicas > 0 else 0
    to_add = allowed - sum_replicas(sets, "spec")
    newest_first = to_add > 0
    ordered = sorted(
        sets,
        key=lambda replica_set: (
            -replica_set["spec"].get("replicas", 1),
            -parse_time(replica_set["metadata"]["creationTimestamp"])
            if newest_first
            else parse_time(replica_set["metadata"]["creationTimestamp"]),
        ),
    )
    sizes: dict[str, int] = {}
    added = 0
    for replica_set in ordered:
        size = replica_set["spec"].get("replicas", 1)
        share = 0
        if to_add and size and added != to_add:
            before = int(
                (replica_set["metadata"].get("annotations") or {}).get(MAX_REPLICAS)
                or desired_replicas
            )
            fraction = (
                _round_half_away(size * allowed / before) - size
                if desired_replicas and before
                else -size
            )
            remaining = to_add - added
            share = min(fraction, remaining) if to_add > 0 else max(fraction, remaining)
        sizes[replica_set["metadata"]["name"]] = size + share
        added += share
    if ordered and to_add:
        first = ordered[0]["metadata"]["name"]
        sizes[first] = max(0, sizes[first] + to_add - added)
    return sizes


def _round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    return math.floor(value + 0.5)


def calculate_next_revision(sets: Iterable[Obj]) -> int:
    """Return one more than the highest revision of the given ReplicaSets."""
    return 1 + max((get_revision(replica_set) for replica_set in sets), default=0)


def get_revision(obj: Obj) -> int:
    """Return the revision annotation of the object; 0 without one."""
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdecimal() else 0


def select_annotations(deployment: Obj) -> dict[str, str]:
    """Return the Deployment's annotations that its ReplicaSets inherit."""
    own = (_LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS)
    annotations: dict[str, str] = deployment["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations.items() if key not in own}


def set_condition(conditions: list[Obj], condition: Obj) -> list[Obj]:
    """Return the conditions with `condition` set; unchanged if status and reason are.

    A changed one moves to the end and keeps its transition time while its status is the same.

    Source: kube-controller-manager, deployment_util.go, `SetDeploymentCondition`.
    """
    current = next(
        (existing for existing in conditions if existing["type"] == condition["type"]), None
    )
    if current is not None and current["status"] == condition["status"]:
        if current.get("reason") == condition.get("reason"):
            return conditions
        condition = {**condition, "lastTransitionTime": current["lastTransitionTime"]}
    return [existing for existing in conditions if existing["type"] != condition["type"]] + [
        condition
    ]


def make_condition(kind: str, status: str, reason: str, message: str, stamp: str) -> Obj:
    """Return a Deployment's condition with the current time."""
    return {
        "type": kind, "status": status, "lastUpdateTime": stamp, "lastTransitionTime": stamp,
        "reason": reason, "message": message,
    }  # fmt: skip


def calculate_status(deployment: Obj, sets: Sequence[Obj], new_set: Obj | None, stamp: str) -> Obj:
    """Return the counts and the Available condition from the ReplicaSets' statuses.

    Source: kube-controller-manager, sync.go, `calculateStatus`.
    """
    last = deployment.get("status") or {}
    available = sum_replicas(sets, "availableReplicas")
    newest = [new_set] if new_set is not None else []
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": sum_replicas(sets, "replicas"),
        "updatedReplicas": sum_replicas(newest, "replicas"),
        "readyReplicas": sum_replicas(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum_replicas(sets, "spec") - available),
    }
    status: Obj = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = sum_replicas(sets, "terminatingReplicas")
    if last.get("collisionCount") is not None:
        status["collisionCount"] = last["collisionCount"]
    _, unavailable = resolve_fenceposts(deployment)
    if available >= get_desired_replicas(deployment) - unavailable:
        availability = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        availability = (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    status["conditions"] = set_condition(
        list(last.get("conditions") or ()), make_condition("Available", *availability, stamp)
    )
    return status


def is_complete(deployment: Obj, status: Obj) -> bool:
    """Return whether every replica is new and available, and the status is up to date."""
    desired_replicas = get_desired_replicas(deployment)
    return bool(
        status.get("updatedReplicas", 0) == desired_replicas
        and status.get("replicas", 0) == desired_replicas
        and status.get("availableReplicas", 0) == desired_replicas
        and status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    )


def is_progressing(deployment: Obj, status: Obj) -> bool:
    """Return whether `status` shows progress since the Deployment's last one."""
    last = deployment.get("status") or {}

    def old(of: Obj) -> int:
        count: int = of.get("replicas", 0) - of.get("updatedReplicas", 0)
        return count

    return bool(
        status.get("updatedReplicas", 0) > last.get("updatedReplicas", 0)
        or old(status) < old(last)
        or status.get("readyReplicas", 0) > last.get("readyReplicas", 0)
        or status.get("availableReplicas", 0) > last.get("availableReplicas", 0)
    )


def get_progress_deadline(deployment: Obj) -> int | None:
    """Return the seconds without progress until a rollout is stuck; None for no limit."""
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return None if seconds is None or seconds == _NO_DEADLINE else seconds


def has_timed_out(deployment: Obj, status: Obj, now: float) -> bool:
    """Return whether the last progress is older than the progress deadline."""
    deadline = get_progress_deadline(deployment)
    current = get_condition({"status": status}, "Progressing")
    if deadline is None or current is None or current.get("reason") == "NewReplicaSetAvailable":
        return False
    if current.get("reason") == "ProgressDeadlineExceeded":
        return True
    return bool(parse_time(current["lastUpdateTime"]) + deadline < now)


class DeploymentView:
    """A Deployment and its ReplicaSets; both are updated with each write.

    Args:
        deployment: a private copy.
        sets: the ReplicaSets it owns.
    """

    def __init__(
        self, cluster: Cluster, recorder: EventRecorder, deployment: Obj, sets: list[Obj]
    ) -> None:
        self.cluster = cluster
        self.recorder = recorder
        self.deployment = deployment
        by_age = sorted(
            sets,
            key=lambda replica_set: (
                parse_time(replica_set["metadata"]["creationTimestamp"]),
                name_of(replica_set),
            ),
        )
        template = deployment["spec"]["template"]
        self.new_set = next(
            (replica_set for replica_set in by_age if _has_same_template(replica_set, template)),
            None,
        )
        self.old_sets = [replica_set for replica_set in by_age if replica_set is not self.new_set]

    @property
    def all(self) -> list[Obj]:
        """Every ReplicaSet, the newest one last."""
        return [*self.old_sets, *([self.new_set] if self.new_set is not None else [])]

    @property
    def active_old(self) -> list[Obj]:
        """The old ReplicaSets with desired replicas."""
        return [
            replica_set
            for replica_set in self.old_sets
            if replica_set["spec"].get("replicas", 1) > 0
        ]

    def write_condition(self, status: str, reason: str, message: str) -> None:
        """Set the Progressing condition and write the status."""
        current = self.deployment.setdefault("status", {})
        changed = make_condition("Progressing", status, reason, message, self.cluster.clock.stamp())
        current["conditions"] = set_condition(list(current.get("conditions") or ()), changed)
        self.write()

    def write(self) -> None:
        """Write the status, and the revision with it."""
        self.deployment = clone(self.cluster.update_status(DEPLOYMENT_RESOURCE, self.deployment))

    def record_scaling(self, message: str) -> None:
        """Record a ScalingReplicaSet event."""
        self.recorder.event(self.deployment, KIND, NORMAL, "ScalingReplicaSet", message)

    def scale_set(self, replica_set: Obj, size: int, *, always: bool = False) -> bool:
        """Set the size of a ReplicaSet; return whether it changed."""
        before = replica_set["spec"].get("replicas", 1)
        if before == size and not always:
            return False
        desired_replicas = get_desired_replicas(self.deployment)
        surge, _ = resolve_fenceposts(self.deployment)
        changed = clone(replica_set)
        changed["spec"]["replicas"] = size
        annotations = changed["metadata"].setdefault("annotations", {})
        annotations[DESIRED_REPLICAS] = str(desired_replicas)
        annotations[MAX_REPLICAS] = str(desired_replicas + surge)
        if changed == replica_set:
            return False
        stored = self.cluster.update(REPLICA_SET_RESOURCE, changed)
        if replica_set is self.new_set:
            self.new_set = stored
        else:
            self.old_sets = [
                stored if old_set is replica_set else old_set for old_set in self.old_sets
            ]
        if before == size:
            return False
        way = "up" if before < size else "down"
        self.record_scaling(f"Scaled {way} replica set {name_of(stored)} from {before} to {size}")
        return True


def _has_same_template(replica_set: Obj, template: Obj) -> bool:
    """Return whether the ReplicaSet has `template`, apart from its hash label."""
    replica_set_template = clone(replica_set["spec"]["template"])
    (replica_set_template.get("metadata") or {}).get("labels", {}).pop(HASH_LABEL, None)
    own = clone(template)
    (own.get("metadata") or {}).get("labels", {}).pop(HASH_LABEL, None)
    return bool(replica_set_template == own)


class ProgressSync:
    """Updates the status, and syncs again at the progress deadline."""

    def __init__(self, view: DeploymentView, queue: Workqueue[str]) -> None:
        self.view = view
        self._queue = queue

    def sync(self, *, only_counts: bool = False) -> None:
        """Update the status if it changed, and sync again at the progress deadline.

        Source: kube-controller-manager, progress.go, `syncRolloutStatus`.
        """
        deployment = self.view.deployment
        stamp = self.view.cluster.clock.stamp()
        status = calculate_status(deployment, self.view.all, self.view.new_set, stamp)
        if not only_counts and not is_being_deleted(deployment):
            status["conditions"] = self._progress(status, stamp)
            status["conditions"] = self._failures(status["conditions"])
        if status != deployment.get("status"):
            deployment["status"] = status
            self.view.write()
        else:
            self._requeue_at_deadline(status)

    def _progress(self, status: Obj, stamp: str) -> list[Obj]:
        deployment, conditions = self.view.deployment, status["conditions"]
        other_conditions: list[Obj] = [
            condition for condition in conditions if condition["type"] != "Progressing"
        ]
        if get_progress_deadline(deployment) is None:
            return other_conditions
        current = get_condition(deployment, "Progressing")
        if (
            status.get("replicas", 0) == status.get("updatedReplicas", 0)
            and current is not None
            and current.get("reason") == "NewReplicaSetAvailable"
        ):
            return list(conditions)
        new_set = self.view.new_set
        subject = (
            f'ReplicaSet "{name_of(new_set)}"'
            if new_set is not None
            else f'Deployment "{name_of(deployment)}"'
        )
        if is_complete(deployment, status):
            message = f"{subject} has successfully progressed."
            condition = make_condition(
                "Progressing", "True", "NewReplicaSetAvailable", message, stamp
            )
            return set_condition(conditions, condition)
        if is_progressing(deployment, status):
            message = f"{subject} is progressing."
            condition = make_condition("Progressing", "True", "ReplicaSetUpdated", message, stamp)
            if current is not None and current["status"] == "True":
                condition["lastTransitionTime"] = current["lastTransitionTime"]
            # Written even if only its update time changes: the deadline counts from that.
            return [*other_conditions, condition]
        if has_timed_out(deployment, status, self.view.cluster.clock.time()):
            message = f"{subject} has timed out progressing."
            condition = make_condition(
                "Progressing", "False", "ProgressDeadlineExceeded", message, stamp
            )
            return set_condition(conditions, condition)
        return list(conditions)

    def _failures(self, conditions: list[Obj]) -> list[Obj]:
        sets = [
            *([self.view.new_set] if self.view.new_set is not None else []),
            *self.view.old_sets,
        ]
        for replica_set in sets:
            failure = get_condition(replica_set, "ReplicaFailure")
            if failure is not None:
                condition = {"lastUpdateTime": failure["lastTransitionTime"], **failure}
                return set_condition(conditions, condition)
        return [condition for condition in conditions if condition["type"] != "ReplicaFailure"]

    def _requeue_at_deadline(self, status: Obj) -> None:
        deadline = get_progress_deadline(self.view.deployment)
        current = get_condition(self.view.deployment, "Progressing")
        if (
            deadline is None
            or current is None
            or current.get("reason") == "ProgressDeadlineExceeded"
            or is_complete(self.view.deployment, status)
        ):
            return
        # A second more, as timestamps are truncated to seconds.
        moment = parse_time(current["lastUpdateTime"]) + deadline + 1
        soon = self.view.cluster.clock.time() + 0.1
        self._queue.add_at(key_of(self.view.deployment), max(moment, soon))


class NewReplicaSetSync:
    """Finds or creates the ReplicaSet of the present template."""

    def __init__(self, view: DeploymentView) -> None:
        self.view = view

    def sync(self, *, create: bool) -> None:
        """Find or create the ReplicaSet of the present template, and update revisions.

        Source: kube-controller-manager, sync.go, `getNewReplicaSet`.
        """
        number = calculate_next_revision(self.view.old_sets)
        if self.view.new_set is not None:
            self._update_new_set(number)
        elif create:
            self._create_new_set(number)

    def _update_new_set(self, number: int) -> None:
        new_set = clone(self.view.new_set)
        annotations = new_set["metadata"].setdefault("annotations", {})
        annotations.update(select_annotations(self.view.deployment))
        last = get_revision(new_set)
        if last < number:
            if last:
                history = annotations.get(REVISION_HISTORY)
                annotations[REVISION_HISTORY] = f"{history},{last}" if history else str(last)
            annotations[REVISION] = str(number)
        min_ready = self.view.deployment["spec"].get("minReadySeconds")
        if min_ready:
            new_set["spec"]["minReadySeconds"] = min_ready
        else:
            new_set["spec"].pop("minReadySeconds", None)
        if new_set != self.view.new_set:
            # Upstream conflicts with its own write here, and continues in the next sync.
            new_set = self.view.new_set = self.view.cluster.update(REPLICA_SET_RESOURCE, new_set)
        changed = self._set_revision(get_revision(new_set))
        if (
            get_progress_deadline(self.view.deployment) is not None
            and get_condition(self.view.deployment, "Progressing") is None
        ):
            message = f'Found new replica set "{name_of(new_set)}"'
            self.view.write_condition("True", "FoundNewReplicaSet", message)
        elif changed:
            self.view.write()

    def _set_revision(self, number: int) -> bool:
        annotations = self.view.deployment["metadata"].setdefault("annotations", {})
        if annotations.get(REVISION) == str(number):
            return False
        annotations[REVISION] = str(number)
        return True

    def _create_new_set(self, number: int) -> None:
        deployment, spec = self.view.deployment, self.view.deployment["spec"]
        status = deployment.get("status") or {}
        digest = compute_template_hash(spec["template"], status.get("collisionCount") or 0)
        template = clone(spec["template"])
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[HASH_LABEL] = digest
        selector = clone(spec["selector"])
        selector.setdefault("matchLabels", {})[HASH_LABEL] = digest
        count = calculate_new_replicas(deployment, self.view.old_sets, None)
        surge, _ = resolve_fenceposts(deployment)
        annotations = {
            **select_annotations(deployment),
            DESIRED_REPLICAS: str(get_desired_replicas(deployment)),
            MAX_REPLICAS: str(get_desired_replicas(deployment) + surge),
            REVISION: str(number),
        }
        new_set: Obj = {
            "metadata": {
                "name": f"{name_of(deployment)}-{digest}",
                "namespace": namespace_of(deployment),
                "labels": dict(labels),
                "annotations": annotations,
                "ownerReferences": [make_controller_ref(deployment, *KIND)],
            },
            "spec": {"replicas": count, "selector": selector, "template": template},
        }
        if spec.get("minReadySeconds"):
            new_set["spec"]["minReadySeconds"] = spec["minReadySeconds"]
        try:
            self.view.new_set = self.view.cluster.create(
                REPLICA_SET_RESOURCE, new_set, namespace_of(deployment)
            )
        except StatusError as error:
            self._record_failure(error, name_of(new_set))
            raise
        if count > 0:
            self.view.record_scaling(
                f"Scaled up replica set {name_of(self.view.new_set)} from 0 to {count}"
            )
        self._set_revision(number)
        if get_progress_deadline(deployment) is not None:
            message = f'Created new replica set "{name_of(self.view.new_set)}"'
            self.view.write_condition("True", "NewReplicaSetCreated", message)
        else:
            self.view.write()

    def _record_failure(self, error: StatusError, name: str) -> None:
        if error.reason == "AlreadyExists":
            # Another template has this name: the next try computes another one.
            status = self.view.deployment.setdefault("status", {})
            status["collisionCount"] = (status.get("collisionCount") or 0) + 1
            self.view.write()
        elif not is_namespace_terminating(error):
            message = f'Failed to create new replica set "{name}": {error.message}'
            if get_progress_deadline(self.view.deployment) is not None:
                self.view.write_condition("False", "ReplicaSetCreateError", message)
            self.view.recorder.event(
                self.view.deployment, KIND, WARNING, "ReplicaSetCreateError", message
            )


class Rollout:
    """One sync of a Deployment.

    Args:
        queue: queues the Deployment again.
    """

    def __init__(
        self, view: DeploymentView, pods: ControllerRefManager, queue: Workqueue[str]
    ) -> None:
        self.view = view
        self._pods = pods
        self._new_set = NewReplicaSetSync(view)
        self._progress = ProgressSync(view, queue)

    def run(self) -> None:
        """Sync the Deployment and update its status."""
        if is_being_deleted(self.view.deployment):
            self._progress.sync()
            return
        self._check_paused()
        spec = self.view.deployment["spec"]
        if spec.get("paused") or self._was_scaled():
            self._new_set.sync(create=False)
            self._scale()
            self._clean_up_if_complete(paused=bool(spec.get("paused")))
            self._progress.sync(only_counts=True)
        elif (spec.get("strategy") or {}).get("type") == "Recreate":
            self._recreate()
        else:
            self._roll()

    def _check_paused(self) -> None:
        """Set the Progressing condition of a paused or resumed rollout.

        Source: kube-controller-manager, sync.go, `checkPausedConditions`.
        """
        if get_progress_deadline(self.view.deployment) is None:
            return
        current = get_condition(self.view.deployment, "Progressing")
        if current is not None and current.get("reason") == "ProgressDeadlineExceeded":
            return
        was_paused = current is not None and current.get("reason") == "DeploymentPaused"
        paused = bool(self.view.deployment["spec"].get("paused"))
        if paused and not was_paused:
            self.view.write_condition("Unknown", "DeploymentPaused", "Deployment is paused")
        elif not paused and was_paused:
            self.view.write_condition("Unknown", "DeploymentResumed", "Deployment is resumed")

    def _was_scaled(self) -> bool:
        desired_replicas = str(get_desired_replicas(self.view.deployment))
        return any(
            (replica_set["metadata"].get("annotations") or {}).get(
                DESIRED_REPLICAS, desired_replicas
            )
            != desired_replicas
            for replica_set in self.view.all
            if replica_set["spec"].get("replicas", 1) > 0
        )

    def _scale(self) -> None:
        """Scale to a changed `spec.replicas` without a rollout step.

        Source: kube-controller-manager, sync.go, `scale`.
        """
        desired_replicas = get_desired_replicas(self.view.deployment)
        active = [*self.view.active_old]
        if self.view.new_set is not None and self.view.new_set["spec"].get("replicas", 1) > 0:
            active.append(self.view.new_set)
        newest = self.view.new_set
        if newest is None and self.view.old_sets:
            newest = self.view.old_sets[-1]
        if len(active) <= 1:
            replica_set = active[0] if active else newest
            if replica_set is not None:
                self.view.scale_set(replica_set, desired_replicas, always=True)
            return
        if self._is_saturated(desired_replicas):
            for old in self.view.active_old:
                self.view.scale_set(old, 0)
            return
        if (self.view.deployment["spec"].get("strategy") or {}).get("type") != "Recreate":
            sizes = calculate_proportions(self.view.deployment, active)
            for replica_set in active:
                self.view.scale_set(replica_set, sizes[name_of(replica_set)], always=True)

    def _is_saturated(self, desired_replicas: int) -> bool:
        new_set = self.view.new_set
        return (
            new_set is not None
            and new_set["spec"].get("replicas", 1) == desired_replicas
            and (new_set["metadata"].get("annotations") or {}).get(DESIRED_REPLICAS)
            == str(desired_replicas)
            and (new_set.get("status") or {}).get("availableReplicas", 0) == desired_replicas
        )

    def _recreate(self) -> None:
        """Delete all old pods before the first new one is created.

        Source: kube-controller-manager, recreate.go.
        """
        self._new_set.sync(create=False)
        scaled = [self.view.scale_set(old, 0) for old in self.view.active_old]
        if any(scaled) or self._has_old_pods():
            self._progress.sync()
            return
        if self.view.new_set is None:
            self._new_set.sync(create=True)
        if self.view.new_set is not None:
            self.view.scale_set(self.view.new_set, get_desired_replicas(self.view.deployment))
        self._clean_up_if_complete()
        self._progress.sync()

    def _has_old_pods(self) -> bool:
        if sum_replicas(self.view.old_sets, "replicas") > 0:
            return True
        return any(
            (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
            for old in self.view.old_sets
            for pod in self._pods.of(uid_of(old))
        )

    def _roll(self) -> None:
        """Scale the new ReplicaSet up and old ones down within the fenceposts, by one step.

        Source: kube-controller-manager, rolling.go.
        """
        self._new_set.sync(create=True)
        if self._grow_new_set() or self._shrink_old_sets():
            self._progress.sync()
            return
        self._clean_up_if_complete()
        self._progress.sync()

    def _grow_new_set(self) -> bool:
        new_set = self.view.new_set
        if new_set is None:
            return False
        desired_size, size = (
            get_desired_replicas(self.view.deployment),
            new_set["spec"].get("replicas", 1),
        )
        if size == desired_size:
            return False
        if size > desired_size:
            return self.view.scale_set(new_set, desired_size)
        return self.view.scale_set(
            new_set,
            calculate_new_replicas(self.view.deployment, self.view.all, new_set),
        )

    def _shrink_old_sets(self) -> bool:
        if sum_replicas(self.view.old_sets, "spec") == 0 or self.view.new_set is None:
            return False
        _, unavailable = resolve_fenceposts(self.view.deployment)
        least = get_desired_replicas(self.view.deployment) - unavailable
        new_set_unavailable = self.view.new_set["spec"].get("replicas", 1) - sum_replicas(
            [self.view.new_set], "availableReplicas"
        )
        removable = sum_replicas(self.view.all, "spec") - least - new_set_unavailable
        if removable <= 0:
            return False
        scaled = False
        # Unhealthy pods are removed first, whatever their age.
        for old in self.view.active_old:
            size = old["spec"].get("replicas", 1)
            broken = min(removable, size - sum_replicas([old], "availableReplicas"))
            if broken > 0:
                scaled = self.view.scale_set(old, size - broken) or scaled
                removable -= broken
        spare = sum_replicas(self.view.all, "availableReplicas") - least
        for old in self.view.active_old:
            size = old["spec"].get("replicas", 1)
            count = min(size, spare)
            if count > 0:
                scaled = self.view.scale_set(old, size - count) or scaled
                spare -= count
        return scaled

    def _clean_up_if_complete(self, *, paused: bool = False) -> None:
        """Delete the oldest empty ReplicaSets beyond the history limit."""
        limit = self.view.deployment["spec"].get("revisionHistoryLimit", 10)
        if paused or not is_complete(
            self.view.deployment, self.view.deployment.get("status") or {}
        ):
            return
        empty = [
            replica_set
            for replica_set in sorted(self.view.old_sets, key=get_revision)
            if replica_set["spec"].get("replicas", 1) == 0
            and not (replica_set.get("status") or {}).get("replicas")
            and not is_being_deleted(replica_set)
        ]
        for replica_set in empty[: max(0, len(self.view.old_sets) - limit)]:
            self.view.cluster.delete(
                REPLICA_SET_RESOURCE,
                name_of(replica_set),
                namespace_of(replica_set),
                propagation="Background",
            )


class DeploymentController:
    """Rolls Deployments out.

    Args:
        sets: the cluster's ReplicaSets by owner.
    """

    def __init__(
        self, cluster: Cluster, sets: ControllerRefManager, pods: ControllerRefManager
    ) -> None:
        self._cluster = cluster
        self._sets = sets
        self._pods = pods
        self._recorder = EventRecorder(cluster, "deployment-controller")
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "deployment-controller")
        self._index = OwnerIndex(cluster, DEPLOYMENT_RESOURCE, sets, self._queue)
        pods.listen(self._pod_changed)

    def _pod_changed(self, pod: Obj, owner_uid: str | None, previous_uid: str | None) -> None:
        # Only the last pod of an old ReplicaSet matters, to a waiting Recreate rollout.
        if owner_uid is not None or previous_uid is None:
            return
        reference = owner_of(pod)
        if reference is None or reference["kind"] != "ReplicaSet":
            return
        replica_set = self._cluster.find(REPLICA_SET_RESOURCE, reference["name"], namespace_of(pod))
        owner = owner_of(replica_set) if replica_set is not None else None
        key = self._index.find_key(owner["uid"]) if owner is not None else None
        if key is None:
            return
        namespace, name = split_key(key)
        deployment = self._cluster.find(DEPLOYMENT_RESOURCE, name, namespace)
        if (
            deployment is not None
            and (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"
        ):
            self._queue.add(key)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        deployment = self._cluster.find(DEPLOYMENT_RESOURCE, name, namespace)
        if deployment is None:
            return
        sets = self._sets.claim(deployment, *KIND, deployment["spec"]["selector"])
        view = DeploymentView(self._cluster, self._recorder, clone(deployment), sets)
        Rollout(view, self._pods, self._queue).run()
