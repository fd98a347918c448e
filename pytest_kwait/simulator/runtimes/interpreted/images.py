"""Images of the simulated registries: which have busybox's programs, which are there, which fail.

busybox is preloaded on every node, from any registry. A pull from a host that ends in `.invalid`
fails, as that name never resolves. Every other pull succeeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.image_reference import ImageReference


def is_busybox(image: ImageReference) -> bool:
    """Return whether an image has busybox's programs."""
    return image.path.rpartition("/")[2] == "busybox"


def is_preloaded(image: ImageReference) -> bool:
    """Return whether an image is on every node from the start."""
    return is_busybox(image) and not _is_unresolvable(image)


def _is_unresolvable(image: ImageReference) -> bool:
    return image.domain.partition(":")[0].rpartition(".")[2] == "invalid"


def find_pull_error(name: str, image: ImageReference) -> str:
    """Return why a pull fails, in the container runtime's words; empty if it succeeds."""
    if image.domain.lower() != image.domain:
        return (
            f'failed to parse image reference "{name}": invalid reference format: '
            "repository name must be lowercase"
        )
    if not _is_unresolvable(image):
        return ""
    host = image.domain.partition(":")[0]
    version = image.digest or image.tag
    return (
        f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": '
        f'failed to do request: Head "https://{image.domain}/v2/{image.path}/manifests/{version}": '
        f"dial tcp: lookup {host}: no such host"
    )
