"""The files of a container as its programs may use them, with the rights of each program."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import read_string
from pytest_kwait.simulator.runtimes.processes.intercepted.layer import ContainerLayer
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import AT_FDCWD, PathError
from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import find_processor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.paths import (
        ContainerFiles,
        Found,
        Position,
    )

# Source: include/uapi/linux/fcntl.h, limits.h.
AT_SYMLINK_NOFOLLOW, AT_EACCESS, AT_EMPTY_PATH = 0x100, 0x200, 0x1000
XATTR_VALUE_BYTES = 65536
_STATUS_BYTES = 65536

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def make_error(number: int) -> OSError:
    """Return the error of an errno."""
    return OSError(number, os.strerror(number))


class ProgramRights(NamedTuple):
    """The rights of a program's thread."""

    umask: int
    user: int
    real_user: int
    group: int
    groups: tuple[int, ...]


def read_rights(thread: int) -> ProgramRights:
    """Return the rights of a thread.

    Raises:
        OSError: the thread has ended.
    """
    fd = os.open(f"/proc/{thread}/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(fd, _STATUS_BYTES)
    finally:
        os.close(fd)
    umask = text.find(b"\nUmask:") + len(b"\nUmask:")
    if umask < len(b"\nUmask:"):  # a thread that has ended has none
        raise make_error(errno.ESRCH)
    start = text.index(b"\nUid:", umask)
    users, groups, _, other_groups = text[start + 1 :].split(b"\n", 4)[:4]
    user, group = users.split(), groups.split()
    return ProgramRights(
        int(text[umask : text.index(b"\n", umask)], 8),
        int(user[4]),
        int(user[1]),
        int(group[4]),
        tuple(int(number) for number in other_groups.split()[1:]),
    )


class Rights:
    """The rights of this process, which performs calls with those of programs."""

    def __init__(self) -> None:
        self._is_any_user = not os.geteuid()
        self._own = (os.geteuid(), os.getegid(), tuple(os.getgroups()))

    def differ(self, program: ProgramRights) -> bool:
        """Return whether a program has others, which can be taken."""
        return self._is_any_user and (program.user, program.group, program.groups) != self._own

    @contextlib.contextmanager
    def take(self, program: ProgramRights) -> Iterator[None]:
        """Have a program's rights and umask."""
        umask = os.umask(program.umask)
        differ = self.differ(program)
        user, group, groups = self._own
        try:
            if differ:
                os.setgroups(program.groups)
                _libc.setfsgid(program.group)
                _libc.setfsuid(program.user)
            yield
        finally:
            if differ:
                _libc.setfsuid(user)
                _libc.setfsgid(group)
                os.setgroups(groups)
            os.umask(umask)


class FileSystem:
    """The files of a container, and calls that are made on them for its programs.

    Args:
        files: the same for all interceptors of a container.
    """

    def __init__(self, files: ContainerFiles) -> None:
        processor = find_processor()
        if processor is None:
            raise OSError(f"files cannot be intercepted on this processor: {os.uname().machine}")
        self._numbers = processor.numbers
        self.layer = ContainerLayer(files)
        self.paths = self.layer.paths
        self.rights = Rights()
        self.read_only_root = files.read_only_root

    def make_call(self, name: str, *arguments: object) -> int:
        """Make a system call; bytes are passed by their address."""
        values = [
            ctypes.c_long(argument) if isinstance(argument, int) else argument
            for argument in arguments
        ]
        result = int(_libc.syscall(ctypes.c_long(self._numbers[name]), *values))
        if result < 0:
            raise make_error(ctypes.get_errno())
        return result

    @contextlib.contextmanager
    def as_program(self, call: SystemCall) -> Iterator[None]:
        """Have the rights of the program that makes a call."""
        with self.rights.take(read_rights(call.thread)):
            yield

    @staticmethod
    def get_path_at(position: Position) -> tuple[int, bytes]:
        """Return a descriptor and a path relative to it: the way to it needs no rights."""
        area = position.area
        return area.fd, position.host_path[area.prefix :] or b"."

    def get_path(self, position: Position) -> bytes:
        """Return a path for calls without descriptors."""
        fd, path = self.get_path_at(position)
        return path if fd == AT_FDCWD else b"/proc/self/fd/%d/%s" % (fd, path)

    def find_reading(
        self,
        call: SystemCall,
        dirfd: int,
        address: int,
        *,
        is_followed: bool = True,
    ) -> Found | None:
        """Return what the path of a call that only reads leads to.

        Returns:
            None if it is plain.
        """
        path = read_string(call.memory, address)
        if self.paths.is_plain(call.thread, dirfd, path, is_followed=is_followed):
            return None
        try:
            found = self.paths.resolve(call.thread, dirfd, path, is_followed=is_followed)
        except PathError as error:
            if error.is_plain:
                return None
            raise
        if found.is_plain:
            return None
        if found.status is None:
            raise make_error(errno.ENOENT)
        return found

    def find_changed(
        self, call: SystemCall, dirfd: int, address: int, *, is_followed: bool = True
    ) -> Found:
        """Return the existing file or folder that a call changes."""
        path = read_string(call.memory, address)
        found = self.paths.resolve(call.thread, dirfd, path, is_followed=is_followed)
        if found.status is None:
            raise make_error(errno.ENOENT)
        return found

    def find_entry(self, call: SystemCall, dirfd: int, address: int) -> Found:
        """Return the entry of a folder that a call creates or removes."""
        path = read_string(call.memory, address)
        return self.paths.resolve(call.thread, dirfd, path, is_followed=False, is_parent=True)

    def is_read_only(self, position: Position) -> bool:
        """Return whether nothing can be changed at a place."""
        area = position.area
        if area.is_special:
            return False
        return self.read_only_root if area.is_machine else area.read_only

    def check_writable(self, position: Position) -> None:
        """Refuse changes where nothing can be changed."""
        if self.is_read_only(position):
            raise make_error(errno.EROFS)

    def check_access(self, call: SystemCall, position: Position, mode: int) -> None:
        """Refuse what the machine refuses to a program with rights of its own."""
        program = read_rights(call.thread)
        if self.rights.differ(program):
            with self.rights.take(program):
                self.make_call("faccessat2", AT_FDCWD, position.host_path, mode, AT_EACCESS)

    def prepare_creation(self, call: SystemCall, found: Found) -> Position:
        """Return where an entry is created; its folder is copied if it is the machine's."""
        self.check_writable(found.folder)
        folder = found.folder
        if folder.area.is_machine:
            self.check_access(call, folder, os.W_OK | os.X_OK)
            folder = self.layer.copy_folder(folder)
        return self.paths.step(folder, found.position.path.rpartition(b"/")[2])

    def prepare_change(self, found: Found) -> Position:
        """Return where a file or folder is changed; it is copied if it is the machine's."""
        self.check_writable(found.position)
        return self.layer.copy_entry(found.position)

    def is_of_descriptor(self, call: SystemCall, address: int, flags: int) -> bool:
        """Return whether a call is about the file of a descriptor, without a path."""
        if not flags & AT_EMPTY_PATH:
            return False
        return not address or call.memory.read(address, 1) == b"\0"

    @staticmethod
    def is_kernels(found: Found) -> bool:
        """Return whether a change is the kernel's to make: the file is one for all."""
        return found.is_plain and (found.is_nameless or found.position.area.is_special)

    def find_host_path(
        self, call: SystemCall, dirfd: int, path: bytes, *, is_created: bool
    ) -> bytes | None:
        """Return where a path is on the machine.

        Args:
            call: the call that has it.
            dirfd: a descriptor of the program, or `AT_FDCWD`.
            is_created: whether the call creates it, in a folder that the program may write to.

        Returns:
            None if the kernel comes to the same place.

        Raises:
            OSError: it leads nowhere, or cannot be created.
        """
        self.layer.synchronize()
        try:
            found = self.paths.resolve(
                call.thread, dirfd, path, is_followed=not is_created, is_parent=is_created
            )
        except PathError as error:
            if error.is_plain:
                return None
            raise
        if is_created:
            if found.status is not None:
                raise make_error(errno.EADDRINUSE)
            if found.is_plain and found.position.area.is_special:
                return None
            return self.prepare_creation(call, found).host
        return None if found.is_plain or found.is_jump else found.position.host_path
