"""Image references: names of images with their defaults filled in.

Source: github.com/distribution/reference, `ParseNormalizedNamed`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

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
    """The name is not an image reference; `str` is the reason."""


@dataclass(frozen=True, slots=True)
class ImageReference:
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
def parse_image(name: str) -> ImageReference:
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
    return ImageReference(domain, path, tag or ("" if digest else "latest"), digest)


def to_canonical_name(name: str) -> str:
    """Return the full name, as `docker.io/library/busybox:1.36`; an invalid name unchanged."""
    try:
        return str(parse_image(name))
    except InvalidImageError:
        return name
