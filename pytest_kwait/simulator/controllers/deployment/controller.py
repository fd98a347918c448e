"""The deployment controller: its queue, and which ReplicaSets belong to which Deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.controller_refs import key_of, split_key
from pytest_kwait.simulator.controllers.deployment.rolling import Rollout
from pytest_kwait.simulator.controllers.deployment.view import (
    DEPLOYMENT_RESOURCE,
    KIND,
    REPLICA_SET_RESOURCE,
    DeploymentView,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.event_recorder import EventRecorder
from pytest_kwait.simulator.objects import Obj, clone, namespace_of, owner_of, uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager

__all__ = ["DeploymentController"]


class DeploymentController:
    """Rolls Deployments out.

    Args:
        api: the cluster.
        sets: the cluster's ReplicaSets by owner.
        pods: the cluster's pods by owner.
    """

    def __init__(
        self, api: SimulatedCluster, sets: ControllerRefManager, pods: ControllerRefManager
    ) -> None:
        self._api = api
        self._sets = sets
        self._pods = pods
        self._recorder = EventRecorder(api, "deployment-controller")
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, "deployment-controller")
        self._by_uid: dict[str, str] = {}
        self._by_namespace: dict[str, set[str]] = {}
        api.subscribe(DEPLOYMENT_RESOURCE, self._changed)
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
        replica_set = self._api.find(REPLICA_SET_RESOURCE, reference["name"], namespace_of(pod))
        owner = owner_of(replica_set) if replica_set is not None else None
        key = self._by_uid.get(owner["uid"]) if owner is not None else None
        if key is None:
            return
        namespace, name = split_key(key)
        deployment = self._api.find(DEPLOYMENT_RESOURCE, name, namespace)
        if (
            deployment is not None
            and (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"
        ):
            self._queue.add(key)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        deployment = self._api.find(DEPLOYMENT_RESOURCE, name, namespace)
        if deployment is None:
            return
        sets = self._sets.claim(deployment, *KIND, deployment["spec"]["selector"])
        view = DeploymentView(self._api, self._recorder, clone(deployment), sets)
        Rollout(view, self._pods, self._queue).run()
