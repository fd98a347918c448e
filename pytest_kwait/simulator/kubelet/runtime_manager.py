"""The runtime manager of a pod: starts, restarts and terminates its containers.

It keeps a record of each container, runs postStart and preStop hooks, enforces security contexts,
and terminates sidecars after the containers that they serve.

Source: kuberuntime_container.go, `killContainer`; kuberuntime_termination_order.go;
kuberuntime/security_context_others.go, `verifyRunAsNonRoot`; kuberuntime/helpers.go,
`getSeccompProfile`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.simulator.busybox.os.files import FileSystemError
from pytest_kwait.simulator.busybox.os.syscalls import ProcessCredentials
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING
from pytest_kwait.simulator.kubelet.allocation import needs_restart, record_resize
from pytest_kwait.simulator.kubelet.environment import (
    ContainerConfigError,
    expand,
    get_hostname,
    make_environment,
    make_hosts_file,
    make_kernel_files,
    make_resolver_config,
)
from pytest_kwait.simulator.kubelet.handlers import start_hook
from pytest_kwait.simulator.kubelet.images import Image, ImageManager, is_busybox
from pytest_kwait.simulator.kubelet.prober import ContainerProbes
from pytest_kwait.simulator.kubelet.restart_policy import (
    RESTARTING_ALL,
    format_go_seconds,
    is_sidecar,
    restarts_after_probe_failure,
    restarts_all_containers,
    should_restart,
)
from pytest_kwait.simulator.kubelet.volumes import (
    PodVolumes,
    find_read_only_paths,
    make_container_files,
    make_volume_files,
)
from pytest_kwait.simulator.network.cluster_network import ClusterNetwork
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of
from pytest_kwait.simulator.runtimes.interpreted.container import SIGKILL_EXIT_CODE, Container
from pytest_kwait.simulator.runtimes.processes.program_container import (
    PodPrograms,
    ProgramContainer,
    find_stop_signal,
    get_memory_limit,
    make_container_config,
)
from pytest_kwait.simulator.runtimes.scripted import ContainerScripts, ScriptedContainer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from pytest_kwait.simulator.busybox.os.files import Inode
    from pytest_kwait.simulator.clock import ScheduledCall
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet.handlers import Handler, HandlerResult
    from pytest_kwait.simulator.kubelet.pod_context import PodContext
    from pytest_kwait.simulator.kubelet.volumes import FileContent
    from pytest_kwait.simulator.protocol.container_scripts import Script
    from pytest_kwait.simulator.protocol.image_mapping import ImageMapping
    from pytest_kwait.simulator.runtimes.processes.runtime import ContainerConfig

SYNC_RETRY_SECONDS = 12.5
"""The seconds until a failed sync is retried: 10 with up to 50 % jitter, here its mean.

