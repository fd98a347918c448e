"""Deployments: one ReplicaSet per pod template, rolled from the old ones to the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import condition_of, is_being_deleted, moment
from pytest_kwait.simulator.controllers import rollout
from pytest_kwait.simulator.controllers.ownership import controller_reference, key_of, split_key
from pytest_kwait.simulator.controllers.pods import is_namespace_terminating
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.events import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.objects import Obj, clone, name_of, namespace_of, owner_of, uid_of
from pytest_kwait.simulator.status_error import StatusError

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.controllers.ownership import Dependents

__all__ = ["DeploymentController"]

_KIND = ("apps/v1", "Deployment")
_SETS = "replicasets.apps"
_DEPLOYMENTS = "deployments.apps"


class DeploymentController:
    """Rolls Deployments out.

    Args:
        api: the cluster.
        sets: the cluster's ReplicaSets by owner.
        pods: the cluster's pods by owner.
    """

    def __init__(self, api: ClusterApi, sets: Dependents, pods: Dependents) -> None:
        self._api = api
        self._sets = sets
        self._pods = pods
        self._recorder = EventRecorder(api, "deployment-controller")
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, "deployment-controller")
        self._by_uid: dict[str, str] = {}
        self._by_namespace: dict[str, set[str]] = {}
        api.subscribe(_DEPLOYMENTS, self._changed)
        sets.listen(self._set_changed)
        pods.listen(self._pod_changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        key, uid = key_of(new), uid_of(new)
        if change == "DELETED":
            self._by_uid.pop(uid, None)
            self._by_namespace.get(namespace_of(new), set()).discard(key)
            self._queue.forget(key)
            return
        self._by_uid[uid] = key
        self._by_namespace.setdefault(namespace_of(new), set()).add(key)
        self._queue.add(key)

    def _set_changed(
        self, replica_set: Obj, owner_uid: str | None, previous_uid: str | None
    ) -> None:
        for uid in {owner_uid, previous_uid}:
            if uid is not None and uid in self._by_uid:
                self._queue.add(self._by_uid[uid])
        if owner_uid is None and owner_of(replica_set) is None:
            for key in self._by_namespace.get(namespace_of(replica_set), ()):
                self._queue.add(key)

    def _pod_changed(self, pod: Obj, owner_uid: str | None, previous_uid: str | None) -> None:
        # Only the last pod of an old ReplicaSet matters, to a Recreate rollout that waits for it.
        if owner_uid is not None or previous_uid is None:
            return
        reference = owner_of(pod)
        if reference is None or reference["kind"] != "ReplicaSet":
            return
        replica_set = self._api.find(_SETS, reference["name"], namespace_of(pod))
        owner = owner_of(replica_set) if replica_set is not None else None
        key = self._by_uid.get(owner["uid"]) if owner is not None else None
        if key is None:
            return
        namespace, name = split_key(key)
        deployment = self._api.find(_DEPLOYMENTS, name, namespace)
        if (
            deployment is not None
            and (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"
        ):
            self._queue.add(key)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        deployment = self._api.find(_DEPLOYMENTS, name, namespace)
        if deployment is None:
            return
        sets = self._sets.claim(deployment, *_KIND, deployment["spec"]["selector"])
        _Rollout(self._api, self._recorder, self._pods, self._queue, clone(deployment), sets).run()


class _Rollout:
    """One look at one Deployment; `deployment` is a private copy that follows what was written."""

    def __init__(
        self,
        api: ClusterApi,
        recorder: EventRecorder,
        pods: Dependents,
        queue: Workqueue[str],
        deployment: Obj,
        sets: list[Obj],
    ) -> None:
        self._api = api
        self._recorder = recorder
        self._pods = pods
        self._queue = queue
        self.deployment = deployment
        by_age = sorted(
            sets, key=lambda one: (moment(one["metadata"]["creationTimestamp"]), name_of(one))
        )
        template = deployment["spec"]["template"]
        self.new_set = next((one for one in by_age if _same_template(one, template)), None)
        self.old_sets = [one for one in by_age if one is not self.new_set]

    @property
    def _all(self) -> list[Obj]:
        return [*self.old_sets, *([self.new_set] if self.new_set is not None else [])]

    @property
    def _active_old(self) -> list[Obj]:
        return [one for one in self.old_sets if one["spec"].get("replicas", 1) > 0]

    def run(self) -> None:
        if is_being_deleted(self.deployment):
            self._sync_status()
            return
        self._check_paused()
        spec = self.deployment["spec"]
        if spec.get("paused") or self._was_scaled():
            self._sync_revision(create=False)
            self._scale()
            self._clean_up_if_complete(paused=bool(spec.get("paused")))
            self._sync_status(only_counts=True)
        elif (spec.get("strategy") or {}).get("type") == "Recreate":
            self._recreate()
        else:
            self._roll()

    def _check_paused(self) -> None:
        """Tell that progress is not measured while the rollout is paused.

        Source: kube-controller-manager, sync.go, `checkPausedConditions`.
        """
        if rollout.progress_deadline(self.deployment) is None:
            return
        current = condition_of(self.deployment, "Progressing")
        if current is not None and current.get("reason") == "ProgressDeadlineExceeded":
            return
        was_paused = current is not None and current.get("reason") == "DeploymentPaused"
        paused = bool(self.deployment["spec"].get("paused"))
        if paused and not was_paused:
            self._write_condition("Unknown", "DeploymentPaused", "Deployment is paused")
        elif not paused and was_paused:
            self._write_condition("Unknown", "DeploymentResumed", "Deployment is resumed")

    def _write_condition(self, status: str, reason: str, message: str) -> None:
        current = self.deployment.setdefault("status", {})
        changed = rollout.condition("Progressing", status, reason, message, self._api.clock.stamp())
        current["conditions"] = rollout.set_condition(
            list(current.get("conditions") or ()), changed
        )
        self._write()

    def _write(self) -> None:
        self.deployment = clone(self._api.update_status(_DEPLOYMENTS, self.deployment))

    def _was_scaled(self) -> bool:
        wanted = str(rollout.desired(self.deployment))
        return any(
            (one["metadata"].get("annotations") or {}).get(rollout.DESIRED, wanted) != wanted
            for one in self._all
            if one["spec"].get("replicas", 1) > 0
        )

    # -- the newest ReplicaSet

    def _sync_revision(self, *, create: bool) -> None:
        """Find or make the ReplicaSet of the present template, and keep the revision numbers.

        Source: kube-controller-manager, sync.go, `getNewReplicaSet`.
        """
        number = rollout.next_revision(self.old_sets)
        if self.new_set is not None:
            self._update_new_set(number)
        elif create:
            self._create_new_set(number)

    def _update_new_set(self, number: int) -> None:
        new_set = clone(self.new_set)
        annotations = new_set["metadata"].setdefault("annotations", {})
        annotations.update(rollout.annotations_to_copy(self.deployment))
        last = rollout.revision(new_set)
        if last < number:
            if last:
                history = annotations.get(rollout.REVISION_HISTORY)
                annotations[rollout.REVISION_HISTORY] = (
                    f"{history},{last}" if history else str(last)
                )
            annotations[rollout.REVISION] = str(number)
        min_ready = self.deployment["spec"].get("minReadySeconds")
        if min_ready:
            new_set["spec"]["minReadySeconds"] = min_ready
        else:
            new_set["spec"].pop("minReadySeconds", None)
        if new_set != self.new_set:
            self.new_set = self._api.update(_SETS, new_set)
            return
        changed = self._set_revision(rollout.revision(new_set))
        if (
            rollout.progress_deadline(self.deployment) is not None
            and condition_of(self.deployment, "Progressing") is None
        ):
            message = f'Found new replica set "{name_of(new_set)}"'
            self._write_condition("True", "FoundNewReplicaSet", message)
        elif changed:
            self._write()

    def _set_revision(self, number: int) -> bool:
        annotations = self.deployment["metadata"].setdefault("annotations", {})
        if annotations.get(rollout.REVISION) == str(number):
            return False
        annotations[rollout.REVISION] = str(number)
        return True

    def _create_new_set(self, number: int) -> None:
        deployment, spec = self.deployment, self.deployment["spec"]
        status = deployment.get("status") or {}
        digest = rollout.template_hash(spec["template"], status.get("collisionCount") or 0)
        template = clone(spec["template"])
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[rollout.HASH_LABEL] = digest
        selector = clone(spec["selector"])
        selector.setdefault("matchLabels", {})[rollout.HASH_LABEL] = digest
        count = rollout.new_replica_count(deployment, self.old_sets, None)
        surge, _ = rollout.fenceposts(deployment)
        annotations = {
            **rollout.annotations_to_copy(deployment),
            rollout.DESIRED: str(rollout.desired(deployment)),
            rollout.MAX: str(rollout.desired(deployment) + surge),
            rollout.REVISION: str(number),
        }
        new_set: Obj = {
            "metadata": {
                "name": f"{name_of(deployment)}-{digest}",
                "namespace": namespace_of(deployment),
                "labels": dict(labels),
                "annotations": annotations,
                "ownerReferences": [controller_reference(deployment, *_KIND)],
            },
            "spec": {"replicas": count, "selector": selector, "template": template},
        }
        if spec.get("minReadySeconds"):
            new_set["spec"]["minReadySeconds"] = spec["minReadySeconds"]
        try:
            self.new_set = self._api.create(_SETS, new_set, namespace_of(deployment))
        except StatusError as error:
            self._creation_refused(error, name_of(new_set))
            raise
        if count > 0:
            self._tell(f"Scaled up replica set {name_of(self.new_set)} from 0 to {count}")
        self._set_revision(number)
        if rollout.progress_deadline(deployment) is not None:
            message = f'Created new replica set "{name_of(self.new_set)}"'
            self._write_condition("True", "NewReplicaSetCreated", message)
        else:
            self._write()

    def _creation_refused(self, error: StatusError, name: str) -> None:
        if error.reason == "AlreadyExists":
            # Another template has this name: the next try computes another one.
            status = self.deployment.setdefault("status", {})
            status["collisionCount"] = (status.get("collisionCount") or 0) + 1
            self._write()
        elif not is_namespace_terminating(error):
            message = f'Failed to create new replica set "{name}": {error.message}'
            if rollout.progress_deadline(self.deployment) is not None:
                self._write_condition("False", "ReplicaSetCreateError", message)
            self._recorder.event(self.deployment, _KIND, WARNING, "ReplicaSetCreateError", message)

    def _tell(self, message: str) -> None:
        self._recorder.event(self.deployment, _KIND, NORMAL, "ScalingReplicaSet", message)

    # -- scaling

    def _scale_set(self, replica_set: Obj, size: int, *, always: bool = False) -> bool:
        """Give a ReplicaSet its size; True if that changed it."""
        before = replica_set["spec"].get("replicas", 1)
        if before == size and not always:
            return False
        wanted = rollout.desired(self.deployment)
        surge, _ = rollout.fenceposts(self.deployment)
        changed = clone(replica_set)
        changed["spec"]["replicas"] = size
        annotations = changed["metadata"].setdefault("annotations", {})
        annotations[rollout.DESIRED] = str(wanted)
        annotations[rollout.MAX] = str(wanted + surge)
        if changed == replica_set:
            return False
        stored = self._api.update(_SETS, changed)
        if replica_set is self.new_set:
            self.new_set = stored
        else:
            self.old_sets = [stored if one is replica_set else one for one in self.old_sets]
        if before == size:
            return False
        way = "up" if before < size else "down"
        self._tell(f"Scaled {way} replica set {name_of(stored)} from {before} to {size}")
        return True

    def _scale(self) -> None:
        """Bring the sizes to a changed `spec.replicas` without rolling on.

        Source: kube-controller-manager, sync.go, `scale`.
        """
        wanted = rollout.desired(self.deployment)
        active = [*self._active_old]
        if self.new_set is not None and self.new_set["spec"].get("replicas", 1) > 0:
            active.append(self.new_set)
        newest = self.new_set
        if newest is None and self.old_sets:
            newest = self.old_sets[-1]
        if len(active) <= 1:
            one = active[0] if active else newest
            if one is not None:
                self._scale_set(one, wanted, always=True)
            return
        if self._saturated(wanted):
            for old in self._active_old:
                self._scale_set(old, 0)
            return
        if (self.deployment["spec"].get("strategy") or {}).get("type") != "Recreate":
            sizes = rollout.proportions(self.deployment, active)
            for one in active:
                self._scale_set(one, sizes[name_of(one)], always=True)

    def _saturated(self, wanted: int) -> bool:
        new_set = self.new_set
        return (
            new_set is not None
            and new_set["spec"].get("replicas", 1) == wanted
            and (new_set["metadata"].get("annotations") or {}).get(rollout.DESIRED) == str(wanted)
            and (new_set.get("status") or {}).get("availableReplicas", 0) == wanted
        )

    # -- rolling

    def _recreate(self) -> None:
        """All old pods go before the first new one comes.

        Source: kube-controller-manager, recreate.go.
        """
        self._sync_revision(create=False)
        scaled = [self._scale_set(old, 0) for old in self._active_old]
        if any(scaled) or self._old_pods_run():
            self._sync_status()
            return
        if self.new_set is None:
            self._sync_revision(create=True)
        if self.new_set is not None:
            self._scale_set(self.new_set, rollout.desired(self.deployment))
        self._clean_up_if_complete()
        self._sync_status()

    def _old_pods_run(self) -> bool:
        if rollout.total(self.old_sets, "replicas") > 0:
            return True
        return any(
            (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
            for old in self.old_sets
            for pod in self._pods.of(uid_of(old))
        )

    def _roll(self) -> None:
        """Let new pods come and old ones go within the fenceposts, one step per look.

        Source: kube-controller-manager, rolling.go.
        """
        self._sync_revision(create=True)
        if self._grow_new_set() or self._shrink_old_sets():
            self._sync_status()
            return
        self._clean_up_if_complete()
        self._sync_status()

    def _grow_new_set(self) -> bool:
        new_set = self.new_set
        if new_set is None:
            return False
        wanted, size = rollout.desired(self.deployment), new_set["spec"].get("replicas", 1)
        if size == wanted:
            return False
        if size > wanted:
            return self._scale_set(new_set, wanted)
        return self._scale_set(
            new_set, rollout.new_replica_count(self.deployment, self._all, new_set)
        )

    def _shrink_old_sets(self) -> bool:
        if rollout.total(self.old_sets, "spec") == 0 or self.new_set is None:
            return False
        _, unavailable = rollout.fenceposts(self.deployment)
        least = rollout.desired(self.deployment) - unavailable
        coming = self.new_set["spec"].get("replicas", 1) - rollout.total(
            [self.new_set], "availableReplicas"
        )
        removable = rollout.total(self._all, "spec") - least - coming
        if removable <= 0:
            return False
        scaled = False
        # Pods that do not work go first, whatever their age.
        for old in self._active_old:
            size = old["spec"].get("replicas", 1)
            broken = min(removable, size - rollout.total([old], "availableReplicas"))
            if broken > 0:
                scaled = self._scale_set(old, size - broken) or scaled
                removable -= broken
        spare = rollout.total(self._all, "availableReplicas") - least
        for old in self._active_old:
            size = old["spec"].get("replicas", 1)
            count = min(size, spare)
            if count > 0:
                scaled = self._scale_set(old, size - count) or scaled
                spare -= count
        return scaled

    def _clean_up_if_complete(self, *, paused: bool = False) -> None:
        """Forget the oldest empty ReplicaSets beyond the history limit."""
        limit = self.deployment["spec"].get("revisionHistoryLimit", 10)
        if paused or not rollout.complete(self.deployment, self.deployment.get("status") or {}):
            return
        empty = [
            one
            for one in sorted(self.old_sets, key=rollout.revision)
            if one["spec"].get("replicas", 1) == 0
            and not (one.get("status") or {}).get("replicas")
            and not is_being_deleted(one)
        ]
        for one in empty[: max(0, len(self.old_sets) - limit)]:
            self._api.delete(_SETS, name_of(one), namespace_of(one), propagation="Background")

    # -- status

    def _sync_status(self, *, only_counts: bool = False) -> None:
        """Write the status where it changed, and look again when the progress deadline ends.

        Source: kube-controller-manager, progress.go, `syncRolloutStatus`.
        """
        deployment = self.deployment
        stamp = self._api.clock.stamp()
        status = rollout.deployment_status(deployment, self._all, self.new_set, stamp)
        if not only_counts and not is_being_deleted(deployment):
            status["conditions"] = self._progress(status, stamp)
            status["conditions"] = self._failures(status["conditions"])
        if status != deployment.get("status"):
            deployment["status"] = status
            self._write()
        else:
            self._look_again(status)

    def _progress(self, status: Obj, stamp: str) -> list[Obj]:
        deployment, conditions = self.deployment, status["conditions"]
        others: list[Obj] = [one for one in conditions if one["type"] != "Progressing"]
        if rollout.progress_deadline(deployment) is None:
            return others
        current = condition_of(deployment, "Progressing")
        if (
            status.get("replicas", 0) == status.get("updatedReplicas", 0)
            and current is not None
            and current.get("reason") == "NewReplicaSetAvailable"
        ):
            return list(conditions)
        new_set = self.new_set
        subject = (
            f'ReplicaSet "{name_of(new_set)}"'
            if new_set is not None
            else f'Deployment "{name_of(deployment)}"'
        )
        if rollout.complete(deployment, status):
            message = f"{subject} has successfully progressed."
            told = rollout.condition(
                "Progressing", "True", "NewReplicaSetAvailable", message, stamp
            )
            return rollout.set_condition(conditions, told)
        if rollout.progressing(deployment, status):
            message = f"{subject} is progressing."
            told = rollout.condition("Progressing", "True", "ReplicaSetUpdated", message, stamp)
            if current is not None and current["status"] == "True":
                told["lastTransitionTime"] = current["lastTransitionTime"]
            # Written anew even for its update time alone: the deadline counts from that.
            return [*others, told]
        if rollout.timed_out(deployment, status, self._api.clock.time()):
            message = f"{subject} has timed out progressing."
            told = rollout.condition(
                "Progressing", "False", "ProgressDeadlineExceeded", message, stamp
            )
            return rollout.set_condition(conditions, told)
        return list(conditions)

    def _failures(self, conditions: list[Obj]) -> list[Obj]:
        sets = [*([self.new_set] if self.new_set is not None else []), *self.old_sets]
        for one in sets:
            found = condition_of(one, "ReplicaFailure")
            if found is not None:
                told = {"lastUpdateTime": found["lastTransitionTime"], **found}
                return rollout.set_condition(conditions, told)
        return [one for one in conditions if one["type"] != "ReplicaFailure"]

    def _look_again(self, status: Obj) -> None:
        deadline = rollout.progress_deadline(self.deployment)
        current = condition_of(self.deployment, "Progressing")
        if (
            deadline is None
            or current is None
            or current.get("reason") == "ProgressDeadlineExceeded"
            or rollout.complete(self.deployment, status)
        ):
            return
        # A second more, as stamps are cut to seconds.
        after = moment(current["lastUpdateTime"]) + deadline + 1 - self._api.clock.time()
        self._queue.add_after(key_of(self.deployment), max(after, 0.1), scaled=False)


def _same_template(replica_set: Obj, template: Obj) -> bool:
    """Whether the ReplicaSet was made from `template`, its hash label aside."""
    theirs = clone(replica_set["spec"]["template"])
    (theirs.get("metadata") or {}).get("labels", {}).pop(rollout.HASH_LABEL, None)
    ours = clone(template)
    (ours.get("metadata") or {}).get("labels", {}).pop(rollout.HASH_LABEL, None)
    return bool(theirs == ours)
