"""The worker of one pod on one node, from its first sync to its removal.

As in the real kubelet, a sync first publishes the results of the last one and then acts. So the
result of an action shows in the status with the next sync.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING
from pytest_kwait.simulator.kubelet.allocation import PodAllocation, to_allocated_pod
from pytest_kwait.simulator.kubelet.environment import find_hostname_error
from pytest_kwait.simulator.kubelet.pod_context import EVICTED, TerminationReason
from pytest_kwait.simulator.kubelet.runtime_manager import (
    SYNC_RETRY_SECONDS,
    RuntimeManager,
    record_sandbox_failure,
    terminate_containers,
)
from pytest_kwait.simulator.kubelet.status import (
    OWN_CONDITIONS,
    TERMINAL_PHASES,
    PodStatusGenerator,
)
from pytest_kwait.simulator.kubelet.volumes import find_missing_volume
from pytest_kwait.simulator.network.cluster_network import ClusterNetwork
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of
from pytest_kwait.simulator.request_info import KUBELET_MANAGER, internal_caller

if TYPE_CHECKING:
    from pytest_kwait.simulator.clock import ScheduledCall
    from pytest_kwait.simulator.kubelet.allocation import DeferredResizes
    from pytest_kwait.simulator.kubelet.container import Container
    from pytest_kwait.simulator.kubelet.cri import Call
    from pytest_kwait.simulator.kubelet.pod_context import NodeContext
    from pytest_kwait.simulator.kubelet.volume_manager import VolumeManager
    from pytest_kwait.simulator.no_exploration import Held

_log = logging.getLogger(__name__)

# Measured seconds, scaled: the teardown of a sandbox, and the time from the end of a deleted pod to
# its removal.
_TEARDOWN_SECONDS = 1.1
_REMOVAL_SECONDS = 0.4
# Seconds between attempts to mount a volume; they double up to the maximum.
# Source: pkg/util/goroutinemap/exponentialbackoff.
_MOUNT_BACKOFF_INITIAL = 0.5
_MOUNT_BACKOFF_MAX = 122.0
# Source: eviction/eviction_manager.go, `immediateEvictionGracePeriodSeconds`.
_EVICTION_GRACE = 1.0

_MANY_CONTAINERS = 50
"""Containers of a pod whose syncs take long."""

_DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


class PodWorker:
    """Syncs one pod with its containers.

    Args:
        pod: the pod as bound.
        resizes: the deferred resizes of the node.
    """

    def __init__(self, node: NodeContext, pod: Obj, resizes: DeferredResizes) -> None:
        self.node = node
        self.cluster = node.cluster
        self.pod = pod
        self.allocation = PodAllocation(self, resizes)
        self.pod_ip = ""
        self.network = node.network if pod["spec"].get("hostNetwork") else Network()
        self._scripts = node.runtimes.make_scripts(
            self, lambda: self.runtime_manager.list_running()
        )
        self.runtime_manager: RuntimeManager = RuntimeManager(self, self._scripts)
        self._status = PodStatusGenerator(self, self.runtime_manager, self.allocation)
        self._sandbox = False
        self._begun = False
        self._mount_delay = _MOUNT_BACKOFF_INITIAL
        self.evicted: TerminationReason | None = None
        self._task: Call[None] | None = None
        self._is_dirty = False
        self._is_scheduled = False
        self._retry: ScheduledCall | None = None
        self._idle = False
        self._stepping = False
        self._terminating = False
        self._finished = False
        self._removed = False
        self._must_publish = False
        self._held_write: Held | None = None
        self._is_writing = self._is_outdated = False

    # -- scheduling of syncs

    @property
    def deleted(self) -> bool:
        """Return whether the pod's deletion has begun."""
        return "deletionTimestamp" in self.pod["metadata"]

    @property
    def finished(self) -> bool:
        """Return whether the containers have ended for good."""
        return self._finished

    @property
    def sandbox(self) -> bool:
        """Return whether the pod's sandbox is up."""
        return self._sandbox

    def update(self, pod: Obj) -> None:
        """Take over a new version of the pod from the API."""
        before, self.pod = self.pod, self.allocation.apply(pod)
        self._scripts.schedule_failure()
        if (
            "deletionTimestamp" in pod["metadata"] and "deletionTimestamp" not in before["metadata"]
        ) or to_allocated_pod(self.pod) != to_allocated_pod(before):
            self._watch_deadline()
            self.sync()

    def on_removed(self) -> None:
        """Kill the containers: the pod was removed from the API."""
        self._removed = True
        for container in self.runtime_manager.list_running():
            message = f"Stopping container {container.name}"
            self.record_container_event(container.name, NORMAL, "Killing", message)
        self._finished = True
        self.sync_in(None)
        if not self._stepping and self._task is not None:
            self._task.close()
        self._task = None
        self._scripts.stop()
        self.runtime_manager.kill_all()
        self.runtime_manager.stop_sandboxes()

    @property
    def volumes(self) -> VolumeManager:
        """The volumes of the pod."""
        return self.runtime_manager.volumes

    def assign_address(self) -> str:
        """Connect the pod to the network, and return its address."""
        self.pod_ip = self.network.address = self.node.assign_address(self.pod)
        if self.network.external is None:
            self.network.external = ClusterNetwork(
                self.cluster, self.node.find_network, self.node.name
            )
        return self.pod_ip

    def on_container_stopped(self, container_id: str) -> None:
        """Handle the end of a container."""
        self.runtime_manager.on_container_stopped(container_id)

    def sync(self) -> None:
        """Schedule a sync."""
        self._is_dirty = True
        if self._task is None and not self._is_scheduled and not self._removed:
            self._is_scheduled = True
            self._schedule_begin()
        elif (
            self._task is not None
            and self.deleted
            and not self._terminating
            and not self._is_scheduled
        ):
            # A deletion interrupts an image pull.
            self._is_scheduled = True
            self.node.clock.call_later(0, self._interrupt)

    def _schedule_begin(self) -> None:
        if not self.cluster.exploration.hold_sync(self.pod, self._begin):
            self.node.clock.call_later(0, self._begin)

    def sync_in(self, seconds: float | None) -> None:
        """Replace the planned sync by one in real `seconds`; None: by none."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if seconds is not None:
            self._retry = self.node.clock.call_later(seconds, self.sync, scaled=False)

    def resume_waiting(self) -> None:
        """Resume a sync that waits for a container."""
        self.node.clock.call_later(0, self._resume)

    def _interrupt(self) -> None:
        self._is_scheduled = False
        if self._stepping:
            self.sync()  # a step that waits for a webhook is not cut short
            return
        if self._task is not None and not self._terminating:
            self._task.close()
            self._task = None
        self._begin()

    def _begin(self) -> None:
        self._is_scheduled = False
        if (
            self._removed
            or self._task is not None
            or not self._is_dirty
            or self.node.is_kubelet_stopped
        ):
            return
        self._is_dirty = False
        self._task = self._sync()
        self._advance(self._task)

    def _resume(self) -> None:
        if self._idle and self._task is not None:
            self._advance(self._task)

    def _advance(self, task: Call[None]) -> None:
        if self._task is not task or self._removed:
            return
        if len(self.pod["spec"]["containers"]) < _MANY_CONTAINERS:
            self._step(task)
        else:
            self.cluster.tasks.run_large(lambda: self._step(task))

    def _step(self, task: Call[None]) -> None:
        self._idle = False
        self._stepping = True
        try:
            pause = next(task)
        except StopIteration:
            self._task = None
            if self._is_dirty:
                self.sync()
            return
        except Exception:
            # A failed sync is retried, as upstream, and leaves other pods alone.
            where = f"{namespace_of(self.pod)}/{name_of(self.pod)}"
            _log.exception("the sync of pod %s failed and is retried", where)
            self._task, self._is_dirty = None, True
            self.sync_in(SYNC_RETRY_SECONDS * self.node.clock.scale)
            return
        finally:
            self._stepping = False
        if pause is None:
            self._idle = True
        else:
            self.node.clock.call_later(pause, self._advance, task)

    # -- one sync

    def _sync(self) -> Call[None]:
        if self._finished:
            if self._must_publish:
                self._publish()
            if self.deleted:
                self._remove()
            return
        if not self._begun:
            self._begun = True
            self._watch_deadline()
        if self.evicted is None and self._past_deadline():
            self.evicted = TerminationReason("DeadlineExceeded", _DEADLINE_MESSAGE)
            self.record_event(NORMAL, "DeadlineExceeded", _DEADLINE_MESSAGE)
        phase = self._publish()
        if self.deleted or self.evicted is not None or phase in TERMINAL_PHASES:
            yield from self._terminate(phase)
            return
        if not self._sandbox:
            missing = find_missing_volume(self.cluster, self.pod)
            if missing is not None:
                self._wait_for_volume(*missing)
                return
            hostname_error = find_hostname_error(self.pod)
            if hostname_error:
                message = f"Failed to create pod sandbox: {hostname_error}"
                self.record_event(WARNING, "FailedCreatePodSandBox", message)
                self.sync_in(SYNC_RETRY_SECONDS * self.node.clock.scale)
                return
            yield from self.cluster.exploration.delay_sandbox(self.pod, self.resume_waiting)
            failure = yield from self.runtime_manager.run_sandbox()
            if failure:
                record_sandbox_failure(self, failure)
                self.sync_in(SYNC_RETRY_SECONDS * self.node.clock.scale)
                return
            self._sandbox = True
            self._write(self._status.with_sandbox())
            if self._removed:
                return
            self.node.relist(self)
        if self.runtime_manager.only_sidecars_run():
            yield from self._stop(self.runtime_manager.list_running())
            self._sandbox = False
            yield from self._terminate(self._publish())
            return
        yield from self.runtime_manager.sync()

    def _wait_for_volume(self, volume: str, why: str) -> None:
        self.record_event(
            WARNING, "FailedMount", f'MountVolume.SetUp failed for volume "{volume}" : {why}'
        )
        self.sync_in(self._mount_delay * self.node.clock.scale)
        self._mount_delay = min(self._mount_delay * 2, _MOUNT_BACKOFF_MAX)

    def _terminate(self, phase: str) -> Call[None]:
        """Stop the containers, publish the final status, and remove a deleted pod."""
        self._terminating = True
        self.sync_in(None)
        self.runtime_manager.stop_probes()
        running = self.runtime_manager.list_running()
        yield from self._stop(running)
        over = phase in TERMINAL_PHASES
        if not running and not over:
            self._sandbox = False
            self._publish()
        if not running:
            yield _TEARDOWN_SECONDS if over else _REMOVAL_SECONDS
        self._sandbox = False
        self._finished = True
        self.runtime_manager.stop_sandboxes()
        self._publish()
        self.node.release_pod(self.pod)
        self.runtime_manager.volumes.in_memory.close()
        if self.deleted:
            if running:
                yield _REMOVAL_SECONDS
            self._remove()

    def _stop(self, running: list[Container]) -> Call[None]:
        """Terminate containers within their grace period."""
        for number, container in enumerate(running, 1):
            message = f"Stopping container {container.name}"
            self.record_container_event(container.name, NORMAL, "Killing", message)
            if not number % _MANY_CONTAINERS:
                yield 0.0  # let others in
        yield from terminate_containers(self, running, self.get_grace())

    def get_container_spec(self, name: str) -> Obj:
        """Return a container's part of the spec."""
        spec = self.pod["spec"]
        every = [
            container
            for field in ("initContainers", "containers", "ephemeralContainers")
            for container in spec.get(field) or ()
        ]
        return next((container for container in every if container["name"] == name), {"name": name})

    def get_grace(self) -> float:
        """Return the grace period of the containers in seconds."""
        metadata = self.pod["metadata"]
        if self.evicted is not None and self.evicted.reason == EVICTED:
            return _EVICTION_GRACE
        seconds = metadata.get("deletionGracePeriodSeconds")
        if seconds is None:
            seconds = self.pod["spec"].get("terminationGracePeriodSeconds", 30)
        return float(seconds)

    def _remove(self) -> None:
        """Delete the object; a finalizer may keep it."""
        self._write_held()
        if self.node.is_partitioned:
            return
        try:
            self.cluster.delete(
                "pods", name_of(self.pod), namespace_of(self.pod), uid=uid_of(self.pod), grace=0
            )
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise

    def _watch_deadline(self) -> None:
        limit = self.pod["spec"].get("activeDeadlineSeconds")
        if limit is not None:
            self.node.clock.call_later(float(limit), self.sync, scaled=False)

    def _past_deadline(self) -> bool:
        limit = self.pod["spec"].get("activeDeadlineSeconds")
        start = self._status.written.get("startTime")
        if limit is None or start is None:
            return False
        # The start is truncated to seconds, so the deadline is up to a second early, as upstream.
        return self.node.clock.time() - parse_time(start) >= float(limit)

    # -- status

    def reject(self, reason: str, message: str) -> None:
        """Fail a pod that is bound to this node but not admitted."""
        self._finished = True
        self.record_event(WARNING, reason, message)
        status = {
            **(self.pod.get("status") or {}),
            "phase": "Failed",
            "reason": reason,
            "message": f"Pod was rejected: {message}",
            "observedGeneration": self.pod["metadata"].get("generation", 1),
        }
        status.setdefault("startTime", self.node.clock.stamp())
        self._write(status)

    def record_resize_progress(self) -> None:
        """Publish that a resize of containers is in progress."""
        self._write(self._status.with_resize())

    def _publish(self) -> str:
        """Publish the current status, and return the phase that its containers imply."""
        status, phase = self._status.generate()
        self._write(status)
        return phase

    def reconcile(self) -> None:
        """Overwrite the status in the API with the current one, and sync."""
        self._must_publish = True
        self.sync()

    def _write(self, status: Obj) -> None:
        if self._removed or self.node.is_partitioned:
            return
        if status == self._status.written and not self._must_publish:
            return
        self._must_publish = False
        self._status.written = status
        if self._held_write is None:
            self._held_write = self.cluster.exploration.hold_status(self.pod, self._write_held)
        if self._held_write is None:
            self._write_latest()

    def _write_held(self) -> None:
        """Write the latest status, which was held back, if any was."""
        if self._held_write is None:
            return
        from pytest_kwait.simulator.exploration.kubelets import merge_conditions

        self._held_write.cancel()
        self._held_write = None
        if self._removed or self.node.is_partitioned:
            return
        late, current_status = self._status.written, self.pod.get("status") or {}
        conditions = merge_conditions(
            late.get("conditions") or (), current_status.get("conditions") or (), OWN_CONDITIONS
        )
        self._status.written = {**late, "conditions": conditions}
        self._write_latest()

    def _write_latest(self) -> None:
        """Write the latest status; a write that waits for a webhook is followed by the next."""
        self._is_outdated = True
        if self._is_writing:
            return
        self._is_writing = True
        try:
            while self._is_outdated:
                self._is_outdated = False
                self._put_status(self._status.written)
        finally:
            self._is_writing = False

    def _put_status(self, status: Obj) -> None:
        try:
            # The pod in the API may be newer; the kubelet still owns its status.
            metadata = {
                key: value
                for key, value in self.pod["metadata"].items()
                if key != "resourceVersion"
            }
            stored = self.cluster.update_status(
                "pods",
                {**self.pod, "metadata": metadata, "status": status},
                caller=internal_caller(KUBELET_MANAGER),
            )
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise
            return
        self.pod = self.allocation.apply(stored)

    # -- events

    def record_event(self, severity: str, reason: str, message: str) -> None:
        """Record an event about the pod."""
        if self.node.is_partitioned:
            return
        self.node.recorder.event(self.pod, ("v1", "Pod"), severity, reason, message)

    def record_container_event(self, name: str, severity: str, reason: str, message: str) -> None:
        """Record an event about a container of the pod."""
        if self.node.is_partitioned:
            return
        field = next(
            (
                field
                for field in ("initContainers", "ephemeralContainers")
                if any(container["name"] == name for container in self.pod["spec"].get(field) or ())
            ),
            "containers",
        )
        path = f"spec.{field}{{{name}}}"
        self.node.recorder.event(
            self.pod, ("v1", "Pod"), severity, reason, message, field_path=path
        )
