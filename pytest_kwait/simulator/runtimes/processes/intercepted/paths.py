"""Paths of a container: the places on the machine that they stand for.

A container has the machine's files, with its mounts and its layer on top. The layer is a folder of
the machine with what the container has created or changed. A folder of the machine whose entries
change has a copy there, whose entries are those of the container: the machine's files in it are
placeholders, empty ones of the same kinds. So the kernel itself lists, searches and removes.

A path is resolved component by component, because links of the machine may lead to the container's
parts and back. It is plain if the kernel, which knows nothing of them, comes to the same place.

Source: man 7 path_resolution, symlink; man 5 proc; fs/namei.c.
"""

from __future__ import annotations

import errno
import os
import stat
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.runtimes.processes.intercepted.users import (
    as_user_of,
    read_process_link,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

AT_FDCWD = -100
# Source: include/linux/namei.h, `MAXSYMLINKS`.
_MAX_LINKS = 40
_MAX_KEPT = 4096
_MIN_MOUNT_DEPTH = 2
_DELETED = b" (deleted)"
_PROC = b"/proc/"
_SPECIAL = (b"proc", b"sys", b"dev")
_JUMPS = (b"cwd", b"root", b"exe")
_JUMP_FOLDERS = (b"fd", b"ns", b"map_files")
OWN_FOLDERS: Mapping[str, int] = {
    "/tmp": 0o1777,
    "/run": 0o755,
    "/var/tmp": 0o1777,
    "/var/run": 0o755,
    "/var/log": 0o755,
    "/var/cache": 0o755,
}
"""Folders that each container has for itself, empty at first, with their modes."""


class Mount(NamedTuple):
    """A file or folder of the machine at a path of a container.

    Args:
        target: absolute path in the container; it and its parents may not exist on the machine.
        source: absolute path on the machine.
        read_only: True to refuse changes.
    """

    target: str
    source: str
    read_only: bool = False


class ContainerFiles(NamedTuple):
    """The files that a container has.

    Args:
        upper: folder of its layer, created where it is missing. The layer's state is in a folder
            beside it, with `-state` after its name. Both must be searchable for the users of its
            programs.
        mounts: in any order; they may be below each other.
        copies: files of the machine by the paths of the container's own copies.
        own_folders: folders that are empty at first, with their modes.
        visible: folders of the machine that the container has although they are below its own.
        folders: folders that are created where they are missing.
        hidden: paths that are empty in the container, if it has them: a folder without entries, or
            a file without content.
        read_only_root: whether only mounts can be changed.
        sockets: folder for links of `SocketPaths`; one beside the layer if it is empty.
    """

    upper: str
    mounts: tuple[Mount, ...] = ()
    copies: Mapping[str, str] = MappingProxyType({})
    own_folders: Mapping[str, int] = OWN_FOLDERS
    visible: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    read_only_root: bool = False
    sockets: str = ""


class PathError(OSError):
    """A path that leads nowhere.

    Args:
        number: the errno.
        is_plain: whether the kernel comes to the same end.
    """

    def __init__(self, number: int, *, is_plain: bool = False) -> None:
        super().__init__(number, os.strerror(number))
        self.is_plain = is_plain


class Area:
    """A part of the machine's files from which a container has some.

    Args:
        base: absolute path on the machine; empty for all of it.
        read_only: whether it cannot be changed.
        is_machine: whether changes go to the layer instead.
        is_special: whether its files are the kernel's, which are the machine's for all.
    """

    __slots__ = ("base", "fd", "is_machine", "is_special", "prefix", "read_only")

    def __init__(
        self,
        base: bytes,
        *,
        read_only: bool = False,
        is_machine: bool = False,
        is_special: bool = False,
    ) -> None:
        self.base = base
        self.read_only, self.is_machine, self.is_special = read_only, is_machine, is_special
        self.fd, self.prefix = AT_FDCWD, 0
        if base:
            # Search permission is needed from the base on; of a file, from its folder on.
            start = base if os.path.isdir(base) else os.path.dirname(base)
            self.fd = os.open(start, os.O_PATH | os.O_CLOEXEC)
            self.prefix = len(start.rstrip(b"/")) + 1

    @property
    def is_mount(self) -> bool:
        """True for a mount's source."""
        return bool(self.base) and not self.is_special

    def close(self) -> None:
        """Close its descriptor."""
        if self.fd >= 0:
            os.close(self.fd)


class Layer(Area):
    """The folder of what a container has written outside of its mounts."""

    is_mount = False


class Node:
    """A place of the container of which more is known than its path on the machine tells.

    Args:
        parent: None for the root.
        area: the area of its source.
        source: path on the machine of what it shows; None if all of it is in the layer.
        entries: names of its entries that are still those of the source, if it is a folder that
            has a complete copy in the layer; else None.
        is_target: whether it is a mount's target.
    """

    __slots__ = (
        "area", "children", "copied_at", "entries", "is_target", "name", "parent", "source",
    )  # fmt: skip

    def __init__(
        self,
        parent: Node | None,
        name: bytes,
        area: Area,
        source: bytes | None,
        entries: set[bytes] | None = None,
        *,
        is_target: bool = False,
    ) -> None:
        self.parent, self.name = parent, name
        self.area, self.source, self.entries = area, source, entries
        self.is_target = is_target
        self.copied_at = 0
        """The number of its copy among all copies of folders; 0 without one."""
        self.children: dict[bytes, Node] = {}

    @property
    def path(self) -> bytes:
        """Its path in the container; empty for the root."""
        return b"" if self.parent is None else self.parent.path + b"/" + self.name

    @property
    def has_target(self) -> bool:
        """True if it or something below it is a mount's target."""
        return self.is_target or any(child.has_target for child in self.children.values())

    def has_other(self, name: bytes) -> bool:
        """Return whether an entry is another one than the source's of that name."""
        return name in self.children or (self.entries is not None and name not in self.entries)


class Position(NamedTuple):
    """A path of a container and the place on the machine that it stands for.

    Args:
        path: absolute path in the container; empty for the root.
        host: absolute path on the machine; empty for its root.
        area: the area that it is in.
        node: what else is known of it.
    """

    path: bytes
    host: bytes
    area: Area
    node: Node | None

    @property
    def host_path(self) -> bytes:
        """Absolute path on the machine."""
        return self.host or b"/"

    @property
    def is_plain(self) -> bool:
        """True if the machine has it at the same path."""
        return (
            self.host == self.path and not self.area.is_mount and not isinstance(self.area, Layer)
        )

    @property
    def is_target(self) -> bool:
        """True for a mount's target, and the root."""
        return not self.path or (self.node is not None and self.node.is_target)


class Found(NamedTuple):
    """The place that a path leads to.

    Args:
        folder: the folder that it is in; of the root, itself.
        position: where it is, or would be created.
        status: what `lstat` returns; None if it does not exist.
        is_plain: whether the kernel comes to the same place.
        last: the last component, which may be `.`, `..`, or empty.
        must_be_folder: whether the path ends with a slash.
        is_jump: whether the path ends with a link of /proc that leads to an open file.
        is_nameless: whether that file is of a kind that has no path, or has been removed.
    """

    folder: Position
    position: Position
    status: os.stat_result | None
    is_plain: bool
    last: bytes = b""
    must_be_folder: bool = False
    is_jump: bool = False
    is_nameless: bool = False

    @property
    def is_dots(self) -> bool:
        """True if its last component is no name."""
        return self.last in (b"", b".", b"..")


class Limits(NamedTuple):
    """Limits of a resolution: RESOLVE_ flags of openat2."""

    has_links: bool = True
    has_jumps: bool = True
    is_beneath: bool = False
    is_in_root: bool = False
    has_mounts: bool = True


NO_LIMITS = Limits()


def get_process(thread: int) -> int:
    """Return the process of a thread.

    Raises:
        PathError: ESRCH.
    """
    try:
        with open(f"/proc/{thread}/status", "rb") as file:
            return int(file.read().split(b"\nTgid:", 1)[1].split(None, 1)[0])
    except (OSError, IndexError):
        raise PathError(errno.ESRCH) from None


class Paths:
    """The paths of a container.

    Args:
        layer: the layer's folder.
    """

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.machine = Area(b"", is_machine=True)
        self.special = Area(b"", is_special=True)
        self.root = Node(None, b"", self.machine, b"")
        for name in _SPECIAL:
            self.root.children[name] = Node(self.root, name, self.special, b"/" + name)
        self._mounts: list[tuple[bytes, Node]] = []
        self._moved: dict[bytes, Node] = {}
        # Folders that are plain by their paths, and folders of descriptors.
        self._plain: dict[bytes, Node | None] = {}
        self._starts: dict[bytes, bytes] = {}
        # How many folders had been copied when a process started its program.
        self._copies = 0
        self._starts_of: dict[int, int] = {}

    # -- the tree

    def forget(self) -> None:
        """Forget what has been resolved: the tree has changed."""
        self._plain.clear()
        self._starts.clear()

    def make_node(self, path: bytes) -> Node:
        """Return the node of a path, created with its parents."""
        node = self.root
        for name in path.split(b"/")[1:]:
            child = node.children.get(name)
            if child is None:
                child = Node(node, name, node.area, None, set())
                if node.entries is None or name in node.entries:
                    source = b"" if node.source is None else node.source
                    child.source, child.entries = source + b"/" + name, None
                    if node.entries is not None:
                        node.entries.discard(name)
                node.children[name] = child
            node = child
        return node

    def find_node(self, path: bytes) -> Node | None:
        """Return the node of a path, if it has one."""
        node: Node | None = self.root
        for name in path.split(b"/")[1:]:
            node = node.children.get(name) if node is not None else None
        return node

    def add_mount(self, path: bytes, area: Area) -> None:
        """Put a mount's source at a path."""
        parent = self.make_node(os.path.dirname(path)) if path.count(b"/") > 1 else self.root
        name = path.rpartition(b"/")[2]
        node = Node(parent, name, area, area.base, is_target=True)
        parent.children[name] = node
        self._mounts.append((area.base, node))
        self._mounts.sort(key=lambda mount: -len(mount[0]))
        self.forget()

    def show(self, path: bytes) -> None:
        """Show the machine's folder at a path that would be the container's own."""
        node = self.make_node(path)
        node.source, node.entries = path, None
        self.forget()

    def set_copied(self, path: bytes, source: bytes | None, entries: set[bytes]) -> None:
        """Note that a folder has a complete copy in the layer.

        Args:
            source: the machine's folder; None if all of it is in the layer.
            entries: names of entries that are still the machine's.
        """
        node = self.make_node(path)
        self._copies += 1
        node.source, node.entries, node.copied_at = source, entries, self._copies
        for name in node.children:
            entries.discard(name)
        if source is not None and source != path:
            self._moved[source] = node
        self.forget()

    def set_changed(self, path: bytes) -> None:
        """Note that an entry is the layer's, or has been removed."""
        folder, _, name = path.rpartition(b"/")
        parent = self.find_node(folder)
        if parent is None:
            return
        node = parent.children.pop(name, None)
        if node is not None:
            self._forget_moved(node)
        if parent.entries is not None:
            parent.entries.discard(name)
        self.forget()

    def _forget_moved(self, node: Node) -> None:
        if node.source is not None and self._moved.get(node.source) is node:
            del self._moved[node.source]
        for child in node.children.values():
            self._forget_moved(child)

    def move(self, old: bytes, new: bytes) -> None:
        """Note that an entry of the layer has moved."""
        node = self._take(old)
        self.set_changed(new)
        self._put(new, node)

    def exchange(self, first: bytes, second: bytes) -> None:
        """Note that two entries of the layer have changed places."""
        nodes = self._take(first), self._take(second)
        self._put(second, nodes[0])
        self._put(first, nodes[1])

    def _take(self, path: bytes) -> Node | None:
        folder, _, name = path.rpartition(b"/")
        parent = self.find_node(folder)
        return None if parent is None else parent.children.pop(name, None)

    def _put(self, path: bytes, node: Node | None) -> None:
        if node is not None:
            folder, _, name = path.rpartition(b"/")
            parent = self.make_node(folder)
            node.parent, node.name = parent, name
            parent.children[name] = node
            self._note_moved(node)
        self.forget()

    def _note_moved(self, node: Node) -> None:
        if node.area.is_machine and node.source is not None:
            self._moved[node.source] = node
        for child in node.children.values():
            self._note_moved(child)

    # -- positions

    def get_position(self, node: Node) -> Position:
        """Return where a node is."""
        return self._to_position(node, node.path)

    def _to_position(self, node: Node, path: bytes) -> Position:
        if node.entries is not None or node.source is None:
            return Position(path, self.layer.base + path, self.layer, node)
        return Position(path, node.source, node.area, node)

    def step(self, folder: Position, name: bytes) -> Position:
        """Return where an entry of a folder is, or would be."""
        path = folder.path + b"/" + name
        node = folder.node
        if node is None:
            return Position(path, folder.host + b"/" + name, folder.area, None)
        child = node.children.get(name)
        if child is not None:
            return self._to_position(child, path)
        if node.source is not None and (node.entries is None or name in node.entries):
            return Position(path, node.source + b"/" + name, node.area, None)
        return Position(path, self.layer.base + path, self.layer, None)

    def locate(self, path: bytes) -> list[Position]:
        """Return the positions on the way to a path without links, from the root on."""
        stack = [self._to_position(self.root, b"")]
        for name in path.split(b"/"):
            if name:
                stack.append(self.step(stack[-1], name))
        return stack

    def to_container(self, host: bytes) -> bytes:
        """Return the container's path of an open file or folder; empty for the root.

        Args:
            host: its path on the machine.
        """
        base = self.layer.base
        if host == base or host.startswith(base + b"/"):
            return host[len(base) :]
        host = b"" if host == b"/" else host
        for source, node in self._mounts:
            if host == source or host.startswith(source + b"/"):
                # Most of the machine is rather seen at its own place.
                if source.count(b"/") < _MIN_MOUNT_DEPTH and self.locate(host)[-1].is_plain:
                    break
                return node.path + host[len(source) :]
        if self._moved:
            source, rest = host, b""
            while source:
                moved = self._moved.get(source)
                if moved is not None:
                    return moved.path + rest
                source, _, name = source.rpartition(b"/")
                rest = b"/" + name + rest
        return host

    # -- resolution

    def read_start(self, thread: int, dirfd: int) -> bytes:
        """Return the container's path of a folder that relative paths start at; empty for the root.

        Args:
            dirfd: a descriptor of the program, or `AT_FDCWD`.

        Raises:
            PathError: EBADF, ENOTDIR, or ENOENT for a folder that has been removed.
        """
        link = f"/proc/{thread}/cwd" if dirfd == AT_FDCWD else f"/proc/{thread}/fd/{dirfd}"
        try:
            host = read_process_link(thread, link.encode())
        except OSError:
            raise PathError(errno.EBADF, is_plain=True) from None
        path = self._starts.get(host)
        if path is None:
            if not host.startswith(b"/"):
                raise PathError(errno.ENOTDIR, is_plain=True)
            if host.endswith(_DELETED) and not os.path.lexists(host):
                raise PathError(errno.ENOENT, is_plain=True)
            path = self.to_container(host)
            if len(self._starts) >= _MAX_KEPT:
                self._starts.clear()
            self._starts[host] = path
        return path

    def find_seen_parent(self, thread: int, dirfd: int) -> Position | None:
        """Return the machine's folder above one that a program has opened before it was copied.

        A program that walks a tree, as `rm -r` does, compares the folder that it comes back to with
        the one that it has left: it must not be another one because it was copied in between.

        Returns:
            None if the container's is the same, or has been copied before the program's start.
        """
        try:
            host = read_process_link(thread, b"/proc/%d/fd/%d" % (thread, dirfd))
            path = self.read_start(thread, dirfd)
        except OSError:
            return None
        folder = os.path.dirname(path).rstrip(b"/")
        node = self.find_node(folder) if host == path else None
        if node is None or node.source != folder:
            return None
        if node.copied_at <= self._starts_of.get(get_process(thread), 0):
            return None
        return Position(folder, folder, self.machine, node)

    def note_start(self, thread: int) -> None:
        """Note that a thread's process starts another program, which has opened nothing yet."""
        if len(self._starts_of) >= _MAX_KEPT:
            del self._starts_of[next(iter(self._starts_of))]
        self._starts_of[get_process(thread)] = self._copies

    def is_plain_start(self, thread: int, dirfd: int, path: bytes) -> bool:
        """Return whether the machine has the folder that relative paths start at, at its path."""
        link = f"/proc/{thread}/cwd" if dirfd == AT_FDCWD else f"/proc/{thread}/fd/{dirfd}"
        return read_process_link(thread, link.encode()) == (path or b"/")

    def is_plain(self, thread: int, dirfd: int, path: bytes, *, is_followed: bool) -> bool:
        """Return whether a path is surely plain; False if it has to be resolved to know.

        Args:
            dirfd: a descriptor of the program, or `AT_FDCWD`.
            is_followed: whether a link at its end is followed.
        """
        if not path.startswith(b"/"):
            link = f"/proc/{thread}/cwd" if dirfd == AT_FDCWD else f"/proc/{thread}/fd/{dirfd}"
            try:
                host = read_process_link(thread, link.encode())
            except OSError:
                return True
            start = self._starts.get(host)
            if start is None or (start or b"/") != host:
                return False
            path = start + b"/" + path
        folder, _, name = path.rpartition(b"/")
        if name in (b"", b".", b".."):
            return False
        try:
            node = self._plain[folder]
        except KeyError:
            found = self._find_plain_folder(thread, folder)
            if found is None:
                return False
            node = found.node
            if len(self._plain) >= _MAX_KEPT:
                self._plain.clear()
            self._plain[folder] = node
        if node is not None and node.has_other(name):
            return False
        if is_followed:
            try:
                status = os.lstat(path)
            except OSError:
                return True
            return not stat.S_ISLNK(status.st_mode)
        return True

    def _find_plain_folder(self, thread: int, path: bytes) -> Position | None:
        if path.startswith(_PROC) or path == b"/proc":
            return None
        try:
            found = self.resolve(thread, AT_FDCWD, path + b"/")
        except OSError:
            return None
        position = found.position
        if not found.is_plain or found.status is None or position.path.startswith(_PROC):
            return None
        return position

    def resolve(
        self,
        thread: int,
        dirfd: int,
        path: bytes,
        *,
        is_followed: bool = True,
        is_parent: bool = False,
        limits: Limits = NO_LIMITS,
    ) -> Found:
        """Resolve a path.

        Args:
            thread: the program's thread.
            dirfd: a descriptor of the program, or `AT_FDCWD`.
            is_followed: whether a link at the end is followed.
            is_parent: whether an entry of a folder is asked for: a link is never followed at the
                end, also before a slash.
            limits: what is refused.

        Raises:
            PathError: it leads nowhere. A missing last component is none.
        """
        if not path:
            raise PathError(errno.ENOENT, is_plain=True)
        return _Resolution(self, thread, dirfd, limits).resolve(
            path, is_followed=is_followed, is_parent=is_parent
        )


class _Resolution:
    """One resolution of a path."""

    def __init__(self, paths: Paths, thread: int, dirfd: int, limits: Limits) -> None:
        self._paths, self._thread, self._dirfd, self._limits = paths, thread, dirfd, limits
        self._links = 0
        self._is_plain = True
        # Whether the kernel has got the same names so far: it is at the same place if it has it.
        self._is_direct = True
        self._stack: list[Position] = []
        self._floor = 1

    def resolve(self, path: bytes, *, is_followed: bool, is_parent: bool) -> Found:
        """Return what a path leads to."""
        path = self._start(path)
        pending = self._split(path)
        must_be_folder = path.endswith((b"/", b"/.")) or path == b"."
        last = pending[0] if pending else b""
        while pending:
            name = pending.pop()
            if name == b".":
                continue
            if name == b"..":
                self._go_up()
                continue
            position = self._paths.step(self._stack[-1], name)
            status = self._read_status(position, is_last=not pending)
            if status is None:
                return self._finish(position, None, last, must_be_folder)
            is_last = not pending
            if stat.S_ISLNK(status.st_mode):
                is_end = is_last and (is_parent or (not is_followed and not must_be_folder))
                if is_end:
                    return self._finish(position, status, last, must_be_folder)
                text = self._follow(position)
                if text is None:
                    jumped = self._jump(position, last, is_last=is_last)
                    if jumped is not None:
                        return jumped
                    continue
                if not text:
                    raise self._error(errno.ENOENT)
                if text.startswith(b"/"):
                    self._restart()
                if is_last and text.endswith((b"/", b"/.")):
                    must_be_folder = True
                rest = self._split(text)
                if is_last:
                    last = rest[0] if rest else b""
                pending += rest
                continue
            needs_folder = not is_last or (must_be_folder and not is_parent)
            if needs_folder and not stat.S_ISDIR(status.st_mode):
                is_plain = self._is_plain and position.is_plain
                raise PathError(errno.ENOTDIR, is_plain=is_plain)
            if is_last:
                return self._finish(position, status, last, must_be_folder)
            self._push(position)
        position = self._stack[-1]
        try:
            status = os.lstat(position.host_path)
        except OSError as error:
            raise self._error(error.errno or errno.ENOENT) from None
        folder = self._stack[-2] if len(self._stack) > 1 else position
        is_plain = self._is_plain and position.is_plain
        return Found(folder, position, status, is_plain, last, True)

    @staticmethod
    def _split(path: bytes) -> list[bytes]:
        """Return the components of a path, the first one last."""
        return [name for name in path.split(b"/") if name][::-1]

    def _error(self, number: int) -> PathError:
        return PathError(number, is_plain=self._is_plain)

    def _start(self, path: bytes) -> bytes:
        """Begin at the root or at the folder that a path is relative to; returns the path."""
        paths = self._paths
        if path.startswith(b"/") and not self._limits.is_in_root:
            if self._limits.is_beneath:
                raise self._error(errno.EXDEV)
            self._stack = [paths.get_position(paths.root)]
            return path
        start = paths.read_start(self._thread, self._dirfd)
        self._is_plain = self._is_direct = paths.is_plain_start(self._thread, self._dirfd, start)
        self._stack = paths.locate(start)
        self._floor = len(self._stack)
        if not self._limits.is_beneath and not self._limits.is_in_root:
            self._floor = 1
        folder = self._stack[-1]
        try:
            is_folder = stat.S_ISDIR(os.stat(folder.host_path).st_mode)
        except OSError as error:
            raise self._error(error.errno or errno.ENOENT) from None
        if not is_folder:
            raise self._error(errno.ENOTDIR)
        return path

    def _go_up(self) -> None:
        self._is_direct = self._is_direct and self._is_plain
        if len(self._stack) > self._floor:
            self._check_mount(self._stack.pop(), self._stack[-1])
        elif self._limits.is_beneath:
            raise self._error(errno.EXDEV)

    def _check_mount(self, old: Position, new: Position) -> None:
        is_other = old.area is not new.area and (old.area.is_mount or new.area.is_mount)
        if is_other and not self._limits.has_mounts:
            raise self._error(errno.EXDEV)

    def _push(self, position: Position) -> None:
        self._check_mount(self._stack[-1], position)
        node = position.node
        self._stack.append(position)
        if node is None:
            self._is_plain = self._is_plain and position.is_plain
        elif node.source != position.path or node.area.is_mount:
            self._is_plain = False
        elif self._is_direct and position.is_plain:
            # A folder of the machine below one of the container's own.
            self._is_plain = True

    def _restart(self) -> None:
        if self._limits.is_beneath:
            raise self._error(errno.EXDEV)
        if not self._limits.is_in_root:
            self._check_mount(self._stack[-1], self._stack[0])
        del self._stack[self._floor if self._limits.is_in_root else 1 :]

    def _read_status(self, position: Position, *, is_last: bool) -> os.stat_result | None:
        try:
            return os.lstat(position.host_path)
        except OSError as error:
            if error.errno == errno.ENOENT and is_last:
                return None
            is_plain = self._is_plain and position.is_plain
            raise PathError(error.errno or errno.EIO, is_plain=is_plain) from None

    def _finish(
        self, position: Position, status: os.stat_result | None, last: bytes, must_be_folder: bool
    ) -> Found:
        self._check_mount(self._stack[-1], position)
        is_plain = self._is_plain and position.is_plain
        return Found(self._stack[-1], position, status, is_plain, last, must_be_folder)

    def _follow(self, position: Position) -> bytes | None:
        """Return the text of a link; None for a link of /proc that leads to an open file."""
        self._is_plain = self._is_plain and position.is_plain
        self._is_direct = self._is_direct and self._is_plain
        self._links += 1
        if self._links > _MAX_LINKS or not self._limits.has_links:
            raise self._error(errno.ELOOP)
        if position.area.is_special and position.host.startswith(_PROC):
            if position.host == b"/proc/self":
                return b"%d" % get_process(self._thread)
            if position.host == b"/proc/thread-self":
                return b"%d/task/%d" % (get_process(self._thread), self._thread)
            if is_jump(position.host):
                if not self._limits.has_jumps:
                    raise self._error(errno.ELOOP)
                return None
        try:
            return os.readlink(position.host)
        except OSError as error:
            raise self._error(error.errno or errno.EIO) from None

    def _jump(self, position: Position, last: bytes, *, is_last: bool) -> Found | None:
        """Go to the file that a link of /proc leads to; returns it if the path ends there."""
        try:
            host = read_process_link(self._thread, position.host)
        except OSError as error:
            raise self._error(error.errno or errno.EIO) from None
        is_removed = host.endswith(_DELETED) and not os.path.lexists(host)
        if is_removed or not host.startswith(b"/"):
            if not is_last:
                raise self._error(errno.ENOENT if is_removed else errno.ENOTDIR)
            with as_user_of(self._thread):
                status = os.stat(position.host)
            folder = self._stack[-1]
            return Found(
                folder, position, status, self._is_plain, last, is_jump=True, is_nameless=True
            )
        if position.host.endswith(b"/root"):
            host = b"/"
        path = self._paths.to_container(host)
        stack = self._paths.locate(path)
        if not is_last:
            self._stack = stack
            is_same = stack[-1].is_plain and host == stack[-1].host_path
            self._is_plain = self._is_plain and is_same
            return None
        try:
            with as_user_of(self._thread):
                status = os.stat(position.host)
        except OSError as error:
            raise self._error(error.errno or errno.EIO) from None
        folder, position = stack[-2] if len(stack) > 1 else stack[0], stack[-1]
        # The container may have removed it meanwhile, or have got it from outside.
        is_nameless = not os.path.lexists(position.host_path)
        is_plain = self._is_plain and position.host_path == host
        return Found(
            folder, position, status, is_plain, last, is_jump=True, is_nameless=is_nameless
        )


def is_jump(host: bytes) -> bool:
    """Return whether a path of /proc is that of a link to an open file or folder."""
    parts = host.split(b"/")[2:]
    if len(parts) > 2 and parts[1] == b"task":
        del parts[1:3]
    if len(parts) == 2:
        return parts[1] in _JUMPS
    return len(parts) == 3 and parts[1] in _JUMP_FOLDERS
