"""The layer of a container: what it has created, changed or removed outside of its mounts.

The layer is a folder with the container's paths below it. Before an entry of a machine's folder is
changed, the folder is copied: the copy has the entries of the container, and an empty placeholder
for each one that is still the machine's. The kernel performs the call there, checks rights, kinds
and emptiness, and lists what a program is to see.

A journal beside the layer tells all interceptors of a container, its own and those of exec
sessions, which folders are copies and which of their entries are placeholders.

Source: Documentation/filesystems/overlayfs.rst.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import shutil
import stat
import struct
from typing import TYPE_CHECKING

from pytest_kwait.simulator.runtimes.processes.intercepted.paths import (
    AT_FDCWD,
    Area,
    ContainerFiles,
    Layer,
    PathError,
    Paths,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.runtimes.processes.intercepted.paths import Mount, Position

_LENGTH = struct.Struct("=Q")
_RECORD_LENGTH = struct.Struct("=I")
_HEADER_BYTES = 4096
_COPY_BYTES = 1 << 20
_STATE_MODE, _UMASK = 0o711, 0o022


class ContainerLayer:
    """The layer of a container, with its paths.

    Args:
        files: the same for all interceptors of a container.
    """

    def __init__(self, files: ContainerFiles) -> None:
        upper = os.fsencode(os.path.abspath(files.upper))
        upper = os.path.join(os.path.realpath(os.path.dirname(upper)), os.path.basename(upper))
        self.state = upper + b"-state"
        self._work = self.state + b"/work"
        for folder in (upper, self.state, self._work):
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, _STATE_MODE if folder != upper else 0o755)
        self._journal = os.open(self.state + b"/journal", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        self._is_locked = False
        self._read_only = files.read_only_root
        self.paths = Paths(Layer(upper, read_only=files.read_only_root))
        self._is_any_user = not os.geteuid()
        self._areas = [
            Area(os.path.realpath(os.fsencode(mount.source)), read_only=mount.read_only)
            for mount in files.mounts
        ]
        self._hiding = len(self._areas)
        self._areas += [Area(path, read_only=True) for path in self._make_hiding()]
        self._done = 0
        with self._lock():
            if os.fstat(self._journal).st_size < _HEADER_BYTES:
                os.ftruncate(self._journal, _HEADER_BYTES)
            self._header = mmap.mmap(self._journal, _HEADER_BYTES)
            self.synchronize()
            if not self._done:
                self._create(files)

    def _make_hiding(self) -> tuple[bytes, bytes]:
        """Make the empty folder and the empty file that cover what is hidden."""
        folder, file = self.state + b"/hidden/folder", self.state + b"/hidden/file"
        os.makedirs(folder, exist_ok=True)
        os.chmod(os.path.dirname(folder), _STATE_MODE)
        os.chmod(folder, 0o555)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o444))
        return folder, file

    def close(self) -> None:
        """Close descriptors; the files stay."""
        self._header.close()
        os.close(self._journal)
        for area in [self.paths.layer, *self._areas]:
            area.close()

    # -- the journal

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Keep other interceptors from changing the layer, and know what they have changed."""
        if self._is_locked:
            yield
            return
        fcntl.flock(self._journal, fcntl.LOCK_EX)
        self._is_locked = True
        umask = os.umask(_UMASK)
        try:
            yield
        finally:
            os.umask(umask)
            self._is_locked = False
            fcntl.flock(self._journal, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """Change the layer: other interceptors wait."""
        with self._lock():
            self.synchronize()
            yield

    def synchronize(self) -> None:
        """Note what other interceptors have changed."""
        (length,) = _LENGTH.unpack_from(self._header)
        while self._done < length:
            start = _HEADER_BYTES + self._done
            (size,) = _RECORD_LENGTH.unpack(os.pread(self._journal, _RECORD_LENGTH.size, start))
            record = os.pread(self._journal, size, start + _RECORD_LENGTH.size)
            self._done += _RECORD_LENGTH.size + size
            self._apply(record.split(b"\0"))

    def _record(self, *fields: bytes) -> None:
        payload = b"\0".join(fields)
        record = _RECORD_LENGTH.pack(len(payload)) + payload
        os.pwrite(self._journal, record, _HEADER_BYTES + self._done)
        self._done += len(record)
        _LENGTH.pack_into(self._header, 0, self._done)
        self._apply(list(fields))

    def _apply(self, fields: list[bytes]) -> None:
        paths = self.paths
        kind, path = fields[:2]
        if kind == b"copy":
            paths.set_copied(path, fields[2], set(fields[3:]))
        elif kind == b"own":
            paths.set_copied(path, None, set())
        elif kind == b"show":
            paths.show(path)
        elif kind == b"mount":
            paths.add_mount(path, self._areas[int(fields[2])])
        elif kind == b"change":
            paths.set_changed(path)
        elif kind == b"move":
            paths.move(path, fields[2])
        elif kind == b"exchange":
            paths.exchange(path, fields[2])

    # -- the start

    def _create(self, files: ContainerFiles) -> None:
        self._record(b"start", b"")
        for path, mode in self._list_own(files):
            self._make_own(path, mode)
        for shown in _list_shown(files):
            self._show(shown)
        for number, mount in sorted(
            enumerate(files.mounts), key=lambda item: _normalize(item[1].target).count(b"/")
        ):
            self._add_mount(number, mount)
        for target, source in files.copies.items():
            self._copy_file(_normalize(target), source)
        for folder in files.folders:
            # Where one cannot be, the program that needs it has the reason.
            with contextlib.suppress(PathError):
                self._make_missing(self._resolve_target(_normalize(folder)), is_folder=True)
        for hidden in files.hidden:
            self._hide(_normalize(hidden))

    def _list_own(self, files: ContainerFiles) -> Iterator[tuple[bytes, int]]:
        for name in sorted(os.listdir(b"/")):
            path = b"/" + name
            if os.path.isdir(path) and not os.path.islink(path) and not os.access(path, os.R_OK):
                yield path, 0o755
        for own, mode in sorted(files.own_folders.items()):
            path = _normalize(own)
            is_top = path.count(b"/") == 1
            if os.path.isdir(path) or (is_top and not os.path.lexists(path)):
                yield path, mode

    def _make_own(self, path: bytes, mode: int) -> None:
        position = self.paths.locate(path)[-1]
        if os.path.realpath(path) != path or not position.area.is_machine:
            return
        parent = os.path.dirname(path).rstrip(b"/")
        if os.path.lexists(path):
            self._make_folders(parent)
        else:
            self.copy_folder(self.paths.locate(parent)[-1])
        host = self.paths.layer.base + path
        os.makedirs(host, exist_ok=True)
        os.chmod(host, mode)
        self._record(b"own", path)

    def _show(self, folder: bytes) -> None:
        """Show a folder of the machine that would be in a folder of the container's own."""
        real = os.path.realpath(folder)
        if not self.paths.locate(real)[-1].is_plain:
            self._make_missing(real, is_folder=True)
            self._record(b"show", real)
        link = os.path.normpath(folder)
        if link != real:
            try:
                found = self.paths.resolve(os.getpid(), AT_FDCWD, os.path.dirname(link) + b"/")
            except PathError:
                self._make_missing(os.path.dirname(link), is_folder=True)
                found = self.paths.resolve(os.getpid(), AT_FDCWD, os.path.dirname(link) + b"/")
            position = self.paths.step(found.position, os.path.basename(link))
            if isinstance(position.area, Layer) and not os.path.lexists(position.host):
                os.symlink(real, position.host)

    def _add_mount(self, number: int, mount: Mount) -> None:
        area = self._areas[number]
        is_folder = os.path.isdir(area.base)
        target = self._resolve_target(_normalize(mount.target))
        self._make_missing(target, is_folder=is_folder)
        self._record(b"mount", target, b"%d" % number)

    def _copy_file(self, target: bytes, source: str) -> None:
        """Create a copy of a file of the machine."""
        target = self._resolve_target(target)
        self._make_missing(target, is_folder=False)
        position = self.copy_entry(self.paths.locate(target)[-1], is_emptied=True)
        shutil.copyfile(source, position.host)
        shutil.copymode(source, position.host)

    def _resolve_target(self, target: bytes) -> bytes:
        """Return the path of a target without links, of which some parents may be missing."""
        rest: list[bytes] = []
        while target != b"/":
            try:
                found = self.paths.resolve(os.getpid(), AT_FDCWD, target)
            except PathError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    raise
                target, _, name = target.rpartition(b"/")
                target = target or b"/"
                rest.append(name)
            else:
                return b"/".join([found.position.path, *reversed(rest)])
        return b"/".join([b"", *reversed(rest)])

    def _make_missing(self, path: bytes, *, is_folder: bool) -> None:
        """Create what is missing for a mount's target: a folder, or a file."""
        names = path.split(b"/")[1:]
        for number in range(len(names)):
            folder, position = self.paths.locate(b"/" + b"/".join(names[: number + 1]))[-2:]
            if os.path.lexists(position.host) or position.area.is_special:
                continue
            if position.area.is_mount and position.area.read_only:
                continue
            position = self.paths.step(self.copy_folder(folder), names[number])
            # A mount's source may be one that cannot be written to.
            with contextlib.suppress(OSError):
                if number < len(names) - 1 or is_folder:
                    os.mkdir(position.host)
                    os.chmod(position.host, 0o755)
                else:
                    os.close(os.open(position.host, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))

    def _hide(self, path: bytes) -> None:
        """Put an empty folder or file over a path that the container has."""
        try:
            found = self.paths.resolve(os.getpid(), AT_FDCWD, path)
        except PathError:
            return
        if found.status is not None:
            number = self._hiding + (not stat.S_ISDIR(found.status.st_mode))
            self._record(b"mount", found.position.path, b"%d" % number)

    # -- copies

    def _make_folders(self, path: bytes) -> None:
        """Create folders of the layer for one that will be there, without their entries."""
        for position in self.paths.locate(path):
            if position.area.is_machine:
                copy = self.paths.layer.base + position.path
                if not os.path.isdir(copy):
                    os.mkdir(copy)
                self._copy_status(os.lstat(position.host_path), position.host_path, copy)

    def copy_folder(self, position: Position) -> Position:
        """Return the layer's copy of a folder, made if it is the machine's."""
        if not position.area.is_machine:
            return position
        with self.change():
            position = self.paths.locate(position.path)[-1]
            if not position.area.is_machine:
                return position
            source, target = position.host_path, self.paths.layer.base + position.path
            status = os.lstat(source)
            if not stat.S_ISDIR(status.st_mode):
                raise PathError(errno.ENOTDIR)
            self._make_folders(position.path)
            names = []
            with os.scandir(source) as entries:
                for entry in entries:
                    names.append(entry.name)
                    self._make_placeholder(entry, target, is_sticky=status.st_mode & stat.S_ISVTX)
            self._copy_status(status, source, target)
            self._record(b"copy", position.path, position.host, *names)
            return self.paths.locate(position.path)[-1]

    def _make_placeholder(
        self, entry: os.DirEntry[bytes], folder: bytes, *, is_sticky: int
    ) -> None:
        target = folder + b"/" + entry.name
        try:
            if entry.is_symlink():
                os.symlink(b"x", target)
            elif entry.is_dir(follow_symlinks=False):
                os.mkdir(target)
            elif entry.is_file(follow_symlinks=False):
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC))
            else:
                self._make_special(entry.stat(follow_symlinks=False), target)
        except FileExistsError:
            return  # a folder of the layer
        if is_sticky and self._is_any_user:
            status = entry.stat(follow_symlinks=False)
            os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)

    def _make_special(self, status: os.stat_result, target: bytes) -> None:
        try:
            os.mknod(target, status.st_mode, status.st_rdev)
        except PermissionError:  # devices need a capability
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC))

    def copy_entry(self, position: Position, *, is_emptied: bool = False) -> Position:
        """Return the layer's copy of a file, link or folder, made if it is the machine's.

        Args:
            is_emptied: whether the content of a file is not needed.
        """
        if not position.area.is_machine:
            return position
        with self.change():
            stack = self.paths.locate(position.path)
            position = stack[-1]
            if not position.area.is_machine:
                return position
            status = os.lstat(position.host)
            if stat.S_ISDIR(status.st_mode):
                return self.copy_folder(position)
            self.copy_folder(stack[-2])
            temporary = self._work + b"/%d" % os.getpid()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            if stat.S_ISLNK(status.st_mode):
                os.symlink(os.readlink(position.host), temporary)
            elif stat.S_ISREG(status.st_mode):
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                os.close(os.open(temporary, flags, 0o600))
                if not is_emptied:
                    _copy_content(position.host, temporary)
            else:
                self._make_special(status, temporary)
            self._copy_status(status, position.host, temporary)
            target = self.paths.layer.base + position.path
            # The folder has not changed for programs.
            folder = os.path.dirname(target)
            folder_status = os.stat(folder)
            os.rename(temporary, target)
            os.utime(folder, ns=(folder_status.st_atime_ns, folder_status.st_mtime_ns))
            self._record(b"change", position.path)
            return self.paths.locate(position.path)[-1]

    def _copy_status(self, status: os.stat_result, source: bytes, target: bytes) -> None:
        mode = stat.S_IMODE(status.st_mode)
        if self._is_any_user:
            os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
        elif stat.S_ISDIR(status.st_mode):
            # Programs have the user of this process, which stands for the container's root.
            mode |= stat.S_IRWXU
        else:
            mode |= stat.S_IRUSR | stat.S_IWUSR
        with contextlib.suppress(OSError):
            for name in os.listxattr(source, follow_symlinks=False):
                value = os.getxattr(source, name, follow_symlinks=False)
                os.setxattr(target, name, value, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            os.chmod(target, mode)
        times = (status.st_atime_ns, status.st_mtime_ns)
        os.utime(target, ns=times, follow_symlinks=False)

    # -- what has happened in the layer

    def note_changed(self, path: bytes) -> None:
        """Note that an entry has been created, replaced or removed."""
        folder, _, name = path.rpartition(b"/")
        node = self.paths.find_node(folder)
        if node is not None and (name in node.children or name in (node.entries or ())):
            self._record(b"change", path)

    def note_moved(self, old: bytes, new: bytes) -> None:
        """Note that an entry of the layer has moved."""
        if self.paths.find_node(old) is not None:
            self._record(b"move", old, new)
        else:
            self.note_changed(new)

    def note_exchanged(self, first: bytes, second: bytes) -> None:
        """Note that two entries of the layer have changed places."""
        self._record(b"exchange", first, second)


def _normalize(path: str | bytes) -> bytes:
    return b"/" + os.path.normpath(os.fsencode(path)).strip(b"/")


def _list_shown(files: ContainerFiles) -> Iterator[bytes]:
    """Return folders of the machine to be shown, those above others first."""
    for folder in sorted(files.visible, key=len):
        if os.path.isdir(folder):
            yield _normalize(folder)


def _copy_content(source: bytes, target: bytes) -> None:
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CLOEXEC)
        try:
            while os.sendfile(writing, reading, None, _COPY_BYTES):
                pass
        finally:
            os.close(writing)
    finally:
        os.close(reading)
