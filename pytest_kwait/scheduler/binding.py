"""The binding cycle: binds pods in other threads while the next pod is scheduled.

Source: kube-scheduler, schedule_one.go (`bindingCycle`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.client.resource import PODS, Resource
from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.scheduler.api_dispatcher import APICall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.client.responses import Object
    from pytest_kwait.clock import Clock, Deadline
    from pytest_kwait.scheduler.api_dispatcher import APIDispatcher
    from pytest_kwait.scheduler.cache import SchedulerCache
    from pytest_kwait.scheduler.metrics import SchedulerMetrics
    from pytest_kwait.scheduler.pod_events import EventRecorder
    from pytest_kwait.scheduler.scheduling_failure import FailureHandler
    from pytest_kwait.scheduler.scheduling_queue import Pod, QueuedPodInfo, SchedulingQueue

__all__ = ["Binder", "BindingCycle", "DefaultBinder"]

_log = logging.getLogger(__name__)


class Binder(Protocol):
    """Binds a pod to a node; called from several threads."""

    def __call__(self, pod: Pod, node: str, *, deadline: Deadline) -> object:
        """Bind the pod, or raise the error for the pod's event.

        Args:
            pod: the pod with its node's name set.
            deadline: the end of the attempt.
        """
        ...


class _Creates(Protocol):
    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str,
        *,
        name: str,
        subresource: str,
        deadline: Deadline,
    ) -> Object: ...


class DefaultBinder:
    """Binds by the pod's `binding` subresource, so that the server refuses a second binding.

    Source: kube-scheduler, framework/plugins/defaultbinder/default_binder.go.
    """

    def __init__(self, session: _Creates) -> None:
        self._session = session

    def __call__(self, pod: Mapping[str, Any], node: str, *, deadline: Deadline) -> None:
        """Bind the pod.

        Raises:
            KwaitError: the request failed.
        """
        metadata = pod["metadata"]
        identity = {name: metadata[name] for name in ("name", "namespace", "uid")}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": identity,
            "target": {"kind": "Node", "name": node},
        }
        try:
            self._session.create(
                PODS,
                binding,
                metadata["namespace"],
                name=metadata["name"],
                subresource="binding",
                deadline=deadline,
            )
        except ApiError as error:
            raise KwaitError(f'running Bind plugin "DefaultBinder": {error.message}') from error


class BindingCycle:
    """Binds pods in other threads and handles the result.

    Unlike upstream, a pod is not bound to a node that was deleted since it was selected: the server
    would accept the binding, and the pod would never run.

    Args:
        queue: the queue that a bound pod leaves.
        cache: the cache that assumes the pod.
        binder: binds.
        dispatcher: the threads.
        error: handles a pod that was not bound.
        recorder: writes the event.

    Source: kube-scheduler, schedule_one.go, `bindingCycle`, `handleBindingCycleError`.
    """

    def __init__(
        self,
        *,
        queue: SchedulingQueue,
        cache: SchedulerCache,
        binder: Binder,
        dispatcher: APIDispatcher,
        error: FailureHandler,
        recorder: EventRecorder,
        metrics: SchedulerMetrics,
        clock: Clock,
    ) -> None:
        self._queue = queue
        self._cache = cache
        self._binder = binder
        self._dispatcher = dispatcher
        self._error = error
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock

    def start(self, entry: QueuedPodInfo, assumed: Pod, node: str, begun: float) -> None:
        """Start the binding of an assumed pod; returns at once.

        Args:
            entry: the pod's entry of the queue.
            assumed: the pod as the cache assumes it.
            begun: the start of the attempt, in monotonic seconds.
        """
        call = APICall(
            lambda deadline: self._bind(entry, assumed, node, begun, deadline),
            lambda: self._drop(entry, assumed),
        )
        self._dispatcher.submit(entry.uid, call)

    def _bind(
        self, entry: QueuedPodInfo, assumed: Pod, node: str, begun: float, deadline: Deadline
    ) -> None:
        try:
            if not self._cache.has_node(node):
                raise KwaitError(f'node "{node}" not found')
            self._binder(assumed, node, deadline=deadline)
        except (
            Exception
        ) as error:  # A custom binder may raise anything; the pod must not stay assumed.
            _log.info("Failed to bind pod pod=%s node=%s", entry.key, node)
            if self._cache.forget(assumed):
                self._queue.move_all()
            self._error(entry, error, begun)
            return
        self._cache.finish_binding(assumed)
        self._queue.done(entry)
        _log.info("Successfully bound pod to node pod=%s node=%s", entry.key, node)
        now = self._clock.monotonic()
        self._metrics.attempt(entry.profile, "scheduled", now - begun)
        self._metrics.pod_scheduled(entry.attempts, now - (entry.first_active or begun))
        note = f"Successfully assigned {entry.key} to {node}"
        self._recorder.event(assumed, "Normal", "Scheduled", "Binding", note)

    def _drop(self, entry: QueuedPodInfo, assumed: Pod) -> None:
        self._cache.forget(assumed)
        self._queue.done(entry)
