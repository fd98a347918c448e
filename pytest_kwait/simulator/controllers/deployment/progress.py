"""How a rollout comes on: the counts, the conditions, the deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import get_condition, is_being_deleted, parse_timestamp
from pytest_kwait.simulator.controllers.controller_refs import key_of
from pytest_kwait.simulator.controllers.deployment import deployment_util
from pytest_kwait.simulator.objects import Obj, name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.controllers.deployment.view import DeploymentView
    from pytest_kwait.simulator.controllers.workqueue import Workqueue

__all__ = ["ProgressSync"]


class ProgressSync:
    """Writes the status, and has the Deployment looked at when its deadline ends."""

    def __init__(self, view: DeploymentView, queue: Workqueue[str]) -> None:
        self.view = view
        self._queue = queue

    def sync(self, *, only_counts: bool = False) -> None:
        """Write the status where it changed, and look again when the progress deadline ends.

        Source: kube-controller-manager, progress.go, `syncRolloutStatus`.
        """
        deployment = self.view.deployment
        stamp = self.view.api.clock.stamp()
        status = deployment_util.calculate_status(
            deployment, self.view.all, self.view.new_set, stamp
        )
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
        others: list[Obj] = [one for one in conditions if one["type"] != "Progressing"]
        if deployment_util.get_progress_deadline(deployment) is None:
            return others
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
        if deployment_util.is_complete(deployment, status):
            message = f"{subject} has successfully progressed."
            told = deployment_util.make_condition(
                "Progressing", "True", "NewReplicaSetAvailable", message, stamp
            )
            return deployment_util.set_condition(conditions, told)
        if deployment_util.is_progressing(deployment, status):
            message = f"{subject} is progressing."
            told = deployment_util.make_condition(
                "Progressing", "True", "ReplicaSetUpdated", message, stamp
            )
            if current is not None and current["status"] == "True":
                told["lastTransitionTime"] = current["lastTransitionTime"]
            # Written anew even for its update time alone: the deadline counts from that.
            return [*others, told]
        if deployment_util.has_timed_out(deployment, status, self.view.api.clock.time()):
            message = f"{subject} has timed out progressing."
            told = deployment_util.make_condition(
                "Progressing", "False", "ProgressDeadlineExceeded", message, stamp
            )
            return deployment_util.set_condition(conditions, told)
        return list(conditions)

    def _failures(self, conditions: list[Obj]) -> list[Obj]:
        sets = [
            *([self.view.new_set] if self.view.new_set is not None else []),
            *self.view.old_sets,
        ]
        for one in sets:
            found = get_condition(one, "ReplicaFailure")
            if found is not None:
                told = {"lastUpdateTime": found["lastTransitionTime"], **found}
                return deployment_util.set_condition(conditions, told)
        return [one for one in conditions if one["type"] != "ReplicaFailure"]

    def _requeue_at_deadline(self, status: Obj) -> None:
        deadline = deployment_util.get_progress_deadline(self.view.deployment)
        current = get_condition(self.view.deployment, "Progressing")
        if (
            deadline is None
            or current is None
            or current.get("reason") == "ProgressDeadlineExceeded"
            or deployment_util.is_complete(self.view.deployment, status)
        ):
            return
        # A second more, as stamps are cut to seconds.
        after = (
            parse_timestamp(current["lastUpdateTime"]) + deadline + 1 - self.view.api.clock.time()
        )
        self._queue.add_after(key_of(self.view.deployment), max(after, 0.1), scaled=False)
