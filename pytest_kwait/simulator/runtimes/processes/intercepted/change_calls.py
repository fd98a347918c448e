"""Answers to system calls that change the status of files, or their size."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from typing import TYPE_CHECKING, ClassVar

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Continue,
    Failure,
    Result,
    as_signed,
    read_string,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.file_system import (
    AT_SYMLINK_NOFOLLOW,
    XATTR_VALUE_BYTES,
    make_error,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import AT_FDCWD, PathError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer, SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.file_system import FileSystem
    from pytest_kwait.simulator.runtimes.processes.intercepted.paths import Found, Position

# Source: include/linux/stat.h, `UTIME_OMIT`.
_OMITTED = (1 << 30) - 2
_NONE = ctypes.c_void_p(None)


_TERMINALS = b"/dev/pts/"
_TIME_CALLS = ("futimesat", "utime", "utimensat", "utimes")


class ChangeCalls:
    """Answers calls that change the status of files, or their size.

    Args:
        files: the container's files.
    """

    def __init__(self, files: FileSystem) -> None:
        self._files = files

    def _change_entry(
        self,
        call: SystemCall,
        dirfd: int,
        address: int,
        flags: int,
        perform: Callable[[Position], int],
    ) -> Answer:
        """Change the status or content of what a path leads to.

        Args:
            flags: AT_ flags.
            perform: makes the call.
        """
        if self._files.is_of_descriptor(call, address, flags):
            return self._change_open(call, dirfd, perform)
        found = self._files.find_changed(
            call, dirfd, address, is_followed=not flags & AT_SYMLINK_NOFOLLOW
        )
        if self._is_machines(call, found):
            return Failure(errno.EPERM)
        if self._files.is_kernels(found):
            return Continue()
        return self._change_found(call, found, perform)

    @staticmethod
    def _is_machines(call: SystemCall, found: Found) -> bool:
        """Return whether a call would change rights to a device, or to a file of the kernel.

        A terminal is the program's; times of devices mean nothing.
        """
        position = found.position
        return (
            position.area.is_special
            and not found.is_nameless
            and not position.host.startswith(_TERMINALS)
            and call.name not in _TIME_CALLS
        )

    def _change_found(
        self, call: SystemCall, found: Found, perform: Callable[[Position], int]
    ) -> Answer:
        with self._files.layer.change():
            position = self._files.prepare_change(found)
            with self._files.as_program(call):
                perform(position)
        return Result()

    def _change_open(self, call: SystemCall, fd: int, perform: Callable[[Position], int]) -> Answer:
        """Change the status of an open file: of its copy, if it is the machine's."""
        link = f"/proc/{call.thread}/fd/{fd}".encode()
        try:
            found = self._files.paths.resolve(call.thread, AT_FDCWD, link)
        except PathError:
            return Continue()
        if found.is_nameless:
            # The container may have removed what the machine still has.
            return Continue() if found.is_plain else Result()
        if found.position.area.is_special:
            return Failure(errno.EPERM) if self._is_machines(call, found) else Continue()
        self._files.check_writable(found.position)
        if found.is_plain and not found.position.area.is_machine:
            return Continue()
        return self._change_found(call, found, perform)

    def _answer_chmod(self, call: SystemCall) -> Answer:
        path, mode = call.arguments[:2]
        return self._chmod(call, AT_FDCWD, path, mode, 0)

    def _answer_fchmodat(self, call: SystemCall) -> Answer:
        dirfd, path, mode = call.arguments[:3]
        return self._chmod(call, as_signed(dirfd), path, mode, 0)

    def _answer_fchmodat2(self, call: SystemCall) -> Answer:
        dirfd, path, mode, flags = call.arguments[:4]
        return self._chmod(call, as_signed(dirfd), path, mode, as_signed(flags))

    def _answer_fchmod(self, call: SystemCall) -> Answer:
        fd, mode = call.arguments[:2]
        return self._change_open(
            call, as_signed(fd), lambda position: self._perform_chmod(position, mode, 0)
        )

    def _chmod(self, call: SystemCall, dirfd: int, path: int, mode: int, flags: int) -> Answer:
        return self._change_entry(
            call, dirfd, path, flags,
            lambda position: self._perform_chmod(position, mode, flags & AT_SYMLINK_NOFOLLOW),
        )  # fmt: skip

    def _perform_chmod(self, position: Position, mode: int, flags: int) -> int:
        fd, path = self._files.get_path_at(position)
        if flags:
            return self._files.make_call("fchmodat2", fd, path, mode & 0o7777, flags)
        return self._files.make_call("fchmodat", fd, path, mode & 0o7777)

    def _answer_chown(self, call: SystemCall) -> Answer:
        path, user, group = call.arguments[:3]
        flags = AT_SYMLINK_NOFOLLOW if call.name == "lchown" else 0
        return self._chown(call, AT_FDCWD, path, user, group, flags)

    def _answer_fchownat(self, call: SystemCall) -> Answer:
        dirfd, path, user, group, flags = call.arguments[:5]
        return self._chown(call, as_signed(dirfd), path, user, group, as_signed(flags))

    def _answer_fchown(self, call: SystemCall) -> Answer:
        fd, user, group = call.arguments[:3]
        return self._change_open(
            call, as_signed(fd), lambda position: self._perform_chown(position, user, group, 0)
        )

    def _chown(
        self, call: SystemCall, dirfd: int, path: int, user: int, group: int, flags: int
    ) -> Answer:
        nofollow = flags & AT_SYMLINK_NOFOLLOW
        return self._change_entry(
            call, dirfd, path, flags,
            lambda position: self._perform_chown(position, user, group, nofollow),
        )  # fmt: skip

    def _perform_chown(self, position: Position, user: int, group: int, flags: int) -> int:
        fd, path = self._files.get_path_at(position)
        return self._files.make_call("fchownat", fd, path, as_signed(user), as_signed(group), flags)

    def _answer_truncate(self, call: SystemCall) -> Answer:
        path, length = call.arguments[:2]
        size = length - ((length & 1 << 63) << 1)
        if size < 0:
            return Failure(errno.EINVAL)
        found = self._files.find_changed(call, AT_FDCWD, path)
        if self._is_machines(call, found):
            return Failure(errno.EPERM)
        if self._files.is_kernels(found):
            return Continue()
        if found.status is not None and stat.S_ISDIR(found.status.st_mode):
            return Failure(errno.EISDIR)
        if found.position.area.is_machine or self._files.is_read_only(found.position):
            self._files.check_access(call, found.position, os.W_OK)
        return self._change_found(
            call,
            found,
            lambda position: self._files.make_call(
                "truncate", self._files.get_path(position), size
            ),
        )

    def _answer_utime(self, call: SystemCall) -> Answer:
        path, address = call.arguments[:2]
        times = None
        if address:
            accessed, modified = struct.unpack("=qq", call.memory.read(address, 16))
            times = struct.pack("=qqqq", accessed, 0, modified, 0)
        return self._set_times(call, AT_FDCWD, path, times, 0)

    def _answer_utimes(self, call: SystemCall) -> Answer:
        path, address = call.arguments[:2]
        return self._set_times(call, AT_FDCWD, path, self._read_times(call, address), 0)

    def _answer_futimesat(self, call: SystemCall) -> Answer:
        dirfd, path, address = call.arguments[:3]
        times = self._read_times(call, address)
        if not path:
            return self._set_open_times(call, as_signed(dirfd), times)
        return self._set_times(call, as_signed(dirfd), path, times, 0)

    def _read_times(self, call: SystemCall, address: int) -> bytes | None:
        """Return times with microseconds as ones with nanoseconds."""
        if not address:
            return None
        values = struct.unpack("=qqqq", call.memory.read(address, 32))
        if not all(0 <= microseconds < 1_000_000 for microseconds in values[1::2]):
            raise make_error(errno.EINVAL)
        return struct.pack("=qqqq", values[0], values[1] * 1000, values[2], values[3] * 1000)

    def _answer_utimensat(self, call: SystemCall) -> Answer:
        dirfd, path, address, flags = call.arguments[:4]
        times = call.memory.read(address, 32) if address else None
        if times is not None and struct.unpack("=qqqq", times)[1::2] == (_OMITTED, _OMITTED):
            return Result()
        if not path:
            return self._set_open_times(call, as_signed(dirfd), times)
        return self._set_times(call, as_signed(dirfd), path, times, as_signed(flags))

    def _set_open_times(self, call: SystemCall, fd: int, times: bytes | None) -> Answer:
        return self._change_open(
            call, fd, lambda position: self._perform_set_times(position, times, 0)
        )

    def _set_times(
        self, call: SystemCall, dirfd: int, path: int, times: bytes | None, flags: int
    ) -> Answer:
        nofollow = flags & AT_SYMLINK_NOFOLLOW
        return self._change_entry(
            call, dirfd, path, flags,
            lambda position: self._perform_set_times(position, times, nofollow),
        )  # fmt: skip

    def _perform_set_times(self, position: Position, times: bytes | None, flags: int) -> int:
        fd, path = self._files.get_path_at(position)
        return self._files.make_call(
            "utimensat", fd, path, _NONE if times is None else times, flags
        )

    def _answer_set_xattr(self, call: SystemCall) -> Answer:
        address, name, value, size, flags = call.arguments[:5]
        if size > XATTR_VALUE_BYTES:
            return Failure(errno.E2BIG)
        found = self._files.find_changed(
            call, AT_FDCWD, address, is_followed=not call.name.startswith("l")
        )
        if self._is_machines(call, found):
            return Failure(errno.EPERM)
        if self._files.is_kernels(found):
            return Continue()
        attribute = read_string(call.memory, name)
        content = call.memory.read(value, size) if size else b""
        with self._files.layer.change():
            path = self._files.get_path(self._files.prepare_change(found))
            with self._files.as_program(call):
                self._files.make_call(call.name, path, attribute, content, size, as_signed(flags))
        return Result()

    def _answer_remove_xattr(self, call: SystemCall) -> Answer:
        address, name = call.arguments[:2]
        found = self._files.find_changed(
            call, AT_FDCWD, address, is_followed=not call.name.startswith("l")
        )
        if self._is_machines(call, found):
            return Failure(errno.EPERM)
        if self._files.is_kernels(found):
            return Continue()
        attribute = read_string(call.memory, name)
        with self._files.layer.change():
            path = self._files.get_path(self._files.prepare_change(found))
            with self._files.as_program(call):
                self._files.make_call(call.name, path, attribute)
        return Result()

    def _answer_set_open_xattr(self, call: SystemCall) -> Answer:
        fd, name, value, size, flags = call.arguments[:5]
        if size > XATTR_VALUE_BYTES:
            return Failure(errno.E2BIG)

        def perform(position: Position) -> int:
            attribute = read_string(call.memory, name)
            content = call.memory.read(value, size) if size else b""
            path = self._files.get_path(position)
            return self._files.make_call(
                "setxattr", path, attribute, content, size, as_signed(flags)
            )

        return self._change_open(call, as_signed(fd), perform)

    def _answer_remove_open_xattr(self, call: SystemCall) -> Answer:
        fd, name = call.arguments[:2]
        return self._change_open(
            call,
            as_signed(fd),
            lambda position: self._files.make_call(
                "removexattr", self._files.get_path(position), read_string(call.memory, name)
            ),
        )

    ANSWERS: ClassVar[Mapping[str, Callable[[ChangeCalls, SystemCall], Answer]]] = {
        "chmod": _answer_chmod,
        "chown": _answer_chown,
        "fchmod": _answer_fchmod,
        "fchmodat": _answer_fchmodat,
        "fchmodat2": _answer_fchmodat2,
        "fchown": _answer_fchown,
        "fchownat": _answer_fchownat,
        "fremovexattr": _answer_remove_open_xattr,
        "fsetxattr": _answer_set_open_xattr,
        "futimesat": _answer_futimesat,
        "lchown": _answer_chown,
        "lremovexattr": _answer_remove_xattr,
        "lsetxattr": _answer_set_xattr,
        "removexattr": _answer_remove_xattr,
        "setxattr": _answer_set_xattr,
        "truncate": _answer_truncate,
        "utime": _answer_utime,
        "utimensat": _answer_utimensat,
        "utimes": _answer_utimes,
    }
