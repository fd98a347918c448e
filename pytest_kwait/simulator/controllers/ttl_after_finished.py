"""The TTL-after-finished controller: deletes finished Jobs after their time to live.

Source: kube-controller-manager, ttlafterfinished/ttlafterfinished_controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_refs import key_of, split_key
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import is_being_deleted, uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["TTLAfterFinishedController", "seconds_until_expiry"]


def seconds_until_expiry(job: Obj, now: float) -> float | None:
    """Return the seconds until the Job expires: at most 0 if expired, None for never."""
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    if ttl is None:
        return None
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return parse_time(condition["lastTransitionTime"]) + float(ttl) - now
    return None


class TTLAfterFinishedController:
    """Deletes finished Jobs, dependents first.

    Source: kube-controller-manager, ttlafterfinished_controller.go.
    """

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._queue: Workqueue[str] = Workqueue(
            api.clock, self._sync, "ttl-after-finished-controller"
        )
        api.subscribe("jobs.batch", self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "DELETED" and seconds_until_expiry(new, 0) is not None:
            self._queue.add(key_of(new))

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        job = self._api.find("jobs.batch", name, namespace)
        if job is None or is_being_deleted(job):
            return
        left = seconds_until_expiry(job, self._api.clock.time())
        if left is None:
            return
        if left > 0:
            self._queue.add_after(key, left, scaled=False)
            return
        try:
            self._api.delete(
                "jobs.batch", name, namespace, uid=uid_of(job), propagation="Foreground"
            )
        except StatusError as error:
            if error.reason != "NotFound":
                raise
