"""The interpreting runtime: busybox's shell and programs, without processes of the machine.

busybox runs as root. The users of other images are unknown, and so are their programs.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_kwait.simulator.event_recorder import NORMAL
from pytest_kwait.simulator.kubelet.cri import (
    Image,
    ImagePullError,
    Notice,
    StartContainerError,
)
from pytest_kwait.simulator.network.pod_network import get_pod_networks
from pytest_kwait.simulator.runtimes.interpreted.container import (
    InterpretedContainer,
    make_container_files,
)
from pytest_kwait.simulator.runtimes.interpreted.images import (
    find_pull_error,
    is_busybox,
    is_preloaded,
)
from pytest_kwait.simulator.runtimes.interpreted.kernel_files import make_kernel_files
from pytest_kwait.simulator.runtimes.service import (
    PodSandbox,
    RuntimeServer,
    check_seccomp_profile,
)
from pytest_kwait.simulator.services import get_machine

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.files import FileSystem
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet.cri import (
        Call,
        ContainerConfig,
        ImageSpec,
        PodHost,
        PodSandboxConfig,
    )

# Measured seconds, scaled: a sandbox with its network, a container, and a pull.
_SANDBOX_SECONDS = 0.3
_CREATE_SECONDS = 0.1
_PULL_SECONDS = 1.0

_HOSTS = "/etc/hosts"
IMAGE_ENV = MappingProxyType(
    {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
)
"""The variables of every image."""


class InterpretedRuntime(RuntimeServer[PodSandbox, InterpretedContainer]):
    """Interprets the programs of containers."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._files: dict[str, tuple[PodSandbox, FileSystem]] = {}

    # -- images

    def image_status(self, spec: ImageSpec) -> Image:
        """Return what is known of an image."""
        uid = 0 if is_busybox(spec.image) else None
        return Image(spec, pinned=is_preloaded(spec.image), uid=uid, env=IMAGE_ENV)

    def pull_image(self, spec: ImageSpec) -> Call[None]:
        """Pull an image.

        Raises:
            ImagePullError: its registry does not exist, or its name is invalid.
        """
        failure = find_pull_error(spec.user_specified_image, spec.image)
        if failure:
            raise ImagePullError(failure)
        return self._download()

    def _download(self) -> Call[None]:
        yield _PULL_SECONDS

    # -- pods

    def run_pod_sandbox(self, config: PodSandboxConfig, host: PodHost) -> Call[None]:
        """Connect the pod to the network, unless it is."""
        self.sandboxes[config.uid] = PodSandbox(config, host)
        if host.pod_ip:
            return
        yield _SANDBOX_SECONDS
        address = host.assign_address()
        if not config.host_network:
            get_pod_networks(self.cluster).add_simulated(address, host.network)

    def stop_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Close the ports of the pod to programs of other pods."""
        sandbox = self.sandboxes.get(pod_sandbox_id)
        if sandbox is not None and sandbox.host.pod_ip and not sandbox.config.host_network:
            get_pod_networks(self.cluster).remove_simulated(sandbox.host.pod_ip)

    # -- containers

    def create_container(self, pod_sandbox_id: str, config: ContainerConfig) -> Call[str]:
        """Create a container with its files, and return its id."""
        sandbox = self.sandboxes[pod_sandbox_id]
        host, resolved = sandbox.host, config.mounts.in_memory()
        files = {
            path: content
            for path, content in sandbox.config.files(host.pod_ip).items()
            if path != _HOSTS or not config.mounts.has(path)
        }
        check_seccomp_profile(config)
        container = self.make_container(config, host)
        kernel_files = make_kernel_files(lambda: container.resources, sandbox.config.sysctls)
        file_system = make_container_files(
            self.cluster.clock.time, sandbox.config.hostname, host.network,
            {**resolved.files, **files},
            resolved.nodes, resolved.read_only, kernel_files,
        )  # fmt: skip
        yield _CREATE_SECONDS
        self.containers[container.id] = container
        self._files[container.id] = sandbox, file_system
        return container.id

    def make_container(self, config: ContainerConfig, host: PodHost) -> InterpretedContainer:
        """Return a new container."""
        machine = get_machine(self.cluster.services, self.cluster.clock)
        target = self.containers.get(config.target_id or "")
        return InterpretedContainer(
            machine, config, host.on_container_stopped, host.network, target
        )

    def start_container(self, container_id: str) -> Call[Notice | None]:
        """Start the program; return a notice if nothing is known of it."""
        yield from ()
        container = self.containers[container_id]
        sandbox, files = self._files.pop(container_id)
        config = container.config
        failure = container.launch([*config.command, *config.args], files, sandbox.config.hostname)
        if failure:
            raise StartContainerError(failure)
        return self.make_notice(container)

    def make_notice(self, container: InterpretedContainer) -> Notice | None:
        """Return the event about a program that is not run."""
        if not container.is_assumed:
            return None
        image = container.config.image.spec.user_specified_image
        why = "its program is assumed to run until it is terminated"
        near = self.cluster.images.find_near_pattern(image)
        if near:
            text = f'Image "{image}" is not mapped: {why}; did you mean the pattern "{near}"?'
        else:
            text = f'Image "{image}" is not simulated: {why}'
        return Notice(NORMAL, "NotSimulated", text)
