"""The garbage collector: deletes dependents without owners, or orphans them.

Source: kube-controller-manager, garbagecollector/garbagecollector.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, is_being_deleted, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

__all__ = ["FOREGROUND", "ORPHAN", "GarbageCollector"]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class _ObjectRef(NamedTuple):
    resource: str
    namespace: str
    name: str
    uid: str


class GarbageCollector:
    """Deletes dependents whose owners are gone, for all kinds.

    Only objects with owners are tracked; an owner's existence is read from the API.

    Source: kube-controller-manager, garbagecollector/garbagecollector.go.
    """

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._dependents: dict[str, dict[_ObjectRef, None]] = {}
        self._left: list[_ObjectRef] = []
        self._delete: Workqueue[_ObjectRef] = Workqueue(
            api.clock, self._attempt_to_delete, "garbage collector"
        )
        self._finalize: Workqueue[_ObjectRef] = Workqueue(
            api.clock, self._process_owner, "garbage collector owners"
        )
        api.subscribe_all(self._changed)

    def _changed(self, resource: str, change: str, new: Obj, old: Obj | None) -> None:
        metadata = new["metadata"]
        owners = metadata.get("ownerReferences") or ()
        before = (old["metadata"].get("ownerReferences") or ()) if old is not None else ()
        if change == "DELETED":
            self._gone(resource, new)
            return
        if owners != before:
            place = _make_object_ref(resource, new)
            self._forget(place, before)
            for owner in owners:
                self._dependents.setdefault(owner["uid"], {})[place] = None
            if owners:
                self._delete.add(place)
        if "deletionTimestamp" in metadata:
            finalizers = metadata.get("finalizers") or ()
            if FOREGROUND in finalizers or ORPHAN in finalizers:
                self._finalize.add(_make_object_ref(resource, new))

    def _gone(self, resource: str, obj: Obj) -> None:
        place = _make_object_ref(resource, obj)
        owners = obj["metadata"].get("ownerReferences") or ()
        self._forget(place, owners)
        for owner in owners:
            # An owner that waits for its dependents may be deleted now.
            waiting = self._find_owner(owner, place.namespace)
            if waiting is not None and is_being_deleted(waiting[1]):
                self._finalize.add(_make_object_ref(*waiting))
        dependents = self._dependents.get(place.uid)
        if dependents:
            # Controllers that count dependents see the deletion first, as upstream: a Job's pods
            # are released.
            if not self._left:
                self._api.clock.call_later(0, self._process_deleted_owners)
            self._left += dependents

    def _process_deleted_owners(self) -> None:
        """Process the dependents of deleted owners."""
        left, self._left = self._left, []
        for dependent in left:
            self._delete.add(dependent)

    def _forget(self, place: _ObjectRef, owners: object) -> None:
        for owner in owners if isinstance(owners, list) else ():
            dependents = self._dependents.get(owner["uid"])
            if dependents is not None:
                dependents.pop(place, None)
                if not dependents:
                    del self._dependents[owner["uid"]]

    def _find(self, place: _ObjectRef) -> Obj | None:
        try:
            obj = self._api.find(place.resource, place.name, place.namespace)
        except StatusError:
            # The kind itself was removed.
            return None
        return obj if obj is not None and uid_of(obj) == place.uid else None

    def _find_owner(self, reference: Obj, namespace: str) -> tuple[str, Obj] | None:
        kind = self._api.kinds.of_kind(reference["apiVersion"], reference["kind"])
        if kind is None:
            return None
        obj = self._api.find(
            kind.qualified, reference["name"], namespace if kind.namespaced else ""
        )
        if obj is None or uid_of(obj) != reference["uid"]:
            return None
        return kind.qualified, obj

    def _attempt_to_delete(self, place: _ObjectRef) -> None:
        """Delete a dependent without remaining owners, or drop references to deleted owners.

        Source: `attemptToDeleteItem`.
        """
        obj = self._find(place)
        if obj is None:
            return
        finalizers = obj["metadata"].get("finalizers") or []
        if is_being_deleted(obj) and FOREGROUND not in finalizers:
            return
        solid, dangling, waiting = self._classify(obj, place.namespace)
        if not dangling and not waiting:
            return
        if solid:
            if not is_being_deleted(obj):
                self._drop_owners(place, [*dangling, *waiting])
            return
        if is_being_deleted(obj):
            return
        if waiting and self._dependents.get(place.uid):
            policy = "Foreground"
        elif ORPHAN in finalizers:
            policy = "Orphan"
        else:
            policy = "Foreground" if FOREGROUND in finalizers else "Background"
        try:
            self._api.delete(
                place.resource, place.name, place.namespace, uid=place.uid, propagation=policy
            )
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise

    def _classify(self, obj: Obj, namespace: str) -> tuple[list[str], list[str], list[str]]:
        """Return the UIDs of existing owners, deleted ones, and ones waiting for this object."""
        solid: list[str] = []
        dangling: list[str] = []
        waiting: list[str] = []
        for reference in obj["metadata"].get("ownerReferences") or ():
            if self._api.kinds.of_kind(reference["apiVersion"], reference["kind"]) is None:
                # Owners of unknown kinds count as existing, as upstream retries for ever.
                solid.append(reference["uid"])
                continue
            owner = self._find_owner(reference, namespace)
            if owner is None:
                dangling.append(reference["uid"])
            elif (
                is_being_deleted(owner[1])
                and FOREGROUND in (owner[1]["metadata"].get("finalizers") or ())
                and reference.get("blockOwnerDeletion")
            ):
                waiting.append(reference["uid"])
            else:
                solid.append(reference["uid"])
        return solid, dangling, waiting

    def _drop_owners(self, place: _ObjectRef, uids: list[str]) -> None:
        def drop(changed: Obj) -> None:
            metadata = changed["metadata"]
            left = [one for one in metadata.get("ownerReferences") or () if one["uid"] not in uids]
            if left:
                metadata["ownerReferences"] = left
            else:
                metadata.pop("ownerReferences", None)

        try:
            self._api.modify(place.resource, place.name, place.namespace, drop)
        except StatusError as error:
            if error.reason != "NotFound":
                raise

    def _process_owner(self, place: _ObjectRef) -> None:
        """Process the finalizers of an owner that is being deleted."""
        obj = self._find(place)
        if obj is None or not is_being_deleted(obj):
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        dependents = list(self._dependents.get(place.uid, ()))
        if ORPHAN in finalizers:
            for dependent in dependents:
                self._drop_owners(dependent, [place.uid])
            self._remove_finalizer(place, ORPHAN)
        elif FOREGROUND in finalizers:
            blocking = [one for one in dependents if self._blocks(one, place.uid)]
            if not blocking:
                self._remove_finalizer(place, FOREGROUND)
                return
            for dependent in dependents:
                self._delete.add(dependent)

    def _blocks(self, place: _ObjectRef, owner_uid: str) -> bool:
        obj = self._find(place)
        return obj is not None and any(
            one["uid"] == owner_uid and one.get("blockOwnerDeletion")
            for one in obj["metadata"].get("ownerReferences") or ()
        )

    def _remove_finalizer(self, place: _ObjectRef, finalizer: str) -> None:
        def remove(changed: Obj) -> None:
            metadata = changed["metadata"]
            metadata["finalizers"] = [
                one for one in metadata.get("finalizers") or () if one != finalizer
            ]

        try:
            self._api.modify(place.resource, place.name, place.namespace, remove)
        except StatusError as error:
            if error.reason != "NotFound":
                raise


def _make_object_ref(resource: str, obj: Obj) -> _ObjectRef:
    return _ObjectRef(resource, namespace_of(obj), name_of(obj), uid_of(obj))
