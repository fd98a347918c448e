"""What is known of the containers of a pod: instances, what is told of them, what they wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.kept_folders import get_persistent_folders
from pytest_kwait.simulator.kubelet.runtime.restart_policy import (
    restarts_all_containers,
    should_restart,
)
from pytest_kwait.simulator.kubelet.scratch import PodVolumes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.kubelet.container_probes import ContainerProbes
    from pytest_kwait.simulator.kubelet.pod_worker import PodWorker
    from pytest_kwait.simulator.kubelet.runtime.containers import Container
    from pytest_kwait.simulator.objects import Obj

__all__ = ["ContainerRecord", "ContainerRecords"]


@dataclass(slots=True)
class ContainerRecord:
    """What is known of one container."""

    current: Container | None = None
    last: Container | None = None
    removed: Obj | None = None
    """What is told of an instance that the container runtime no longer has."""
    restarts: int = 0
    trouble: tuple[str, str] | None = None
    doomed: tuple[str, float] | None = None
    """Why the running instance is to be ended, and the seconds of its grace."""
    probed: bool = False
    resized: bool = False
    """Whether it was ended to start again with other resources."""
    probes: ContainerProbes | None = None
    configured: Obj = field(default_factory=dict)
    """Its part of the pod's spec when the instance was made."""


class ContainerRecords:
    """The containers of one pod: instances that run and have run, and what keeps others from it.

    Args:
        worker: the pod.
    """

    def __init__(self, worker: PodWorker) -> None:
        self.worker = worker
        self.slots: dict[str, ContainerRecord] = {}
        self.volumes = PodVolumes(get_persistent_folders(worker.api), worker.node.name)

    def slot(self, name: str) -> ContainerRecord:
        """Return what is known of a container."""
        found = self.slots.get(name)
        if found is None:
            found = self.slots[name] = ContainerRecord()
        return found

    # -- what is

    def current(self, name: str) -> Container | None:
        """Return the newest instance, running or ended."""
        return self.slot(name).current

    def last(self, name: str) -> Container | None:
        """Return the instance before the newest one."""
        return self.slot(name).last

    def trouble(self, name: str) -> tuple[str, str] | None:
        """Reason and message of what kept the container from starting when it was last tried."""
        return self.slot(name).trouble

    def running(self) -> list[Container]:
        """Return the instances that run."""
        return [
            slot.current
            for slot in self.slots.values()
            if slot.current is not None and slot.current.running
        ]

    def states(self) -> list[str]:
        """Return what the container runtime says of every instance that is left."""
        return [
            "exited" if one.exited else "running" if one.running else "created"
            for slot in self.slots.values()
            for one in (slot.last, slot.current)
            if one is not None
        ]

    def removed(self, name: str) -> Obj | None:
        """Return what is told of an instance that is not even a dead one any more."""
        return self.slot(name).removed

    def resources(self, spec: Obj) -> Obj:
        """Return the resources that the container has now, which may be changing."""
        configured = self.slot(spec["name"]).configured or spec
        found: Obj = configured.get("resources") or {}
        return found

    def restarts(self, name: str) -> int:
        """How often the container was started again."""
        return self.slot(name).restarts

    def is_started(self, name: str) -> bool:
        """Whether its startup probe, if any, has succeeded."""
        probes = self.slot(name).probes
        return probes is None or probes.started

    def is_ready(self, name: str) -> bool:
        """Whether its readiness probe, if any, holds."""
        probes = self.slot(name).probes
        return probes is None or probes.ready

    def instance(self, name: str, *, previous: bool) -> Container | None:
        """Return the instance whose log is asked for."""
        slot = self.slots.get(name)
        if slot is None:
            return None
        return slot.last if previous else slot.current

    def only_sidecars_run(self) -> bool:
        """Whether every regular container is done for good while others still run."""
        pod, running = self.worker.pod, self.running()
        return bool(running) and all(
            (current := self.current(one["name"])) is not None
            and current.exited
            and not should_restart(pod, one, current.exit_code or 0)
            for one in pod["spec"]["containers"]
        )

    def all_restart(self) -> bool:
        """Whether a container ended so that all of them are to start again."""
        return any(
            (current := self.current(one["name"])) is not None
            and current.exited
            and restarts_all_containers(one, current.exit_code or 0)
            for one in self.specs()
        )

    def specs(self) -> Iterator[Obj]:
        """Return the parts of the pod's spec that are init and regular containers."""
        spec = self.worker.pod["spec"]
        yield from spec.get("initContainers") or ()
        yield from spec["containers"]

    # -- what they take of the node

    def held(self, name: str) -> int:
        """Return the bytes of memory that the container holds."""
        current = self.slot(name).current
        return current.held if current is not None and current.running else 0

    def written(self, name: str) -> int:
        """Return the bytes of the disk that the container has written beside volumes."""
        current = self.slot(name).current
        return current.around.files.written() if current is not None and current.running else 0

    def logged(self, name: str) -> int:
        """Return the bytes of the disk that the container's logs take."""
        slot = self.slot(name)
        return sum(one.log.size for one in (slot.last, slot.current) if one is not None)

    # -- ending

    def kill_all(self) -> None:
        """End everything at once."""
        self.stop_probes()
        for container in self.running():
            container.kill()

    def stop_probes(self) -> None:
        """Ask no probe any more."""
        for slot in self.slots.values():
            if slot.probes is not None:
                slot.probes.stop()

    def ended(self, container: Container) -> None:
        """Take note that an instance has ended."""
        slot = self.slot(container.name)
        if slot.current is container and slot.probes is not None:
            slot.probes.stop()
            slot.probes = None
        self.worker.resume_waiting()
        self.worker.node.relist(self.worker)
