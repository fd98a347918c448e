"""The runtime manager of a pod: starts, restarts and terminates its containers.

It keeps a record of each container, runs postStart and preStop hooks, and terminates sidecars after
the containers that they serve. Which container runtime has a container is the choice of
`cri.Runtimes`; nothing here depends on it.

Source: kuberuntime_container.go, `killContainer`; kuberuntime_termination_order.go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.simulator.busybox.os.files import FileSystemError
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING
from pytest_kwait.simulator.kubelet.allocation import needs_restart, record_resize
from pytest_kwait.simulator.kubelet.container import Container
from pytest_kwait.simulator.kubelet.container_config import (
    find_run_as_root_error,
    make_container_config,
    make_sandbox_config,
)
from pytest_kwait.simulator.kubelet.cri import (
    SIGKILL_EXIT_CODE,
    ContainerConfigError,
    CreateContainerError,
    SandboxError,
    StartContainerError,
)
from pytest_kwait.simulator.kubelet.environment import make_environment, make_resources
from pytest_kwait.simulator.kubelet.handlers import start_hook
from pytest_kwait.simulator.kubelet.images import ImageManager
from pytest_kwait.simulator.kubelet.logs import get_cluster_logs
from pytest_kwait.simulator.kubelet.prober import ContainerProbes
from pytest_kwait.simulator.kubelet.restart_policy import (
    RESTARTING_ALL,
    format_go_seconds,
    is_sidecar,
    restarts_after_probe_failure,
    restarts_all_containers,
    should_restart,
)
from pytest_kwait.simulator.kubelet.volume_manager import VolumeManager
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kwait.simulator.clock import ScheduledCall
    from pytest_kwait.simulator.kubelet.cri import (
        Call,
        ContainerConfig,
        Image,
        PodScripts,
        PortConnection,
        RuntimeService,
    )
    from pytest_kwait.simulator.kubelet.handlers import Handler, HandlerResult
    from pytest_kwait.simulator.kubelet.logs import ContainerLog
    from pytest_kwait.simulator.kubelet.pod_context import PodContext
    from pytest_kwait.simulator.protocol.container_scripts import Script

SYNC_RETRY_SECONDS = 12.5
"""The seconds until a failed sync is retried: 10 with up to 50 % jitter, here its mean.

