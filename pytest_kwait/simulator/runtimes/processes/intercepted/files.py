"""Answers to system calls with paths, as in a container with mounts and a layer of its own.

A call that only reads and whose path is plain goes on. Any other one is performed here, on the
place that its path stands for, with the program's user, groups and umask; what it returns is
written into the program's memory. Calls that change the calling process itself, as `execve` and
`chdir`, are made with other paths.

Source: man 2 of each call; fs/namei.c, fs/open.c.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from typing import TYPE_CHECKING, ClassVar

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Change,
    Continue,
    Descriptor,
    Failure,
    as_signed,
    read_string,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.change_calls import ChangeCalls
from pytest_kwait.simulator.runtimes.processes.intercepted.entry_calls import EntryCalls
from pytest_kwait.simulator.runtimes.processes.intercepted.file_system import (
    AT_EMPTY_PATH,
    AT_SYMLINK_NOFOLLOW,
    FileSystem,
    make_error,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import (
    AT_FDCWD,
    NO_LIMITS,
    Limits,
    PathError,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.process_calls import ProcessCalls
from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Condition
from pytest_kwait.simulator.runtimes.processes.intercepted.status_calls import StatusCalls
from pytest_kwait.simulator.runtimes.processes.intercepted.unix_sockets import SocketPaths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer, SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.paths import (
        ContainerFiles,
        Found,
        Position,
    )
    from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Conditions

# Source: include/uapi/asm-generic/fcntl.h; include/uapi/linux/openat2.h, inotify.h.
_O_TMPFILE = 0o20000000
_RESOLVE_NO_XDEV, _RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS = 0x01, 0x02, 0x04
_RESOLVE_BENEATH, _RESOLVE_IN_ROOT, _RESOLVE_CACHED = 0x08, 0x10, 0x20
_RESOLVE_FLAGS = 0x3F
_OPEN_HOW_BYTES, _MAX_OPEN_HOW_BYTES = 24, 4096
_IN_DONT_FOLLOW = 0x02000000
_AT_NO_AUTOMOUNT = 0x800
# A call for a descriptor alone, which has no path.
_EMPTY_PATHS = (
    AT_EMPTY_PATH,
    AT_EMPTY_PATH | _AT_NO_AUTOMOUNT,
    AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW,
)


class FileCalls:
    """Answers the calls with paths of a container's programs.

    Args:
        files: the same for all interceptors of a container.
    """

    def __init__(self, files: ContainerFiles) -> None:
        self._files = FileSystem(files)
        status, changes = StatusCalls(self._files), ChangeCalls(self._files)
        entries, processes = EntryCalls(self._files), ProcessCalls(self._files)
        self._answers: dict[str, Callable[[SystemCall], Answer]] = {}
        for name, answer in self.ANSWERS.items():
            self._answers[name] = answer.__get__(self)
        for name, read in StatusCalls.ANSWERS.items():
            self._answers[name] = read.__get__(status)
        for name, change in ChangeCalls.ANSWERS.items():
            self._answers[name] = change.__get__(changes)
        for name, create in EntryCalls.ANSWERS.items():
            self._answers[name] = create.__get__(entries)
        for name, execute in ProcessCalls.ANSWERS.items():
            self._answers[name] = execute.__get__(processes)
        self.answers: Mapping[str, Callable[[SystemCall], Answer]] = dict.fromkeys(
            self._answers, self.answer
        )
        """The functions that answer, by name."""
        self.sockets = SocketPaths(self._files, files.sockets or files.upper + "-state/sockets")
        """The paths of Unix sockets."""

    def close(self) -> None:
        """Close descriptors; the container's files stay."""
        self._files.layer.close()

    def answer(self, call: SystemCall) -> Answer:
        """Return the answer to a call."""
        self._files.layer.synchronize()
        try:
            return self._answers[call.name](call)
        except OSError as error:
            return Failure(error.errno or errno.EIO)

    def _answer_open(self, call: SystemCall) -> Answer:
        path, flags, mode = call.arguments[:3]
        return self._open(call, AT_FDCWD, 0, path, as_signed(flags), mode & 0o7777)

    def _answer_creat(self, call: SystemCall) -> Answer:
        path, mode = call.arguments[:2]
        flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
        return self._open(call, AT_FDCWD, 0, path, flags, mode & 0o7777)

    def _answer_openat(self, call: SystemCall) -> Answer:
        dirfd, path, flags, mode = call.arguments[:4]
        return self._open(call, as_signed(dirfd), 1, path, as_signed(flags), mode & 0o7777)

    def _answer_openat2(self, call: SystemCall) -> Answer:
        dirfd, path, address, size = call.arguments[:4]
        if not _OPEN_HOW_BYTES <= size <= _MAX_OPEN_HOW_BYTES:
            return Continue()
        how = call.memory.read(address, size)
        flags, mode, resolve = struct.unpack_from("=QQQ", how)
        is_scoped = resolve & _RESOLVE_BENEATH and resolve & _RESOLVE_IN_ROOT
        if (
            any(how[_OPEN_HOW_BYTES:])
            or flags >> 32
            or mode & ~0o7777
            or resolve & ~_RESOLVE_FLAGS
            or is_scoped
        ):
            return Continue()  # which is refused
        limits = Limits(
            not resolve & _RESOLVE_NO_SYMLINKS,
            not resolve & (_RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS),
            bool(resolve & _RESOLVE_BENEATH),
            bool(resolve & _RESOLVE_IN_ROOT),
            not resolve & _RESOLVE_NO_XDEV,
        )
        answer = self._open(call, as_signed(dirfd), 1, path, int(flags), mode, limits)
        if resolve & _RESOLVE_CACHED and not isinstance(answer, Continue):
            if isinstance(answer, Descriptor):
                os.close(answer.fd)
            return Failure(errno.EAGAIN)
        return answer

    def _open(
        self,
        call: SystemCall,
        dirfd: int,
        place: int,
        address: int,
        flags: int,
        mode: int,
        limits: Limits = NO_LIMITS,
    ) -> Answer:
        """Answer a call that opens a file.

        Args:
            place: the place of the path's argument.
        """
        is_temporary = flags & _O_TMPFILE and not flags & os.O_PATH
        is_writing = not flags & os.O_PATH and bool(
            is_temporary or flags & (os.O_CREAT | os.O_TRUNC | os.O_ACCMODE)
        )
        is_exclusive = is_writing and flags & os.O_CREAT and flags & os.O_EXCL
        is_followed = not flags & os.O_NOFOLLOW and not is_exclusive
        if not is_writing and limits is NO_LIMITS:
            seen = self._find_seen_parent(call, dirfd, address, flags)
            if seen is not None:
                return self._open_at(call, seen, flags, mode)
            reading = self._files.find_reading(call, dirfd, address, is_followed=is_followed)
            if reading is None:
                return Continue()
            found = reading
        else:
            path = read_string(call.memory, address)
            found = self._files.paths.resolve(
                call.thread, dirfd, path, is_followed=is_followed, limits=limits
            )
        status, position = found.status, found.position
        if status is None:
            if not flags & os.O_CREAT or flags & os.O_PATH:
                raise make_error(errno.ENOENT)
            if found.must_be_folder:
                raise make_error(errno.EISDIR)
            if found.is_plain and position.area.is_special:
                return Continue()
            return self._create_file(call, found, flags, mode)
        if found.is_nameless:
            return Continue() if found.is_plain or not is_writing else Failure(errno.EROFS)
        if is_exclusive:
            raise make_error(errno.EEXIST)
        if is_writing and stat.S_ISDIR(status.st_mode) and not is_temporary:
            raise make_error(errno.EISDIR)
        if is_writing and (is_temporary or flags & (os.O_TRUNC | os.O_ACCMODE)):
            position = self._prepare_writing(call, position, status.st_mode, flags)
        if found.is_plain and position == found.position:
            return Continue()
        is_pipe = stat.S_ISFIFO(status.st_mode)
        if flags & os.O_PATH or (is_pipe and not flags & os.O_NONBLOCK):
            # The first cannot be added to a program; the second may wait for its other end.
            changed: dict[int, int | bytes] = {place: position.host_path + b"\0"}
            if limits is not NO_LIMITS:
                changed[place + 1] = struct.pack("=QQQ", flags, mode, 0)
                changed[place + 2] = _OPEN_HOW_BYTES
            return Change(changed)
        return self._open_at(call, position, flags, mode)

    def _prepare_writing(
        self, call: SystemCall, position: Position, mode: int, flags: int
    ) -> Position:
        """Return where a file is written, or one without a name created in a folder."""
        is_folder = stat.S_ISDIR(mode)
        if not is_folder and not stat.S_ISREG(mode):
            return position
        if is_folder or flags & os.O_TRUNC:
            self._files.check_writable(position)
        if position.area.is_machine or self._files.is_read_only(position):
            self._files.check_access(call, position, os.W_OK | (os.X_OK if is_folder else 0))
        self._files.check_writable(position)
        if is_folder:
            return self._files.layer.copy_folder(position)
        return self._files.layer.copy_entry(position, is_emptied=bool(flags & os.O_TRUNC))

    def _find_seen_parent(
        self, call: SystemCall, dirfd: int, address: int, flags: int
    ) -> Position | None:
        is_folder = flags & (os.O_DIRECTORY | os.O_PATH) == os.O_DIRECTORY
        if dirfd == AT_FDCWD or not is_folder or call.memory.read(address, 3) != b"..\0":
            return None
        return self._files.paths.find_seen_parent(call.thread, dirfd)

    def _create_file(self, call: SystemCall, found: Found, flags: int, mode: int) -> Answer:
        with self._files.layer.change():
            position = self._files.prepare_creation(call, found)
            return self._open_at(call, position, flags, mode)

    def _open_at(self, call: SystemCall, position: Position, flags: int, mode: int) -> Answer:
        fd, path = self._files.get_path_at(position)
        own_flags = flags | os.O_CLOEXEC | os.O_NOCTTY
        with self._files.as_program(call):
            opened = self._files.make_call("openat", fd, path, own_flags, mode)
        return Descriptor(opened, not flags & os.O_CLOEXEC)

    def _answer_inotify_add_watch(self, call: SystemCall) -> Answer:
        _, address, mask = call.arguments[:3]
        path = read_string(call.memory, address)
        is_followed = not mask & _IN_DONT_FOLLOW
        try:
            found = self._files.paths.resolve(call.thread, AT_FDCWD, path, is_followed=is_followed)
        except PathError as error:
            if error.is_plain:
                return Continue()
            raise
        status, position = found.status, found.position
        if status is None:
            return Failure(errno.ENOENT)
        if found.is_jump or (found.is_plain and position.area.is_special):
            return Continue()
        if (
            position.area.is_machine
            and stat.S_ISDIR(status.st_mode)
            and not self._files.read_only_root
        ):
            # Changes of the container happen in its layer.
            position = self._files.layer.copy_folder(position)
        elif found.is_plain:
            return Continue()
        return Change({1: position.host_path + b"\0"})

    def _answer_unknown(self, _call: SystemCall) -> Answer:
        """Refuse a call for which programs have another one."""
        return Failure(errno.ENOSYS)

    ANSWERS: ClassVar[Mapping[str, Callable[[FileCalls, SystemCall], Answer]]] = {
        "creat": _answer_creat,
        "file_getattr": _answer_unknown,
        "file_setattr": _answer_unknown,
        "getxattrat": _answer_unknown,
        "inotify_add_watch": _answer_inotify_add_watch,
        "listxattrat": _answer_unknown,
        "open": _answer_open,
        "openat": _answer_openat,
        "openat2": _answer_openat2,
        "removexattrat": _answer_unknown,
        "setxattrat": _answer_unknown,
    }
    CAUGHT: Mapping[str, Conditions] = {
        **dict.fromkeys(ANSWERS, ()),
        **dict.fromkeys(StatusCalls.ANSWERS, ()),
        **dict.fromkeys(ChangeCalls.ANSWERS, ()),
        **dict.fromkeys(EntryCalls.ANSWERS, ()),
        **dict.fromkeys(ProcessCalls.ANSWERS, ()),
        "newfstatat": (Condition(3, _EMPTY_PATHS, is_excluded=True),),
        "statx": (Condition(2, _EMPTY_PATHS, is_excluded=True),),
    }
    """The system calls that need an answer."""
