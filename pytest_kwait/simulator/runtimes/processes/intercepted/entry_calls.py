"""Answers to system calls that create, remove and rename entries of folders."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, ClassVar

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Continue,
    Failure,
    Result,
    as_signed,
    read_string,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.file_system import (
    AT_EMPTY_PATH,
    make_error,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import AT_FDCWD, Layer
from pytest_kwait.simulator.runtimes.processes.intercepted.users import as_user_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer, SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.file_system import FileSystem
    from pytest_kwait.simulator.runtimes.processes.intercepted.paths import Found, Position

# Source: include/uapi/linux/fcntl.h, fs.h.
_AT_REMOVEDIR, _AT_SYMLINK_FOLLOW = 0x200, 0x400
_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2


class EntryCalls:
    """Answers calls that create, remove and rename entries of folders.

    Args:
        files: the container's files.
    """

    def __init__(self, files: FileSystem) -> None:
        self._files = files

    def _answer_mkdir(self, call: SystemCall) -> Answer:
        path, mode = call.arguments[:2]
        return self._make(call, AT_FDCWD, path, "mkdirat", mode & 0o7777)

    def _answer_mkdirat(self, call: SystemCall) -> Answer:
        dirfd, path, mode = call.arguments[:3]
        return self._make(call, as_signed(dirfd), path, "mkdirat", mode & 0o7777)

    def _answer_mknod(self, call: SystemCall) -> Answer:
        path, mode, device = call.arguments[:3]
        mode, device = mode & 0xFFFF, device & 0xFFFFFFFF
        return self._make(call, AT_FDCWD, path, "mknodat", mode, device)

    def _answer_mknodat(self, call: SystemCall) -> Answer:
        dirfd, path, mode, device = call.arguments[:4]
        mode, device = mode & 0xFFFF, device & 0xFFFFFFFF
        return self._make(call, as_signed(dirfd), path, "mknodat", mode, device)

    def _answer_symlink(self, call: SystemCall) -> Answer:
        text, path = call.arguments[:2]
        return self._symlink(call, text, AT_FDCWD, path)

    def _answer_symlinkat(self, call: SystemCall) -> Answer:
        text, dirfd, path = call.arguments[:3]
        return self._symlink(call, text, as_signed(dirfd), path)

    def _symlink(self, call: SystemCall, address: int, dirfd: int, path: int) -> Answer:
        text = read_string(call.memory, address)
        if not text:
            return Failure(errno.ENOENT)
        found = self._find_new(call, dirfd, path, is_folder=False)
        with self._files.layer.change():
            fd, relative = self._files.get_path_at(self._files.prepare_creation(call, found))
            with self._files.as_program(call):
                self._files.make_call("symlinkat", text, fd, relative)
        return Result()

    def _find_new(self, call: SystemCall, dirfd: int, path: int, *, is_folder: bool) -> Found:
        found = self._files.find_entry(call, dirfd, path)
        if found.status is not None or found.is_dots:
            raise make_error(errno.EEXIST)
        if found.must_be_folder and not is_folder:
            raise make_error(errno.ENOENT)
        return found

    def _make(self, call: SystemCall, dirfd: int, path: int, name: str, *arguments: int) -> Answer:
        """Create an entry of a folder."""
        found = self._find_new(call, dirfd, path, is_folder=name == "mkdirat")
        if self._files.is_kernels(found):
            return Continue()
        with self._files.layer.change():
            fd, relative = self._files.get_path_at(self._files.prepare_creation(call, found))
            with self._files.as_program(call):
                self._files.make_call(name, fd, relative, *arguments)
        return Result()

    def _answer_unlink(self, call: SystemCall) -> Answer:
        flags = _AT_REMOVEDIR if call.name == "rmdir" else 0
        return self._remove(call, AT_FDCWD, call.arguments[0], flags)

    def _answer_unlinkat(self, call: SystemCall) -> Answer:
        dirfd, path, flags = call.arguments[:3]
        return self._remove(call, as_signed(dirfd), path, as_signed(flags))

    def _remove(self, call: SystemCall, dirfd: int, path: int, flags: int) -> Answer:
        found = self._files.find_entry(call, dirfd, path)
        is_folder = bool(flags & _AT_REMOVEDIR)
        if found.is_dots:
            if not is_folder:
                return Failure(errno.EISDIR)
            numbers = {b".": errno.EINVAL, b"..": errno.ENOTEMPTY}
            return Failure(numbers.get(found.last, errno.EBUSY))
        if self._files.is_kernels(found):
            return Continue()
        self._files.check_writable(found.folder)
        status = found.status
        if status is None:
            return Failure(errno.ENOENT)
        if found.must_be_folder and not is_folder:
            return Failure(errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.ENOTDIR)
        if found.position.is_target:
            self._files.check_access(call, found.folder, os.W_OK | os.X_OK)
            if is_folder == stat.S_ISDIR(status.st_mode):
                return Failure(errno.EBUSY)
            return Failure(errno.ENOTDIR if is_folder else errno.EISDIR)
        with self._files.layer.change():
            position = self._prepare_moving(call, found, is_copied=is_folder)
            fd, relative = self._files.get_path_at(position)
            with self._files.as_program(call):
                self._files.make_call("unlinkat", fd, relative, flags)
            self._note_changed(position)
        return Result()

    def _note_changed(self, position: Position) -> None:
        if isinstance(position.area, Layer):
            self._files.layer.note_changed(position.path)

    def _prepare_moving(self, call: SystemCall, found: Found, *, is_copied: bool) -> Position:
        """Return where an entry is removed, or put, by the kernel itself.

        Args:
            is_copied: whether its own copy is needed; else there may be a placeholder.
        """
        folder = found.folder
        if folder.area.is_machine:
            self._files.check_access(call, folder, os.W_OK | os.X_OK)
        name = found.position.path.rpartition(b"/")[2]
        folder = self._files.layer.copy_folder(folder)
        position = self._files.paths.step(folder, name)
        if not position.area.is_machine:
            return position
        status = found.status
        if status is not None and (is_copied or stat.S_ISDIR(status.st_mode)):
            return self._files.layer.copy_entry(position)
        return position._replace(host=folder.host + b"/" + name, area=folder.area)

    def _answer_rename(self, call: SystemCall) -> Answer:
        old, new = call.arguments[:2]
        return self._rename(call, AT_FDCWD, old, AT_FDCWD, new, 0)

    def _answer_renameat(self, call: SystemCall) -> Answer:
        old_fd, old, new_fd, new = call.arguments[:4]
        return self._rename(call, as_signed(old_fd), old, as_signed(new_fd), new, 0)

    def _answer_renameat2(self, call: SystemCall) -> Answer:
        old_fd, old, new_fd, new, flags = call.arguments[:5]
        return self._rename(call, as_signed(old_fd), old, as_signed(new_fd), new, as_signed(flags))

    def _rename(
        self, call: SystemCall, old_fd: int, old: int, new_fd: int, new: int, flags: int
    ) -> Answer:
        if flags & ~(_RENAME_NOREPLACE | _RENAME_EXCHANGE) or flags == (
            _RENAME_NOREPLACE | _RENAME_EXCHANGE
        ):
            return Failure(errno.EINVAL)
        source = self._files.find_entry(call, old_fd, old)
        target = self._files.find_entry(call, new_fd, new)
        if source.is_dots:
            return Failure(errno.EBUSY)
        if target.is_dots:
            return Failure(errno.EEXIST if flags & _RENAME_NOREPLACE else errno.EBUSY)
        if not self._is_one_area(source, target):
            return Failure(errno.EXDEV)
        if self._files.is_kernels(source) and self._files.is_kernels(target):
            return Continue()
        self._files.check_writable(source.folder)
        number = _check_rename(source, target, flags)
        if number:
            for folder in (source.folder, target.folder):
                self._files.check_access(call, folder, os.W_OK | os.X_OK)
            return Failure(number)
        with self._files.layer.change():
            old_position = self._prepare_moving(call, source, is_copied=True)
            new_position = self._prepare_moving(
                call, target, is_copied=bool(flags & _RENAME_EXCHANGE)
            )
            (from_fd, from_path), (to_fd, to_path) = (
                self._files.get_path_at(old_position),
                self._files.get_path_at(new_position),
            )
            with self._files.as_program(call):
                self._files.make_call("renameat2", from_fd, from_path, to_fd, to_path, flags)
            self._note_moved(old_position, new_position, flags)
        return Result()

    def _note_moved(self, old: Position, new: Position, flags: int) -> None:
        if not isinstance(old.area, Layer):
            return
        if flags & _RENAME_EXCHANGE:
            self._files.layer.note_exchanged(old.path, new.path)
        elif not os.path.lexists(old.host):  # else they were links to one file
            self._files.layer.note_moved(old.path, new.path)

    @staticmethod
    def _is_one_area(source: Found, target: Found) -> bool:
        areas = [
            position.area if position.area.is_mount or position.area.is_special else None
            for position in (source.folder, target.folder)
        ]
        return areas[0] is areas[1]

    def _answer_link(self, call: SystemCall) -> Answer:
        old, new = call.arguments[:2]
        return self._link(call, AT_FDCWD, old, AT_FDCWD, new, 0)

    def _answer_linkat(self, call: SystemCall) -> Answer:
        old_fd, old, new_fd, new, flags = call.arguments[:5]
        return self._link(call, as_signed(old_fd), old, as_signed(new_fd), new, as_signed(flags))

    def _link(
        self, call: SystemCall, old_fd: int, old: int, new_fd: int, new: int, flags: int
    ) -> Answer:
        if flags & ~(_AT_SYMLINK_FOLLOW | AT_EMPTY_PATH):
            return Failure(errno.EINVAL)
        if self._files.is_of_descriptor(call, old, flags):
            path = b"/proc/%d/fd/%d" % (call.thread, old_fd)
            source = self._files.paths.resolve(call.thread, AT_FDCWD, path)
        else:
            source = self._files.paths.resolve(
                call.thread,
                old_fd,
                path := read_string(call.memory, old),
                is_followed=bool(flags & _AT_SYMLINK_FOLLOW),
            )
        if source.status is None:
            return Failure(errno.ENOENT)
        target = self._find_new(call, new_fd, new, is_folder=False)
        if source.is_nameless:
            return self._link_nameless(call, path, old_fd, target)
        self._files.check_writable(target.folder)
        if not self._is_one_area(source, target) or source.position.is_target:
            return Failure(errno.EXDEV)
        if self._files.is_kernels(source) and self._files.is_kernels(target):
            return Continue()
        if stat.S_ISDIR(source.status.st_mode):
            return Failure(errno.EPERM)
        with self._files.layer.change():
            old_position = self._files.layer.copy_entry(source.position)
            (from_fd, from_path), (to_fd, to_path) = (
                self._files.get_path_at(old_position),
                self._files.get_path_at(self._files.prepare_creation(call, target)),
            )
            with self._files.as_program(call):
                self._files.make_call("linkat", from_fd, from_path, to_fd, to_path, 0)
        return Result()

    def _link_nameless(self, call: SystemCall, path: bytes, fd: int, target: Found) -> Answer:
        """Give a name to a file without one, as of O_TMPFILE."""
        source = path if path.startswith(b"/proc/") else b"/proc/%d/fd/%d" % (call.thread, fd)
        parts = source.split(b"/")
        if parts[2] in (b"self", b"thread-self"):
            source = b"/proc/%d/fd/%s" % (call.thread, parts[-1])
        with as_user_of(call.thread):
            opened = os.open(source, os.O_PATH | os.O_CLOEXEC)
        try:
            with self._files.layer.change():
                to_fd, to_path = self._files.get_path_at(self._files.prepare_creation(call, target))
                with self._files.as_program(call):
                    own = b"/proc/self/fd/%d" % opened
                    self._files.make_call(
                        "linkat", AT_FDCWD, own, to_fd, to_path, _AT_SYMLINK_FOLLOW
                    )
        finally:
            os.close(opened)
        return Result()

    ANSWERS: ClassVar[Mapping[str, Callable[[EntryCalls, SystemCall], Answer]]] = {
        "link": _answer_link,
        "linkat": _answer_linkat,
        "mkdir": _answer_mkdir,
        "mkdirat": _answer_mkdirat,
        "mknod": _answer_mknod,
        "mknodat": _answer_mknodat,
        "rename": _answer_rename,
        "renameat": _answer_renameat,
        "renameat2": _answer_renameat2,
        "rmdir": _answer_unlink,
        "symlink": _answer_symlink,
        "symlinkat": _answer_symlinkat,
        "unlink": _answer_unlink,
        "unlinkat": _answer_unlinkat,
    }


def _check_rename(source: Found, target: Found, flags: int) -> int:
    """Return the errno of a rename that is refused; 0 if the kernel decides."""
    if source.status is None:
        return errno.ENOENT
    if flags & _RENAME_EXCHANGE and target.status is None:
        return errno.ENOENT
    if flags & _RENAME_NOREPLACE and target.status is not None:
        return errno.EEXIST
    if not stat.S_ISDIR(source.status.st_mode) and (
        source.must_be_folder or (target.must_be_folder and not flags & _RENAME_EXCHANGE)
    ):
        return errno.ENOTDIR
    nodes = (source.position.node, target.position.node)
    if any(node is not None and node.has_target for node in nodes):
        return errno.EBUSY
    return 0
