"""A node with its pods and their sums, updated pod by pod.

Source: kube-scheduler, framework/types.go (`NodeInfo`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kwait.scheduler.framework.object_fields import (
    InvalidNode,
    InvalidObject,
    InvalidPod,
    get_int,
    get_mapping,
    get_mappings,
    get_string,
    get_strings,
)
from pytest_kwait.scheduler.framework.pod_info import (
    DO_NOT_SCHEDULE_EFFECTS,
    PREFER_NO_SCHEDULE,
    HostPort,
    PodInfo,
    ResourceAmounts,
    parse_resource_list,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pytest_kwait.apimachinery.selectors import LabelSelector
    from pytest_kwait.scheduler.framework.pod_info import AffinityTerm

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
# The maximum number of cached results per node.
_MAX_CACHED = 64
# The maximum numbers of selectors per namespace, and of namespaces, counted incrementally.
_MAX_SELECTORS = 16
_Taints = tuple["Mapping[str, Any]", ...]
_NO_COUNTS: dict[str, _SelectorCount] = {}


class _SelectorCount:
    """The number of a node's pods that a selector matches, updated pod by pod."""

    __slots__ = ("_matches", "count")

    def __init__(self, selector: LabelSelector) -> None:
        self._matches = selector.matches
        self.count = 0

    def add(self, pod: PodInfo, sign: int) -> None:
        """Add or remove a pod; terminating pods do not count."""
        if not pod.ending and self._matches(pod.labels):
            self.count += sign


