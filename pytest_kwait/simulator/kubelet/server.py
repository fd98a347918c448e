"""The kubelet's server: pods, logs, commands and connections, as the API server asks for them.

Source: k8s.io/kubernetes pkg/kubelet/server/server.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import clone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.busybox.os.streams import Session
    from pytest_kwait.simulator.kubelet.container import Container
    from pytest_kwait.simulator.kubelet.kubelet import NodeKubelet
    from pytest_kwait.simulator.objects import Obj

__all__ = ["KubeletServer"]


class KubeletServer:
    """One node's kubelet, as the API server speaks with it.

    Args:
        agent: the node.
    """

    def __init__(self, agent: NodeKubelet) -> None:
        self._agent = agent

    def pods(self) -> Obj:
        """Return the PodList of what the node runs."""
        items = [clone(worker.pod) for worker in self._agent.workers]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}

    def _container(
        self, namespace: str, pod: str, container: str, *, previous: bool = False
    ) -> Container | None:
        worker = self._agent.worker(namespace, pod)
        return (
            worker.runtime_manager.instance(container, previous=previous)
            if worker is not None
            else None
        )

    def logs(
        self, namespace: str, pod: str, container: str, *, previous: bool = False
    ) -> list[tuple[float, bytes]]:
        """Return what a container has written so far; nothing where it never ran."""
        found = self._container(namespace, pod, container, previous=previous)
        return list(found.log) if found is not None else []

    async def follow(
        self, namespace: str, pod: str, container: str
    ) -> AsyncIterator[tuple[float, bytes]]:
        """Return what a container writes from its first line until it ends."""
        found = self._container(namespace, pod, container)
        if found is None:
            return
        async for line in found.follow():
            yield line

    def run(
        self, namespace: str, pod: str, container: str, argv: list[str], *, stdin: bool, tty: bool
    ) -> Session:
        """Start a command in a container.

        Raises:
            LookupError: the container does not run.
            StartError: there is no such program.
        """
        found = self._container(namespace, pod, container)
        if found is None or not found.running:
            raise LookupError(f'container not found ("{container}")')
        return found.run(argv, stdin=stdin, tty=tty)

    def attach(self, namespace: str, pod: str, container: str, *, stdin: bool) -> Session:
        """Follow a container's own program.

        Raises:
            LookupError: the container does not run.
        """
        found = self._container(namespace, pod, container)
        if found is None or not found.running:
            raise LookupError(f"container {container} not found in pod {pod}_{namespace}")
        return found.attach(stdin=stdin)

    def network_of(self, namespace: str, pod: str) -> Network:
        """The ports of a pod that runs here.

        Raises:
            LookupError: none of its containers runs.
        """
        worker = self._agent.worker(namespace, pod)
        if worker is None or not worker.runtime_manager.running():
            raise LookupError(f'pod not found ("{pod}_{namespace}")')
        return worker.network

    def dial(self, address: str, port: int) -> Session | None:
        """A connection to an address on this node; None where it is refused."""
        if address == self._agent.address:
            return self._agent.network.connect(port)
        for worker in self._agent.workers:
            if worker.pod_ip == address and worker.runtime_manager.running():
                return worker.network.connect(port)
        return None

    def running_pods(self) -> Obj:
        """Return the PodList of what the container runtime runs."""
        items: list[Obj] = []
        for worker in self._agent.workers:
            running = worker.runtime_manager.running()
            if not running:
                continue
            metadata = worker.pod["metadata"]
            items.append(
                {
                    "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
                    "spec": {
                        "containers": [
                            {"name": one.name, "image": one.image.image_id, "resources": {}}
                            for one in running
                        ]
                    },
                    "status": {},
                }
            )
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}

    def counts(self) -> dict[str, int]:
        """How many containers there are, by their state."""
        found = {"created": 0, "exited": 0, "running": 0}
        for worker in self._agent.workers:
            for state in worker.runtime_manager.states():
                found[state] += 1
        return found
