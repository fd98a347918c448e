"""The part of CRI that all runtimes here answer alike: calls by id to sandboxes and containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_kwait.simulator.kubelet.cri import CreateContainerError, ImageService
from pytest_kwait.simulator.runtimes.container import RuntimeContainer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.busybox.os.streams import ProcessSession
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet.cri import (
        ContainerConfig,
        ContainerRequest,
        ContainerStats,
        ContainerStatus,
        LinuxContainerResources,
        PodHost,
        PodSandboxConfig,
        PortConnection,
    )

C = TypeVar("C", bound=RuntimeContainer)


class PodSandbox:
    """The sandbox of a pod: its configuration and its kubelet."""

    def __init__(self, config: PodSandboxConfig, host: PodHost) -> None:
        self.config = config
        self.host = host


S = TypeVar("S", bound=PodSandbox)


def check_seccomp_profile(config: ContainerConfig) -> None:
    """Refuse a container whose seccomp profile cannot be loaded: nodes have no profile files.

    Raises:
        CreateContainerError: the profile is a file.
    """
    path = config.security_context.seccomp_profile
    if path:
        raise CreateContainerError(
            "failed to create containerd container: cannot load seccomp profile "
            f'"{path}": open {path}: no such file or directory'
        )


class RuntimeServer(ImageService, Generic[S, C]):
    """The sandboxes and containers of one runtime in a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.sandboxes: dict[str, S] = {}
        self.containers: dict[str, C] = {}

    # -- pods

    def remove_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Forget a stopped sandbox; idempotent."""
        self.sandboxes.pop(pod_sandbox_id, None)

    def port_forward(self, pod_sandbox_id: str, port: int) -> PortConnection:
        """Connect to a port inside the pod."""
        return self.sandboxes[pod_sandbox_id].host.network.connect_stream(port, inside=True)

    # -- containers

    def stop_container(self, container_id: str, timeout: float) -> None:
        """Send the stop signal, and SIGKILL after `timeout` seconds; 0: SIGKILL at once."""
        if timeout:
            self.containers[container_id].stop(timeout)
        else:
            self.containers[container_id].kill()

    def remove_container(self, container_id: str) -> None:
        """Forget an ended container; idempotent."""
        self.containers.pop(container_id, None)

    def container_status(self, container_id: str) -> ContainerStatus:
        """Return the status of a container."""
        return self.containers[container_id].status

    def container_stats(self, container_id: str) -> ContainerStats:
        """Return the usage of a container."""
        return self.containers[container_id].measure()

    def update_container_resources(
        self, container_id: str, resources: LinuxContainerResources
    ) -> None:
        """Set the resources of a running container."""
        self.containers[container_id].update_resources(resources)

    def exec(
        self, container_id: str, cmd: Sequence[str], *, stdin: bool = False, tty: bool = False
    ) -> ProcessSession:
        """Start a command in a container."""
        return self.containers[container_id].run(cmd, stdin=stdin, tty=tty)

    def attach(self, container_id: str, *, stdin: bool = False) -> ProcessSession:
        """Attach to the program of a container."""
        return self.containers[container_id].attach(stdin=stdin)

    def answer_request(self, container_id: str, request: ContainerRequest) -> None:
        """Send a request to the program of a container, or answer it in place of the program."""
        self.containers[container_id].answer(request)

    def inject_exit(self, container_id: str, code: int, reason: str, message: str = "") -> None:
        """End a container by a fault."""
        self.containers[container_id].inject_exit(code, reason, message)
