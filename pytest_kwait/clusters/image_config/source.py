"""Sources of an image's configuration: a file or folder of any of the forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.clusters.image_config.archives import (
    LAYOUT,
    FolderFiles,
    open_tar,
    read_archive,
)
from pytest_kwait.clusters.image_config.config import ImageConfig, ImageConfigError
from pytest_kwait.clusters.image_config.dockerfile import read_dockerfile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FILES = ("Dockerfile", "Containerfile")
_TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst")
_HEAD_BYTES = 1 << 10
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
_MAX_DOCKERFILE = 1 << 20


def read_image_config(path: Path, target: str, build_args: Mapping[str, str]) -> ImageConfig:
    """Return what an image says of its program.

    Args:
        path: a Dockerfile, a folder with one, an OCI layout as folder or tar, or a docker archive.
        target: the stage of a Dockerfile, or the name of one of several images.
        build_args: values of the `ARG`s of a Dockerfile.

    Raises:
        ImageConfigError: it is none of these, damaged, or has no such image; or the values are of
            no use.
    """
    try:
        if path.is_dir() and not (path / LAYOUT).exists():
            path = _find_dockerfile(path)
        if path.is_file() and not _is_tar(path):
            return read_dockerfile(_read_text(path), target, build_args)
        if not path.exists():
            raise ImageConfigError("it does not exist")
        if not path.is_dir() and not path.is_file():
            raise ImageConfigError("it is neither a file nor a folder")
        if build_args:
            raise ImageConfigError("build_args are those of a Dockerfile, and it is built already")
        if path.is_dir():
            return read_archive(FolderFiles(path), target)
        with open_tar(path) as files:
            return read_archive(files, target)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ImageConfigError(f"it cannot be read: {reason}") from None


def _find_dockerfile(folder: Path) -> Path:
    for name in _FILES:
        if (folder / name).is_file():
            return folder / name
    raise ImageConfigError(f"the folder has none of {', '.join(_FILES)}, {LAYOUT}")


def _is_tar(path: Path) -> bool:
    """Return whether a file is a tar or was one, by its name and its first bytes."""
    if path.name.lower().endswith(_TAR_ENDINGS):
        return True
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return b"\0" in head or head.startswith(_COMPRESSED)


def _read_text(path: Path) -> str:
    if path.stat().st_size > _MAX_DOCKERFILE:
        raise ImageConfigError(f"it is no Dockerfile: it has over {_MAX_DOCKERFILE} bytes")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ImageConfigError("it is no Dockerfile: its text is no UTF-8") from None
