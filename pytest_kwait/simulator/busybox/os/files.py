"""The file system of a container, with the volumes mounted into it."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, MutableMapping


_MAX_SYMLINKS = 20
ENOENT = "No such file or directory"
ENOTDIR = "Not a directory"
EISDIR = "Is a directory"
EROFS = "Read-only file system"
ENAMETOOLONG = "File name too long"
_MAX_PATH = 4095
_MAX_NAME = 255
ENOSPC = "No space left on device"
_BLOCK_SIZE = 4096
# The overhead of a file or folder in bytes.
_INODE_SIZE = 512
# Folders that are not on disk.
_VIRTUAL_DIRECTORIES = ("dev", "proc", "sys")


class StorageQuota:
    """A limit on the bytes of a place for files.

    Args:
        limit: the limit in bytes.
        used: counts the bytes in use.
    """

    __slots__ = ("_checked", "_grown", "_used", "limit")

    def __init__(self, limit: int, used: Callable[[], int]) -> None:
        self.limit = limit
        self._used = used
        self._checked = 0
        self._grown = 0

    def reserve(self, grown: int) -> bool:
        """Reserve `grown` bytes; False if they exceed the limit."""
        if not self.is_within(self.limit - grown):
            return False
        self._grown += grown
        return True

    def is_within(self, most: int) -> bool:
        """Return whether at most `most` bytes are in use."""
        if self._checked + self._grown > most:
            # Removed files show only in a new count.
            self._checked, self._grown = self._used(), 0
        return self._checked + self._grown <= most


class FileSystemError(Exception):
    """An error of a path, in the system's words."""


class Inode:
    """A file, folder, link or device."""

    __slots__ = ("mode", "mtime")

    def __init__(self, mode: int, mtime: float = 0.0) -> None:
        self.mode = mode
        self.mtime = mtime


class File(Inode):
    """A regular file."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes = b"", mode: int = 0o644, mtime: float = 0.0) -> None:
        super().__init__(mode, mtime)
        self._data = bytearray(data)

    @property
    def data(self) -> bytearray:
        """The contents."""
        return self._data

    @data.setter
    def data(self, data: bytearray) -> None:
        self._data = data

    def write_at(self, position: int, data: bytes) -> None:
        """Write into the file; the position is at most its length."""
        self.data[position : position + len(data)] = data


class GeneratedFile(File):
    """A read-only file whose content is made by each access, as in `/proc`.

    Args:
        read: returns the content without its line end.
    """

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read
        super().__init__(mode=0o444)

    @property
    def data(self) -> bytearray:
        """The contents."""
        return bytearray(f"{self._read()}\n".encode())

    @data.setter
    def data(self, data: bytearray) -> None:
        raise FileSystemError(EROFS)

    def write_at(self, position: int, data: bytes) -> None:
        """Refuse to write."""
        raise FileSystemError(EROFS)


class Directory(Inode):
    """A folder.

    Args:
        entries: its initial entries, copied before the first change unless `owned`.
        quota: of a volume in memory; None elsewhere.
        owned: whether changes go to `entries` itself.
    """

    __slots__ = ("_own", "entries", "quota", "read_only")

    def __init__(
        self,
        entries: MutableMapping[str, Inode] | None = None,
        mode: int = 0o755,
        mtime: float = 0.0,
        *,
        quota: StorageQuota | None = None,
        read_only: bool = False,
        owned: bool = False,
    ) -> None:
        super().__init__(mode, mtime)
        self._own = owned or entries is None
        self.entries: MutableMapping[str, Inode] = {} if entries is None else entries
        self.quota = quota
        self.read_only = read_only

    def writable_entries(self) -> MutableMapping[str, Inode]:
        """Return the entries to change them."""
        if not self._own:
            self.entries = dict(self.entries)
            self._own = True
        return self.entries

    def set_entries(self, entries: MutableMapping[str, Inode]) -> None:
        """Replace the entries by those of another place."""
        self.entries, self._own = entries, True


class Symlink(Inode):
    """A symbolic link."""

    __slots__ = ("target",)

    def __init__(self, target: str) -> None:
        super().__init__(0o777)
        self.target = target


class Device(Inode):
    """A device such as `/dev/null`."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        super().__init__(0o666)
        self.kind = kind


