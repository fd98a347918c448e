"""Folders of the machine within a simulated file system: volumes shared with real programs."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.files import (
    EROFS,
    Device,
    Directory,
    File,
    FileSystemError,
    Inode,
    Symlink,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class HostFile(File):
    """A file of the machine; every access reads or writes it."""

    __slots__ = ("path",)

    def __init__(self, path: Path, mode: int, mtime: float) -> None:
        self.path = path
        Inode.__init__(self, mode, mtime)

    @property
    def data(self) -> bytearray:
        """The contents."""
        try:
            return bytearray(self.path.read_bytes())
        except OSError as error:
            raise _to_file_system_error(error) from None

    @data.setter
    def data(self, data: bytearray) -> None:
        try:
            self.path.write_bytes(data)
        except OSError as error:
            raise _to_file_system_error(error) from None

    def write_at(self, position: int, data: bytes) -> None:
        """Write into the file."""
        try:
            with self.path.open("r+b") as file:
                file.seek(position)
                file.write(data)
        except OSError as error:
            raise _to_file_system_error(error) from None


class HostEntries(MutableMapping[str, Inode]):
    """The entries of a folder of the machine.

    Args:
        path: the folder.
    """

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def __getitem__(self, name: str) -> Inode:
        path = self.path / name
        try:
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                return Symlink(str(path.readlink()))
        except OSError:
            raise KeyError(name) from None
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            return Directory(HostEntries(path), mode, status.st_mtime, owned=True)
        if stat.S_ISREG(status.st_mode):
            return HostFile(path, mode, status.st_mtime)
        return Device("null")

    def __setitem__(self, name: str, node: Inode) -> None:
        path = self.path / name
        try:
            _write(path, node)
        except OSError as error:
            raise _to_file_system_error(error) from None

    def __delitem__(self, name: str) -> None:
        path = self.path / name
        try:
            _remove(path)
        except OSError as error:
            raise _to_file_system_error(error) from None

    def __iter__(self) -> Iterator[str]:
        try:
            return iter(sorted(os.listdir(self.path)))  # noqa: PTH208 - names alone
        except OSError:
            return iter(())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def setdefault(self, name: str, default: Inode | None = None) -> Inode:
        """Return an entry, created if it is missing."""
        if name not in self and default is not None:
            self[name] = default
        return self[name]


def _to_file_system_error(error: OSError) -> FileSystemError:
    return FileSystemError(error.strerror or str(error))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _write(path: Path, node: Inode) -> None:
    if isinstance(node, Device):
        return
    if isinstance(node, Directory):
        children = dict(node.entries)
        path.mkdir(exist_ok=True)
        for name, child in children.items():
            _write(path / name, child)
    else:
        data = bytes(node.data) if isinstance(node, File) else b""
        with suppress(FileNotFoundError):
            _remove(path)
        if isinstance(node, Symlink):
            path.symlink_to(node.target)
            return
        path.write_bytes(data)
    path.chmod(node.mode)


class _ReadOnlyFile(HostFile):
    """A file of the machine that cannot be written."""

    __slots__ = ()

    @property
    def data(self) -> bytearray:
        return super().data

    @data.setter
    def data(self, data: bytearray) -> None:
        raise FileSystemError(EROFS)

    def write_at(self, position: int, data: bytes) -> None:
        raise FileSystemError(EROFS)


def make_read_only_copy(path: Path) -> Inode:
    """Return a file or folder of the machine as it is now; nothing can be written to it."""
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    if not path.is_dir():
        return _ReadOnlyFile(path, mode, status.st_mtime)
    folder = Directory(mode=mode, mtime=status.st_mtime, read_only=True)
    for name in sorted(os.listdir(path)):  # noqa: PTH208 - names alone
        with suppress(OSError):  # a dangling link, or a file without rights
            folder.entries[name] = make_read_only_copy(path / name)
    return folder


def move_to_disk(folder: Directory, path: Path) -> Path:
    """Move the contents of a folder to a folder of the machine; return its path.

    The folder and those in it stay the same objects, which containers may have mounted.

    Args:
        path: the folder to create; ignored if the contents are on disk already.
    """
    entries = folder.entries
    if isinstance(entries, HostEntries):
        return entries.path
    path.mkdir(parents=True, exist_ok=True)
    for name, node in entries.items():
        if isinstance(node, Directory):
            move_to_disk(node, path / name)
        else:
            _write(path / name, node)
    path.chmod(folder.mode)
    folder.set_entries(HostEntries(path))
    return path
