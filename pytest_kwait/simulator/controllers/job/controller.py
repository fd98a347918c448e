"""The job controller: its queue, and which pods belong to which Job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.controller_refs import key_of, split_key
from pytest_kwait.simulator.controllers.job.policies import BackoffRecord
from pytest_kwait.simulator.controllers.job.sync_context import (
    FINALIZER,
    KIND,
    SYNC_BATCH_PERIOD,
    JobControllerContext,
    SyncJobContext,
    is_finished,
    remove_finalizer,
)
from pytest_kwait.simulator.controllers.job.tracking import JobSync
from pytest_kwait.simulator.controllers.pod_control import PodControl
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.event_recorder import EventRecorder
from pytest_kwait.simulator.objects import clone, name_of, namespace_of, owner_of, uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager
    from pytest_kwait.simulator.objects import Obj

__all__ = ["JobController"]

_CONTROLLER = "kubernetes.io/job-controller"


class JobController:
    """Runs Jobs.

    Pod events are gathered for a second before a Job is looked at, changes of its own spec are not.

    Args:
        api: the cluster.
        pods: the cluster's pods by owner.
    """

    def __init__(self, api: SimulatedCluster, pods: ControllerRefManager) -> None:
        self._api = api
        self._pods = pods
        recorder = EventRecorder(api, "job-controller")
        self._context = JobControllerContext(api, recorder, PodControl(api, recorder, *KIND))
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, "job-controller")
        self._orphans: Workqueue[str] = Workqueue(
            api.clock, self._release, "job-controller orphans"
        )
        self._by_uid: dict[str, str] = {}
        self._retries: dict[str, BackoffRecord] = {}
        api.subscribe("jobs.batch", self._changed)
        pods.listen(self._pod_changed)

    def _changed(self, change: str, new: Obj, old: Obj | None) -> None:
        key, uid = key_of(new), uid_of(new)
        if change == "DELETED":
            self._by_uid.pop(uid, None)
            self._retries.pop(uid, None)
            self._queue.forget(key)
            # Whoever is left of it must not be kept for counting.
            for pod in self._pods.of(uid):
                self._orphans.add(key_of(pod))
            return
        if new["spec"].get("managedBy") not in (None, _CONTROLLER):
            return
        self._by_uid[uid] = key
        if old is not None and old["metadata"].get("generation") == new["metadata"].get(
            "generation"
        ):
            self._queue.add_after(key, SYNC_BATCH_PERIOD)
        else:
            self._queue.add(key)

    def _pod_changed(self, pod: Obj, owner_uid: str | None, previous_uid: str | None) -> None:
        known = False
        for uid in {owner_uid, previous_uid}:
            if uid is not None and uid in self._by_uid:
                known = True
                self._context.note_end(pod, owner_uid is None)
                self._queue.add_after(self._by_uid[uid], SYNC_BATCH_PERIOD)
        tracked = FINALIZER in (pod["metadata"].get("finalizers") or ())
        if tracked and (owner_uid is None or not known):
            self._orphans.add(key_of(pod))

    def _release(self, key: str) -> None:
        """Let go a pod whose Job is gone or finished."""
        namespace, name = split_key(key)
        pod = self._api.find("pods", name, namespace)
        if pod is None or FINALIZER not in (pod["metadata"].get("finalizers") or ()):
            return
        owner = owner_of(pod)
        if owner is not None:
            if (owner["apiVersion"], owner["kind"]) != KIND:
                return
            job = self._api.find("jobs.batch", owner["name"], namespace)
            if job is not None and uid_of(job) == owner["uid"] and not is_finished(job):
                return
        remove_finalizer(self._api, pod)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        job = self._api.find("jobs.batch", name, namespace)
        if job is None:
            return
        uid = uid_of(job)
        if is_finished(job):
            self._retries.pop(uid, None)
            for pod in self._pods.of(uid):
                if FINALIZER in (pod["metadata"].get("finalizers") or ()):
                    self._orphans.add(key_of(pod))
            return
        pods = self._pods.claim(job, *KIND, job["spec"]["selector"])
        view = SyncJobContext(
            self._context, clone(job), pods, self._retries.get(uid, BackoffRecord())
        )
        JobSync(view).run()
        self._retries[uid] = view.retries
        for delay in view.look_again:
            self._queue.add_after(f"{namespace_of(job)}/{name_of(job)}", delay, scaled=False)
