"""The stateful set controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.controller_refs import split_key
from pytest_kwait.simulator.controllers.pod_control import seconds_until_available
from pytest_kwait.simulator.controllers.pod_owners import PodOwnerIndex
from pytest_kwait.simulator.controllers.statefulset.claims import ClaimControl
from pytest_kwait.simulator.controllers.statefulset.revisions import Revisions
from pytest_kwait.simulator.controllers.statefulset.rollout import StatefulSetControl
from pytest_kwait.simulator.controllers.statefulset.stateful_pod_control import (
    KIND,
    get_replicas,
    is_member_of,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.event_recorder import EventRecorder
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager

__all__ = ["StatefulSetController"]

_SETS = "statefulsets.apps"
_NAME = "statefulset-controller"
# Seconds until a pod whose claim has yet to go is looked at again.
_STALE_CLAIM = 1.0
# Seconds of patience per pod, so that a pod's change costs the same however many there are.
_PAUSE_PER_POD = 0.001
_OPTIONAL = ("currentReplicas", "readyReplicas", "updatedReplicas")


class StatefulSetController:
    """Keeps the pods of each StatefulSet.

    Args:
        api: the cluster.
        pods: the cluster's pods by owner.
        revisions: the cluster's ControllerRevisions by owner.
    """

    def __init__(
        self, api: SimulatedCluster, pods: ControllerRefManager, revisions: ControllerRefManager
    ) -> None:
        self._api = api
        self._pods = pods
        self._recorder = EventRecorder(api, _NAME)
        self._claims = ClaimControl(api, self._recorder)
        self._revisions = Revisions(api, revisions)
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, _NAME)
        PodOwnerIndex(api, _SETS, pods, self._queue, _PAUSE_PER_POD)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        stateful_set = self._api.find(_SETS, name, namespace)
        if stateful_set is None:
            return
        spec = stateful_set["spec"]
        pods = self._pods.claim(
            stateful_set, *KIND, spec["selector"], only=lambda pod: is_member_of(stateful_set, pod)
        )
        versions = self._revisions.of(stateful_set)
        rollout = StatefulSetControl(
            self._api, self._recorder, self._claims, stateful_set, versions, pods
        )
        status, failure = rollout.run()
        self._write(stateful_set, status)
        self._revisions.truncate(stateful_set, versions, pods)
        if failure is not None:
            raise failure
        if rollout.stale:
            self._queue.add_after(key, _STALE_CLAIM)
        now, min_ready = self._api.clock.time(), spec.get("minReadySeconds") or 0
        waits = [wait for pod in pods if (wait := seconds_until_available(pod, min_ready, now))]
        if waits:
            self._queue.add_after(key, min(waits), scaled=False)

    def _write(self, stateful_set: Obj, status: Obj) -> None:
        """Write the status; a rolling update that is through leaves one revision.

        Source: statefulset/stateful_set_utils.go, `completeRollingUpdate`, `inconsistentStatus`.
        """
        wanted = get_replicas(stateful_set)
        rolling = (stateful_set["spec"].get("updateStrategy") or {}).get("type") == "RollingUpdate"
        numbers = {status[one] for one in ("updatedReplicas", "readyReplicas", "replicas")}
        if rolling and numbers == {wanted}:
            status["currentReplicas"] = wanted
            status["currentRevision"] = status["updateRevision"]
        last = self._api.find(_SETS, name_of(stateful_set), namespace_of(stateful_set))
        if last is None or uid_of(last) != uid_of(stateful_set):
            return
        for name in _OPTIONAL:
            if not status[name]:
                del status[name]
        before = dict(last.get("status") or {})
        conditions = before.pop("conditions", None)
        if before == status:
            return
        if conditions:
            status["conditions"] = conditions
        self._api.update_status(_SETS, {**last, "status": status})
