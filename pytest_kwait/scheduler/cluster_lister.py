"""What an algorithm is shown of the cluster: nodes with their pods, and what pods belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.cache.keys import NAMESPACE_INDEX
from pytest_kwait.client.resource import (
    NAMESPACES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
)
from pytest_kwait.scheduler.framework.spread_constraints import (
    collect_spread_selectors,
    find_spreading_controller,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kwait.cache.factory import SharedInformerFactory
    from pytest_kwait.cache.shared_informer import SharedInformer
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.scheduler.cache import SchedulerCache
    from pytest_kwait.scheduler.framework.node_info import NodeInfo

__all__ = ["SharedLister"]

_CONTROLLERS = {one.kind: one for one in (REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)}
# What the rules of an algorithm look at beside pods and nodes.
_RESOURCES_BY_PLUGIN: Mapping[str, Sequence[Resource]] = {
    "InterPodAffinity": (NAMESPACES,),
    "PodTopologySpread": (SERVICES, *_CONTROLLERS.values()),
}


class SharedLister:
    """A `NodeLister` that also knows namespaces, services and controllers, as far as needed.

    Args:
        cache: has the nodes and the pods on them.
        informers: where the informers of everything else come from.
        rules: the names of the predicates and priorities in use; what none of them looks at is not
            watched.
    """

    def __init__(
        self, cache: SchedulerCache, informers: SharedInformerFactory, rules: Iterable[str]
    ) -> None:
        self._cache = cache
        wanted = {each for rule in rules for each in _RESOURCES_BY_PLUGIN.get(rule, ())}
        self._informers = {each: informers.informer_for(each) for each in wanted}

    @property
    def informers(self) -> Sequence[SharedInformer]:
        """The informers that must have synced, beside those of pods and nodes."""
        return list(self._informers.values())

    def list(self) -> Sequence[NodeInfo]:
        """Return every node with the pods on it as they are now, assumed ones too."""
        return self._cache.list()

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None where there is none of that name."""
        found = self._found(NAMESPACES, name)
        return None if found is None else found["metadata"].get("labels") or {}

    def spread_selectors(self, pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return the label selectors of the services and the controller that a pod belongs to."""
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