Source: kubelet pod_workers.go, `backOffPeriod`, `workerBackOffPeriodJitterFactor`.
"""

# The least seconds between SIGTERM and SIGKILL.
# Source: kuberuntime_manager.go, `minimumGracePeriodInSeconds`.
_MIN_GRACE = 2.0
# Source: kubelet's `--root-dir` and kuberuntime_manager.go, `seccompProfileRoot`.
_SECCOMP_PROFILES = "/var/lib/kubelet/seccomp"
_NOBODY = 65534

# Seconds, scaled, to create and start a container.
_CREATE_SECONDS = 0.1

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
) -> Generator[float | None, None, None]:
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


def _get_setting(pod: Obj, container: Obj, field: str) -> object:
    """Return a field of the container's security context, or else of the pod's."""
    own: Mapping[str, object] = container.get("securityContext") or {}
    pods: Mapping[str, object] = pod["spec"].get("securityContext") or {}
    return own[field] if own.get(field) is not None else pods.get(field)


def find_run_as_root_error(
    pod: Obj, container: Obj, image: Image, mapping: ImageMapping | None = None
) -> str:
    """Return why `runAsNonRoot` forbids the container; empty if it does not.

    busybox runs as root by default, and so do mapped images without a user. The users of other
    images are unknown, so they are allowed.
    """
    if not _get_setting(pod, container, "runAsNonRoot"):
        return ""
    where = f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"
    of = f'(pod: "{where}", container: {container["name"]})'
    user = _get_setting(pod, container, "runAsUser")
    if user == 0:
        return f"container's runAsUser breaks non-root policy {of}"
    name = mapping.user.partition(":")[0] if mapping is not None else ""
    if user is None and name and not name.isdigit():
        return (
            f"container has runAsNonRoot and image has non-numeric user ({name}), cannot verify "
            f"user is non-root {of}"
        )
    runs_as_root = is_busybox(image) if mapping is None else not name or int(name) == 0
    if user is None and runs_as_root:
        return f"container has runAsNonRoot and image will run as root {of}"
    return ""


def find_user(pod: Obj, container: Obj) -> ProcessCredentials:
    """Return the user and groups of a simulated container; root by default.

    Source: containerd pkg/oci/spec_opts.go, `WithUserID`, `WithAdditionalGIDs`.
    """
    of_pod = pod["spec"].get("securityContext") or {}
    user, group = (_get_setting(pod, container, name) for name in ("runAsUser", "runAsGroup"))
    number = user if isinstance(user, int) else 0
    # An image's own user has the group of its entry in /etc/passwd, as 65534 has in busybox.
    own = number if number == _NOBODY else 0
    groups = [*(of_pod.get("supplementalGroups") or ())]
    if of_pod.get("fsGroup") is not None:
        groups.append(of_pod["fsGroup"])
    return ProcessCredentials(
        number,
        group if isinstance(group, int) else own,
        tuple(dict.fromkeys(groups)),
        bool((container.get("securityContext") or {}).get("privileged")),
    )


def find_seccomp_error(pod: Obj, container: Obj) -> str:
    """Return why the seccomp profile of the container cannot be loaded; empty if it can.

    Simulated nodes have no profile files, so a `Localhost` profile is missing. A privileged
    container has no profile.
    """
    profile = _get_setting(pod, container, "seccompProfile")
    if not isinstance(profile, dict) or profile.get("type") != "Localhost":
        return ""
    if (container.get("securityContext") or {}).get("privileged"):
        return ""
    path = f"{_SECCOMP_PROFILES}/{profile['localhostProfile']}"
    return (
        "failed to create containerd container: cannot load seccomp profile "
        f'"{path}": open {path}: no such file or directory'
    )


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
        return self.current.held if self.current is not None and self.current.running else 0

    @property
    def disk_written(self) -> int:
        """The bytes of the disk that the container has written outside volumes."""
        if self.current is None or not self.current.running:
            return 0
        return self.current.context.files.measure_disk()

    @property
    def log_size(self) -> int:
        """The bytes of the disk that the container's logs take."""
        return sum(
            instance.log.size for instance in (self.last, self.current) if instance is not None
        )


class _ContainerSetup(NamedTuple):
    """The environment, files and mounts that a container starts with."""

    env: dict[str, str]
    files: dict[str, FileContent]
    mounts: dict[str, Inode]
    config: ContainerConfig | None
    """The program of a mapped image; None for a simulated container."""