class FileSystem:
    """A file tree, built on first use.

    Args:
        now: returns seconds since the epoch.
        root: makes the files of the image.
    """

    def __init__(self, now: Callable[[], float], root: Callable[[], Directory] = Directory) -> None:
        self._now = now
        self._make = root
        self.reserve_bytes: Callable[[int, StorageQuota | None], bool] | None = None
        """Reserves bytes, in a volume's quota or on the disk; False if they do not fit."""
        self.assumes_folders = False
        """True if missing folders are created for files that are written into them.

        The folders of images other than busybox are unknown.
        """
        self._root: Directory | None = None
        self._mounts: list[tuple[str, Callable[[], Inode | None]]] = []
        self._mounted: list[tuple[str, Inode]] = []
        self._protected: list[str] = []

    @property
    def root(self) -> Directory:
        """The root folder."""
        if self._root is None:
            self._root = self._make()
            for path, node in self._mounts:
                mounted = node()
                if mounted is not None:
                    self.put(path, mounted)
                    self._mounted.append((path.rstrip("/"), mounted))
            mounted_nodes = {id(mounted_node) for _, mounted_node in self._mounted}
            for path in self._protected:
                mount_point = self.find(path)
                if isinstance(mount_point, Directory):
                    _protect(mount_point, mounted_nodes, is_root=mount_point is self._root)
        return self._root

    def protect(self, path: str) -> None:
        """Make a folder read-only, except what is mounted in it, and `/dev` and `/proc`."""
        self._protected.append(path)

    def mount(self, path: str, node: Callable[[], Inode | None]) -> None:
        """Mount `node` at `path` once the tree is built."""
        self._mounts.append((path, node))

    def is_untouched(self, path: str) -> bool:
        """Return whether a path is as in the image: no file was used, nothing is mounted near it.

        It looks at the first folder of the path alone, so False may also mean that a mount is
        elsewhere in that folder.
        """
        if self._root is not None:
            return False
        folder = _get_first_name(path)
        return all(_get_first_name(place) != folder for place, _ in self._mounts)

    def list_mounts(self) -> list[tuple[str, Inode]]:
        """Return the mounted files and folders with their paths."""
        assert self.root is not None  # noqa: S101 - built by the look-up
        return list(self._mounted)

    def find_quota(self, path: str) -> StorageQuota | None:
        """Return the quota of the volume that a path is in; None without one."""
        for place, node in self._mounted:
            if (
                isinstance(node, Directory)
                and node.quota is not None
                and path.startswith(f"{place}/")
            ):
                return node.quota
        return None

    def reserve(self, size: int = _INODE_SIZE, path: str = "") -> None:
        """Reserve bytes at a path, or for a new inode.

        Raises:
            FileSystemError: no space is left.
        """
        if self.reserve_bytes is not None and not self.reserve_bytes(
            size, self.find_quota(path) if path else None
        ):
            raise FileSystemError(ENOSPC)

    # -- paths

    @staticmethod
    def join_path(folder: str, path: str) -> str:
        """Return the absolute path without `.` and `..`; a trailing `/` stays.

        One that is too long stays as it is; it cannot be opened.
        """
        whole = path if path.startswith("/") else f"{folder}/{path}"
        if len(whole) > _MAX_PATH:
            return whole
        pieces: list[str] = []
        for piece in whole.split("/"):
            if piece == "..":
                if pieces:
                    pieces.pop()
            elif piece not in ("", "."):
                pieces.append(piece)
        end = "/" if pieces and whole.endswith("/") else ""
        return "/" + "/".join(pieces) + end

    def _walk(self, path: str, *, follow: bool, links: int = 0) -> tuple[Directory | None, Inode]:
        """Return the folder of a node, and the node.

        Raises:
            FileSystemError: it does not exist.
        """
        if len(path) > _MAX_PATH:
            raise FileSystemError(ENAMETOOLONG)
        parent: Directory | None = None
        node: Inode = self.root
        pieces = [piece for piece in path.split("/") if piece]
        for index, piece in enumerate(pieces):
            if not isinstance(node, Directory):
                raise FileSystemError(ENOTDIR)
            if len(piece) > _MAX_NAME:
                raise FileSystemError(ENAMETOOLONG)
            parent, child = node, node.entries.get(piece)
            if child is None:
                raise FileSystemError(ENOENT)
            last = index == len(pieces) - 1
            if isinstance(child, Symlink) and (follow or not last or path.endswith("/")):
                if links >= _MAX_SYMLINKS:
                    raise FileSystemError("Too many levels of symbolic links")
                here = "/" + "/".join(pieces[:index])
                rest = "/".join(pieces[index + 1 :])
                target = self.join_path(here, f"{child.target}/{rest}" if rest else child.target)
                return self._walk(target, follow=follow, links=links + 1)
            node = child
        if path.endswith("/") and not isinstance(node, Directory):
            raise FileSystemError(ENOTDIR)
        return parent, node

    def get_node(self, path: str, *, follow: bool = True) -> Inode:
        """Return the node at an absolute path.

        Raises:
            FileSystemError: it does not exist.
        """
        return self._walk(path, follow=follow)[1]

    def find(self, path: str, *, follow: bool = True) -> Inode | None:
        """Return the node at an absolute path; None if it does not exist."""
        try:
            return self.get_node(path, follow=follow)
        except FileSystemError:
            return None

    def list_names(self, path: str) -> Iterable[str] | None:
        """Return the names in a folder; None if it does not exist."""
        folder = self.find(path)
        return list(folder.entries) if isinstance(folder, Directory) else None

    def get_parent(self, path: str) -> tuple[Directory, str]:
        """Return the writable folder of a path, and the name in it.

        Raises:
            FileSystemError: the folder does not exist or is read-only.
        """
        if len(path) > _MAX_PATH:
            raise FileSystemError(ENAMETOOLONG)
        folder, _, name = path.rstrip("/").rpartition("/")
        if len(name) > _MAX_NAME:
            raise FileSystemError(ENAMETOOLONG)
        if self.assumes_folders and self.find(folder or "/", follow=False) is None:
            self.make_directory(folder, parents=True)
        node = self.get_node(folder or "/")
        if not isinstance(node, Directory):
            raise FileSystemError(ENOTDIR)
        if node.read_only:
            raise FileSystemError(EROFS)
        return node, name

    # -- contents

    def read(self, path: str) -> bytes | None:
        """Return the contents of a file; None if it does not exist."""
        node = self.find(path)
        return bytes(node.data) if isinstance(node, File) else None

    def open(self, path: str, *, create: bool = True, truncate: bool = False) -> Inode:
        """Return the file or device at a path, created if missing.

        Raises:
            FileSystemError: it cannot be opened.
        """
        try:
            parent, node = self._walk(path, follow=True)
        except FileSystemError as fault:
            if not create or str(fault) != ENOENT:
                raise
            link = self.find(path, follow=False)
            if isinstance(link, Symlink):
                path = self.join_path(path.rpartition("/")[0], link.target)
            folder, name = self.get_parent(path)
            self.reserve()
            entries = folder.writable_entries()
            entries[name] = File(mtime=self._now())
            # A folder of the machine has a file of its own.
            return entries[name]
        if isinstance(node, Directory):
            raise FileSystemError(EISDIR)
        if parent is not None and parent.read_only and (truncate or create):
            raise FileSystemError(EROFS)
        if truncate and isinstance(node, File):
            node.data = bytearray()
            node.mtime = self._now()
        return node

    def write(self, path: str, data: bytes) -> None:
        """Replace the contents of a file.

        Raises:
            FileSystemError: it cannot be written.
        """
        node = self.open(path, truncate=True)
        if isinstance(node, File):
            self.reserve(len(data), path)
            node.data += data

    def make_directory(self, path: str, *, parents: bool = False) -> None:
        """Create a folder.

        Raises:
            FileSystemError: it cannot be created.
        """
        if parents:
            path = path.rstrip("/")
            ends = [match.start() for match in re.finditer("/", path) if match.start()]
            ends.append(len(path))
            first = bisect_left(ends, True, key=lambda end: self.find(path[:end]) is None)
            if first < len(ends):
                self._make_directories(path, ends[first:])
                return
            if isinstance(self.find(path), Directory):
                return
        if self.find(path, follow=False) is not None:
            raise FileSystemError("File exists")
        folder_node, name = self.get_parent(path)
        self.reserve()
        folder_node.writable_entries()[name] = Directory(mtime=self._now())

    def _make_directories(self, path: str, ends: list[int]) -> None:
        """Create the folders of a path that end at the given positions, from the first on."""
        folder, name = self.get_parent(path[: ends[0]])
        for end, next_end in zip(ends, [*ends[1:], None], strict=True):
            if len(name) > _MAX_NAME:
                raise FileSystemError(ENAMETOOLONG)
            self.reserve()
            entries = folder.writable_entries()
            entries[name] = Directory(mtime=self._now())
            # A folder of the machine has a folder of its own.
            made = entries[name]
            if next_end is not None and isinstance(made, Directory):
                folder, name = made, path[end + 1 : next_end]

    def put(self, path: str, node: Inode) -> None:
        """Put a node at a path; missing folders are created."""
        if path.strip("/") == "":
            return
        folder = path.rstrip("/").rpartition("/")[0]
        if folder and self.find(folder) is None:
            self.make_directory(folder, parents=True)
        where = self.get_node(folder or "/")
        if isinstance(where, Directory):
            where.writable_entries()[path.rstrip("/").rpartition("/")[2]] = node

    def remove(self, path: str) -> None:
        """Remove a node with everything in it.

        Raises:
            FileSystemError: it cannot be removed.
        """
        self.get_node(path.rstrip("/"), follow=False)
        folder, name = self.get_parent(path)
        if not name:
            raise FileSystemError("Device or resource busy")
        node = folder.entries[name]
        if isinstance(node, Directory) and any(p == path.rstrip("/") for p, _ in self._mounts):
            raise FileSystemError("Device or resource busy")
        del folder.writable_entries()[name]

    def measure_memory(self, counted_files: set[int]) -> int:
        """Return the bytes of memory of all files; see `get_stored_size`."""
        return 0 if self._root is None else get_stored_size(self._root, counted_files)

    def close(self) -> None:
        """Drop all files."""
        self._root, self._make, self._mounts, self._mounted = None, Directory, [], []

    def measure_disk(self) -> int:
        """Return the bytes on disk that were written outside volumes."""
        if self._root is None:
            return 0
        apart = {id(node) for _, node in self._mounted}
        apart.update(id(self._root.entries.get(name)) for name in _VIRTUAL_DIRECTORIES)
        return get_disk_usage(self._root, apart, image=True)


