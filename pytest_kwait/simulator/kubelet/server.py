"""The kubelet's server: pods, logs, commands and connections for the API server.

Source: k8s.io/kubernetes pkg/kubelet/server/server.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet_api import LogPlace
from pytest_kwait.simulator.objects import clone, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.busybox.os.streams import ProcessSession
    from pytest_kwait.simulator.kubelet.container import Container
    from pytest_kwait.simulator.kubelet.kubelet import Kubelet
    from pytest_kwait.simulator.kubelet.logs import ContainerLog
    from pytest_kwait.simulator.kubelet.runtime_manager import RuntimeManager
    from pytest_kwait.simulator.objects import Obj


class PodPorts:
    """The ports of a pod or node, as other hosts reach them."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def connect(self, port: int, *, tls: bool = False) -> ProcessSession | None:
        """Connect to a port; None if the connection is refused.

        Raises:
            OSError: the program's TLS fails.
        """
        return await self._network.connect_stream(port, tls=tls)


class ForwardedPorts:
    """The ports of a pod, as port forwarding reaches them."""

    def __init__(self, runtime_manager: RuntimeManager) -> None:
        self._runtime_manager = runtime_manager

    async def connect(self, port: int) -> ProcessSession | None:
        """Connect to a port; None if the connection is refused."""
        return await self._runtime_manager.forward_port(port)


class KubeletServer:
    """The server of one kubelet."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet

    def pods(self) -> Obj:
        """Return a PodList of the node's pods."""
        items = [clone(worker.pod) for worker in self._kubelet.workers]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}

    def _container(
        self, namespace: str, pod: str, container: str, *, previous: bool = False
    ) -> Container | None:
        worker = self._kubelet.find_worker(namespace, pod)
        return (
            worker.runtime_manager.find_instance(container, previous=previous)
            if worker is not None
            else None
        )

    def logs(
        self, namespace: str, pod: str, container: str, *, previous: bool = False
    ) -> list[tuple[float, bytes]]:
        """Return the lines that a container has logged so far."""
        instance = self._container(namespace, pod, container, previous=previous)
        return list(instance.log) if instance is not None else []

    async def follow(
        self, namespace: str, pod: str, container: str
    ) -> AsyncIterator[tuple[float, bytes]]:
        """Yield the lines of a container's log until it ends."""
        instance = self._container(namespace, pod, container)
        if instance is None:
            return
        async for line in instance.follow():
            yield line

    def container_logs(self) -> Iterator[tuple[LogPlace, ContainerLog]]:
        """Return the logs of all containers, those of their previous instances included."""
        for worker in self._kubelet.workers:
            pod = worker.pod
            for instance in worker.runtime_manager.list_instances():
                place = LogPlace(
                    namespace_of(pod), name_of(pod), instance.name, instance.container_id
                )
                yield place, instance.log

    def run(
        self, namespace: str, pod: str, container: str, argv: list[str], *, stdin: bool, tty: bool
    ) -> ProcessSession:
        """Start a command in a container.

        Raises:
            LookupError: the container does not run.
            StartError: the program does not exist.
        """
        instance = self._container(namespace, pod, container)
        if instance is None or not instance.running:
            raise LookupError(f'container not found ("{container}")')
        return instance.run(argv, stdin=stdin, tty=tty)

    def attach(self, namespace: str, pod: str, container: str, *, stdin: bool) -> ProcessSession:
        """Attach to a container's program.

        Raises:
            LookupError: the container does not run.
        """
        instance = self._container(namespace, pod, container)
        if instance is None or not instance.running:
            raise LookupError(f"container {container} not found in pod {pod}_{namespace}")
        return instance.attach(stdin=stdin)

    def network_of(self, namespace: str, pod: str) -> ForwardedPorts:
        """Return the ports of a running pod.

        Raises:
            LookupError: the pod does not run.
        """
        worker = self._kubelet.find_worker(namespace, pod)
        if worker is None or not worker.runtime_manager.list_running():
            raise LookupError(f'pod not found ("{pod}_{namespace}")')
        return ForwardedPorts(worker.runtime_manager)

    async def dial(self, address: str, port: int, *, tls: bool = False) -> ProcessSession | None:
        """Connect to an address on this node; None if the connection is refused.

        Raises:
            OSError: the program's TLS fails.
        """
        if address == self._kubelet.address:
            return await PodPorts(self._kubelet.network).connect(port, tls=tls)
        for worker in self._kubelet.workers:
            if worker.pod_ip == address and worker.runtime_manager.list_running():
                return await PodPorts(worker.network).connect(port, tls=tls)
        return None

    def find_network(self, address: str) -> Network | None:
        """Return the ports behind an address of a pod or node; None for others."""
        return self._kubelet.find_network(address)

    def list_addresses(self) -> list[tuple[str, Obj]]:
        """Return the node's pods that have an address of their own until they end, with it."""
        return [
            (worker.pod_ip, worker.pod)
            for worker in self._kubelet.workers
            if worker.pod_ip not in ("", self._kubelet.address) and not worker.finished
        ]

    def running_pods(self) -> Obj:
        """Return a PodList of the pods with running containers."""
        items: list[Obj] = []
        for worker in self._kubelet.workers:
            running = worker.runtime_manager.list_running()
            if not running:
                continue
            metadata = worker.pod["metadata"]
            items.append(
                {
                    "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
                    "spec": {
                        "containers": [
                            {
                                "name": instance.name,
                                "image": instance.image_id,
                                "resources": {},
                            }
                            for instance in running
                        ]
                    },
                    "status": {},
                }
            )
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}

    def counts(self) -> dict[str, int]:
        """Return the number of containers by state."""
        counts = {"created": 0, "exited": 0, "running": 0}
        for worker in self._kubelet.workers:
            for state in worker.runtime_manager.list_states():
                counts[state] += 1
        return counts
