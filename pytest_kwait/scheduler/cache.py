"""The scheduler's cache: nodes with their bound and assumed pods.

`SharedLister` is the algorithm's view of it, with the labels of namespaces and the selectors of
services and controllers.

Source: kube-scheduler, backend/cache.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_kwait.apimachinery.times import Duration, format_duration, to_seconds
from pytest_kwait.cache.store import NAMESPACE_INDEX
from pytest_kwait.client.resource import (
    NAMESPACES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
)
from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.errors import PLAIN_TRACEBACKS
from pytest_kwait.scheduler.framework.node_info import NodeInfo
from pytest_kwait.scheduler.plugins.pod_topology_spread import (
    collect_spread_selectors,
    find_spreading_controller,
)
from pytest_kwait.scheduler.scheduling_queue import Pod, has_label_change, key_of, node_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_kwait.cache.factory import SharedInformerFactory
    from pytest_kwait.cache.shared_informer import SharedInformer
    from pytest_kwait.client.resource import Resource

_log = logging.getLogger(__name__)
_log.addFilter(PLAIN_TRACEBACKS)

_Change: TypeAlias = tuple[Literal["pod", "no pod", "node", "no node"], str, Any]
_CONTROLLERS = {
    resource.kind: resource for resource in (REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)
}
# The resources that predicates and priorities read besides pods and nodes.
_RESOURCES_BY_PLUGIN: Mapping[str, Sequence[Resource]] = {
    "InterPodAffinity": (NAMESPACES,),
    "PodTopologySpread": (SERVICES, *_CONTROLLERS.values()),
}


class SchedulerCache:
    """All nodes with their pods; a `NodeLister`.

    A pod with a selected node counts on it before it is bound: it is assumed until the watch
    confirms it or it is forgotten. Any thread may change the cache. The listed nodes change only
    with the next `list`, so that an algorithm sees one consistent state: only one thread at a time
    may list and read.

    Args:
        assumed_pod_ttl: seconds after the binding until an unconfirmed pod is no longer assumed;
            None for never, as upstream: a late watch must not free the node.

    Source: kube-scheduler, backend/cache/cache.go.
    """

    def __init__(
        self, *, assumed_pod_ttl: Duration | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._ttl = (
            None if assumed_pod_ttl is None else to_seconds(assumed_pod_ttl, what="assumed_pod_ttl")
        )
        self._clock = clock
        self._lock = threading.Lock()
        self._pods: dict[str, Pod] = {}
        # When each assumed pod expires; None before its binding has finished.
        self._assumed: dict[str, float | None] = {}
        self._nodes: set[str] = set()
        self._changes: list[_Change] = []
        # Changed only by `list`, so never while an algorithm reads them.
        self._placed: dict[str, dict[str, Pod]] = {}
        self._infos: dict[str, NodeInfo] = {}
        self._listed: tuple[NodeInfo, ...] = ()

    def list(self) -> Sequence[NodeInfo]:
        """Return every node with its current pods, including assumed ones."""
        with self._lock:
            self._expire()
            changes, self._changes = self._changes, []
        for change, node, obj in changes:
            self._apply(change, node, obj)
        if any(change in ("node", "no node") for change, _, _ in changes):
            self._listed = tuple(self._infos.values())
        return self._listed

    def assume(self, pod: Pod, node: str) -> Pod:
        """Count `pod` on a node before it is bound; return it with that node.

        Raises:
            ValueError: the pod is on a node already.
        """
        uid = uid_of(pod)
        assumed = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        with self._lock:
            if uid in self._pods:
                raise ValueError(f"pod {key_of(pod)} is on node {node_of(self._pods[uid])} already")
            self._put(assumed)
            self._assumed[uid] = None
        return assumed

    def forget(self, pod: Mapping[str, Any]) -> bool:
        """Remove an assumed pod; False if it is confirmed or unknown."""
        uid = uid_of(pod)
        with self._lock:
            if uid not in self._assumed:
                return False
            self._drop(uid)
            return True

    def finish_binding(self, pod: Mapping[str, Any]) -> None:
        """Start the time limit for the confirmation of an assumed pod."""
        uid = uid_of(pod)
        with self._lock:
            if uid in self._assumed and self._ttl is not None:
                self._assumed[uid] = self._clock.monotonic() + self._ttl

    def is_assumed(self, pod: Mapping[str, Any]) -> bool:
        """Return whether the pod is assumed on a node and not confirmed."""
        return uid_of(pod) in self._assumed

    def set_pod(self, pod: Pod) -> None:
        """Count a pod on its node as bound instead of assumed."""
        uid = uid_of(pod)
        with self._lock:
            known, assumed = self._pods.get(uid), uid in self._assumed
            self._assumed.pop(uid, None)
            if known is not None and not _has_relevant_change(known, pod):
                return
            if known is not None:
                if assumed and node_of(known) != node_of(pod):
                    _log.warning(
                        "pod %s was assumed on node %s and is bound to %s",
                        key_of(pod),
                        node_of(known),
                        node_of(pod),
                    )
                self._drop(uid)
            self._put(pod)

    def remove_pod(self, pod: Mapping[str, Any]) -> bool:
        """Remove a pod, assumed or not; False if it is unknown."""
        with self._lock:
            known = uid_of(pod) in self._pods
            if known:
                self._drop(uid_of(pod))
            return known

    def set_node(self, node: Mapping[str, Any]) -> None:
        """Add or update a node; pods already known to be on it count."""
        name: str = node["metadata"]["name"]
        with self._lock:
            self._nodes.add(name)
            self._changes.append(("node", name, node))

    def remove_node(self, node: Mapping[str, Any]) -> None:
        """Remove a node; its remaining pods count again if it returns."""
        name: str = node["metadata"]["name"]
        with self._lock:
            self._nodes.discard(name)
            self._changes.append(("no node", name, node))

    def has_node(self, name: str) -> bool:
        """Return whether the node exists now, even if the last `list` did not have it."""
        return name in self._nodes

    def __len__(self) -> int:
        """Return the number of pods on nodes, assumed ones included."""
        return len(self._pods)

    def _put(self, pod: Pod) -> None:
        self._pods[uid_of(pod)] = pod
        self._changes.append(("pod", node_of(pod), pod))

    def _drop(self, uid: str) -> None:
        pod = self._pods.pop(uid)
        self._assumed.pop(uid, None)
        self._changes.append(("no pod", node_of(pod), pod))

    def _expire(self) -> None:
        if self._ttl is None:
            return
        now = self._clock.monotonic()
        for uid, end in list(self._assumed.items()):
            if end is not None and end <= now:
                _log.warning(
                    "pod %s was bound, but the watch did not confirm it within %s",
                    key_of(self._pods[uid]),
                    format_duration(self._ttl),
                )
                self._drop(uid)

    def _apply(self, change: str, node: str, obj: Any) -> None:
        info = self._infos.get(node)
        if change == "pod":
            self._placed.setdefault(node, {})[uid_of(obj)] = obj
            if info is not None:
                _try_change("count pod %s in", obj, lambda: info.add(obj))
        elif change == "no pod":
            placed = self._placed.get(node, {})
            placed.pop(uid_of(obj), None)
            if not placed:
                self._placed.pop(node, None)
            if info is not None:
                _try_change("count pod %s out", obj, lambda: info.remove(obj))
        elif change == "no node":
            self._infos.pop(node, None)
        elif info is not None:
            _try_change("take over node %s", obj, lambda: info.set_node(obj))
        else:
            _try_change("take up node %s", obj, lambda: self._apply_pending(node, obj))

    def _apply_pending(self, name: str, node: Mapping[str, Any]) -> None:
        info = self._infos[name] = NodeInfo(node)
        for pod in self._placed.get(name, {}).values():
            _try_change("count pod %s in", pod, partial(info.add, pod))


def _has_relevant_change(known: Pod, pod: Pod) -> bool:
    """Return whether a pod's change affects its node; status changes do not."""
    return (
        known.get("spec") != pod.get("spec")
        or has_label_change(known, pod)
        or _deletion(known) != _deletion(pod)
    )


