"""What one look at one Deployment sees, and the writes that all its parts share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import parse_timestamp
from pytest_kwait.simulator.controllers.deployment import deployment_util
from pytest_kwait.simulator.event_recorder import NORMAL
from pytest_kwait.simulator.objects import Obj, clone, name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.event_recorder import EventRecorder

__all__ = ["DEPLOYMENT_RESOURCE", "KIND", "REPLICA_SET_RESOURCE", "DeploymentView"]

KIND = ("apps/v1", "Deployment")
REPLICA_SET_RESOURCE = "replicasets.apps"
DEPLOYMENT_RESOURCE = "deployments.apps"


class DeploymentView:
    """A Deployment and its ReplicaSets; both follow what was written.

    Args:
        api: the cluster.
        recorder: tells what was done.
        deployment: a private copy.
        sets: the ReplicaSets it owns.
    """

    def __init__(
        self, api: SimulatedCluster, recorder: EventRecorder, deployment: Obj, sets: list[Obj]
    ) -> None:
        self.api = api
        self.recorder = recorder
        self.deployment = deployment
        by_age = sorted(
            sets,
            key=lambda one: (parse_timestamp(one["metadata"]["creationTimestamp"]), name_of(one)),
        )
        template = deployment["spec"]["template"]
        self.new_set = next((one for one in by_age if _has_same_template(one, template)), None)
        self.old_sets = [one for one in by_age if one is not self.new_set]

    @property
    def all(self) -> list[Obj]:
        """Every ReplicaSet, the newest one last."""
        return [*self.old_sets, *([self.new_set] if self.new_set is not None else [])]

    @property
    def active_old(self) -> list[Obj]:
        """The old ones that shall have pods."""
        return [one for one in self.old_sets if one["spec"].get("replicas", 1) > 0]

    def write_condition(self, status: str, reason: str, message: str) -> None:
        """Set the Progressing condition and write the status."""
        current = self.deployment.setdefault("status", {})
        changed = deployment_util.make_condition(
            "Progressing", status, reason, message, self.api.clock.stamp()
        )
        current["conditions"] = deployment_util.set_condition(
            list(current.get("conditions") or ()), changed
        )
        self.write()

    def write(self) -> None:
        """Write the status, and the revision with it."""
        self.deployment = clone(self.api.update_status(DEPLOYMENT_RESOURCE, self.deployment))

    def tell(self, message: str) -> None:
        """Tell of a change of size in an event."""
        self.recorder.event(self.deployment, KIND, NORMAL, "ScalingReplicaSet", message)

    def scale_set(self, replica_set: Obj, size: int, *, always: bool = False) -> bool:
        """Give a ReplicaSet its size; True if that changed it."""
        before = replica_set["spec"].get("replicas", 1)
        if before == size and not always:
            return False
        wanted = deployment_util.get_desired_replicas(self.deployment)
        surge, _ = deployment_util.resolve_fenceposts(self.deployment)
        changed = clone(replica_set)
        changed["spec"]["replicas"] = size
        annotations = changed["metadata"].setdefault("annotations", {})
        annotations[deployment_util.DESIRED_REPLICAS] = str(wanted)
        annotations[deployment_util.MAX_REPLICAS] = str(wanted + surge)
        if changed == replica_set:
            return False
        stored = self.api.update(REPLICA_SET_RESOURCE, changed)
        if replica_set is self.new_set:
            self.new_set = stored
        else:
            self.old_sets = [stored if one is replica_set else one for one in self.old_sets]
        if before == size:
            return False
        way = "up" if before < size else "down"
        self.tell(f"Scaled {way} replica set {name_of(stored)} from {before} to {size}")
        return True


def _has_same_template(replica_set: Obj, template: Obj) -> bool:
    """Whether the ReplicaSet was made from `template`, its hash label aside."""
    theirs = clone(replica_set["spec"]["template"])
    (theirs.get("metadata") or {}).get("labels", {}).pop(deployment_util.HASH_LABEL, None)
    ours = clone(template)
    (ours.get("metadata") or {}).get("labels", {}).pop(deployment_util.HASH_LABEL, None)
    return bool(theirs == ours)
