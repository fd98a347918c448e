"""Event handlers that update the queue and the cache from pod and node informers.

Source: kube-scheduler, eventhandlers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.cache.handlers import ResourceEventHandlerFuncs
from pytest_kwait.client.resource import NODES, PODS
from pytest_kwait.scheduler.scheduling_queue import (
    Pod,
    has_label_change,
    has_node_scheduling_change,
    is_scaled_down,
    node_of,
    scheduler_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.cache.factory import SharedInformerFactory
    from pytest_kwait.cache.handlers import HandlerRegistration
    from pytest_kwait.cache.shared_informer import SharedInformer
    from pytest_kwait.scheduler.cache import SchedulerCache
    from pytest_kwait.scheduler.scheduling_queue import SchedulingQueue

_FINISHED_PHASES = frozenset({"Failed", "Succeeded"})


class EventHandlers:
    """Updates queue and cache by two shared informers.

    Finished pods count as deleted, as upstream, whose watch excludes them.

    Args:
        queue: the pods to schedule.
        cache: the pods on nodes.
        is_ours: whether a pod requests this scheduler.

    Source: kube-scheduler, eventhandlers.go.
    """

    def __init__(
        self, queue: SchedulingQueue, cache: SchedulerCache, is_ours: Callable[[str], bool]
    ) -> None:
        self._queue = queue
        self._cache = cache
        self._is_ours = is_ours
        self._places: list[tuple[SharedInformer, HandlerRegistration]] = []
        self._others: Sequence[SharedInformer] = ()

    @property
    def synced(self) -> Sequence[SharedInformer | HandlerRegistration]:
        """The informers and handlers that must sync before the first decision."""
        return [*(informer for place in self._places for informer in place), *self._others]

    def register(
        self, informers: SharedInformerFactory, other_informers: Sequence[SharedInformer] = ()
    ) -> None:
        """Register handlers at the informers of pods and nodes.

        Args:
            other_informers: further informers that must sync before the first decision.
        """
        self._others = other_informers
        of_pods = ResourceEventHandlerFuncs(self.add_pod, self.update_pod, self.delete_pod)
        of_nodes = ResourceEventHandlerFuncs(self.add_node, self.update_node, self.delete_node)
        for resource, handler in ((PODS, of_pods), (NODES, of_nodes)):
            informer = informers.informer_for(resource)
            registration = informer.add_event_handler(handler, name="scheduler")
            self._places.append((informer, registration))

    def unregister(self) -> None:
        """Remove the handlers; shared informers keep running."""
        for informer, registration in self._places:
            informer.remove_event_handler(registration)

    def add_pod(self, pod: Pod) -> None:
        """Handle a pod that was added or already present."""
        if _is_finished(pod):
            return
        if node_of(pod):
            self._place(pod)
        elif self._is_ours(scheduler_of(pod)) and not self._cache.is_assumed(pod):
            self._queue.add(pod)

    def update_pod(self, old: Pod, new: Pod) -> None:
        """Handle a changed pod."""
        if _is_finished(new):
            if not _is_finished(old):
                self.delete_pod(new)
        elif node_of(old) and not _is_finished(old):
            self._cache.set_pod(new)
            if is_scaled_down(old, new):
                self._queue.move_all()
            elif has_label_change(old, new):
                self._queue.move_dependents()
        elif node_of(new):
            self._queue.delete(new)
            self._place(new)
        elif self._is_ours(scheduler_of(new)):
            if not self._cache.is_assumed(new):
                self._queue.update(old, new)
            elif _is_terminating(new) and not _is_terminating(old) and self._cache.forget(new):
                # Its binding will fail, so it needs no resources any more.
                self._queue.move_all()

    def delete_pod(self, pod: Pod) -> None:
        """Handle a deleted pod; its last known state may be old."""
        self._queue.delete(pod)
        if self._cache.remove_pod(pod):
            self._queue.move_all()

    def add_node(self, node: dict[str, Any]) -> None:
        """Handle a node that was added or already present."""
        self._cache.set_node(node)
        self._queue.move_all()

    def update_node(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        """Handle a changed node."""
        self._cache.set_node(new)
        if has_node_scheduling_change(old, new):
            self._queue.move_all()

    def delete_node(self, node: dict[str, Any]) -> None:
        """Handle a deleted node, which can matter only for topology spreading."""
        self._cache.remove_node(node)
        self._queue.move_dependents()

    def _place(self, pod: Pod) -> None:
        self._cache.set_pod(pod)
        self._queue.move_dependents()


def _is_finished(pod: Pod) -> bool:
    return (pod.get("status") or {}).get("phase") in _FINISHED_PHASES


def _is_terminating(pod: Pod) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))
