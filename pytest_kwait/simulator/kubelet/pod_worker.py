"""The worker of one pod on one node, from its first sync to its removal.

As in the real kubelet, a sync first publishes the results of the last one and then acts:
the result of an attempt is seen in the status with the next sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING
from pytest_kwait.simulator.kubelet.allocation import PodAllocation, to_allocated_pod
from pytest_kwait.simulator.kubelet.environment import find_hostname_error
from pytest_kwait.simulator.kubelet.pod_context import EVICTED, TerminationReason
from pytest_kwait.simulator.kubelet.runtime_manager import RuntimeManager, terminate_containers
from pytest_kwait.simulator.kubelet.scripted_containers import ContainerScripts
from pytest_kwait.simulator.kubelet.status import TERMINAL_PHASES, PodStatusGenerator
from pytest_kwait.simulator.kubelet.volumes import find_missing_volume
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, parse_timestamp, uid_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.clock import Timer
    from pytest_kwait.simulator.kubelet.allocation import DeferredResizes
    from pytest_kwait.simulator.kubelet.container import Container
    from pytest_kwait.simulator.kubelet.pod_context import NodeContext

__all__ = ["PodWorker"]

# Seconds, scaled, as measured: what a sandbox with its network takes, what taking it down does, and
# what is between the end of a deleted pod and its removal.
_SANDBOX_SECONDS = 0.3
_TEARDOWN_SECONDS = 1.1
_REMOVAL_SECONDS = 0.4
# Seconds until a sandbox that failed is tried again; source: as of a failed start.
_SANDBOX_RETRY_SECONDS = 12.5
# Seconds between tries to mount a volume: doubling from the first to the most.
# Source: pkg/util/goroutinemap/exponentialbackoff.
_MOUNT_BACKOFF_INITIAL = 0.5
_MOUNT_BACKOFF_MAX = 122.0
# Source: eviction/eviction_manager.go, `immediateEvictionGracePeriodSeconds`.
_EVICTION_GRACE = 1.0

_DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


class PodWorker:
    """Runs one pod.

    Args:
        node: the kubelet it belongs to.
        pod: the pod as bound.
        resizes: the deferred resizes of the node.
    """

    def __init__(self, node: NodeContext, pod: Obj, resizes: DeferredResizes) -> None:
        self.node = node
        self.api = node.api
        self.pod = pod
        self.allocation = PodAllocation(self, resizes)
        self.pod_ip = ""
        self.network = node.network if pod["spec"].get("hostNetwork") else Network()
        self._scripts = ContainerScripts(self, lambda: self.runtime_manager.running())
        self.runtime_manager: RuntimeManager = RuntimeManager(self, self._scripts)
        self._status = PodStatusGenerator(self, self.runtime_manager, self.allocation)
        self._sandbox = False
        self._begun = False
        self._mount_delay = _MOUNT_BACKOFF_INITIAL
        self.evicted: TerminationReason | None = None
        self._task: Generator[float | None, None, None] | None = None
        self._again = False
        self._planned = False
        self._retry: Timer | None = None
        self._idle = False
        self._stepping = False
        self._terminating = False
        self._finished = False
        self._removed = False
        self._unsure = False

    # -- turns

    @property
    def deleted(self) -> bool:
        """Whether the pod's deletion has begun."""
        return "deletionTimestamp" in self.pod["metadata"]

    @property
    def finished(self) -> bool:
        """Whether no container of the pod will ever run again."""
        return self._finished

    @property
    def sandbox(self) -> bool:
        """Whether the pod's sandbox is up."""
        return self._sandbox

    def updated(self, pod: Obj) -> None:
        """Take over the pod as it is in the API now."""
        before, self.pod = self.pod, self.allocation.allocated_pod(pod)
        self._scripts.schedule_failure()
        if (
            "deletionTimestamp" in pod["metadata"] and "deletionTimestamp" not in before["metadata"]
        ) or to_allocated_pod(self.pod) != to_allocated_pod(before):
            self._watch_deadline()
            self.sync()

    def gone(self) -> None:
        """End what is left: the pod is no longer in the API."""
        self._removed = True
        for container in self.runtime_manager.running():
            message = f"Stopping container {container.name}"
            self.container_event(container.name, NORMAL, "Killing", message)
        self._finished = True
        self.sync_in(None)
        if not self._stepping and self._task is not None:
            self._task.close()
        self._task = None
        self._scripts.stop()
        self.runtime_manager.kill_all()

    def sync(self) -> None:
        """Look at the pod in one of the next turns."""
        self._again = True
        if self._task is None and not self._planned and not self._removed:
            self._planned = True
            self.node.clock.call_later(0, self._begin)
        elif (
            self._task is not None and self.deleted and not self._terminating and not self._planned
        ):
            # A deletion does not wait for a pull.
            self._planned = True
            self.node.clock.call_later(0, self._interrupt)

    def sync_in(self, seconds: float | None) -> None:
        """Look at the pod after so many real seconds instead of what was planned; None: never."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if seconds is not None:
            self._retry = self.node.clock.call_later(seconds, self.sync, scaled=False)

    def resume_waiting(self) -> None:
        """Go on with what waits for the end of a container."""
        self.node.clock.call_later(0, self._resume)

    def _interrupt(self) -> None:
        self._planned = False
        if self._stepping:
            self.sync()  # a step that waits for a webhook is not cut short
            return
        if self._task is not None and not self._terminating:
            self._task.close()
            self._task = None
        self._begin()

    def _begin(self) -> None:
        self._planned = False
        if (
            self._removed
            or self._task is not None
            or not self._again
            or self.node.is_kubelet_stopped
        ):
            return
        self._again = False
        self._task = self._sync()
        self._advance(self._task)

    def _resume(self) -> None:
        if self._idle and self._task is not None:
            self._advance(self._task)

    def _advance(self, task: Generator[float | None, None, None]) -> None:
        if self._task is not task or self._removed:
            return
        self._idle = False
        self._stepping = True
        try:
            pause = next(task)
        except StopIteration:
            self._task = None
            if self._again:
                self.sync()
            return
        finally:
            self._stepping = False
        if pause is None:
            self._idle = True
        else:
            self.node.clock.call_later(pause, self._advance, task)

    # -- one sync

    def _sync(self) -> Generator[float | None, None, None]:
        if self._finished:
            if self._unsure:
                self._publish()
            if self.deleted:
                self._remove()
            return
        if not self._begun:
            self._begun = True
            self._watch_deadline()
        if self.evicted is None and self._past_deadline():
            self.evicted = TerminationReason("DeadlineExceeded", _DEADLINE_MESSAGE)
            self.event(NORMAL, "DeadlineExceeded", _DEADLINE_MESSAGE)
        phase = self._publish()
        if self.deleted or self.evicted is not None or phase in TERMINAL_PHASES:
            yield from self._terminate(phase)
            return
        if not self._sandbox:
            missing = find_missing_volume(self.api, self.pod)
            if missing is not None:
                self._wait_for_volume(*missing)
                return
            long_name = find_hostname_error(self.pod)
            if long_name:
                told = f"Failed to create pod sandbox: {long_name}"
                self.event(WARNING, "FailedCreatePodSandBox", told)
                self.sync_in(_SANDBOX_RETRY_SECONDS * self.node.clock.scale)
                return
            yield _SANDBOX_SECONDS
            self._sandbox = True
            self.pod_ip = self.node.assign_address(self.pod)
            self._write(self._status.with_sandbox())
            if self._removed:
                return
            self.node.relist(self)
        if self.runtime_manager.only_sidecars_run():
            yield from self._stop(self.runtime_manager.running())
            self._sandbox = False
            yield from self._terminate(self._publish())
            return
        yield from self.runtime_manager.run()

    def _wait_for_volume(self, volume: str, why: str) -> None:
        self.event(
            WARNING, "FailedMount", f'MountVolume.SetUp failed for volume "{volume}" : {why}'
        )
        self.sync_in(self._mount_delay * self.node.clock.scale)
        self._mount_delay = min(self._mount_delay * 2, _MOUNT_BACKOFF_MAX)

    def _terminate(self, phase: str) -> Generator[float | None, None, None]:
        """Stop everything, publish the end, and let go of a pod that is deleted."""
        self._terminating = True
        self.sync_in(None)
        self.runtime_manager.stop_probes()
        running = self.runtime_manager.running()
        yield from self._stop(running)
        over = phase in TERMINAL_PHASES
        if not running and not over:
            self._sandbox = False
            self._publish()
        if not running:
            yield _TEARDOWN_SECONDS if over else _REMOVAL_SECONDS
        self._sandbox = False
        self._finished = True
        self._publish()
        self.node.release_pod(self.pod)
        self.runtime_manager.volumes.close()
        if self.deleted:
            if running:
                yield _REMOVAL_SECONDS
            self._remove()

    def _stop(self, running: list[Container]) -> Generator[float | None, None, None]:
        """End containers with their grace; sidecars outlive the containers they serve."""
        for container in running:
            message = f"Stopping container {container.name}"
            self.container_event(container.name, NORMAL, "Killing", message)
        yield from terminate_containers(self, running, self.grace())

    def container_spec(self, name: str) -> Obj:
        """Return the part of the pod's spec that is the container of that name."""
        spec = self.pod["spec"]
        every = [
            one
            for field in ("initContainers", "containers", "ephemeralContainers")
            for one in spec.get(field) or ()
        ]
        return next((one for one in every if one["name"] == name), {"name": name})

    def grace(self) -> float:
        """Seconds that its containers have to end."""
        metadata = self.pod["metadata"]
        if self.evicted is not None and self.evicted.reason == EVICTED:
            return _EVICTION_GRACE
        seconds = metadata.get("deletionGracePeriodSeconds")
        if seconds is None:
            seconds = self.pod["spec"].get("terminationGracePeriodSeconds", 30)
        return float(seconds)

    def _remove(self) -> None:
        """Let the object go, unless a finalizer keeps it."""
        if self.node.is_partitioned:
            return
        try:
            self.api.delete(
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
        # The start is cut to seconds, so this comes up to a second early, as upstream.
        return self.node.clock.time() - parse_timestamp(start) >= float(limit)

    # -- status

    def reject(self, reason: str, message: str) -> None:
        """Refuse a pod that does not fit here although it is bound."""
        self._finished = True
        self.event(WARNING, reason, message)
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
        """Write that resources of its containers are changing."""
        self._write(self._status.with_resize())

    def _publish(self) -> str:
        """Write what is so now; the phase that the containers amount to."""
        status, phase = self._status.generate()
        self._write(status)
        return phase

    def reconcile(self) -> None:
        """Write what is so now, whatever others have written meanwhile, and look at the pod."""
        self._unsure = True
        self.sync()

    def _write(self, status: Obj) -> None:
        if self._removed or self.node.is_partitioned:
            return
        if status == self._status.written and not self._unsure:
            return
        self._unsure = False
        self._status.written = status
        try:
            # The pod in the API may be newer than ours: its status is ours to write all the same.
            metadata = {
                key: value
                for key, value in self.pod["metadata"].items()
                if key != "resourceVersion"
            }
            stored = self.api.update_status(
                "pods", {**self.pod, "metadata": metadata, "status": status}
            )
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise
            return
        self.pod = self.allocation.allocated_pod(stored)

    # -- events

    def event(self, severity: str, reason: str, message: str) -> None:
        """Tell something of the pod."""
        if self.node.is_partitioned:
            return
        self.node.recorder.event(self.pod, ("v1", "Pod"), severity, reason, message)

    def container_event(self, name: str, severity: str, reason: str, message: str) -> None:
        """Tell something of one of its containers."""
        if self.node.is_partitioned:
            return
        field = next(
            (
                field
                for field in ("initContainers", "ephemeralContainers")
                if any(one["name"] == name for one in self.pod["spec"].get(field) or ())
            ),
            "containers",
        )
        path = f"spec.{field}{{{name}}}"
        self.node.recorder.event(
            self.pod, ("v1", "Pod"), severity, reason, message, field_path=path
        )
