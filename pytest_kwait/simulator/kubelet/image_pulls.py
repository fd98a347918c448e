"""Having a container's image on the node: policies, pulls, back-off, and what is told of them.

Source: images/image_manager.go, `EnsureImageExists`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.container_scripts import EMPTY, Script
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING
from pytest_kwait.simulator.kubelet.images import (
    Image,
    InvalidImageError,
    find_pull_error,
    parse_image,
)
from pytest_kwait.simulator.objects import namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_kwait.simulator.kubelet.pod_worker import PodWorker
    from pytest_kwait.simulator.objects import Obj

__all__ = ["ImageManager"]

# Seconds, scaled: what pulling takes.
_PULL_SECONDS = 1.0


class ImageManager:
    """The images of one pod.

    Args:
        worker: the pod.
        failed: told name, reason and message of a container whose image cannot be had.
    """

    def __init__(self, worker: PodWorker, failed: Callable[[str, str, str], None]) -> None:
        self._worker = worker
        self._failed = failed

    def record_missing_secrets(self) -> None:
        """Tell of pull secrets that are not there; the pod runs all the same.

        Source: kubelet_pods.go, `getPullSecretsForPod`.
        """
        worker = self._worker
        names = [one.get("name") for one in worker.pod["spec"].get("imagePullSecrets") or ()]
        namespace = namespace_of(worker.pod)
        missing = [
            name for name in names if name and worker.api.find("secrets", name, namespace) is None
        ]
        if missing:
            worker.event(
                WARNING,
                "FailedToRetrieveImagePullSecret",
                f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
                "attempting to pull the image may not succeed.",
            )

    def ensure_image_exists(
        self, spec: Obj, script: Script = EMPTY
    ) -> Generator[float | None, None, Image | None]:
        """Have the container's image; None where that failed.

        Args:
            spec: the container.
            script: may say how long a pull takes, and what it ends with.
        """
        worker, name, wanted = self._worker, spec["name"], spec["image"]
        try:
            image = parse_image(wanted)
        except InvalidImageError as error:
            message = (
                f'Failed to apply default image tag "{wanted}": '
                f'couldn\'t parse image name "{wanted}": {error}'
            )
            worker.container_event(name, WARNING, "InspectFailed", message)
            self._failed(name, "InvalidImageName", message)
            return None
        policy = spec.get("imagePullPolicy") or "IfNotPresent"
        scripted = script.pull is not None or script.pull_error is not None
        present = worker.node.has_image(image) and not (scripted and policy == "IfNotPresent")
        if present and policy != "Always":
            message = (
                f'Container image "{wanted}" already present on machine '
                "and can be accessed by the pod"
            )
            worker.container_event(name, NORMAL, "Pulled", message)
            return image
        if policy == "Never":
            message = f'Container image "{wanted}" is not present with pull policy of Never'
            worker.container_event(name, WARNING, "ErrImageNeverPull", message)
            self._failed(name, "ErrImageNeverPull", message)
            return None
        return (yield from self._pull(name, wanted, image, script))

    def _pull(
        self, name: str, wanted: str, image: Image, script: Script
    ) -> Generator[float | None, None, Image | None]:
        worker = self._worker
        clock, backoff = worker.node.clock, worker.node.backoff
        key = f"{uid_of(worker.pod)}/pull/{wanted}"
        slower, broken = worker.api.faults.pull(namespace_of(worker.pod), str(image))
        failure = broken or script.pull_error or find_pull_error(wanted, image)
        if backoff.remaining_since_update(key, clock.time()) > 0:
            message = f'Back-off pulling image "{wanted}"'
            worker.container_event(name, NORMAL, "BackOff", message)
            self._failed(name, "ImagePullBackOff", f"{message}: ErrImagePull: {failure}")
            return None
        worker.container_event(name, NORMAL, "Pulling", f'Pulling image "{wanted}"')
        if failure:
            told = f'Failed to pull image "{wanted}": {failure}'
            worker.container_event(name, WARNING, "Failed", told)
            backoff.grow(key, clock.time())
            self._failed(name, "ErrImagePull", failure)
            return None
        began = clock.monotonic()
        if slower:
            yield slower / clock.scale
        if script.pull is not None:
            yield script.pull / clock.scale
        elif not worker.node.has_image(image):
            yield _PULL_SECONDS
        worker.node.record_image(image)
        took = f"{max(1, round((clock.monotonic() - began) * 1000))}ms"
        told = (
            f'Successfully pulled image "{wanted}" in {took} ({took} including waiting). '
            f"Image size: {image.size} bytes."
        )
        worker.container_event(name, NORMAL, "Pulled", told)
        return image
