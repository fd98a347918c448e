"""The runtime of mapped images: their programs as processes of the machine.

A mapped image is never pulled. Its programs run in a sandbox of their pod; other containers of the
pod are simulated as ever, and share the volumes with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.event_recorder import WARNING
from pytest_kwait.simulator.kubelet.cri import (
    CreateContainerError,
    Image,
    Notice,
    StartContainerError,
)
from pytest_kwait.simulator.runtimes.processes.program_container import (
    MappedImage,
    PodPrograms,
    ProgramContainer,
    make_launch_config,
)
from pytest_kwait.simulator.runtimes.service import RuntimeServer, check_seccomp_profile

if TYPE_CHECKING:
    from pytest_kwait.simulator.kubelet.cri import (
        Call,
        ContainerConfig,
        ImageSpec,
        PodHost,
        PodSandboxConfig,
    )


class ProcessRuntime(RuntimeServer[PodPrograms, ProgramContainer]):
    """Runs the programs of mapped images."""

    # -- images

    def image_status(self, spec: ImageSpec) -> Image:
        """Return what is known of an image."""
        mapping = self.cluster.images.find(spec.image)
        if mapping is None:
            return Image(spec)
        name = mapping.user.partition(":")[0]
        is_name = bool(name) and not name.isdigit()
        return MappedImage(
            spec, pinned=True, uid=None if is_name else int(name or 0),
            username=name if is_name else "", files=mapping.files, stop_signal=mapping.stop_signal,
            mapping=mapping,
        )  # fmt: skip

    def pull_image(self, spec: ImageSpec) -> Call[None]:
        """Do nothing: a mapped image is on every node."""
        del spec
        yield from ()

    # -- pods

    def run_pod_sandbox(self, config: PodSandboxConfig, host: PodHost) -> Call[None]:
        """Create the sandbox of a pod, unless it is up."""
        sandbox = self.sandboxes.get(config.uid)
        if sandbox is None:
            sandbox = self.sandboxes[config.uid] = PodPrograms(config, host)
        sandbox.config = config
        yield from sandbox.run()

    def stop_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """End the sandbox with its containers, even one that is being created; idempotent."""
        sandbox = self.sandboxes.get(pod_sandbox_id)
        if sandbox is not None:
            sandbox.stop()

    # -- containers

    def create_container(self, pod_sandbox_id: str, config: ContainerConfig) -> Call[str]:
        """Create a container, and return its id; its program needs no preparation."""
        if not isinstance(config.image, MappedImage):
            # The mapping has ended since the runtime was chosen.
            raise CreateContainerError(f"image {config.image.id} is not mapped")
        sandbox, mapping = self.sandboxes[pod_sandbox_id], config.image.mapping
        sandbox.write_volumes()
        target = self.containers.get(config.target_id or "")
        launch_config = make_launch_config(
            mapping, config, config.mounts.on_disk(),
            None if target is None else target.launch_config.id,
        )  # fmt: skip
        check_seccomp_profile(config)
        yield from sandbox.check_isolation(config, launch_config)
        container = ProgramContainer(self.cluster.clock, config, sandbox, mapping, launch_config)
        self.containers[container.id] = container
        return container.id

    def start_container(self, container_id: str) -> Call[Notice | None]:
        """Start the program of a container."""
        container = self.containers[container_id]
        failure = yield from container.start()
        if failure:
            raise StartContainerError(failure, _explain_failure(container, failure))
        return None


def _explain_failure(container: ProgramContainer, failure: str) -> Notice | None:
    """Return the event about a program that was not found; None for other failures."""
    if "not found in $PATH" not in failure:
        return None
    image = container.config.image.spec.user_specified_image
    program, path = container.launch_config.argv[0], container.launch_config.env.get("PATH", "")
    text = f'Image "{image}" is mapped: "{program}" is in no folder of {path}'
    return Notice(WARNING, "ProgramNotFound", text)
