"""The binding cycle and the handling of failures of one pod.

Pods are bound in other threads while the next pod is scheduled. A failure becomes an event, a
condition and another attempt.

Source: kube-scheduler, schedule_one.go (`bindingCycle`, `handleSchedulingFailure`).
"""

from __future__ import annotations

import inspect
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.apimachinery.times import format_time
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.write_options import STRATEGIC_MERGE_PATCH
from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.scheduler.algorithm import FitError
from pytest_kwait.scheduler.api_dispatcher import APICall, APIDispatcher
from pytest_kwait.scheduler.scheduling_queue import Pod, QueuedPodInfo, node_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Clock, Deadline
    from pytest_kwait.scheduler.cache import SchedulerCache
    from pytest_kwait.scheduler.metrics import SchedulerMetrics
    from pytest_kwait.scheduler.pod_events import EventRecorder
    from pytest_kwait.scheduler.scheduling_queue import SchedulingQueue

_log = logging.getLogger(__name__)

_PATCH_RETRIES = 5
"""Attempts to write a condition to a pod that others change at the same time."""


class Binder(Protocol):
    """Binds a pod to a node; called from several threads."""

    def __call__(self, pod: Pod, node: str, *, deadline: Deadline) -> object:
        """Bind the pod, or raise the error for the pod's event.

        Args:
            pod: the pod with its node's name set.
            deadline: the end of the attempt.
        """
        ...


class DefaultBinder:
    """Binds by the pod's `binding` subresource, so that the server refuses a second binding.

    Source: kube-scheduler, framework/plugins/defaultbinder/default_binder.go.
    """

    def __init__(self, session: ApiSession) -> None:
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
            answer = self._binder(assumed, node, deadline=deadline)
            if inspect.iscoroutine(answer):
                answer.close()
                raise KwaitError("the binder is a coroutine function; it must bind and return")
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


def format_error(error: Exception) -> str:
    """Return the text of an error for a pod's event, whatever its class does."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # the `__str__` of a user's class may raise anything
        return type(error).__name__


def make_unscheduled_patch(
    pod: Mapping[str, Any], reason: str, message: str, now: str
) -> dict[str, Any] | None:
    """Return the strategic merge patch of a pod's status; None without a change.

    Args:
        pod: the current pod.
        reason: `Unschedulable` or `SchedulerError`.
        message: the condition's message.
        now: the time as the API writes it.

    Source: kube-scheduler, schedule_one.go, `updatePod`; api/v1/pod/util.go, `UpdatePodCondition`.
    """
    metadata = pod["metadata"]
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    if metadata.get("generation"):
        condition["observedGeneration"] = metadata["generation"]
    for known in (pod.get("status") or {}).get("conditions") or ():
        if known.get("type") == "PodScheduled" and known.get("status") == "False":
            condition["lastTransitionTime"] = known.get("lastTransitionTime", now)
            if all(known.get(name) == value for name, value in condition.items()):
                return None
    # The UID protects a recreated pod of the same name.
    return {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [condition]}}


class FailureHandler:
    """The error function of a scheduler.

    A deleted or bound pod is not retried. Unlike upstream, its condition is not changed then: a pod
    with a node is scheduled, regardless of the result of this attempt.

    Args:
        queue: takes the pod back.
        latest: returns a pod's last watched state by namespace and name.
        session: writes conditions.

    Source: kube-scheduler, schedule_one.go, `handleSchedulingFailure`.
    """

    def __init__(
        self,
        *,
        queue: SchedulingQueue,
        latest: Callable[[str], Pod | None],
        session: ApiSession,
        dispatcher: APIDispatcher,
        recorder: EventRecorder,
        metrics: SchedulerMetrics,
        clock: Clock,
    ) -> None:
        self._queue = queue
        self._latest = latest
        self._session = session
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock

    def __call__(self, entry: QueuedPodInfo, error: Exception, begun: float) -> None:
        """Handle a failed attempt.

        Args:
            entry: the pod's entry of the queue.
            error: the error; a `FitError` if the pod fits no node.
            begun: the start of the attempt, in monotonic seconds.
        """
        unfit = isinstance(error, FitError)
        reason = "Unschedulable" if unfit else "SchedulerError"
        self._metrics.attempt(
            entry.profile,
            "unschedulable" if unfit else "error",
            self._clock.monotonic() - begun,
        )
        message = format_error(error)
        if unfit:
            _log.info("Unable to schedule pod; no fit; waiting pod=%s err=%s", entry.key, message)
        else:
            _log.error("Error scheduling pod; retrying pod=%s err=%s", entry.key, message)
        pod, latest = entry.pod, self._latest(entry.key)
        if latest is None:
            _log.info("Pod was deleted pod=%s", entry.key)
            self._queue.done(entry)
        elif uid_of(latest) != entry.uid:
            _log.info("Pod was recreated with the same name pod=%s", entry.key)
            self._queue.done(entry)
            return
        elif node_of(latest):
            _log.info("Pod has a node pod=%s node=%s", entry.key, node_of(latest))
            self._queue.done(entry)
        else:
            pod = latest
            self._queue.add_unschedulable(entry, pod, error=not unfit)
        self._recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", message)
        if pod is latest:
            self._set_condition(pod, reason, message)

    def _set_condition(self, pod: Pod, reason: str, message: str) -> None:
        patch = make_unscheduled_patch(pod, reason, message, format_time(self._clock.time()))
        if patch is not None:
            send = APICall(lambda deadline: self._patch(pod, reason, message, deadline))
            self._dispatcher.submit(uid_of(pod), send)

    def _patch(self, pod: Pod, reason: str, message: str, deadline: Deadline) -> None:
        """Write the condition, unless the pod got a node in the meantime.

        The resource version of the patch is that of the pod as it was seen: a binding that the
        watch has not shown yet is found by the server's conflict.
        """
        metadata = pod["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        error: KwaitError | None = None
        for _ in range(_PATCH_RETRIES):
            patch = make_unscheduled_patch(pod, reason, message, format_time(self._clock.time()))
            if patch is None:
                return
            patch["metadata"]["resourceVersion"] = pod["metadata"]["resourceVersion"]
            try:
                self._session.patch(
                    PODS,
                    metadata["name"],
                    patch,
                    metadata["namespace"],
                    content_type=STRATEGIC_MERGE_PATCH,
                    subresource="status",
                    deadline=deadline,
                )
                return
            except ApiError as refused:
                error = refused
                if refused.status != HTTPStatus.CONFLICT:
                    break
                try:
                    pod = self._session.get(
                        PODS, metadata["name"], metadata["namespace"], deadline=deadline
                    )
                except KwaitError as unread:
                    error = unread
                    break
                if uid_of(pod) != metadata["uid"] or node_of(pod):
                    _log.info("Pod has a node pod=%s node=%s", name, node_of(pod))
                    return
            except KwaitError as failed:
                error = failed
                break
        _log.error("Error updating pod pod=%s err=%s", name, error)
