"""The garbage collectors: dependents without owners, pods of deleted nodes, expired objects.

Finished Jobs expire by their time to live, events by age and number.

Source: kube-controller-manager, garbagecollector/garbagecollector.go, podgc/gc_controller.go,
ttlafterfinished/ttlafterfinished_controller.go; leases of etcd.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.api_errors import StatusError, ignore_not_found
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.objects import Obj, is_being_deleted, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"

# Seconds that a node may be missing before its pods are removed.
# Source: kube-controller-manager, podgc/gc_controller.go, `quarantineTime`.
_QUARANTINE_SECONDS = 40.0

_EVENTS = "events"
# Source: kube-apiserver's `--event-ttl`.
_TTL_SECONDS = 3600.0
_CHECK_PERIOD = 60.0
_MAX_EVENTS = 16_384
"""Upstream has no such limit, since etcd stores events on disk."""


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

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._dependents: dict[str, dict[_ObjectRef, None]] = {}
        self._left: list[_ObjectRef] = []
        self._delete: Workqueue[_ObjectRef] = Workqueue(
            cluster, self._attempt_to_delete, "garbage collector"
        )
        self._finalize: Workqueue[_ObjectRef] = Workqueue(
            cluster, self._process_owner, "garbage collector owners"
        )
        cluster.subscribe_all(self._changed)

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
            blocked = {owner["uid"] for owner in owners if owner.get("blockOwnerDeletion")}
            self._finalize_owners(
                (owner for owner in before if owner["uid"] not in blocked), place.namespace
            )
        if "deletionTimestamp" in metadata:
            finalizers = metadata.get("finalizers") or ()
            if FOREGROUND in finalizers or ORPHAN in finalizers:
                self._finalize.add(_make_object_ref(resource, new))

    def _gone(self, resource: str, obj: Obj) -> None:
        place = _make_object_ref(resource, obj)
        owners = obj["metadata"].get("ownerReferences") or ()
        self._forget(place, owners)
        self._finalize_owners(owners, place.namespace)
        dependents = self._dependents.get(place.uid)
        if dependents:
            # Controllers that count dependents see the deletion first, as upstream: a Job's pods
            # are released.
            if not self._left:
                self._cluster.clock.call_later(0, self._process_deleted_owners)
            self._left += dependents

    def _finalize_owners(self, references: Iterable[Obj], namespace: str) -> None:
        """Process the owners that are being deleted: they may wait for nothing more."""
        for reference in references:
            owner = self._find_owner(reference, namespace)
            if owner is not None and is_being_deleted(owner[1]):
                self._finalize.add(_make_object_ref(*owner))

    def _process_deleted_owners(self) -> None:
        dependents, self._left = self._left, []
        for dependent in dependents:
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
            obj = self._cluster.find(place.resource, place.name, place.namespace)
        except StatusError:
            # The kind itself was removed.
            return None
        return obj if obj is not None and uid_of(obj) == place.uid else None

    def _find_owner(
        self, reference: Obj, namespace: str, *, is_live: bool = False
    ) -> tuple[str, Obj] | None:
        """Return the resource and the owner; with `is_live` None is certain."""
        kind = self._cluster.kinds.of_kind(reference["apiVersion"], reference["kind"])
        if kind is None:
            return None
        place = (kind.qualified, reference["name"], namespace if kind.namespaced else "")
        obj = self._cluster.find(*place)
        if is_live and (obj is None or uid_of(obj) != reference["uid"]):
            obj = self._cluster.find_live(*place)
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
        dependents = self._dependents.get(place.uid)
        if waiting and dependents:
            if any(self._is_deleting_dependents(dependent) for dependent in list(dependents)):
                # The owners may wait for each other: a circle.
                self._unblock_owners(place)
            policy = "Foreground"
        elif ORPHAN in finalizers:
            policy = "Orphan"
        else:
            policy = "Foreground" if FOREGROUND in finalizers else "Background"
        try:
            self._cluster.delete(
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
            if self._cluster.kinds.of_kind(reference["apiVersion"], reference["kind"]) is None:
                # Owners of unknown kinds count as existing, as upstream retries for ever.
                solid.append(reference["uid"])
                continue
            owner = self._find_owner(reference, namespace, is_live=True)
            if owner is None:
                dangling.append(reference["uid"])
            elif _waits_for_dependents(owner[1]) and reference.get("blockOwnerDeletion"):
                waiting.append(reference["uid"])
            else:
                solid.append(reference["uid"])
        return solid, dangling, waiting

    def _is_deleting_dependents(self, place: _ObjectRef) -> bool:
        obj = self._find(place)
        return obj is not None and _waits_for_dependents(obj)

    def _unblock_owners(self, place: _ObjectRef) -> None:
        """Let the owners of an object be deleted before it."""

        def unblock(changed: Obj) -> None:
            for reference in changed["metadata"].get("ownerReferences") or ():
                reference["blockOwnerDeletion"] = False

        self._modify(place, unblock)

    def _drop_owners(self, place: _ObjectRef, uids: list[str]) -> None:
        def drop(changed: Obj) -> None:
            metadata = changed["metadata"]
            references = [
                reference
                for reference in metadata.get("ownerReferences") or ()
                if reference["uid"] not in uids
            ]
            if references:
                metadata["ownerReferences"] = references
            else:
                metadata.pop("ownerReferences", None)

        self._modify(place, drop)

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
            blocking = [dependent for dependent in dependents if self._blocks(dependent, place.uid)]
            if not blocking:
                self._remove_finalizer(place, FOREGROUND)
                return
            for dependent in dependents:
                self._delete.add(dependent)

    def _blocks(self, place: _ObjectRef, owner_uid: str) -> bool:
        obj = self._find(place)
        return obj is not None and any(
            reference["uid"] == owner_uid and reference.get("blockOwnerDeletion")
            for reference in obj["metadata"].get("ownerReferences") or ()
        )

    def _remove_finalizer(self, place: _ObjectRef, finalizer: str) -> None:
        def remove(changed: Obj) -> None:
            metadata = changed["metadata"]
            metadata["finalizers"] = [
                name for name in metadata.get("finalizers") or () if name != finalizer
            ]

        self._modify(place, remove)

    def _modify(self, place: _ObjectRef, change: Callable[[Obj], None]) -> None:
        """Change an object; no-op if it does not exist."""
        with ignore_not_found():
            self._cluster.modify(place.resource, place.name, place.namespace, change)


def _waits_for_dependents(obj: Obj) -> bool:
    """Return whether an object is being deleted after its dependents."""
    return is_being_deleted(obj) and FOREGROUND in (obj["metadata"].get("finalizers") or ())


def _make_object_ref(resource: str, obj: Obj) -> _ObjectRef:
    return _ObjectRef(resource, namespace_of(obj), name_of(obj), uid_of(obj))


class PodGCController:
    """Deletes pods of deleted nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "pod-garbage-collector")
        self._by_node: dict[str, dict[str, None]] = {}
        cluster.subscribe("pods", self._pod_changed)
        cluster.subscribe("nodes", self._node_changed)

    def _pod_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        key, node = key_of(new), new["spec"].get("nodeName")
        if node is None:
            return
        if change == "DELETED":
            pods = self._by_node.get(node, {})
            pods.pop(key, None)
            if not pods:
                self._by_node.pop(node, None)
        elif key not in self._by_node.setdefault(node, {}):
            self._by_node[node][key] = None
            if self._cluster.find("nodes", node) is None:
                self._queue.add_after(key, _QUARANTINE_SECONDS)

    def _node_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED":
            for key in self._by_node.get(name_of(new), ()):
                self._queue.add_after(key, _QUARANTINE_SECONDS)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        pod = self._cluster.find("pods", name, namespace)
        if (
            pod is None
            or self._cluster.find("nodes", pod["spec"].get("nodeName") or "") is not None
        ):
            return
        self._fail(pod)
        with ignore_not_found():
            self._cluster.delete("pods", name, namespace, grace=0)

    def _fail(self, pod: Obj) -> None:
        """Set the pod's DisruptionTarget condition before its deletion.

        Source: podgc/gc_controller.go, `gcOrphaned`.
        """
        status = dict(pod.get("status") or {})
        if status.get("phase") in ("Succeeded", "Failed"):
            return
        stamp = self._cluster.clock.stamp()
        condition = {
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": None,
            "lastTransitionTime": stamp, "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }  # fmt: skip
        other_conditions = [
            condition
            for condition in status.get("conditions") or ()
            if condition["type"] != "DisruptionTarget"
        ]
        status.update(phase="Failed", conditions=[*other_conditions, condition])
        self._cluster.update_status("pods", {**pod, "status": status})


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

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: Workqueue[str] = Workqueue(
            cluster, self._sync, "ttl-after-finished-controller"
        )
        cluster.subscribe("jobs.batch", self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "DELETED" and seconds_until_expiry(new, 0) is not None:
            self._queue.add(key_of(new))

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        job = self._cluster.find("jobs.batch", name, namespace)
        if job is None or is_being_deleted(job):
            return
        now = self._cluster.clock.time()
        remaining_seconds = seconds_until_expiry(job, now)
        if remaining_seconds is None:
            return
        if remaining_seconds > 0:
            self._queue.add_at(key, now + remaining_seconds)
            return
        with ignore_not_found():
            self._cluster.delete(
                "jobs.batch", name, namespace, uid=uid_of(job), propagation="Foreground"
            )


class EventTTL:
    """Deletes the oldest events of a cluster, by the time of their last write.

    Args:
        most: the number of events to keep.
    """

    def __init__(self, cluster: Cluster, most: int = _MAX_EVENTS) -> None:
        self._cluster = cluster
        self._most = most
        self._written: OrderedDict[str, float] = OrderedDict()
        self._planned = False
        cluster.subscribe(_EVENTS, self._changed)
        cluster.clock.call_later(_CHECK_PERIOD, self._remove_expired, scaled=False)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        key = key_of(new)
        if change == "DELETED":
            self._written.pop(key, None)
            return
        self._written[key] = self._cluster.clock.monotonic()
        self._written.move_to_end(key)
        if len(self._written) > self._most and not self._planned:
            self._planned = True
            self._cluster.clock.call_soon(self._remove_surplus)

    def _remove_surplus(self) -> None:
        self._planned = False
        while len(self._written) > self._most:
            self._remove()

    def _remove_expired(self) -> None:
        until = self._cluster.clock.monotonic() - _TTL_SECONDS
        while self._written and next(iter(self._written.values())) <= until:
            self._remove()
        self._cluster.clock.call_later(_CHECK_PERIOD, self._remove_expired, scaled=False)

    def _remove(self) -> None:
        key, _ = self._written.popitem(last=False)
        if self._cluster.store.get(_EVENTS, key) is not None:
            self._cluster.store.remove(_EVENTS, key)
