"""Objects that keep pods: looked at when they change, and when pods of theirs do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.controller_refs import key_of
from pytest_kwait.simulator.objects import namespace_of, owner_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager
    from pytest_kwait.simulator.controllers.workqueue import Workqueue
    from pytest_kwait.simulator.objects import Obj

__all__ = ["PodOwnerIndex"]


# So many pods are looked at on every change, as upstream looks at all.
_MAX_IMMEDIATE = 20


class PodOwnerIndex:
    """The objects of one kind, by UID and by namespace; puts into a queue what is to be looked at.

    Args:
        api: the cluster.
        resource: the kind, as `plural.group`.
        pods: the cluster's pods by owner.
        queue: takes the objects' keys.
        pause: seconds of patience per pod of an owner with more than a few, so that a pod's change
            costs the same however many there are.
    """

    def __init__(
        self,
        api: SimulatedCluster,
        resource: str,
        pods: ControllerRefManager,
        queue: Workqueue[str],
        pause: float = 0.0,
    ) -> None:
        self._pods = pods
        self._queue = queue
        self._pause = pause
        self._by_uid: dict[str, str] = {}
        self._by_namespace: dict[str, set[str]] = {}
        api.subscribe(resource, self._changed)
        pods.listen(self._pod_changed)

    @property
    def keys(self) -> Collection[str]:
        """The keys of all of them."""
        return self._by_uid.values()

    def _changed(self, change: str, new: Obj, old: Obj | None) -> None:
        key, uid = key_of(new), uid_of(new)
        if change == "DELETED":
            self._by_uid.pop(uid, None)
            self._by_namespace.get(namespace_of(new), set()).discard(key)
            self._queue.forget(key)
            return
        self._by_uid[uid] = key
        self._by_namespace.setdefault(namespace_of(new), set()).add(key)
        same = old is not None and old["spec"] == new["spec"]
        self._queue.add_after(key, self._patience(uid) if same else 0.0, scaled=False)

    def _pod_changed(self, pod: Obj, owner_uid: str | None, previous_uid: str | None) -> None:
        for uid in {owner_uid, previous_uid}:
            if uid is not None and uid in self._by_uid:
                self._queue.add_after(self._by_uid[uid], self._patience(uid), scaled=False)
        if owner_uid is None and owner_of(pod) is None:
            # An orphan: whoever selects it may adopt it.
            for key in self._by_namespace.get(namespace_of(pod), ()):
                self._queue.add(key)

    def _patience(self, uid: str) -> float:
        count = self._pods.count(uid)
        return count * self._pause if count > _MAX_IMMEDIATE else 0.0
