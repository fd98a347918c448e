"""One look at one Deployment: scale, roll, clean up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import get_condition, is_being_deleted
from pytest_kwait.simulator.controllers.deployment import deployment_util
from pytest_kwait.simulator.controllers.deployment.progress import ProgressSync
from pytest_kwait.simulator.controllers.deployment.revisions import Revisions
from pytest_kwait.simulator.controllers.deployment.view import REPLICA_SET_RESOURCE, DeploymentView
from pytest_kwait.simulator.objects import name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager
    from pytest_kwait.simulator.controllers.workqueue import Workqueue

__all__ = ["Rollout"]


class Rollout:
    """Takes the next step of the Deployment that `view` shows.

    Args:
        view: the Deployment.
        pods: the cluster's pods by owner.
        queue: where the Deployment is looked at again.
    """

    def __init__(
        self, view: DeploymentView, pods: ControllerRefManager, queue: Workqueue[str]
    ) -> None:
        self.view = view
        self._pods = pods
        self._revisions = Revisions(view)
        self._progress = ProgressSync(view, queue)

    def run(self) -> None:
        """Look, act, write."""
        if is_being_deleted(self.view.deployment):
            self._progress.sync()
            return
        self._check_paused()
        spec = self.view.deployment["spec"]
        if spec.get("paused") or self._was_scaled():
            self._revisions.sync(create=False)
            self._scale()
            self._clean_up_if_complete(paused=bool(spec.get("paused")))
            self._progress.sync(only_counts=True)
        elif (spec.get("strategy") or {}).get("type") == "Recreate":
            self._recreate()
        else:
            self._roll()

    def _check_paused(self) -> None:
        """Tell that progress is not measured while the rollout is paused.

        Source: kube-controller-manager, sync.go, `checkPausedConditions`.
        """
        if deployment_util.get_progress_deadline(self.view.deployment) is None:
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
        wanted = str(deployment_util.get_desired_replicas(self.view.deployment))
        return any(
            (one["metadata"].get("annotations") or {}).get(deployment_util.DESIRED_REPLICAS, wanted)
            != wanted
            for one in self.view.all
            if one["spec"].get("replicas", 1) > 0
        )

    def _scale(self) -> None:
        """Bring the sizes to a changed `spec.replicas` without rolling on.

        Source: kube-controller-manager, sync.go, `scale`.
        """
        wanted = deployment_util.get_desired_replicas(self.view.deployment)
        active = [*self.view.active_old]
        if self.view.new_set is not None and self.view.new_set["spec"].get("replicas", 1) > 0:
            active.append(self.view.new_set)
        newest = self.view.new_set
        if newest is None and self.view.old_sets:
            newest = self.view.old_sets[-1]
        if len(active) <= 1:
            one = active[0] if active else newest
            if one is not None:
                self.view.scale_set(one, wanted, always=True)
            return
        if self._saturated(wanted):
            for old in self.view.active_old:
                self.view.scale_set(old, 0)
            return
        if (self.view.deployment["spec"].get("strategy") or {}).get("type") != "Recreate":
            sizes = deployment_util.calculate_proportions(self.view.deployment, active)
            for one in active:
                self.view.scale_set(one, sizes[name_of(one)], always=True)

    def _saturated(self, wanted: int) -> bool:
        new_set = self.view.new_set
        return (
            new_set is not None
            and new_set["spec"].get("replicas", 1) == wanted
            and (new_set["metadata"].get("annotations") or {}).get(deployment_util.DESIRED_REPLICAS)
            == str(wanted)
            and (new_set.get("status") or {}).get("availableReplicas", 0) == wanted
        )

    def _recreate(self) -> None:
        """All old pods go before the first new one comes.

        Source: kube-controller-manager, recreate.go.
        """
        self._revisions.sync(create=False)
        scaled = [self.view.scale_set(old, 0) for old in self.view.active_old]
        if any(scaled) or self._old_pods_run():
            self._progress.sync()
            return
        if self.view.new_set is None:
            self._revisions.sync(create=True)
        if self.view.new_set is not None:
            self.view.scale_set(
                self.view.new_set, deployment_util.get_desired_replicas(self.view.deployment)
            )
        self._clean_up_if_complete()
        self._progress.sync()

    def _old_pods_run(self) -> bool:
        if deployment_util.sum_replicas(self.view.old_sets, "replicas") > 0:
            return True
        return any(
            (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
            for old in self.view.old_sets
            for pod in self._pods.of(uid_of(old))
        )

    def _roll(self) -> None:
        """Let new pods come and old ones go within the fenceposts, one step per look.

        Source: kube-controller-manager, rolling.go.
        """
        self._revisions.sync(create=True)
        if self._grow_new_set() or self._shrink_old_sets():
            self._progress.sync()
            return
        self._clean_up_if_complete()
        self._progress.sync()

    def _grow_new_set(self) -> bool:
        new_set = self.view.new_set
        if new_set is None:
            return False
        wanted, size = (
            deployment_util.get_desired_replicas(self.view.deployment),
            new_set["spec"].get("replicas", 1),
        )
        if size == wanted:
            return False
        if size > wanted:
            return self.view.scale_set(new_set, wanted)
        return self.view.scale_set(
            new_set,
            deployment_util.calculate_new_replicas(self.view.deployment, self.view.all, new_set),
        )

    def _shrink_old_sets(self) -> bool:
        if (
            deployment_util.sum_replicas(self.view.old_sets, "spec") == 0
            or self.view.new_set is None
        ):
            return False
        _, unavailable = deployment_util.resolve_fenceposts(self.view.deployment)
        least = deployment_util.get_desired_replicas(self.view.deployment) - unavailable
        coming = self.view.new_set["spec"].get("replicas", 1) - deployment_util.sum_replicas(
            [self.view.new_set], "availableReplicas"
        )
        removable = deployment_util.sum_replicas(self.view.all, "spec") - least - coming
        if removable <= 0:
            return False
        scaled = False
        # Pods that do not work go first, whatever their age.
        for old in self.view.active_old:
            size = old["spec"].get("replicas", 1)
            broken = min(removable, size - deployment_util.sum_replicas([old], "availableReplicas"))
            if broken > 0:
                scaled = self.view.scale_set(old, size - broken) or scaled
                removable -= broken
        spare = deployment_util.sum_replicas(self.view.all, "availableReplicas") - least
        for old in self.view.active_old:
            size = old["spec"].get("replicas", 1)
            count = min(size, spare)
            if count > 0:
                scaled = self.view.scale_set(old, size - count) or scaled
                spare -= count
        return scaled

    def _clean_up_if_complete(self, *, paused: bool = False) -> None:
        """Forget the oldest empty ReplicaSets beyond the history limit."""
        limit = self.view.deployment["spec"].get("revisionHistoryLimit", 10)
        if paused or not deployment_util.is_complete(
            self.view.deployment, self.view.deployment.get("status") or {}
        ):
            return
        empty = [
            one
            for one in sorted(self.view.old_sets, key=deployment_util.get_revision)
            if one["spec"].get("replicas", 1) == 0
            and not (one.get("status") or {}).get("replicas")
            and not is_being_deleted(one)
        ]
        for one in empty[: max(0, len(self.view.old_sets) - limit)]:
            self.view.api.delete(
                REPLICA_SET_RESOURCE, name_of(one), namespace_of(one), propagation="Background"
            )
