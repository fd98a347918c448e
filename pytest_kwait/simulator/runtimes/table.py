"""The table of container runtimes, and the choice of the runtime of each container.

A further runtime is a module that implements `kubelet.cri.RuntimeService`, and one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.image_reference import InvalidImageError, parse_image
from pytest_kwait.simulator.protocol.container_scripts import EMPTY
from pytest_kwait.simulator.runtimes.interpreted.service import InterpretedRuntime
from pytest_kwait.simulator.runtimes.processes.service import ProcessRuntime
from pytest_kwait.simulator.runtimes.scripted import ContainerScripts, ScriptedRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.image_reference import ImageReference
    from pytest_kwait.simulator.kubelet.cri import (
        Call,
        Image,
        ImageSpec,
        PodHost,
        PodScripts,
        RunningContainer,
        RuntimeService,
    )
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.protocol.container_scripts import Script


class Row(NamedTuple):
    """A runtime.

    Args:
        make: makes the runtime of a cluster.
        runs: whether it runs the containers of an image with a script.
    """

    make: Callable[[Cluster], RuntimeService]
    runs: Callable[[Cluster, ImageReference, Script], bool]


RUNTIMES = (
    Row(ScriptedRuntime, lambda _cluster, _image, script: script.replaces_command),
    Row(ProcessRuntime, lambda cluster, image, _script: cluster.images.find(image) is not None),
    Row(InterpretedRuntime, lambda _cluster, _image, _script: True),
)
"""The runtimes; the first that runs a container has it, and the last one runs all."""


class ClusterRuntimes:
    """The runtimes of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rows = [(row.make(cluster), row.runs) for row in RUNTIMES]

    def find_for_container(self, image: ImageReference, script: Script) -> RuntimeService:
        """Return the runtime of a container."""
        for runtime, runs in self._rows:
            if runs(self._cluster, image, script):
                return runtime
        return self._rows[-1][0]

    def find_for_pod(self, pod: Obj) -> RuntimeService:
        """Return the runtime that makes the sandbox of a pod: the first that has an image of it.

        Scripts do not count: a script needs no sandbox of its own.
        """
        images = _list_images(pod)
        for runtime, runs in self._rows:
            for image in images:
                if runs(self._cluster, image, EMPTY):
                    return runtime
        return self._rows[-1][0]

    def make_scripts(
        self, host: PodHost, list_running: Callable[[], Iterable[RunningContainer]]
    ) -> PodScripts:
        """Return the scripts of a pod."""
        return ContainerScripts(host, list_running)

    # -- images

    def image_status(self, spec: ImageSpec) -> Image:
        """Return what the runtime of an image knows of it."""
        return self.find_for_container(spec.image, EMPTY).image_status(spec)

    def pull_image(self, spec: ImageSpec) -> Call[None]:
        """Let the runtime of an image pull it."""
        return self.find_for_container(spec.image, EMPTY).pull_image(spec)


def _list_images(pod: Obj) -> list[ImageReference]:
    spec, images = pod["spec"], []
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            try:
                images.append(parse_image(container["image"]))
            except InvalidImageError:
                continue
    return images