def _deletion(pod: Pod) -> str | None:
    stamp: str | None = pod["metadata"].get("deletionTimestamp")
    return stamp


def _try_change(action: str, obj: Mapping[str, Any], change: Callable[[], object]) -> None:
    try:
        change()
    except Exception:  # one invalid object must not block all others
        _log.exception("cannot " + action, key_of(obj).lstrip("/"))


class SharedLister:
    """A `NodeLister` that also provides namespaces, services and controllers.

    Args:
        cache: the nodes and their pods.
        informers: the factory of the informers of everything else.
        rules: the names of the predicates and priorities in use; resources that none of them reads
            are not watched.
    """

    def __init__(
        self, cache: SchedulerCache, informers: SharedInformerFactory, rules: Iterable[str]
    ) -> None:
        self._cache = cache
        resources = dict.fromkeys(
            resource for rule in rules for resource in _RESOURCES_BY_PLUGIN.get(rule, ())
        )
        self._informers = {resource: informers.informer_for(resource) for resource in resources}

    @property
    def informers(self) -> Sequence[SharedInformer]:
        """The informers that must have synced, in addition to those of pods and nodes."""
        return list(self._informers.values())

    def list(self) -> Sequence[NodeInfo]:
        """Return every node with its current pods, including assumed ones."""
        return self._cache.list()

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None if it does not exist."""
        namespace_object = self._found(NAMESPACES, name)
        return (
            None if namespace_object is None else namespace_object["metadata"].get("labels") or {}
        )

    def spread_selectors(self, pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return the label selectors of the pod's services and controller."""
        namespace = pod["metadata"].get("namespace", "")
        informer = self._informers.get(SERVICES)
        services = () if informer is None else informer.store.by_index(NAMESPACE_INDEX, namespace)
        controller = None
        reference = find_spreading_controller(pod)
        if reference is not None:
            kind, name = reference
            controller = self._found(_CONTROLLERS[kind], f"{namespace}/{name}")
        return collect_spread_selectors(pod, services, controller)

    def _found(self, resource: Resource, key: str) -> dict[str, Any] | None:
        informer = self._informers.get(resource)
        return None if informer is None else informer.store.get_by_key(key)
