"""Images: pull policies, pulls with back-off, and their events.

Which images there are, and which pulls fail, is the container runtimes' part.

Source: images/image_manager.go, `EnsureImageExists`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.event_recorder import NORMAL, WARNING
from pytest_kwait.simulator.image_reference import InvalidImageError, parse_image
from pytest_kwait.simulator.kubelet.cri import ImagePullError, ImageSpec
from pytest_kwait.simulator.objects import namespace_of, uid_of
from pytest_kwait.simulator.protocol.container_scripts import EMPTY, Script

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.kubelet.cri import Call, ImageService
    from pytest_kwait.simulator.kubelet.pod_context import PodContext
    from pytest_kwait.simulator.objects import Obj


class ImageManager:
    """Pulls the images of one pod.

    Args:
        images: the images of the container runtimes.
        failed: called with container, reason and message of a failure.
    """

    def __init__(
        self,
        worker: PodContext,
        images: ImageService,
        failed: Callable[[str, str, str], None],
    ) -> None:
        self._worker = worker
        self._images = images
        self._failed = failed

    def record_missing_secrets(self) -> None:
        """Warn about missing pull secrets; the pod runs without them.

        Source: kubelet_pods.go, `getPullSecretsForPod`.
        """
        worker = self._worker
        names = [secret.get("name") for secret in worker.pod["spec"].get("imagePullSecrets") or ()]
        namespace = namespace_of(worker.pod)
        missing = [
            name
            for name in names
            if name and worker.cluster.find("secrets", name, namespace) is None
        ]
        if missing:
            worker.record_event(
                WARNING,
                "FailedToRetrieveImagePullSecret",
                f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
                "attempting to pull the image may not succeed.",
            )

    def ensure_image_exists(self, spec: Obj, script: Script = EMPTY) -> Call[ImageSpec | None]:
        """Return the container's image, pulled if needed; None if that failed.

        Args:
            spec: the container.
            script: may set the duration of a pull, and its error.
        """
        worker, name, reference = self._worker, spec["name"], spec["image"]
        try:
            image = ImageSpec(parse_image(reference), reference)
        except InvalidImageError as error:
            message = (
                f'Failed to apply default image tag "{reference}": '
                f'couldn\'t parse image name "{reference}": {error}'
            )
            worker.record_container_event(name, WARNING, "InspectFailed", message)
            self._failed(name, "InvalidImageName", message)
            return None
        policy = spec.get("imagePullPolicy") or "IfNotPresent"
        scripted = script.pull is not None or script.pull_error is not None
        is_present = self._is_present(image) and not (scripted and policy == "IfNotPresent")
        if is_present and policy != "Always":
            message = (
                f'Container image "{reference}" already present on machine '
                "and can be accessed by the pod"
            )
            worker.record_container_event(name, NORMAL, "Pulled", message)
            return image
        if policy == "Never":
            message = f'Container image "{reference}" is not present with pull policy of Never'
            worker.record_container_event(name, WARNING, "ErrImageNeverPull", message)
            self._failed(name, "ErrImageNeverPull", message)
            return None
        return (yield from self._pull(name, image, script))

    def _is_present(self, spec: ImageSpec) -> bool:
        return self._images.image_status(spec).pinned or self._worker.node.has_image(
            str(spec.image)
        )

    def _pull(self, name: str, spec: ImageSpec, script: Script) -> Call[ImageSpec | None]:
        worker, (image, reference) = self._worker, spec
        clock, backoff = worker.node.clock, worker.node.backoff
        key = f"{uid_of(worker.pod)}/pull/{reference}"
        injected_delay, injected_error = worker.cluster.faults.apply_to_pull(
            namespace_of(worker.pod), str(image)
        )
        failure, pulling = injected_error or script.pull_error, None
        try:
            pulling = self._images.pull_image(spec)
        except ImagePullError as error:
            failure = failure or str(error)
        if backoff.remaining_since_update(key, clock.time()) > 0:
            message = f'Back-off pulling image "{reference}"'
            worker.record_container_event(name, NORMAL, "BackOff", message)
            self._failed(name, "ImagePullBackOff", f"{message}: ErrImagePull: {failure}")
            return None
        worker.record_container_event(name, NORMAL, "Pulling", f'Pulling image "{reference}"')
        if failure:
            message = f'Failed to pull image "{reference}": {failure}'
            worker.record_container_event(name, WARNING, "Failed", message)
            backoff.increase(key, clock.time())
            self._failed(name, "ErrImagePull", failure)
            return None
        began = clock.monotonic()
        if injected_delay:
            yield injected_delay / clock.scale
        yield from worker.cluster.exploration.delay_pull(
            str(image), worker.pod, worker.resume_waiting
        )
        if script.pull is not None:
            yield script.pull / clock.scale
        elif pulling is not None and not self._is_present(spec):
            yield from pulling
        worker.node.record_image(str(image))
        took = f"{max(1, round((clock.monotonic() - began) * 1000))}ms"
        message = (
            f'Successfully pulled image "{reference}" in {took} ({took} including waiting). '
            f"Image size: {image.size} bytes."
        )
        worker.record_container_event(name, NORMAL, "Pulled", message)
        return spec
