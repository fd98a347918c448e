"""OCI layouts and docker archives: the configuration of an image in them.

A layout is a folder or a tar of it; an archive is what `docker save` writes. Only the small JSON
files are read, in place: no layer, and nothing is unpacked.

Source: image-spec image-layout.md, image-index.md, manifest.md, config.md; moby
image/tarexport/tarexport.go.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import tarfile
import zlib
from contextlib import contextmanager
from gzip import BadGzipFile
from lzma import LZMAError
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from pytest_kwait.clusters.image_config.config import ImageConfig, ImageConfigError, format_names
from pytest_kwait.clusters.image_config.dockerfile import get_architecture

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LAYOUT, INDEX, MANIFEST = "oci-layout", "index.json", "manifest.json"
_MAX_BYTES = 8 << 20
"""Bytes of a JSON file; registries take 4 MiB."""
_MAX_INDEXES = 4
"""Indexes within each other."""
_DIGEST = re.compile(r"(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})")
_SHA256 = re.compile(r"(?:.*/)?([0-9a-f]{64})(?:\.json)?")
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_CONFIG_TYPES = (
    "application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"
)  # fmt: skip
_ATTESTATION = "vnd.docker.reference.type"

T = TypeVar("T")


class _Platform(msgspec.Struct):
    architecture: str = ""
    os: str = ""


class _Descriptor(msgspec.Struct, rename="camel"):
    digest: str
    size: int
    media_type: str = ""
    platform: _Platform | None = None
    annotations: dict[str, str] | None = None

    def list_names(self) -> list[str]:
        """Return the names that its annotations give an image."""
        annotations = self.annotations or {}
        return [annotations[key] for key in _NAMES if key in annotations]

    @property
    def is_attestation(self) -> bool:
        """True for a document about another image of an index."""
        return _ATTESTATION in (self.annotations or {})


class _Manifest(msgspec.Struct, rename="camel"):
    """An index, which has manifests, or the manifest of one image, which has a config."""

    schema_version: int
    manifests: list[_Descriptor] | None = None
    config: _Descriptor | None = None


class _Saved(msgspec.Struct, rename="pascal"):
    config: str
    repo_tags: list[str] | None = None


class _Process(msgspec.Struct, rename="pascal"):
    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    env: list[str] | None = None
    working_dir: str = ""
    user: str = ""
    stop_signal: str = ""


class _Image(msgspec.Struct):
    config: _Process | None = None


class _Layout(msgspec.Struct, rename="camel"):
    image_layout_version: str


_LAYOUT_DECODER = msgspec.json.Decoder(_Layout)
_MANIFEST_DECODER = msgspec.json.Decoder(_Manifest)
_SAVED_DECODER = msgspec.json.Decoder(list[_Saved])
_IMAGE_DECODER = msgspec.json.Decoder(_Image)


class Files(Protocol):
    """The files of a layout or archive."""

    def has(self, name: str) -> bool:
        """Return whether there is a file of a name."""

    def read(self, name: str) -> bytes:
        """Return the contents of a file.

        Raises:
            ImageConfigError: it is missing, no file, too large, or damaged.
        """


class FolderFiles:
    """Files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, name: str) -> bool:
        """Return whether there is a file of a name."""
        return (self._folder / name).is_file()

    def read(self, name: str) -> bytes:
        """Return the contents of a file."""
        path = self._folder / name
        if not path.is_file():
            raise ImageConfigError(f"it has no file {name}")
        _check_size(name, path.stat().st_size)
        try:
            return path.read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ImageConfigError(f"{name} cannot be read: {reason}") from None


