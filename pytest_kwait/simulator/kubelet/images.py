"""Images: references, pull policies, pulls with back-off, and their events.

busybox is preloaded on every node, from any registry, and so is every mapped image. A pull from a
host that ends in `.invalid` fails, as that name never resolves. Every other pull succeeds, and the
image is assumed to contain any program.

Source: images/image_manager.go, `EnsureImageExists`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_kwait.simulator.event_recorder import NORMAL, WARNING
from pytest_kwait.simulator.objects import namespace_of, uid_of
from pytest_kwait.simulator.protocol.container_scripts import EMPTY, Script

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_kwait.simulator.kubelet.pod_context import PodContext
    from pytest_kwait.simulator.objects import Obj

_DOMAIN_PATTERN = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*(?::\d+)?"
)
_PATH_PATTERN = re.compile(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
)
_TAG_PATTERN = re.compile(r"[\w][\w.-]{0,127}")
_DIGEST_PATTERN = re.compile(
    r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
)
# Seconds, scaled, of a pull.
_PULL_SECONDS = 1.0


class InvalidImageError(Exception):
    """The name is not an image reference; `str` is the reason."""


@dataclass(frozen=True, slots=True)
class Image:
    """A parsed image reference.

    Args:
        domain: the registry, for example `docker.io`.
        path: the repository, for example `library/busybox`.
        tag: empty if there is only a digest.
        digest: empty without one.
    """

    domain: str
    path: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.domain}/{self.path}{tag}{f'@{self.digest}' if self.digest else ''}"

    @property
    def image_id(self) -> str:
        """The `imageID` of container statuses."""
        return f"{self.domain}/{self.path}@{self.digest or _make_digest(str(self))}"

    @property
    def size(self) -> int:
        """A size in bytes, derived from the name."""
        return 4_000_000 + int(hashlib.sha256(self.path.encode()).hexdigest()[:6], 16) * 4


@lru_cache(maxsize=256)
def _make_digest(name: str) -> str:
    return f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"


@lru_cache(maxsize=256)
def parse_image(name: str) -> Image:
    """Parse an image reference and fill in its defaults.

    Raises:
        InvalidImageError: `name` is not a reference.

    Source: github.com/distribution/reference, `ParseNormalizedNamed`.
    """
    rest, _, digest = name.partition("@")
    if digest and _DIGEST_PATTERN.fullmatch(digest) is None:
        raise InvalidImageError("invalid reference format")
    head, colon, tail = rest.rpartition(":")
    tag = ""
    if colon and "/" not in tail:
        rest, tag = head, tail
        if _TAG_PATTERN.fullmatch(tag) is None:
            raise InvalidImageError("invalid reference format")
    domain, slash, path = rest.partition("/")
    if not slash or not (
        "." in domain or ":" in domain or domain == "localhost" or domain.lower() != domain
    ):
        domain, path = "docker.io", rest
    if domain == "docker.io" and "/" not in path:
        path = f"library/{path}"
    if path.lower() != path:
        raise InvalidImageError(
            f"invalid reference format: repository name ({path}) must be lowercase"
        )
    if _PATH_PATTERN.fullmatch(path) is None or _DOMAIN_PATTERN.fullmatch(domain) is None:
        raise InvalidImageError("invalid reference format")
    return Image(domain, path, tag or ("" if digest else "latest"), digest)


def to_canonical_name(name: str) -> str:
    """Return the full name, as `docker.io/library/busybox:1.36`; an invalid name unchanged."""
    try:
        return str(parse_image(name))
    except InvalidImageError:
        return name


def is_busybox(image: Image) -> bool:
    """Return whether an image has busybox's programs."""
    return image.path.rpartition("/")[2] == "busybox"


def is_preloaded(image: Image) -> bool:
    """Return whether an image is on every node from the start."""
    return is_busybox(image) and not _is_unresolvable(image)


def _is_unresolvable(image: Image) -> bool:
    return image.domain.partition(":")[0].rpartition(".")[2] == "invalid"


def find_pull_error(name: str, image: Image) -> str:
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


class ImageManager:
    """Pulls the images of one pod.

    Args:
        failed: called with container, reason and message of a failure.
    """

    def __init__(self, worker: PodContext, failed: Callable[[str, str, str], None]) -> None:
        self._worker = worker
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

    def ensure_image_exists(
        self, spec: Obj, script: Script = EMPTY
    ) -> Generator[float | None, None, Image | None]:
        """Return the container's image, pulled if needed; None if that failed.

        Args:
            spec: the container.
            script: may set the duration of a pull, and its error.
        """
        worker, name, reference = self._worker, spec["name"], spec["image"]
        try:
            image = parse_image(reference)
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
        return (yield from self._pull(name, reference, image, script))

    def _is_present(self, image: Image) -> bool:
        return (
            is_preloaded(image)
            or self._worker.node.has_image(str(image))
            or self._worker.cluster.images.find(image) is not None
        )

    def _pull(
        self, name: str, reference: str, image: Image, script: Script
    ) -> Generator[float | None, None, Image | None]:
        worker = self._worker
        clock, backoff = worker.node.clock, worker.node.backoff
        key = f"{uid_of(worker.pod)}/pull/{reference}"
        injected_delay, injected_error = worker.cluster.faults.apply_to_pull(
            namespace_of(worker.pod), str(image)
        )
        failure = injected_error or script.pull_error
        if worker.cluster.images.find(image) is None:
            failure = failure or find_pull_error(reference, image)
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
        elif not self._is_present(image):
            yield _PULL_SECONDS
        worker.node.record_image(str(image))
        took = f"{max(1, round((clock.monotonic() - began) * 1000))}ms"
        message = (
            f'Successfully pulled image "{reference}" in {took} ({took} including waiting). '
            f"Image size: {image.size} bytes."
        )
        worker.record_container_event(name, NORMAL, "Pulled", message)
        return image
