"""Configurations of containers for tests of runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.image_reference import ImageReference, parse_image
from pytest_kwait.simulator.kubelet.cri import (
    ContainerConfig,
    Image,
    ImageSpec,
    LinuxContainerResources,
    LinuxContainerSecurityContext,
    MemoryMounts,
    Mount,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.kubelet.cri import ContainerLog


class NoMounts:
    """A container without volumes."""

    def has(self, container_path: str) -> bool:
        return False

    def in_memory(self) -> MemoryMounts:
        return MemoryMounts({}, {}, ())

    def on_disk(self) -> list[Mount]:
        return []


def make_config(
    log: ContainerLog,
    image: ImageReference | None = None,
    *,
    memory: int | None = None,
    **fields: Any,
) -> ContainerConfig:
    """Return the configuration of a container without volumes; of busybox by default."""
    image = image or parse_image("busybox:1")
    return ContainerConfig(
        name="c", attempt=0, image=Image(ImageSpec(image, str(image))), log=log, mounts=NoMounts(),
        resources=LinuxContainerResources(100_000, None, 2, memory, 1000),
        security_context=LinuxContainerSecurityContext(), **fields,
    )  # fmt: skip
