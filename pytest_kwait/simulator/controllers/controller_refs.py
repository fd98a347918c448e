"""Controller references: objects indexed by their controller, adoption and release.

The indexes follow every change, so that no controller scans all objects.

Source: kube-controller-manager, controller_ref_manager.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.selectors import matches_label_selector
from pytest_kwait.simulator.api_errors import ignore_not_found
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, owner_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pytest_kwait.simulator.cluster_protocol import Cluster

# The maximum number of dependents at which every change is synced at once.
_MAX_IMMEDIATE = 20


def make_controller_ref(owner: Obj, api_version: str, kind: str) -> Obj:
    """Return the owner reference that makes `owner` the controller of a dependent."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


class ControllerRefManager:
    """The objects of a resource by the UID of their controller, and the orphans.

    Args:
        resource: for example `pods`.
    """

    def __init__(self, cluster: Cluster, resource: str) -> None:
        self._cluster = cluster
        self._resource = resource
        self._owned: dict[str, dict[str, Obj]] = {}
        self._orphans: dict[str, dict[str, Obj]] = {}
        self._listeners: list[Callable[[Obj, str | None, str | None], None]] = []
        cluster.subscribe(resource, self._changed)

    def listen(self, listener: Callable[[Obj, str | None, str | None], None]) -> None:
        """Call `listener(object, owner uid, previous owner uid)` after changes; None: no owner.

        A deleted object has no owner; a new one has no previous owner.
        """
        self._listeners.append(listener)

    def of(self, owner_uid: str) -> list[Obj]:
        """Return the objects that the owner controls, in order of creation."""
        return list(self._owned.get(owner_uid, {}).values())

    def count(self, owner_uid: str) -> int:
        """Return the number of objects that the owner controls."""
        return len(self._owned.get(owner_uid, ()))

    def orphans(self, namespace: str) -> list[Obj]:
        """Return the objects of a namespace without a controller."""
        return list(self._orphans.get(namespace, {}).values())

    def has_orphans(self, namespace: str) -> bool:
        """Return whether a namespace has objects without a controller."""
        return namespace in self._orphans

    def _changed(self, change: str, new: Obj, old: Obj | None) -> None:
        uid = uid_of(new)
        before = owner_of(old) if old is not None else None
        after = owner_of(new) if change != "DELETED" else None
        before_uid = before["uid"] if before else None
        after_uid = after["uid"] if after else None
        if old is not None and (change == "DELETED" or before_uid != after_uid):
            self._drop(uid, namespace_of(old), before_uid)
        if change != "DELETED":
            if after_uid is not None:
                self._owned.setdefault(after_uid, {})[uid] = new
            else:
                self._orphans.setdefault(namespace_of(new), {})[uid] = new
        elif old is None:
            owner = owner_of(new)
            before_uid = owner["uid"] if owner else None
            self._drop(uid, namespace_of(new), before_uid)
        for listener in self._listeners:
            listener(new, after_uid, before_uid)

    def _drop(self, uid: str, namespace: str, owner_uid: str | None) -> None:
        index, key = (
            (self._owned, owner_uid) if owner_uid is not None else (self._orphans, namespace)
        )
        objects = index.get(key)
        if objects is not None:
            objects.pop(uid, None)
            if not objects:
                del index[key]

    def claim(
        self,
        owner: Obj,
        api_version: str,
        kind: str,
        selector: Obj,
        *,
        only: Callable[[Obj], bool] | None = None,
    ) -> list[Obj]:
        """Adopt matching orphans, release objects that no longer match, and return the rest.

        Args:
            owner: the controller object.
            api_version: of the owner.
            kind: of the owner.
            selector: the owner's selector.
            only: a further condition for adoption.

        Source: kube-controller-manager, controller_ref_manager.go, `ClaimObject`.
        """
        claimed = []
        owner_uid = uid_of(owner)
        for obj in self.of(owner_uid):
            if matches_label_selector(selector, obj["metadata"].get("labels") or {}) and (
                only is None or only(obj)
            ):
                claimed.append(obj)
            elif "deletionTimestamp" not in owner["metadata"]:
                self._release(obj, owner_uid)
        if "deletionTimestamp" in owner["metadata"]:
            return claimed
        for obj in self.orphans(namespace_of(owner)):
            metadata = obj["metadata"]
            if (
                "deletionTimestamp" not in metadata
                and matches_label_selector(selector, metadata.get("labels") or {})
                and (only is None or only(obj))
            ):
                claimed.append(self._adopt(obj, make_controller_ref(owner, api_version, kind)))
        return claimed

    def _adopt(self, obj: Obj, reference: Obj) -> Obj:
        def adopt(changed: Obj) -> None:
            metadata = changed["metadata"]
            metadata["ownerReferences"] = [*(metadata.get("ownerReferences") or ()), reference]

        return self._cluster.modify(self._resource, name_of(obj), namespace_of(obj), adopt)

    def _release(self, obj: Obj, owner_uid: str) -> None:
        def release(changed: Obj) -> None:
            metadata = changed["metadata"]
            references = [
                reference
                for reference in metadata["ownerReferences"]
                if reference["uid"] != owner_uid
            ]
            metadata["ownerReferences"] = references
            if not references:
                del metadata["ownerReferences"]

        with ignore_not_found():
            self._cluster.modify(self._resource, name_of(obj), namespace_of(obj), release)


class OwnerIndex:
    """The objects of one kind by UID and namespace; queues the owners of changed dependents.

    Args:
        resource: the kind, as `plural.group`.
        dependents: the cluster's pods, or ReplicaSets, by owner.
        queue: receives the objects' keys.
        pause: seconds of delay per dependent of an owner with many, so that the cost of a change
            does not grow with their number.
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: str,
        dependents: ControllerRefManager,
        queue: Workqueue[str],
        pause: float = 0.0,
    ) -> None:
        self._dependents = dependents
        self._queue = queue
        self._pause = pause
        self._by_uid: dict[str, str] = {}
        self._by_namespace: dict[str, dict[str, None]] = {}
        cluster.subscribe(resource, self._changed)
        dependents.listen(self._dependent_changed)

    @property
    def keys(self) -> Collection[str]:
        """The keys of all objects."""
        return self._by_uid.values()

    def find_key(self, uid: str) -> str | None:
        """Return the key of an object; None if there is none with this UID."""
        return self._by_uid.get(uid)

    def _changed(self, change: str, new: Obj, old: Obj | None) -> None:
        key, uid = key_of(new), uid_of(new)
        if change == "DELETED":
            self._by_uid.pop(uid, None)
            self._by_namespace.get(namespace_of(new), {}).pop(key, None)
            self._queue.forget(key)
            return
        self._by_uid[uid] = key
        self._by_namespace.setdefault(namespace_of(new), {})[key] = None
        same = old is not None and old["spec"] == new["spec"]
        self._queue.add_after(key, self._sync_delay(uid) if same else 0.0, scaled=False)

    def _dependent_changed(
        self, dependent: Obj, owner_uid: str | None, previous_uid: str | None
    ) -> None:
        for uid in dict.fromkeys((owner_uid, previous_uid)):
            if uid is not None and uid in self._by_uid:
                self._queue.add_after(self._by_uid[uid], self._sync_delay(uid), scaled=False)
        if owner_uid is None and owner_of(dependent) is None:
            # An orphan may be adopted by any owner that selects it.
            for key in self._by_namespace.get(namespace_of(dependent), ()):
                self._queue.add(key)

    def _sync_delay(self, uid: str) -> float:
        count = self._dependents.count(uid)
        return count * self._pause if count > _MAX_IMMEDIATE else 0.0