def _get_first_name(path: str) -> str:
    return path.lstrip("/").partition("/")[0]


def _protect(folder: Directory, apart: Container[int], *, is_root: bool = False) -> None:
    """Make a folder read-only with those in it.

    Args:
        apart: identities of nodes that stay as they are.
        is_root: whether it is the root of a file system.
    """
    folder.read_only = True
    folders = [
        node
        for name, node in folder.entries.items()
        if not (is_root and name in _VIRTUAL_DIRECTORIES)
    ]
    while folders:
        node = folders.pop()
        if isinstance(node, Directory) and id(node) not in apart:
            node.read_only = True
            folders += node.entries.values()


def get_stored_size(folder: Directory, counted: set[int]) -> int:
    """Return the bytes of memory that a folder takes.

    Args:
        counted: identities of folders that were counted already; updated.
    """
    total = 0
    folders = [folder]
    while folders:
        entries = folders.pop().entries
        # Read-only mounts share their entries; a folder of the machine has no dictionary.
        if not isinstance(entries, dict) or id(entries) in counted:
            continue
        counted.add(id(entries))
        total += _INODE_SIZE * len(entries)
        for node in entries.values():
            if isinstance(node, Directory):
                folders.append(node)
            elif isinstance(node, File):
                total += len(node.data)
    return total


def get_disk_usage(folder: Directory, apart: Container[int] = (), *, image: bool = False) -> int:
    """Return the bytes on disk, in whole blocks, of the files in a folder.

    Args:
        apart: identities of nodes that are not counted.
        image: whether files without a time belong to the image and are not counted.
    """
    total = 0
    nodes = [*folder.entries.values()]
    while nodes:
        node = nodes.pop()
        if id(node) in apart:
            continue
        if isinstance(node, Directory):
            nodes += node.entries.values()
        elif isinstance(node, File) and (node.mtime or not image):
            total += -(-len(node.data) // _BLOCK_SIZE) * _BLOCK_SIZE
    return total