class NodeInfo:
    """A node, the pods on it and their sums.

    Adding and removing a pod takes constant time.

    Args:
        node: the Node as the API has it.

    Raises:
        InvalidNode: the node is invalid.
    """

    __slots__ = (
        "_pods",
        "_ports",
        "_selector_counts",
        "allocatable",
        "assumed",
        "cached",
        "discouraging",
        "images",
        "labels",
        "name",
        "node",
        "pod_count",
        "pods_allowed",
        "repelling",
        "requested",
        "required_anti_affinity",
        "unschedulable",
        "weighted_terms",
    )

    def __init__(self, node: Mapping[str, Any]) -> None:
        #: The sum of its pods' requests.
        self.requested: ResourceAmounts = {}
        #: The sum of cpu and memory that scores assume for its pods.
        self.assumed: ResourceAmounts = {"cpu": 0, "memory": 0}
        self._pods: dict[str, PodInfo] = {}
        self._ports: dict[HostPort, int] = {}
        #: Its pods' preferred affinity terms by weight (negative for anti-affinity, None for
        #: required), and the number of pods with each.
        self.weighted_terms: dict[tuple[int | None, AffinityTerm], int] = {}
        #: Its pods' required anti-affinity terms, and the number of pods with each.
        self.required_anti_affinity: dict[AffinityTerm, int] = {}
        #: Counts cached until the node or a pod of it changes: successive pods are mostly alike.
        self.cached: dict[object, int] = {}
        #: By namespace and by the selector's key.
        self._selector_counts: dict[str, dict[str, _SelectorCount]] = {}
        #: The number of pods on the node.
        self.pod_count = 0
        self.set_node(node)

    def set_node(self, node: Mapping[str, Any]) -> None:
        """Replace the Node; its pods stay.

        Raises:
            InvalidNode: the node is invalid; nothing is changed then.
        """
        try:
            self._read(node)
        except InvalidObject as error:
            named = node.get("metadata") if isinstance(node, dict) else None
            owner = f"node {named.get('name') or ''}" if isinstance(named, dict) else "node"
            raise InvalidNode(error.what.lstrip("."), error.value, error.valid, owner) from None

    def _read(self, node: Mapping[str, Any]) -> None:
        if not isinstance(node, dict):
            raise InvalidObject("node", node, "use a mapping")
        metadata, status = get_mapping(node, "metadata", ""), get_mapping(node, "status", "")
        spec = get_mapping(node, "spec", "")
        name = get_string(metadata, "name", "metadata", required=True)
        labels = get_mapping(metadata, "labels", "metadata")
        room = get_mapping(status, "allocatable", "status")
        allocatable = parse_resource_list(room, "status.allocatable")
        taints = get_mappings(spec, "taints", "spec")
        self.node = node
        self.name = name
        self.labels: Mapping[str, str] = labels
        self.allocatable: ResourceAmounts = allocatable
        self.pods_allowed = allocatable.get("pods", 0)
        self.unschedulable = bool(spec.get("unschedulable"))
        #: Its taints with NoSchedule or NoExecute.
        self.repelling: _Taints = tuple(
            taint for taint in taints if taint.get("effect") in DO_NOT_SCHEDULE_EFFECTS
        )
        #: Its taints with PreferNoSchedule.
        self.discouraging: _Taints = tuple(
            taint for taint in taints if taint.get("effect") == PREFER_NO_SCHEDULE
        )
        #: The images on it and their sizes in bytes; each name of an image counts.
        self.images: Mapping[str, int] = {
            name: get_int(image, "sizeBytes", "status.images[]", 0)
            for image in get_mappings(status, "images", "status")
            for name in get_strings(image, "names", "status.images[]")
        }
        self.cached = {}

    @property
    def pods(self) -> Collection[PodInfo]:
        """The pods on the node, as the algorithm reads them."""
        return self._pods.values()

    @property
    def used_ports(self) -> Collection[HostPort]:
        """The host ports its pods take."""
        return self._ports.keys()

    def add(self, pod: dict[str, Any]) -> None:
        """Add `pod`, or replace it if it is on the node.

        Raises:
            InvalidPod: the pod is invalid; the node is unchanged then.
        """
        uid = _uid(pod)
        known = self._pods.get(uid)
        if known is not None:
            if known.pod is pod or _scheduling_fields(known.pod) == _scheduling_fields(pod):
                known.pod = pod
                return
            added = PodInfo(pod, started=True)
            self.remove(pod)
        else:
            added = PodInfo(pod, started=True)
        self._pods[uid] = added
        self._count(added, 1)

    def remove(self, pod: Mapping[str, Any]) -> bool:
        """Remove `pod`; False if it was not on the node."""
        uid = _uid(pod)
        removed = self._pods.pop(uid, None)
        if removed is None:
            return False
        self._count(removed, -1)
        return True

    def _count(self, pod: PodInfo, sign: int) -> None:
        self.pod_count = len(self._pods)
        self.cached = {}
        requested, assumed = self.requested, self.assumed
        for name, amount in pod.requests.items():
            requested[name] = requested.get(name, 0) + sign * amount
        assumed["cpu"] += sign * pod.assumed.get("cpu", 0)
        assumed["memory"] += sign * pod.assumed.get("memory", 0)
        if pod.affinity:
            for term in pod.affinity.required_apart:
                _add(self.required_anti_affinity, term, sign)
            for weight in pod.affinity.weighted_terms:
                _add(self.weighted_terms, weight, sign)
        for port in pod.ports:
            _add(self._ports, port, sign)
        for selector_count in self._selector_counts.get(pod.namespace, _NO_COUNTS).values():
            selector_count.add(pod, sign)

    def count(self, key: str, matches: Callable[[PodInfo], bool]) -> int:
        """Return the number of matching pods.

        Args:
            key: identifies the predicate for the cache; empty if its result may change while the
                node and its pods do not.
            matches: whether a pod matches.
        """
        number = self.cached.get(key) if key else None
        if number is None:
            number = sum([matches(pod) for pod in self._pods.values()])
            if key:
                self.cache(key, number)
        return number

    def selected(self, namespace: str, selector: LabelSelector) -> int:
        """Return the number of a namespace's pods that match, without terminating ones."""
        counts = self._selector_counts.get(namespace)
        selector_count = counts.get(selector.key) if counts is not None else None
        if selector_count is None:
            selector_count = _SelectorCount(selector)
            for pod in self._pods.values():
                if pod.namespace == namespace:
                    selector_count.add(pod, 1)
            _cache(
                _cache(self._selector_counts, namespace, counts or {}), selector.key, selector_count
            )
        return selector_count.count

    def cache(self, key: object, number: int) -> int:
        """Return `number` after storing it in `cached`."""
        if len(self.cached) >= _MAX_CACHED:
            self.cached.clear()
        self.cached[key] = number
        return number


def _cache(known: dict[str, _Value], key: str, value: _Value) -> _Value:
    """Return `value` and cache it; a full cache is cleared first."""
    if len(known) >= _MAX_SELECTORS and key not in known:
        known.clear()
    known[key] = value
    return value


def _add(counts: dict[_Key, int], key: _Key, sign: int) -> None:
    number = counts.get(key, 0) + sign
    if number:
        counts[key] = number
    else:
        del counts[key]


def _uid(pod: Mapping[str, Any]) -> str:
    if not isinstance(pod, dict):
        raise InvalidPod("pod", pod, "use a mapping")
    metadata = pod.get("metadata") or {}
    uid = metadata.get("uid")
    if not isinstance(uid, str) or not uid:
        owner = f"pod {metadata.get('namespace') or 'default'}/{metadata.get('name') or ''}"
        raise InvalidPod("metadata.uid", uid, "use a string", owner)
    return uid


def _scheduling_fields(pod: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the pod's fields that can affect its node; a generation covers the spec."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    statuses = status.get("containerStatuses") or ()
    resources = [(status.get("resources"), status.get("allocatedResources")) for status in statuses]
    return (
        metadata.get("generation"),
        metadata.get("labels"),
        metadata.get("deletionTimestamp"),
        # Most kubelets report no resources before containers start.
        status.get("resources") or None,
        resources if any(map(any, resources)) else None,
    )
