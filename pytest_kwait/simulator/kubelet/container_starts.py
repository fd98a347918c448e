"""Which containers of a pod run, which are started next, and what keeps one from starting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.events import NORMAL, WARNING
from pytest_kwait.simulator.kubelet.backoff import go_seconds
from pytest_kwait.simulator.kubelet.containers import Container
from pytest_kwait.simulator.kubelet.environment import (
    ConfigError,
    environment,
    expand,
    hostname,
    volume_files,
)
from pytest_kwait.simulator.kubelet.images import (
    Image,
    InvalidImageError,
    parse_image,
    pull_failure,
)
from pytest_kwait.simulator.kubelet.probes import Prober
from pytest_kwait.simulator.kubelet.status import is_sidecar, should_restart
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.kubelet.pod_worker import PodWorker

__all__ = ["ContainerStarts"]

# Seconds, scaled: what pulling takes, and what making and starting a container does.
_PULL = 1.0
_CREATE = 0.1
# Seconds until a failed start is tried again: 10 and up to half as much of jitter, its middle here.
# Source: kubelet pod_workers.go, `backOffPeriod`, `workerBackOffPeriodJitterFactor`.
_RETRY = 12.5


@dataclass(slots=True)
class _Slot:
    """What is known of one container."""

    current: Container | None = None
    last: Container | None = None
    trouble: tuple[str, str] | None = None
    probers: dict[str, Prober] = field(default_factory=dict)
    doomed: str = ""
    probed: bool = False


class ContainerStarts:
    """The containers of one pod.

    Args:
        worker: the pod.
    """

    def __init__(self, worker: PodWorker) -> None:
        self._worker = worker
        self._slots: dict[str, _Slot] = {}

    def _slot(self, name: str) -> _Slot:
        return self._slots.setdefault(name, _Slot())

    # -- what is

    def current(self, name: str) -> Container | None:
        """Return the newest instance, running or ended."""
        return self._slot(name).current

    def last(self, name: str) -> Container | None:
        """Return the instance before the newest one."""
        return self._slot(name).last

    def trouble(self, name: str) -> tuple[str, str] | None:
        """Reason and message of what kept the container from starting when it was last tried."""
        return self._slot(name).trouble

    def running(self) -> list[Container]:
        """Return the instances that run."""
        return [
            slot.current
            for slot in self._slots.values()
            if slot.current is not None and slot.current.running
        ]

    def states(self) -> list[str]:
        """Return what the container runtime says of every instance that is left."""
        return [
            "exited" if one.exited else "running" if one.running else "created"
            for slot in self._slots.values()
            for one in (slot.last, slot.current)
            if one is not None
        ]

    def is_started(self, name: str) -> bool:
        """Whether its startup probe, if any, has succeeded."""
        prober = self._slot(name).probers.get("startupProbe")
        return prober is None or prober.result

    def is_ready(self, name: str) -> bool:
        """Whether its readiness probe, if any, holds."""
        prober = self._slot(name).probers.get("readinessProbe")
        return prober is None or prober.result

    def instance(self, name: str, *, previous: bool) -> Container | None:
        """Return the instance whose log is asked for."""
        slot = self._slots.get(name)
        if slot is None:
            return None
        return slot.last if previous else slot.current

    def only_sidecars_run(self) -> bool:
        """Whether every regular container is done for good while others still run."""
        pod, running = self._worker.pod, self.running()
        return bool(running) and all(
            (current := self.current(one["name"])) is not None
            and current.exited
            and not should_restart(pod, one, current.exit_code or 0)
            for one in pod["spec"]["containers"]
        )

    # -- ending

    def kill_all(self) -> None:
        """End everything at once."""
        self.stop_probes()
        for container in self.running():
            container.kill()

    def stop_probes(self) -> None:
        """Ask no probe any more."""
        for slot in self._slots.values():
            for prober in slot.probers.values():
                prober.stop()

    def _ended(self, container: Container) -> None:
        slot = self._slot(container.name)
        if slot.current is container:
            for prober in slot.probers.values():
                prober.stop()
            slot.probers.clear()
        self._worker.poke()
        self._worker.node.relist(self._worker)

    # -- starting

    def run(self) -> Generator[float | None, None, None]:
        """Start whatever is due, and plan when to look again at what is not.

        Source: kuberuntime_manager.go, `computePodActions`, `SyncPod`.
        """
        spec = self._worker.pod["spec"]
        yield from self._stop_doomed()
        waits: list[float] = []
        initialized = yield from self._run_init(spec.get("initContainers") or [], waits)
        if initialized:
            for container in spec["containers"]:
                yield from self._run_one(container, waits)
        self._worker.sync_in(min(waits) if waits else None)

    def _run_init(
        self, containers: list[Obj], waits: list[float]
    ) -> Generator[float | None, None, bool]:
        """Start init containers in their order; True once the others may start."""
        regular = self._worker.pod["spec"]["containers"]
        begun = any(self.current(one["name"]) is not None for one in regular)
        for container in containers:
            name = container["name"]
            current = self.current(name)
            if is_sidecar(container):
                yield from self._run_one(container, waits)
                current = self.current(name)
                if not begun and not (
                    current is not None and current.running and self.is_started(name)
                ):
                    return False
            elif begun or (current is not None and current.exit_code == 0):
                continue
            else:
                yield from self._run_one(container, waits)
                return False
        return True

    def _run_one(self, spec: Obj, waits: list[float]) -> Generator[float | None, None, None]:
        slot = self._slot(spec["name"])
        current = slot.current
        if current is not None and (
            current.running or not should_restart(self._worker.pod, spec, current.exit_code or 0)
        ):
            return
        wait = yield from self._start(spec, slot)
        if wait is not None:
            waits.append(wait)

    def _start(self, spec: Obj, slot: _Slot) -> Generator[float | None, None, float | None]:
        """Try to start a container; real seconds until the next try, None where it runs."""
        worker, name = self._worker, spec["name"]
        clock, node = worker.node.clock, worker.node
        wait = self._crash_wait(name, slot)
        if wait is not None:
            return wait
        retry = _RETRY * clock.scale
        image = yield from self._image(spec, slot)
        if image is None:
            return retry
        try:
            addresses = {
                "spec.nodeName": node.name,
                "status.hostIP": node.address,
                "status.podIP": worker.pod_ip,
            }
            env = environment(worker.api, worker.pod, spec, addresses)
        except ConfigError as error:
            self._failed(name, slot, "CreateContainerConfigError", str(error))
            return retry
        count = slot.current.restart_count + 1 if slot.current is not None else 0
        container = Container(
            clock, name, image, count, self._ended, worker.network,
            stdin=bool(spec.get("stdin")), tty=bool(spec.get("tty")),
        )  # fmt: skip
        yield _CREATE
        worker.container_event(name, NORMAL, "Created", "Container created")
        argv = [
            expand(one, env) for one in [*(spec.get("command") or ()), *(spec.get("args") or ())]
        ]
        slot.last, slot.current, slot.trouble = slot.current, container, None
        files = volume_files(worker.api, worker.pod, spec)
        failure = container.start(argv, env, files, hostname(worker.pod))
        if failure:
            self._failed(name, slot, "RunContainerError", failure, told=failure)
            return retry
        worker.container_event(name, NORMAL, "Started", "Container started")
        if container.running:
            self._probe(spec, slot, container)
        node.relist(worker)
        return None

    def _failed(self, name: str, slot: _Slot, reason: str, message: str, told: str = "") -> None:
        slot.trouble = (reason, message)
        text = told or (message if reason == "CreateContainerConfigError" else reason)
        self._worker.container_event(name, WARNING, "Failed", f"Error: {text}")

    def _crash_wait(self, name: str, slot: _Slot) -> float | None:
        """Real seconds of the crash back-off that are left; None where it may be started.

        Source: kuberuntime_manager.go, `doBackOff`.
        """
        # A container that a probe ended is started in the same sync, which has not seen its end.
        ended = slot.last if slot.probed else slot.current
        slot.probed = False
        if ended is None or ended.finished_at is None:
            return None
        worker = self._worker
        clock, pod = worker.node.clock, worker.pod
        key = f"{uid_of(pod)}/crash/{name}"
        left = worker.node.backoff.left(key, ended.finished_at, clock.time())
        if left <= 0:
            worker.node.backoff.grow(key, ended.finished_at)
            return None
        where = f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"
        told = f"Back-off restarting failed container {name} in pod {where}"
        worker.container_event(name, WARNING, "BackOff", told)
        delay = go_seconds(worker.node.backoff.delay(key))
        slot.trouble = (
            "CrashLoopBackOff",
            f"back-off {delay} restarting failed container={name} pod={where}",
        )
        return left

    # -- images

    def _image(self, spec: Obj, slot: _Slot) -> Generator[float | None, None, Image | None]:
        """Have the container's image; None where that failed.

        Source: images/image_manager.go, `EnsureImageExists`.
        """
        worker, name, wanted = self._worker, spec["name"], spec["image"]
        try:
            image = parse_image(wanted)
        except InvalidImageError as error:
            message = (
                f'Failed to apply default image tag "{wanted}": '
                f'couldn\'t parse image name "{wanted}": {error}'
            )
            worker.container_event(name, WARNING, "InspectFailed", message)
            self._failed(name, slot, "InvalidImageName", message)
            return None
        policy = spec.get("imagePullPolicy") or "IfNotPresent"
        if worker.node.has_image(image) and policy != "Always":
            message = (
                f'Container image "{wanted}" already present on machine '
                "and can be accessed by the pod"
            )
            worker.container_event(name, NORMAL, "Pulled", message)
            return image
        if policy == "Never":
            message = f'Container image "{wanted}" is not present with pull policy of Never'
            worker.container_event(name, WARNING, "ErrImageNeverPull", message)
            self._failed(name, slot, "ErrImageNeverPull", message)
            return None
        return (yield from self._pull(name, slot, wanted, image))

    def _pull(
        self, name: str, slot: _Slot, wanted: str, image: Image
    ) -> Generator[float | None, None, Image | None]:
        worker = self._worker
        clock, backoff = worker.node.clock, worker.node.backoff
        key = f"{uid_of(worker.pod)}/pull/{wanted}"
        failure = pull_failure(wanted, image)
        if backoff.left_since_update(key, clock.time()) > 0:
            message = f'Back-off pulling image "{wanted}"'
            worker.container_event(name, NORMAL, "BackOff", message)
            self._failed(name, slot, "ImagePullBackOff", f"{message}: ErrImagePull: {failure}")
            return None
        worker.container_event(name, NORMAL, "Pulling", f'Pulling image "{wanted}"')
        if failure:
            told = f'Failed to pull image "{wanted}": {failure}'
            worker.container_event(name, WARNING, "Failed", told)
            backoff.grow(key, clock.time())
            self._failed(name, slot, "ErrImagePull", failure)
            return None
        began = clock.monotonic()
        if not worker.node.has_image(image):
            yield _PULL
        worker.node.keep_image(image)
        took = f"{max(1, round((clock.monotonic() - began) * 1000))}ms"
        told = (
            f'Successfully pulled image "{wanted}" in {took} ({took} including waiting). '
            f"Image size: {image.size} bytes."
        )
        worker.container_event(name, NORMAL, "Pulled", told)
        return image

    # -- probes

    def _probe(self, spec: Obj, slot: _Slot, container: Container) -> None:
        slot.probers.clear()
        if "startupProbe" in spec:
            self._add_probe("startupProbe", spec, slot, container)
            return
        for kind in ("livenessProbe", "readinessProbe"):
            if kind in spec:
                self._add_probe(kind, spec, slot, container)

    def _add_probe(self, kind: str, spec: Obj, slot: _Slot, container: Container) -> None:
        name = spec["name"]

        def unhealthy(text: str) -> None:
            self._worker.container_event(name, WARNING, "Unhealthy", text)

        def changed(success: bool) -> None:
            if kind == "startupProbe" and success:
                for later in ("livenessProbe", "readinessProbe"):
                    if later in spec:
                        self._add_probe(later, spec, slot, container)
            elif kind != "readinessProbe" and not success:
                word = "startup" if kind == "startupProbe" else "liveness"
                slot.doomed = f"Container {name} failed {word} probe, will be restarted"
            self._worker.sync()

        slot.probers[kind] = Prober(
            self._worker.node.clock,
            kind,
            spec[kind],
            container,
            unhealthy=unhealthy,
            changed=changed,
        )

    def _stop_doomed(self) -> Generator[float | None, None, None]:
        """End containers whose probe failed; they are started again like any other that ended."""
        worker = self._worker
        for name, slot in self._slots.items():
            message, slot.doomed = slot.doomed, ""
            container = slot.current
            if not message or container is None or not container.running:
                continue
            worker.container_event(name, NORMAL, "Killing", message)
            container.stop(float(worker.pod["spec"].get("terminationGracePeriodSeconds", 30)))
            yield from _until_ended(container)
            slot.probed = True


def _until_ended(container: Container) -> Generator[float | None, None, None]:
    while container.running:
        yield None