Source: kubelet pod_workers.go, `backOffPeriod`, `workerBackOffPeriodJitterFactor`.
"""

# The least seconds between SIGTERM and SIGKILL.
# Source: kuberuntime_manager.go, `minimumGracePeriodInSeconds`.
_MIN_GRACE = 2.0
_REMOVED = "The container is removed because RestartAllContainers in place"


class _Termination:
    """The termination of one container: hook, signal, grace period."""

    def __init__(self, worker: PodContext, container: Container, spec: Obj, grace: float) -> None:
        self._worker = worker
        self._began = worker.node.clock.monotonic()
        self._grace = grace
        self.container = container
        self.is_hook_done = True
        self.is_signalled = False
        self._action: Handler | None = None
        self._timer: ScheduledCall | None = None
        handler = (spec.get("lifecycle") or {}).get("preStop")
        if handler and grace > 0:
            self.is_hook_done = False
            self._action = start_hook(worker, spec, container, handler, self._hook_ended)
        if grace > 0:
            self._timer = worker.node.clock.call_later(grace, self._on_grace_over, scaled=False)

    def _hook_ended(self, outcome: HandlerResult) -> None:
        if not outcome.is_success:
            name = self.container.name
            self._worker.record_container_event(
                name, WARNING, "FailedPreStopHook", "PreStopHook failed"
            )
        self.is_hook_done = True
        self._worker.resume_waiting()

    def _on_grace_over(self) -> None:
        """Stop waiting for the hook and for other containers."""
        self._timer = None
        self.is_hook_done = True
        self._worker.resume_waiting()

    @property
    def is_late(self) -> bool:
        """Return whether the grace period is over."""
        return self._timer is None

    def signal(self) -> None:
        """Send SIGTERM, and SIGKILL after the rest of the grace period."""
        self.is_signalled = True
        took = int(self._worker.node.clock.monotonic() - self._began)
        self.container.stop(max(self._grace - took, _MIN_GRACE))

    def close(self) -> None:
        """Cancel the hook and the timer."""
        if self._action is not None:
            self._action.cancel()
        if self._timer is not None:
            self._timer.cancel()


def terminate_containers(
    worker: PodContext, running: Sequence[Container], grace: float
) -> Call[None]:
    """Terminate containers: sidecars last, in reverse order of their start.

    Args:
        grace: seconds; hooks and the wait for other containers count into it.
    """
    if not running:
        return
    spec = worker.pod["spec"]
    sidecars = [
        container["name"] for container in spec.get("initContainers") or () if is_sidecar(container)
    ]
    served = {container["name"] for container in spec["containers"]}
    specs = {
        container["name"]: container
        for field in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(field) or ()
    }
    terminations = {
        container.name: _Termination(
            worker, container, specs.get(container.name, {"name": container.name}), grace
        )
        for container in running
    }

    def is_running(name: str) -> bool:
        return name in terminations and terminations[name].container.running

    def may_end(name: str) -> bool:
        if name not in sidecars:
            return True
        later = sidecars[sidecars.index(name) + 1 :]
        return not any(is_running(container_name) for container_name in (*served, *later))

    try:
        while any(is_running(name) for name in terminations):
            for name, termination in terminations.items():
                if (
                    not termination.is_signalled
                    and termination.is_hook_done
                    and (termination.is_late or may_end(name))
                ):
                    termination.signal()
            if any(is_running(name) for name in terminations):
                yield None
    finally:
        for termination in terminations.values():
            termination.close()


@dataclass(slots=True)
class ContainerRecord:
    """The state of one container across its instances."""

    current: Container | None = None
    last: Container | None = None
    removed: Obj | None = None
    """The `lastState` of an instance that was removed from the container runtime."""
    restarts: int = 0
    waiting_reason: tuple[str, str] | None = None
    kill_reason: tuple[str, float] | None = None
    """The message and grace period of a kill that the next sync makes."""
    probed: bool = False
    resized: bool = False
    """True if the instance was ended to restart with other resources."""
    probes: ContainerProbes | None = None
    configured: Obj = field(default_factory=dict)
    """The container's spec as of its last creation or resize."""

    @property
    def is_running(self) -> bool:
        """Return whether the newest instance runs."""
        return self.current is not None and self.current.running

    @property
    def is_started(self) -> bool:
        """Return whether the startup probe, if any, has succeeded."""
        return self.probes is None or self.probes.started

    @property
    def is_ready(self) -> bool:
        """Return whether the readiness probe, if any, succeeds."""
        return self.probes is None or self.probes.ready

    @property
    def memory_held(self) -> int:
        """The bytes of memory that the container holds."""
        if self.current is None or not self.current.running:
            return 0
        return self.current.measure().memory_bytes

    @property
    def disk_written(self) -> int:
        """The bytes of the disk that the container has written outside volumes."""
        if self.current is None or not self.current.running:
            return 0
        return self.current.measure().writable_layer_bytes

    @property
    def log_size(self) -> int:
        """The bytes of the disk that the container's logs take."""
        return sum(
            instance.log.size for instance in (self.last, self.current) if instance is not None
        )


