"""Answers to system calls that read the status of files: modes, links, extended attributes."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from typing import TYPE_CHECKING, ClassVar

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Continue,
    Result,
    as_signed,
    read_string,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.file_system import (
    AT_EACCESS,
    AT_SYMLINK_NOFOLLOW,
    XATTR_VALUE_BYTES,
    make_error,
    read_rights,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import AT_FDCWD, PathError, is_jump
from pytest_kwait.simulator.runtimes.processes.intercepted.users import read_process_link

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer, SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.file_system import FileSystem
    from pytest_kwait.simulator.runtimes.processes.intercepted.paths import Found, Position

_STAT_BYTES = {"x86_64": 144, "aarch64": 128}
_STATX_BYTES, _STATFS_BYTES = 256, 120
# The place of `f_flags`.
_STATFS_FLAGS = 80
_POINTER = struct.Struct("=Q")
_PATH_BYTES = 4096


class StatusCalls:
    """Answers calls that read the status of files.

    Args:
        files: the container's files.
    """

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._stat_bytes = _STAT_BYTES[os.uname().machine]

    def _answer_stat(self, call: SystemCall) -> Answer:
        path, buffer = call.arguments[:2]
        return self._stat(call, AT_FDCWD, path, buffer, 0)

    def _answer_lstat(self, call: SystemCall) -> Answer:
        path, buffer = call.arguments[:2]
        return self._stat(call, AT_FDCWD, path, buffer, AT_SYMLINK_NOFOLLOW)

    def _answer_newfstatat(self, call: SystemCall) -> Answer:
        dirfd, path, buffer, flags = call.arguments[:4]
        return self._stat(call, as_signed(dirfd), path, buffer, as_signed(flags))

    def _stat(self, call: SystemCall, dirfd: int, address: int, buffer: int, flags: int) -> Answer:
        if self._files.is_of_descriptor(call, address, flags):
            return Continue()
        is_followed = not flags & AT_SYMLINK_NOFOLLOW
        found = self._files.find_reading(call, dirfd, address, is_followed=is_followed)
        if found is None or found.is_nameless:
            return Continue()
        content = ctypes.create_string_buffer(self._stat_bytes)
        fd, path = self._files.get_path_at(found.position)
        with self._files.as_program(call):
            self._files.make_call("newfstatat", fd, path, content, flags)
        call.memory.write(buffer, content.raw)
        return Result()

    def _answer_statx(self, call: SystemCall) -> Answer:
        dirfd, address, number, mask, buffer = call.arguments[:5]
        flags = as_signed(number)
        if self._files.is_of_descriptor(call, address, flags):
            return Continue()
        is_followed = not flags & AT_SYMLINK_NOFOLLOW
        found = self._files.find_reading(call, as_signed(dirfd), address, is_followed=is_followed)
        if found is None or found.is_nameless:
            return Continue()
        content = ctypes.create_string_buffer(_STATX_BYTES)
        fd, path = self._files.get_path_at(found.position)
        with self._files.as_program(call):
            self._files.make_call("statx", fd, path, flags, mask & 0xFFFFFFFF, content)
        call.memory.write(buffer, content.raw)
        return Result()

    def _answer_access(self, call: SystemCall) -> Answer:
        path, mode = call.arguments[:2]
        return self._access(call, AT_FDCWD, path, as_signed(mode), 0)

    def _answer_faccessat(self, call: SystemCall) -> Answer:
        dirfd, path, mode = call.arguments[:3]
        return self._access(call, as_signed(dirfd), path, as_signed(mode), 0)

    def _answer_faccessat2(self, call: SystemCall) -> Answer:
        dirfd, path, mode, flags = call.arguments[:4]
        return self._access(call, as_signed(dirfd), path, as_signed(mode), as_signed(flags))

    def _access(self, call: SystemCall, dirfd: int, address: int, mode: int, flags: int) -> Answer:
        if self._files.is_of_descriptor(call, address, flags):
            return Continue()
        is_followed = not flags & AT_SYMLINK_NOFOLLOW
        if mode & os.W_OK:
            path = read_string(call.memory, address)
            try:
                found = self._files.paths.resolve(call.thread, dirfd, path, is_followed=is_followed)
            except PathError as error:
                if error.is_plain:
                    return Continue()
                raise
            if found.status is None:
                raise make_error(errno.ENOENT)
            if found.is_plain and found.position.area.is_special:
                return Continue()
        else:
            reading = self._files.find_reading(call, dirfd, address, is_followed=is_followed)
            if reading is None:
                return Continue()
            found = reading
        if found.is_nameless:
            return Continue()
        self._perform_access(call, found, mode, flags)
        return Result()

    def _perform_access(self, call: SystemCall, found: Found, mode: int, flags: int) -> None:
        program = read_rights(call.thread)
        status, is_written = found.status, bool(mode & os.W_OK)
        if found.position.area.is_machine and not self._files.rights.differ(program):
            # Its copy could be written to.
            mode &= ~os.W_OK
        if not flags & AT_EACCESS:
            program = program._replace(user=program.real_user)
        at_fd, path = self._files.get_path_at(found.position)
        flags &= AT_SYMLINK_NOFOLLOW
        with self._files.rights.take(program):
            if flags or self._files.rights.differ(program):
                self._files.make_call("faccessat2", at_fd, path, mode, flags | AT_EACCESS)
            else:
                self._files.make_call("faccessat", at_fd, path, mode)
        kinds = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
        if is_written and status is not None and stat.S_IFMT(status.st_mode) in kinds:
            self._files.check_writable(found.position)

    def _answer_readlink(self, call: SystemCall) -> Answer:
        path, buffer, size = call.arguments[:3]
        return self._read_link(call, AT_FDCWD, path, buffer, as_signed(size))

    def _answer_readlinkat(self, call: SystemCall) -> Answer:
        dirfd, path, buffer, size = call.arguments[:4]
        return self._read_link(call, as_signed(dirfd), path, buffer, as_signed(size))

    def _read_link(
        self, call: SystemCall, dirfd: int, address: int, buffer: int, size: int
    ) -> Answer:
        path = read_string(call.memory, address)
        if not path or size <= 0:
            return Continue()
        if self._files.paths.is_plain(call.thread, dirfd, path, is_followed=False):
            return Continue()
        try:
            found = self._files.paths.resolve(call.thread, dirfd, path, is_followed=False)
        except PathError as error:
            if error.is_plain:
                return Continue()
            raise
        position = found.position
        if found.status is None:
            if found.is_plain:
                return Continue()
            raise make_error(errno.ENOENT)
        if position.area.is_special and is_jump(position.host):
            return self._read_jump(call, position, buffer, size)
        if found.is_plain:
            return Continue()
        content = ctypes.create_string_buffer(min(size, _PATH_BYTES))
        fd, relative = self._files.get_path_at(position)
        with self._files.as_program(call):
            length = self._files.make_call("readlinkat", fd, relative, content, len(content))
        call.memory.write(buffer, content.raw[:length])
        return Result(length)

    def _read_jump(self, call: SystemCall, position: Position, buffer: int, size: int) -> Answer:
        """Answer with the container's path of an open file."""
        try:
            host = read_process_link(call.thread, position.host)
        except OSError:
            return Continue()
        if not host.startswith(b"/"):
            return Continue()
        path = self._files.paths.to_container(host) or b"/"
        if path == host:
            return Continue()
        text = path[:size]
        call.memory.write(buffer, text)
        return Result(len(text))

    def _answer_statfs(self, call: SystemCall) -> Answer:
        path, buffer = call.arguments[:2]
        if self._files.read_only_root:
            found: Found | None = self._files.find_changed(call, AT_FDCWD, path)
        else:
            found = self._files.find_reading(call, AT_FDCWD, path)
        if found is None or found.is_nameless or self._files.is_kernels(found):
            return Continue()
        content = ctypes.create_string_buffer(_STATFS_BYTES)
        with self._files.as_program(call):
            self._files.make_call("statfs", self._files.get_path(found.position), content)
        if self._files.is_read_only(found.position):
            (flags,) = _POINTER.unpack_from(content, _STATFS_FLAGS)
            _POINTER.pack_into(content, _STATFS_FLAGS, flags | os.ST_RDONLY)
        call.memory.write(buffer, content.raw)
        return Result()

    def _answer_get_xattr(self, call: SystemCall) -> Answer:
        address, name, buffer, size = call.arguments[:4]
        found = self._files.find_reading(
            call, AT_FDCWD, address, is_followed=not call.name.startswith("l")
        )
        if found is None or found.is_nameless:
            return Continue()
        attribute = read_string(call.memory, name)
        return self._fill(call, found.position, buffer, size, attribute)

    def _answer_list_xattrs(self, call: SystemCall) -> Answer:
        address, buffer, size = call.arguments[:3]
        is_followed = call.name == "listxattr"
        found = self._files.find_reading(call, AT_FDCWD, address, is_followed=is_followed)
        if found is None or found.is_nameless:
            return Continue()
        return self._fill(call, found.position, buffer, size)

    def _fill(
        self, call: SystemCall, position: Position, buffer: int, size: int, *names: bytes
    ) -> Answer:
        content = ctypes.create_string_buffer(max(min(size, XATTR_VALUE_BYTES), 1))
        path = self._files.get_path(position)
        with self._files.as_program(call):
            length = self._files.make_call(
                call.name, path, *names, content, min(size, XATTR_VALUE_BYTES)
            )
        if size:
            call.memory.write(buffer, content.raw[:length])
        return Result(length)

    ANSWERS: ClassVar[Mapping[str, Callable[[StatusCalls, SystemCall], Answer]]] = {
        "access": _answer_access,
        "faccessat": _answer_faccessat,
        "faccessat2": _answer_faccessat2,
        "getxattr": _answer_get_xattr,
        "lgetxattr": _answer_get_xattr,
        "listxattr": _answer_list_xattrs,
        "llistxattr": _answer_list_xattrs,
        "lstat": _answer_lstat,
        "newfstatat": _answer_newfstatat,
        "readlink": _answer_readlink,
        "readlinkat": _answer_readlinkat,
        "stat": _answer_stat,
        "statfs": _answer_statfs,
        "statx": _answer_statx,
    }