class RuntimeManager:
    """The containers of one pod."""

    def __init__(self, worker: PodContext, scripts: ContainerScripts) -> None:
        self._worker = worker
        self._records: dict[str, ContainerRecord] = {}
        self.volumes = PodVolumes(worker.cluster, worker.node.name)
        self._scripts = scripts
        self.programs = PodPrograms(worker, self.volumes, self._node_fields)
        self._pulls = ImageManager(worker, self._record_image_error)
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
        return [
            "exited" if instance.exited else "running" if instance.running else "created"
            for record in self._records.values()
            for instance in (record.last, record.current)
            if instance is not None
        ]

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

    def on_container_ended(self, container: Container) -> None:
        """Handle the end of an instance."""
        record = self.record(container.name)
        if record.current is container and record.probes is not None:
            record.probes.stop()
            record.probes = None
        self._worker.resume_waiting()
        self._worker.node.relist(self._worker)

    # -- starting

    def sync(self) -> Generator[float | None, None, None]:
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

    def _run_init(
        self, containers: list[Obj], waits: list[float]
    ) -> Generator[float | None, None, bool]:
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

    def _run_one(self, spec: Obj, waits: list[float]) -> Generator[float | None, None, None]:
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

    def _start(
        self, spec: Obj, record: ContainerRecord
    ) -> Generator[float | None, None, float | None]:
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
        mapping = None if script.replaces_command else worker.cluster.images.find(image)
        if mapping is not None:
            # The image may have been mapped, or the container added, after the pod's start.
            failure = yield from self.programs.run_sandbox()
            if failure:
                record_sandbox_failure(worker, failure)
                return retry
        setup = self._prepare(spec, record, image, mapping)
        if setup is None:
            return retry
        container = self._make_container(spec, record, image, script, setup)
        if mapping is None:
            yield _CREATE_SECONDS
        worker.record_container_event(name, NORMAL, "Created", "Container created")
        record.last, record.current, record.waiting_reason = record.current, container, None
        record.restarts, record.configured, record.resized = container.restart_count, spec, False
        failure = yield from self._launch(spec, container, setup)
        if failure:
            self._record_failure(name, record, "RunContainerError", failure, event_text=failure)
            if setup.config is not None and "not found in $PATH" in failure:
                program, path = setup.config.argv[0], setup.config.env.get("PATH", "")
                text = f'Image "{spec["image"]}" is mapped: "{program}" is in no folder of {path}'
                worker.record_container_event(name, WARNING, "ProgramNotFound", text)
            return retry
        worker.record_container_event(name, NORMAL, "Started", "Container started")
        if container.is_unsimulated and not script.replaces_command:
            event_text = _describe_unsimulated(worker.cluster, spec["image"])
            worker.record_container_event(name, NORMAL, "NotSimulated", event_text)
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

    def _prepare(
        self, spec: Obj, record: ContainerRecord, image: Image, mapping: ImageMapping | None
    ) -> _ContainerSetup | None:
        """Return the environment and files of a container; None after a recorded failure."""
        worker, name = self._worker, spec["name"]
        cluster, pod, node_fields = worker.cluster, worker.pod, self._node_fields()
        root_error = find_run_as_root_error(pod, spec, image, mapping)
        config: ContainerConfig | None = None
        files: dict[str, FileContent] = {}
        mounts: dict[str, Inode] = {}
        try:
            if root_error:
                raise ContainerConfigError(root_error)
            path = None if mapping is None else ""
            env = make_environment(cluster, pod, spec, node_fields, path)
            if mapping is not None:
                self.programs.write_volumes()
                config = make_container_config(
                    pod, spec, mapping, f"{name}-{self._next_count(record)}", env,
                    self.programs.volumes.list_mounts(pod, spec, env),
                    self._find_process_target(spec),
                )  # fmt: skip
            else:
                files = make_volume_files(cluster, pod, spec, env, node_fields)
                mounts = self._make_kernel_files(spec, record)
                mounts |= self.volumes.mounts(pod, spec, env)
        except (ContainerConfigError, FileSystemError, OSError) as error:
            self._record_failure(name, record, "CreateContainerConfigError", str(error))
            return None
        if not any(mount["mountPath"] == "/etc/hosts" for mount in spec.get("volumeMounts") or ()):
            files["/etc/hosts"] = make_hosts_file(pod, worker.pod_ip).encode()
        files["/etc/hostname"] = f"{get_hostname(pod)}\n".encode()
        files["/etc/resolv.conf"] = make_resolver_config(pod).encode()
        seccomp_error = find_seccomp_error(pod, spec)
        if seccomp_error:
            self._record_failure(
                name, record, "CreateContainerError", seccomp_error, event_text=seccomp_error
            )
            return None
        return _ContainerSetup(env, files, mounts, config)

    def _make_kernel_files(self, spec: Obj, record: ContainerRecord) -> dict[str, Inode]:
        worker = self._worker
        node = worker.cluster.find("nodes", worker.node.name) or {}
        memory = ((node.get("status") or {}).get("capacity") or {}).get("memory", "0")
        return make_kernel_files(
            worker.pod, lambda: record.configured or spec, math.ceil(parse_quantity(memory).amount)
        )

    def _find_process_target(self, spec: Obj) -> str | None:
        """Return the runtime's id of an ephemeral container's target; None without one."""
        target = spec.get("targetContainerName")
        current = self.record(target).current if target else None
        return current.config.id if isinstance(current, ProgramContainer) else None

    def _make_container(
        self,
        spec: Obj,
        record: ContainerRecord,
        image: Image,
        script: Script,
        setup: _ContainerSetup,
    ) -> Container:
        make: Callable[..., Container] = Container
        if setup.config is not None:
            make = partial(
                ProgramContainer, programs=self.programs, config=setup.config,
                stop_signal=find_stop_signal(spec), stdin_once=bool(spec.get("stdinOnce")),
                changed=self._worker.resume_waiting,
            )  # fmt: skip
        elif script.replaces_command:
            make = partial(ScriptedContainer, script=script)
        worker, services = self._worker, self._worker.cluster.services
        return make(
            services.machine, spec["name"], image, self._next_count(record),
            self.on_container_ended, worker.network, log=services.logs.create(),
            stdin=bool(spec.get("stdin")), tty=bool(spec.get("tty")),
            message_path=spec.get("terminationMessagePath") or "",
            message_from_log=spec.get("terminationMessagePolicy") == "FallbackToLogsOnError",
            directory=spec.get("workingDir") or "", memory=get_memory_limit(spec),
            user=find_user(worker.pod, spec),
        )  # fmt: skip

    def _launch(
        self, spec: Obj, container: Container, setup: _ContainerSetup
    ) -> Generator[float | None, None, str]:
        """Start the program of a container; return why it failed, or ""."""
        if isinstance(container, ProgramContainer):
            container.launch()
            while container.is_starting:
                yield None
            return container.failure
        worker, network = self._worker, self._worker.network
        hostname = get_hostname(worker.pod)
        words = [*(spec.get("command") or ()), *(spec.get("args") or ())]
        argv = [expand(word, setup.env) for word in words]
        if network.external is None:
            network.external = ClusterNetwork(
                worker.cluster, worker.node.find_network, worker.node.name
            )
        network.address = worker.pod_ip
        files = make_container_files(
            worker.node.clock.time, hostname, network, setup.files,
            setup.mounts, find_read_only_paths(worker.pod, spec),
        )  # fmt: skip
        return container.start(argv, setup.env, files, hostname)

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
    ) -> Generator[float | None, None, bool]:
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

    def _kill_scheduled(self) -> Generator[float | None, None, None]:
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
                if isinstance(record.current, ProgramContainer):
                    record.current.update_memory(get_memory_limit(spec))

    def _reset_all(self) -> Generator[float | None, None, None]:
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
            record.current = record.last = None
            record.removed = {"terminated": {**removed, "startedAt": None, "finishedAt": None}}
            record.waiting_reason = (RESTARTING_ALL, _REMOVED)
        worker.sync()


def _describe_unsimulated(cluster: Cluster, image: str) -> str:
    """Return the text of the event about a program that is not run."""
    why = "its program is assumed to run until it is terminated"
    near = cluster.images.find_near_pattern(image)
    if near:
        return f'Image "{image}" is not mapped: {why}; did you mean the pattern "{near}"?'
    return f'Image "{image}" is not simulated: {why}'


def record_sandbox_failure(worker: PodContext, why: str) -> None:
    """Record that the sandbox of a pod's programs could not be created."""
    text = f"Failed to create pod sandbox: rpc error: code = Unknown desc = {why}"
    worker.record_event(WARNING, "FailedCreatePodSandBox", text)