class RuntimeManager:
    """The containers of one pod."""

    def __init__(self, worker: PodContext, scripts: PodScripts) -> None:
        self._worker = worker
        self._records: dict[str, ContainerRecord] = {}
        self._runtimes = worker.node.runtimes
        self._sandbox_config = make_sandbox_config(worker.pod)
        self._sandboxes: dict[RuntimeService, None] = {}
        self.volumes = VolumeManager(worker, self._node_fields)
        self._scripts = scripts
        self._pulls = ImageManager(worker, self._runtimes, self._record_image_error)
        self._begun = False

    def record(self, name: str) -> ContainerRecord:
        """Return the record of a container."""
        record = self._records.get(name)
        if record is None:
            record = self._records[name] = ContainerRecord()
        return record

    # -- state

    def list_running(self) -> list[Container]:
        """Return the running instances."""
        return [
            record.current
            for record in self._records.values()
            if record.current is not None and record.current.running
        ]

    def list_states(self) -> list[str]:
        """Return the runtime state of each instance, current and last."""
        return [instance.status.state.value for instance in self.list_instances()]

    def find_instance(self, name: str, *, previous: bool) -> Container | None:
        """Return the current or previous instance of a container."""
        record = self._records.get(name)
        if record is None:
            return None
        return record.last if previous else record.current

    def list_instances(self) -> Iterator[Container]:
        """Return the previous and current instances of all containers."""
        for record in self._records.values():
            for instance in (record.last, record.current):
                if instance is not None:
                    yield instance

    def only_sidecars_run(self) -> bool:
        """Return whether containers still run, but no regular one or one that restarts."""
        pod, running = self._worker.pod, self.list_running()
        return bool(running) and all(
            (current := self.record(container["name"]).current) is not None
            and current.exited
            and not should_restart(pod, container, current.exit_code or 0)
            for container in pod["spec"]["containers"]
        )

    def must_restart_all(self) -> bool:
        """Return whether an exit makes all containers restart."""
        return any(
            (current := self.record(spec["name"]).current) is not None
            and current.exited
            and restarts_all_containers(spec, current.exit_code or 0)
            for spec in self.list_specs()
        )

    def list_specs(self) -> Iterator[Obj]:
        """Return the specs of init and regular containers."""
        spec = self._worker.pod["spec"]
        yield from spec.get("initContainers") or ()
        yield from spec["containers"]

    # -- ending

    def kill_all(self) -> None:
        """Kill all containers."""
        self.stop_probes()
        for container in self.list_running():
            container.kill()

    def stop_probes(self) -> None:
        """Stop all probes."""
        for record in self._records.values():
            if record.probes is not None:
                record.probes.stop()

    def on_container_stopped(self, container_id: str) -> None:
        """Handle the end of an instance."""
        for record in self._records.values():
            current = record.current
            if current is not None and current.id == container_id and record.probes is not None:
                record.probes.stop()
                record.probes = None
        self._worker.resume_waiting()
        self._worker.node.relist(self._worker)

    def remove_all(self) -> None:
        """Remove all containers and sandboxes from their runtimes, and the volumes."""
        self.volumes.in_memory.close()
        for instance in self.list_instances():
            instance.remove()
        for runtime in self._sandboxes:
            runtime.remove_pod_sandbox(uid_of(self._worker.pod))

    # -- the sandbox

    def run_sandbox(self) -> Call[str]:
        """Create the sandbox of the pod; return why it failed, or ""."""
        return self._run_sandbox_in(self._runtimes.find_for_pod(self._worker.pod))

    def _run_sandbox_in(self, runtime: RuntimeService) -> Call[str]:
        self._sandboxes[runtime] = None
        try:
            yield from runtime.run_pod_sandbox(self._sandbox_config, self._worker)
        except SandboxError as error:
            return str(error)
        return ""

    def stop_sandboxes(self) -> None:
        """End the sandbox of the pod, in every runtime that has a container of it."""
        for runtime in self._sandboxes:
            runtime.stop_pod_sandbox(uid_of(self._worker.pod))

    def forward_port(self, port: int) -> PortConnection:
        """Connect to a port inside the pod, whose sandbox is up."""
        runtime = next(iter(self._sandboxes))
        return runtime.port_forward(uid_of(self._worker.pod), port)

    # -- starting

    def sync(self) -> Call[None]:
        """Start the containers that are due, and schedule the next sync.

        Source: kuberuntime_manager.go, `computePodActions`, `SyncPod`.
        """
        spec = self._worker.pod["spec"]
        if not self._begun:
            self._begun = True
            self._pulls.record_missing_secrets()
        if self.must_restart_all():
            yield from self._reset_all()
            return
        resizing = self._is_resizing()
        if resizing:
            record_resize(worker := self._worker, over=False)
            worker.record_resize_progress()
        yield from self._kill_scheduled()
        if resizing:
            self._apply_resources()
        waits: list[float] = []
        for container in spec.get("ephemeralContainers") or ():
            if container["name"] not in self._records or self._is_retried(container["name"]):
                yield from self._run_one(container, waits)
        initialized = yield from self._run_init(spec.get("initContainers") or [], waits)
        if initialized:
            for container in spec["containers"]:
                yield from self._run_one(container, waits)
        self._worker.sync_in(min(waits) if waits else None)
        if resizing:
            record_resize(self._worker, over=True)
            self._worker.sync()

    def _is_retried(self, name: str) -> bool:
        """Return whether an ephemeral container has not started yet; it never restarts."""
        record = self._records[name]
        return record.current is None

    def _run_init(self, containers: list[Obj], waits: list[float]) -> Call[bool]:
        """Start init containers in order; True once regular ones may start."""
        regular = self._worker.pod["spec"]["containers"]
        begun = any(self.record(container["name"]).current is not None for container in regular)
        for container in containers:
            name = container["name"]
            current = self.record(name).current
            if is_sidecar(container):
                yield from self._run_one(container, waits)
                current = self.record(name).current
                if not begun and not (
                    current is not None and current.running and self.record(name).is_started
                ):
                    return False
            elif begun or (current is not None and current.exit_code == 0):
                continue
            else:
                yield from self._run_one(container, waits)
                return False
        return True

    def _run_one(self, spec: Obj, waits: list[float]) -> Call[None]:
        record = self.record(spec["name"])
        current = record.current
        if current is not None and (
            current.running
            or not (
                record.configured.get("image") != spec["image"]
                or record.resized
                or should_restart(self._worker.pod, spec, current.exit_code or 0)
            )
        ):
            return
        wait = yield from self._start(spec, record)
        if wait is not None:
            waits.append(wait)

    def _start(self, spec: Obj, record: ContainerRecord) -> Call[float | None]:
        """Start a container; real seconds until a retry, None if it runs."""
        worker, name = self._worker, spec["name"]
        clock = worker.node.clock
        wait = self._remaining_crash_backoff(name, record)
        if wait is not None:
            return wait
        retry = SYNC_RETRY_SECONDS * clock.scale
        script = self._scripts.get_script(spec)
        image = yield from self._pulls.ensure_image_exists(spec, script)
        if image is None:
            return retry
        if script.start is not None:
            if script.start == math.inf:
                return None
            yield script.start / clock.scale
        runtime = self._runtimes.find_for_container(image.image, script)
        image_status = runtime.image_status(image)
        # Another runtime may have made the pod's sandbox.
        failure = yield from self._run_sandbox_in(runtime)
        if failure:
            record_sandbox_failure(worker, failure)
            return retry
        container = yield from self._create(spec, record, runtime, image_status, script)
        if container is None:
            return retry
        worker.record_container_event(name, NORMAL, "Created", "Container created")
        if record.last is not None:
            record.last.remove()
        record.last, record.current, record.waiting_reason = record.current, container, None
        record.restarts, record.configured, record.resized = container.restart_count, spec, False
        try:
            notice = yield from runtime.start_container(container.id)
        except StartContainerError as error:
            failure, notice = str(error), error.notice
            self._record_failure(name, record, "RunContainerError", failure, event_text=failure)
            if notice is not None:
                worker.record_container_event(name, *notice)
            return retry
        worker.record_container_event(name, NORMAL, "Started", "Container started")
        if notice is not None:
            worker.record_container_event(name, *notice)
        handler = (spec.get("lifecycle") or {}).get("postStart")
        if handler and not (yield from self._post_start(spec, record, container, handler)):
            return retry
        if container.running:
            record.probes = ContainerProbes(
                worker, spec, container, self._schedule_kill, script.ready
            )
            self._scripts.schedule_failure()
        worker.node.relist(worker)
        return None

    def _create(
        self, spec: Obj, record: ContainerRecord, runtime: RuntimeService, image: Image,
        script: Script,
    ) -> Call[Container | None]:  # fmt: skip
        """Create a container; None after a recorded failure."""
        name, log = spec["name"], get_cluster_logs(self._worker.cluster).create()
        try:
            config = self._make_config(spec, record, image, script, log)
            container_id = yield from runtime.create_container(uid_of(self._worker.pod), config)
        except (ContainerConfigError, FileSystemError, OSError) as error:
            self._record_failure(name, record, "CreateContainerConfigError", str(error))
            return None
        except CreateContainerError as error:
            text = str(error)
            self._record_failure(name, record, "CreateContainerError", text, event_text=text)
            if error.notice is not None:
                self._worker.record_container_event(name, *error.notice)
            return None
        return Container(runtime, container_id, config, log)

    def _make_config(
        self, spec: Obj, record: ContainerRecord, image: Image, script: Script, log: ContainerLog
    ) -> ContainerConfig:
        """Return the configuration of a container.

        Raises:
            ContainerConfigError: a part of it is missing, or its user is forbidden.
        """
        cluster, pod = self._worker.cluster, self._worker.pod
        root_error = find_run_as_root_error(pod, spec, image)
        if root_error:
            raise ContainerConfigError(root_error)
        env = make_environment(cluster, pod, spec, self._node_fields(), image.env)
        return make_container_config(
            pod, spec, image, env, attempt=self._next_count(record), log=log,
            mounts=self.volumes.make_mounts(spec, env), node_memory=self._get_node_memory(),
            target_id=self._find_target_id(spec), script=script,
        )  # fmt: skip

    def _get_node_memory(self) -> int:
        node = self._worker.cluster.find("nodes", self._worker.node.name) or {}
        memory = ((node.get("status") or {}).get("capacity") or {}).get("memory", "0")
        return math.ceil(parse_quantity(memory).amount)

    def _find_target_id(self, spec: Obj) -> str | None:
        """Return the id of an ephemeral container's target; None without one."""
        target = spec.get("targetContainerName")
        current = self.record(target).current if target else None
        return None if current is None else current.id

    def _node_fields(self) -> dict[str, str]:
        """Return the values of `fieldRef` that belong to the node."""
        node = self._worker.node
        return {
            "spec.nodeName": node.name,
            "status.hostIP": node.address,
            "status.hostIPs": node.address,
            "status.podIP": self._worker.pod_ip,
            "status.podIPs": self._worker.pod_ip,
        }

    def _next_count(self, record: ContainerRecord) -> int:
        return record.current.restart_count + 1 if record.current is not None else record.restarts

    def _post_start(
        self, spec: Obj, record: ContainerRecord, container: Container, handler: Obj
    ) -> Call[bool]:
        """Run the postStart hook; if it fails, terminate the container and return False.

        Source: kuberuntime_container.go, `startContainer`.
        """
        worker, name = self._worker, spec["name"]
        outcomes: list[HandlerResult] = []

        def done(outcome: HandlerResult) -> None:
            outcomes.append(outcome)
            worker.resume_waiting()

        action = start_hook(worker, spec, container, handler, done)
        try:
            while not outcomes and container.running:
                yield None
        finally:
            action.cancel()
        if not outcomes or outcomes[0].is_success:
            return True
        worker.record_container_event(name, WARNING, "FailedPostStartHook", "PostStartHook failed")
        worker.record_container_event(name, NORMAL, "Killing", "FailedPostStartHook")
        yield from terminate_containers(worker, [container], worker.get_grace())
        record.waiting_reason = ("PostStartHookError", outcomes[0].text)
        worker.node.relist(worker)
        return False

    def _record_image_error(self, name: str, reason: str, message: str) -> None:
        self._record_failure(name, self.record(name), reason, message)

    def _record_failure(
        self, name: str, record: ContainerRecord, reason: str, message: str, event_text: str = ""
    ) -> None:
        record.waiting_reason = (reason, message)
        text = event_text or (message if reason == "CreateContainerConfigError" else reason)
        self._worker.record_container_event(name, WARNING, "Failed", f"Error: {text}")

    def _remaining_crash_backoff(self, name: str, record: ContainerRecord) -> float | None:
        """Return the real seconds of crash back-off that remain; None to start now.

        Source: kuberuntime_manager.go, `doBackOff`.
        """
        # A container killed by a probe restarts in the same sync, before its end is recorded.
        ended = record.last if record.probed else record.current
        record.probed = False
        if ended is None or ended.finished_at is None:
            return None
        worker = self._worker
        clock, pod = worker.node.clock, worker.pod
        key = f"{uid_of(pod)}/crash/{name}"
        remaining_seconds = worker.node.backoff.remaining(key, ended.finished_at, clock.time())
        if remaining_seconds <= 0:
            worker.node.backoff.increase(key, ended.finished_at)
            return None
        where = f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"
        event_text = f"Back-off restarting failed container {name} in pod {where}"
        worker.record_container_event(name, WARNING, "BackOff", event_text)
        delay = format_go_seconds(worker.node.backoff.delay(key))
        record.waiting_reason = (
            "CrashLoopBackOff",
            f"back-off {delay} restarting failed container={name} pod={where}",
        )
        return remaining_seconds

    # -- restarting

    def _schedule_kill(self, name: str, why: str, grace: float | None) -> None:
        """Let the next sync kill a container whose probe failed."""
        spec = self._worker.get_container_spec(name)
        init = any(
            container["name"] == name
            for container in self._worker.pod["spec"].get("initContainers") or ()
        )
        message = f"{'Init container' if init else 'Container'} {name} {why}"
        if not init and restarts_after_probe_failure(self._worker.pod, spec):
            message += ", will be restarted"
        self.record(name).kill_reason = (
            message,
            self._worker.get_grace() if grace is None else grace,
        )

    def _kill_scheduled(self) -> Call[None]:
        """Kill containers with failed probes, changed images, or resizes that need a restart.

        They restart like any other container that ended.
        """
        worker = self._worker
        last_ones = self._has_none_left_to_run()
        for spec in tuple(self.list_specs()):
            record = self._records.get(spec["name"])
            container = record.current if record is not None else None
            if record is None or container is None or not container.running:
                continue
            kill_reason, record.kill_reason = record.kill_reason, None
            if record.configured.get("image") != spec["image"]:
                message = f"Container {spec['name']} definition changed, will be restarted"
                kill_reason = (message, worker.get_grace())
            elif kill_reason is not None and last_ones:
                # No other container is left, so the pod ends.
                kill_reason = (f"Stopping container {spec['name']}", worker.get_grace())
            elif kill_reason is None and needs_restart(spec, record.configured):
                message = f"Container {spec['name']} resize requires restart"
                kill_reason = (message, worker.get_grace())
            if kill_reason is None:
                continue
            message, grace = kill_reason
            worker.record_container_event(spec["name"], NORMAL, "Killing", message)
            yield from terminate_containers(worker, [container], grace)
            record.probed = True
            record.resized = record.configured.get("resources") != spec.get("resources")

    def _has_none_left_to_run(self) -> bool:
        """Return whether no regular container will run after the scheduled kills."""
        pod = self._worker.pod
        for spec in pod["spec"]["containers"]:
            record = self.record(spec["name"])
            current = record.current
            if current is None or record.configured.get("image") != spec["image"]:
                return False
            if current.running:
                if record.kill_reason is None or restarts_after_probe_failure(pod, spec):
                    return False
            elif should_restart(pod, spec, current.exit_code or 0):
                return False
        return True

    def _is_resizing(self) -> bool:
        """Return whether the resources of a running container differ from its spec."""
        return any(
            record.current is not None
            and record.current.running
            and record.configured.get("resources") != spec.get("resources")
            for spec in self.list_specs()
            if (record := self._records.get(spec["name"])) is not None
        )

    def _apply_resources(self) -> None:
        """Apply new resources to running containers without a restart."""
        for spec in self.list_specs():
            record = self._records.get(spec["name"])
            if record is not None and record.current is not None and record.current.running:
                record.configured = spec
                record.current.update_resources(
                    make_resources(self._worker.pod, spec, self._get_node_memory())
                )

    def _reset_all(self) -> Call[None]:
        """Kill and forget all containers, so that the pod starts over in its sandbox.

        Source: kuberuntime_manager.go, `SyncPod`, ContainersToReset.
        """
        worker = self._worker
        for container in self.list_running():
            worker.record_container_event(container.name, NORMAL, "Killing", "killing")
            yield from terminate_containers(worker, [container], 0.0)
        removed = {"exitCode": SIGKILL_EXIT_CODE, "reason": RESTARTING_ALL, "message": _REMOVED}
        for record in self._records.values():
            record.restarts = self._next_count(record)
            for instance in (record.last, record.current):
                if instance is not None:
                    instance.remove()
            record.current = record.last = None
            record.removed = {"terminated": {**removed, "startedAt": None, "finishedAt": None}}
            record.waiting_reason = (RESTARTING_ALL, _REMOVED)
        worker.sync()


def record_sandbox_failure(worker: PodContext, why: str) -> None:
    """Record that the sandbox of a pod's programs could not be created."""
    text = f"Failed to create pod sandbox: rpc error: code = Unknown desc = {why}"
    worker.record_event(WARNING, "FailedCreatePodSandBox", text)