class TarFiles:
    """Files of a tar, by their names without `./`."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._members = {posixpath.normpath(member.name): member for member in tar.getmembers()}

    def has(self, name: str) -> bool:
        """Return whether there is a file of a name."""
        return name in self._members and self._members[name].isreg()

    def read(self, name: str) -> bytes:
        """Return the contents of a file."""
        if not self.has(name):
            raise ImageConfigError(f"it has no file {name}")
        member = self._members[name]
        _check_size(name, member.size)
        file = self._tar.extractfile(member)
        data = b"" if file is None else file.read()
        if len(data) != member.size:
            raise ImageConfigError(f"it is damaged: {name} ends early")
        return data


@contextmanager
def open_tar(path: Path) -> Iterator[Files]:
    """Open a tar, compressed or not, for its files.

    Raises:
        ImageConfigError: it is damaged, or compressed in a way that this Python does not know.
    """
    try:
        with tarfile.open(path, "r:*") as tar:
            yield TarFiles(tar)
    except (tarfile.TarError, EOFError, zlib.error, LZMAError, BadGzipFile):
        raise ImageConfigError("it is no tar, or a damaged one") from None


def read_archive(files: Files, target: str) -> ImageConfig:
    """Return the configuration of an image.

    Args:
        files: a layout or an archive; one that is both is read as a layout.
        target: the name of the image, or its tag, if there are several; empty for the only one.

    Raises:
        ImageConfigError: it is neither, damaged, or has no such image, or several.
    """
    if files.has(LAYOUT) and files.has(INDEX):
        return _read_layout(files, target)
    if files.has(MANIFEST):
        return _read_saved(files, target)
    raise ImageConfigError(
        f"it is no OCI layout ({LAYOUT}, {INDEX}) and no docker archive ({MANIFEST})"
    )


def _read_layout(files: Files, target: str) -> ImageConfig:
    version = _decode(LAYOUT, files.read(LAYOUT), _LAYOUT_DECODER).image_layout_version
    if version != "1.0.0":
        raise ImageConfigError(f"{LAYOUT} has the version {version!r}: use a layout of 1.0.0")
    index = _decode(INDEX, files.read(INDEX), _MANIFEST_DECODER)
    images = [each for each in index.manifests or () if not each.is_attestation]
    names = [each.list_names() or [each.digest] for each in images]
    # A platform without names is no choice: that of this machine is taken.
    is_named = len({tuple(sorted(each)) for each in names}) > 1 and any(
        each.list_names() for each in images
    )
    if target or is_named:
        images = [images[number] for number in _find_named(names, target)]
    for _ in range(_MAX_INDEXES):
        if not images:
            raise ImageConfigError("it has no image")
        descriptor = min(images, key=_order_platform)
        manifest = _decode(descriptor.digest, _read_blob(files, descriptor), _MANIFEST_DECODER)
        if manifest.config is not None:
            if manifest.config.media_type not in _CONFIG_TYPES:
                kind = manifest.config.media_type
                raise ImageConfigError(f"it is no image: its configuration is of the type {kind!r}")
            return _read_config(manifest.config.digest, _read_blob(files, manifest.config))
        images = [each for each in manifest.manifests or () if not each.is_attestation]
    raise ImageConfigError(f"it has more than {_MAX_INDEXES} indexes within each other")


def _order_platform(descriptor: _Descriptor) -> int:
    """Return 0 for an image of this machine's platform, and more for those that fit less."""
    found = descriptor.platform
    if found is None:
        return 1
    return int(found.os != "linux") * 2 + int(found.architecture != get_architecture())


def _find_named(names: Sequence[Sequence[str]], target: str) -> list[int]:
    """Return the numbers of the images that a target names.

    Args:
        names: the names of each image.

    Raises:
        ImageConfigError: there is none, or more than one name without a target.
    """
    listed = format_names(dict.fromkeys(name for each in names for name in each))
    if not target:
        raise ImageConfigError(f"it has several images, name one by target: {listed}")
    found = [
        number
        for number, each in enumerate(names)
        if any(name == target or name.endswith((f":{target}", f"/{target}")) for name in each)
    ]
    if not found:
        raise ImageConfigError(f"it has no image {target!r}: the images are {listed}")
    return found


def _read_saved(files: Files, target: str) -> ImageConfig:
    images = _decode(MANIFEST, files.read(MANIFEST), _SAVED_DECODER)
    if not images:
        raise ImageConfigError("it has no image")
    number = 0
    if target or len(images) > 1:
        number = _find_named([image.repo_tags or [image.config] for image in images], target)[0]
    name = posixpath.normpath(images[number].config)
    data = files.read(name)
    match = _SHA256.fullmatch(name)
    if match is not None:
        _check_digest(data, f"sha256:{match[1]}")
    return _read_config(name, data)


def _read_blob(files: Files, descriptor: _Descriptor) -> bytes:
    digest = descriptor.digest
    if not _DIGEST.fullmatch(digest):
        raise ImageConfigError(f"{digest!r} is no digest, as sha256: and 64 digits")
    algorithm, _, value = digest.partition(":")
    data = files.read(f"blobs/{algorithm}/{value}")
    _check_digest(data, digest)
    if len(data) != descriptor.size:
        size = descriptor.size
        raise ImageConfigError(f"it is damaged: {digest} has {len(data)} bytes instead of {size}")
    return data


def _check_digest(data: bytes, digest: str) -> None:
    algorithm = digest.partition(":")[0]
    found = f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"
    if found != digest:
        raise ImageConfigError(f"it is damaged: the blob {digest} has the digest {found}")


def _check_size(name: str, size: int) -> None:
    if size > _MAX_BYTES:
        raise ImageConfigError(
            f"{name} has {size} bytes: no JSON of an image has over {_MAX_BYTES}"
        )


def _decode(name: str, data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ImageConfigError(f"{name} is invalid: {error}") from None


def _read_config(name: str, data: bytes) -> ImageConfig:
    process = _decode(name, data, _IMAGE_DECODER).config or _Process()
    pairs: list[tuple[str, Any, str]] = [text.partition("=") for text in process.env or ()]
    # Source: containerd internal/cri/opts/spec_opts.go, `WithProcessArgs`.
    entrypoint = [] if process.entrypoint == [""] else process.entrypoint
    return ImageConfig(
        tuple(entrypoint or ()),
        tuple(process.cmd or ()),
        {variable: value for variable, _, value in pairs if variable},
        posixpath.join("/", process.working_dir),
        process.user,
        process.stop_signal,
    )
