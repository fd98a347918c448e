"""Images: what their names mean, which can be had, and what a container of one runs by default.

busybox is there from the start, of any host that there is. Nothing can be pulled from a host that
ends in `.invalid`, as that name never resolves. Every other image is pulled and takes its programs'
names on trust.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

__all__ = [
    "Image",
    "InvalidImageError",
    "find_pull_error",
    "is_busybox",
    "is_preloaded",
    "parse_image",
    "to_canonical_name",
]

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


class InvalidImageError(Exception):
    """The name is no reference to an image; `str` is why."""


@dataclass(frozen=True, slots=True)
class Image:
    """A reference in its parts.

    Args:
        domain: the registry, for example `docker.io`.
        path: the repository, for example `library/busybox`.
        tag: the tag; empty with a digest alone.
        digest: the digest; empty without.
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
        """What a container's status names as `imageID`."""
        return f"{self.domain}/{self.path}@{self.digest or _make_digest(str(self))}"

    @property
    def size(self) -> int:
        """A size in bytes that is always the same for the same image."""
        return 4_000_000 + int(hashlib.sha256(self.path.encode()).hexdigest()[:6], 16) * 4


@lru_cache(maxsize=256)
def _make_digest(name: str) -> str:
    return f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"


@lru_cache(maxsize=256)
def parse_image(name: str) -> Image:
    """Return the reference that `name` is, with what it leaves out.

    Raises:
        InvalidImageError: it is none.

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
    """Return the full name, as `docker.io/library/busybox:1.36`; what is none stays."""
    try:
        return str(parse_image(name))
    except InvalidImageError:
        return name


def is_busybox(image: Image) -> bool:
    """Whether it is an image whose programs are known."""
    return image.path.rpartition("/")[2] == "busybox"


def is_preloaded(image: Image) -> bool:
    """Whether nodes have it from the start."""
    return is_busybox(image) and not _is_unresolvable(image)


def _is_unresolvable(image: Image) -> bool:
    return image.domain.partition(":")[0].rpartition(".")[2] == "invalid"


def find_pull_error(name: str, image: Image) -> str:
    """Why the image cannot be pulled, in the container runtime's words; empty where it can."""
    if image.domain.lower() != image.domain:
        return (
            f'failed to parse image reference "{name}": invalid reference format: '
            "repository name must be lowercase"
        )
    if not _is_unresolvable(image):
        return ""
    host = image.domain.partition(":")[0]
    what = image.digest or image.tag
    return (
        f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": '
        f'failed to do request: Head "https://{image.domain}/v2/{image.path}/manifests/{what}": '
        f"dial tcp: lookup {host}: no such host"
    )
