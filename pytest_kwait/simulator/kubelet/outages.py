"""A node that is broken on purpose: cut off, without its kubelet, or short of something."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.event_recorder import NORMAL
from pytest_kwait.simulator.kubelet.eviction import ResourceShortage
from pytest_kwait.simulator.objects import uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.kubelet.kubelet import NodeKubelet
    from pytest_kwait.simulator.kubelet_api import Kubelet

__all__ = ["NodeFaults"]


class _Pressure(NamedTuple):
    """What a kubelet says of one thing that is short."""

    shortage: ResourceShortage
    short: tuple[str, str]
    enough: tuple[str, str]
    event: str


_PRESSURES = {
    "memory": _Pressure(
        ResourceShortage("MemoryPressure", "memory", "100Mi", "64Mi"),
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "NodeHasInsufficientMemory",
    ),
    "disk": _Pressure(
        ResourceShortage("DiskPressure", "ephemeral-storage", "10485760Ki", "6291456Ki"),
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "NodeHasDiskPressure",
    ),
}


class NodeFaults:
    """What is wrong with one node.

    Args:
        node: its kubelet.
    """

    def __init__(self, node: NodeKubelet) -> None:
        self._node = node
        self._cuts: list[bool] = []
        self._server: Kubelet | None = None
        self._counts: dict[str, int] = {}

    # -- the way to the API server

    @property
    def cut(self) -> bool:
        """Whether nothing goes between kubelet and API server."""
        return bool(self._cuts)

    @property
    def dead(self) -> bool:
        """Whether there is no kubelet: containers go on, nobody looks after them."""
        return any(self._cuts)

    def begin(self, *, dead: bool) -> None:
        """Cut the node off, or end its kubelet."""
        if not self._cuts:
            self._server = self._node.api.kubelets.pop(self._node.name, None)
        self._cuts.append(dead)

    def end(self, *, dead: bool) -> None:
        """Take back a `begin`; with the last one the kubelet learns what it has missed."""
        self._cuts.remove(dead)
        if self._cuts:
            return
        node = self._node
        if self._server is not None:
            node.api.kubelets[node.name] = self._server
        node.beat()
        node.report()
        bound = {
            uid_of(pod): pod
            for pod in node.api.list("pods")
            if pod["spec"].get("nodeName") == node.name
        }
        for worker in list(node.workers):
            if uid_of(worker.pod) not in bound:
                node.pod_changed("DELETED", worker.pod)
        for pod in bound.values():
            node.pod_changed("MODIFIED", pod)
        for worker in list(node.workers):
            worker.reconcile()

    # -- what is short

    def press(self, what: str) -> None:
        """Run short of `memory` or `disk`: a condition, and pods that go, one after the other."""
        self._counts[what] = self._counts.get(what, 0) + 1
        if self._counts[what] == 1:
            self._tell(_PRESSURES[what], short=True)
            self._node.eviction_manager.begin(_PRESSURES[what].shortage)

    def release(self, what: str) -> None:
        """Have enough again."""
        self._counts[what] -= 1
        if not self._counts[what]:
            self._node.eviction_manager.end(_PRESSURES[what].shortage)
            self._tell(_PRESSURES[what], short=False)

    def _tell(self, pressure: _Pressure, *, short: bool) -> None:
        node = self._node
        reason, message = pressure.short if short else pressure.enough
        told_of = pressure.shortage.condition
        node.conditions[told_of] = ["True" if short else "False", reason, message]
        node.report()
        told = pressure.event if short else pressure.enough[0].replace("Kubelet", "Node")
        text = f"Node {node.name} status is now: {told}"
        found = node.api.find("nodes", node.name)
        if found is not None and not self.cut:
            node.recorder.event(found, ("v1", "Node"), NORMAL, told, text)

    # -- one container

    def run_out_of_memory(self, namespace: str, pod: str, container: str) -> bool:
        """Have the kernel kill a container; whether it ran."""
        worker = self._node.worker(namespace, pod)
        found = worker.runtime_manager.current(container) if worker is not None else None
        return found is not None and found.run_out_of_memory()
