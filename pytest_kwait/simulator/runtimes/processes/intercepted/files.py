"""Answers to system calls with paths, as in a container with mounts and a layer of its own.

A call that only reads and whose path is plain goes on. Any other one is performed here, on the
place that its path stands for, with the program's user, groups and umask; what it returns is
written into the program's memory. Calls that change the calling process itself, as `execve` and
`chdir`, are made with other paths.

Source: man 2 of each call; fs/namei.c, fs/open.c, fs/exec.c; fs/binfmt_script.c.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Answer,
    Change,
    Continue,
    Descriptor,
    Failure,
    Result,
    as_signed,
    read_string,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.layer import ContainerLayer
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import (
    AT_FDCWD,
    NO_LIMITS,
    ContainerFiles,
    Found,
    Layer,
    Limits,
    PathError,
    is_jump,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Condition
from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import find_processor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.paths import Position
    from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Conditions

# Source: include/uapi/linux/fcntl.h, openat2.h, fs.h, inotify.h, stat.h.
_AT_SYMLINK_NOFOLLOW, _AT_EACCESS, _AT_REMOVEDIR = 0x100, 0x200, 0x200
_AT_SYMLINK_FOLLOW, _AT_NO_AUTOMOUNT, _AT_EMPTY_PATH = 0x400, 0x800, 0x1000
# A call for a descriptor alone, which has no path.
_EMPTY_PATHS = (
    _AT_EMPTY_PATH,
    _AT_EMPTY_PATH | _AT_NO_AUTOMOUNT,
    _AT_EMPTY_PATH | _AT_SYMLINK_NOFOLLOW,
)
_O_TMPFILE = 0o20000000
_RESOLVE_NO_XDEV, _RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS = 0x01, 0x02, 0x04
_RESOLVE_BENEATH, _RESOLVE_IN_ROOT, _RESOLVE_CACHED = 0x08, 0x10, 0x20
_RENAME_NOREPLACE, _RENAME_EXCHANGE, _RENAME_WHITEOUT = 1, 2, 4
_IN_ONLYDIR, _IN_DONT_FOLLOW = 0x01000000, 0x02000000
_OPEN_HOW_BYTES, _MAX_OPEN_HOW_BYTES = 24, 4096
_STAT_BYTES = {"x86_64": 144, "aarch64": 128}
_STATX_BYTES, _STATFS_BYTES = 256, 120
_XATTR_NAME_BYTES, _XATTR_VALUE_BYTES = 256, 65536
_PATH_BYTES = 4096
_STATUS_BYTES = 65536
# Source: include/uapi/linux/binfmts.h, `BINPRM_BUF_SIZE`; fs/exec.c, `exec_binprm`.
_SCRIPT_LINE_BYTES, _MAX_INTERPRETERS = 256, 5
_OMITTED, _NOW = (1 << 30) - 2, (1 << 30) - 1
_NONE = ctypes.c_void_p(None)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class _Program(NamedTuple):
    """The rights of a program's thread."""

    umask: int
    user: int
    real_user: int
    group: int
    groups: tuple[int, ...]


def _read_program(thread: int) -> _Program:
    fd = os.open(f"/proc/{thread}/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(fd, _STATUS_BYTES)
    finally:
        os.close(fd)
    umask = text.index(b"\nUmask:") + len(b"\nUmask:")
    start = text.index(b"\nUid:", umask)
    users, groups, _, other_groups = text[start + 1 :].split(b"\n", 4)[:4]
    user, group = users.split(), groups.split()
    return _Program(
        int(text[umask : text.index(b"\n", umask)], 8),
        int(user[4]),
        int(user[1]),
        int(group[4]),
        tuple(int(number) for number in other_groups.split()[1:]),
    )


class _Rights:
    """The rights of this process, which performs calls with those of programs."""

    def __init__(self) -> None:
        self._is_any_user = not os.geteuid()
        self._own = (os.geteuid(), os.getegid(), tuple(os.getgroups()))

    def differ(self, program: _Program) -> bool:
        """Return whether a program has others, which can be taken."""
        return self._is_any_user and (program.user, program.group, program.groups) != self._own

    @contextlib.contextmanager
    def take(self, program: _Program) -> Iterator[None]:
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


class FileCalls:
    """Answers the calls with paths of a container's programs.

    Args:
        files: the same for all interceptors of a container.
    """

    def __init__(self, files: ContainerFiles) -> None:
        processor = find_processor()
        if processor is None:
            raise OSError(f"files cannot be intercepted on this processor: {os.uname().machine}")
        self._numbers = processor.numbers
        self._stat_bytes = _STAT_BYTES[os.uname().machine]
        self._layer = ContainerLayer(files)
        self._paths = self._layer.paths
        self._read_only_root = files.read_only_root
        self._rights = _Rights()
        self.answers: Mapping[str, Callable[[SystemCall], Answer]] = dict.fromkeys(
            self._ANSWERS, self.answer
        )
        """What answers each name."""

    def close(self) -> None:
        """Close descriptors; the container's files stay."""
        self._layer.close()

    def answer(self, call: SystemCall) -> Answer:
        """Return the answer to a call."""
        self._layer.synchronize()
        try:
            return self._ANSWERS[call.name](self, call)
        except OSError as error:
            return Failure(error.errno or errno.EIO)

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
        self._layer.synchronize()
        try:
            found = self._paths.resolve(
                call.thread, dirfd, path, is_followed=not is_created, is_parent=is_created
            )
        except PathError as error:
            if error.is_plain:
                return None
            raise
        if is_created:
            if found.status is not None:
                raise _error(errno.EADDRINUSE)
            if found.is_plain and found.position.area.is_special:
                return None
            return self._prepare_creation(call, found).host
        return None if found.is_plain or found.is_jump else found.position.host_path

    # -- performing calls

    def _call(self, name: str, *arguments: object) -> int:
        """Make a system call; bytes are passed by their address."""
        values = [
            ctypes.c_long(argument) if isinstance(argument, int) else argument
            for argument in arguments
        ]
        result = int(_libc.syscall(ctypes.c_long(self._numbers[name]), *values))
        if result < 0:
            raise _error(ctypes.get_errno())
        return result

    @contextlib.contextmanager
    def _as_program(self, call: SystemCall) -> Iterator[None]:
        with self._rights.take(_read_program(call.thread)):
            yield

    @staticmethod
    def _at(position: Position) -> tuple[int, bytes]:
        """Return a descriptor and a path relative to it: the way to it needs no rights."""
        area = position.area
        return area.fd, position.host_path[area.prefix :] or b"."

    def _by_path(self, position: Position) -> bytes:
        """Return a path for calls without descriptors."""
        fd, path = self._at(position)
        return path if fd == AT_FDCWD else b"/proc/self/fd/%d/%s" % (fd, path)

    # -- paths

    def _find_reading(
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
        if self._paths.is_plain(call.thread, dirfd, path, is_followed=is_followed):
            return None
        try:
            found = self._paths.resolve(call.thread, dirfd, path, is_followed=is_followed)
        except PathError as error:
            if error.is_plain:
                return None
            raise
        if found.is_plain:
            return None
        if found.status is None:
            raise _error(errno.ENOENT)
        return found

    def _find_changed(
        self, call: SystemCall, dirfd: int, address: int, *, is_followed: bool = True
    ) -> Found:
        """Return the existing file or folder that a call changes."""
        path = read_string(call.memory, address)
        found = self._paths.resolve(call.thread, dirfd, path, is_followed=is_followed)
        if found.status is None:
            raise _error(errno.ENOENT)
        return found

    def _find_entry(self, call: SystemCall, dirfd: int, address: int) -> Found:
        """Return the entry of a folder that a call creates or removes."""
        path = read_string(call.memory, address)
        return self._paths.resolve(call.thread, dirfd, path, is_followed=False, is_parent=True)

    def _is_read_only(self, position: Position) -> bool:
        area = position.area
        if area.is_special:
            return False
        return self._read_only_root if area.is_machine else area.read_only

    def _check_writable(self, position: Position) -> None:
        if self._is_read_only(position):
            raise _error(errno.EROFS)

    def _check_access(self, call: SystemCall, position: Position, mode: int) -> None:
        """Refuse what the machine refuses to a program with rights of its own."""
        program = _read_program(call.thread)
        if self._rights.differ(program):
            with self._rights.take(program):
                self._call("faccessat2", AT_FDCWD, position.host_path, mode, _AT_EACCESS)

    def _prepare_creation(self, call: SystemCall, found: Found) -> Position:
        """Return where an entry is created; its folder is copied if it is the machine's."""
        self._check_writable(found.folder)
        folder = found.folder
        if folder.area.is_machine:
            self._check_access(call, folder, os.W_OK | os.X_OK)
            folder = self._layer.copy_folder(folder)
        return self._paths.step(folder, found.position.path.rpartition(b"/")[2])

    def _prepare_change(self, found: Found) -> Position:
        """Return where a file or folder is changed; it is copied if it is the machine's."""
        self._check_writable(found.position)
        return self._layer.copy_entry(found.position)

    # -- open

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
        if any(how[_OPEN_HOW_BYTES:]) or flags >> 32 or mode & ~0o7777:
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
            reading = self._find_reading(call, dirfd, address, is_followed=is_followed)
            if reading is None:
                return Continue()
            found = reading
        else:
            path = read_string(call.memory, address)
            found = self._paths.resolve(
                call.thread, dirfd, path, is_followed=is_followed, limits=limits
            )
        status, position = found.status, found.position
        if status is None:
            if not flags & os.O_CREAT or flags & os.O_PATH:
                raise _error(errno.ENOENT)
            if found.must_be_folder:
                raise _error(errno.EISDIR)
            if found.is_plain and position.area.is_special:
                return Continue()
            return self._create_file(call, found, flags, mode)
        if found.is_nameless:
            return Continue() if found.is_plain or not is_writing else Failure(errno.EROFS)
        if not is_writing:
            if found.is_plain:
                return Continue()
        elif is_exclusive:
            raise _error(errno.EEXIST)
        elif stat.S_ISDIR(status.st_mode):
            if not is_temporary:
                raise _error(errno.EISDIR)
            self._check_writable(position)
            if position.area.is_machine:
                self._check_access(call, position, os.W_OK | os.X_OK)
            position = self._layer.copy_folder(position)
        elif not stat.S_ISREG(status.st_mode):
            if found.is_plain:
                return Continue()
        else:
            self._check_writable(position)
            if position.area.is_machine:
                self._check_access(call, position, os.W_OK)
            position = self._layer.copy_entry(position)
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

    def _create_file(self, call: SystemCall, found: Found, flags: int, mode: int) -> Answer:
        with self._layer.change():
            position = self._prepare_creation(call, found)
            return self._open_at(call, position, flags, mode)

    def _open_at(self, call: SystemCall, position: Position, flags: int, mode: int) -> Answer:
        fd, path = self._at(position)
        own_flags = flags | os.O_CLOEXEC | os.O_NOCTTY
        with self._as_program(call):
            opened = self._call("openat", fd, path, own_flags, mode)
        return Descriptor(opened, not flags & os.O_CLOEXEC)

    # -- reading

    def _answer_stat(self, call: SystemCall) -> Answer:
        path, buffer = call.arguments[:2]
        return self._stat(call, AT_FDCWD, path, buffer, 0)

    def _answer_lstat(self, call: SystemCall) -> Answer:
        path, buffer = call.arguments[:2]
        return self._stat(call, AT_FDCWD, path, buffer, _AT_SYMLINK_NOFOLLOW)

    def _answer_newfstatat(self, call: SystemCall) -> Answer:
        dirfd, path, buffer, flags = call.arguments[:4]
        return self._stat(call, as_signed(dirfd), path, buffer, as_signed(flags))

    def _is_of_descriptor(self, call: SystemCall, address: int, flags: int) -> bool:
        """Return whether a call is about the file of a descriptor, without a path."""
        if not flags & _AT_EMPTY_PATH:
            return False
        return not address or call.memory.read(address, 1) == b"\0"

    def _stat(self, call: SystemCall, dirfd: int, address: int, buffer: int, flags: int) -> Answer:
        if self._is_of_descriptor(call, address, flags):
            return Continue()
        is_followed = not flags & _AT_SYMLINK_NOFOLLOW
        found = self._find_reading(call, dirfd, address, is_followed=is_followed)
        if found is None or found.is_nameless:
            return Continue()
        content = ctypes.create_string_buffer(self._stat_bytes)
        fd, path = self._at(found.position)
        with self._as_program(call):
            self._call("newfstatat", fd, path, content, flags)
        call.memory.write(buffer, content.raw)
        return Result()

    def _answer_statx(self, call: SystemCall) -> Answer:
        dirfd, address, number, mask, buffer = call.arguments[:5]
        flags = as_signed(number)
        if self._is_of_descriptor(call, address, flags):
            return Continue()
        is_followed = not flags & _AT_SYMLINK_NOFOLLOW
        found = self._find_reading(call, as_signed(dirfd), address, is_followed=is_followed)
        if found is None or found.is_nameless:
            return Continue()
        content = ctypes.create_string_buffer(_STATX_BYTES)
        fd, path = self._at(found.position)
        with self._as_program(call):
            self._call("statx", fd, path, flags, mask & 0xFFFFFFFF, content)
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
        if self._is_of_descriptor(call, address, flags):
            return Continue()
        is_followed = not flags & _AT_SYMLINK_NOFOLLOW
        if mode & os.W_OK:
            path = read_string(call.memory, address)
            try:
                found = self._paths.resolve(call.thread, dirfd, path, is_followed=is_followed)
            except PathError as error:
                if error.is_plain:
                    return Continue()
                raise
            if found.status is None:
                raise _error(errno.ENOENT)
            if found.is_plain and found.position.area.is_special:
                return Continue()
        else:
            reading = self._find_reading(call, dirfd, address, is_followed=is_followed)
            if reading is None:
                return Continue()
            found = reading
        if found.is_nameless:
            return Continue()
        self._perform_access(call, found, mode, flags)
        return Result()

    def _perform_access(self, call: SystemCall, found: Found, mode: int, flags: int) -> None:
        program = _read_program(call.thread)
        status, is_written = found.status, bool(mode & os.W_OK)
        if found.position.area.is_machine and not self._rights.differ(program):
            # Its copy could be written to.
            mode &= ~os.W_OK
        if not flags & _AT_EACCESS:
            program = program._replace(user=program.real_user)
        at_fd, path = self._at(found.position)
        flags &= _AT_SYMLINK_NOFOLLOW
        with self._rights.take(program):
            if flags or self._rights.differ(program):
                self._call("faccessat2", at_fd, path, mode, flags | _AT_EACCESS)
            else:
                self._call("faccessat", at_fd, path, mode)
        kinds = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
        if is_written and status is not None and stat.S_IFMT(status.st_mode) in kinds:
            self._check_writable(found.position)

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
        if self._paths.is_plain(call.thread, dirfd, path, is_followed=False):
            return Continue()
        try:
            found = self._paths.resolve(call.thread, dirfd, path, is_followed=False)
        except PathError as error:
            if error.is_plain:
                return Continue()
            raise
        position = found.position
        if found.status is None:
            if found.is_plain:
                return Continue()
            raise _error(errno.ENOENT)
        if position.area.is_special and is_jump(position.host):
            return self._read_jump(call, position, buffer, size)
        if found.is_plain:
            return Continue()
        content = ctypes.create_string_buffer(min(size, _PATH_BYTES))
        fd, relative = self._at(position)
        with self._as_program(call):
            length = self._call("readlinkat", fd, relative, content, len(content))
        call.memory.write(buffer, content.raw[:length])
        return Result(length)

    def _read_jump(self, call: SystemCall, position: Position, buffer: int, size: int) -> Answer:
        """Answer with the container's path of an open file."""
        try:
            host = os.readlink(position.host)
        except OSError:
            return Continue()
        if not host.startswith(b"/"):
            return Continue()
        path = self._paths.to_container(host) or b"/"
        if path == host:
            return Continue()
        text = path[:size]
        call.memory.write(buffer, text)
        return Result(len(text))

    def _answer_getcwd(self, call: SystemCall) -> Answer:
        buffer, size = call.arguments[:2]
        try:
            host = os.readlink(f"/proc/{call.thread}/cwd".encode())
        except OSError:
            return Continue()
        if host.endswith(b" (deleted)") and not os.path.lexists(host):
            return Continue()  # which fails
        path = self._paths.to_container(host) or b"/"
        if path == host:
            return Continue()
        text = path + b"\0"
        if len(text) > size:
            return Failure(errno.ERANGE)
        call.memory.write(buffer, text)
        return Result(len(text))

    def _answer_statfs(self, call: SystemCall) -> Answer:
        path, buffer = call.arguments[:2]
        found = self._find_reading(call, AT_FDCWD, path)
        if found is None or found.is_nameless:
            return Continue()
        content = ctypes.create_string_buffer(_STATFS_BYTES)
        with self._as_program(call):
            self._call("statfs", self._by_path(found.position), content)
        call.memory.write(buffer, content.raw)
        return Result()

    # -- extended attributes

    def _answer_get_xattr(self, call: SystemCall) -> Answer:
        address, name, buffer, size = call.arguments[:4]
        found = self._find_reading(
            call, AT_FDCWD, address, is_followed=not call.name.startswith("l")
        )
        if found is None or found.is_nameless:
            return Continue()
        attribute = read_string(call.memory, name)
        return self._fill(call, found.position, buffer, size, attribute)

    def _answer_list_xattrs(self, call: SystemCall) -> Answer:
        address, buffer, size = call.arguments[:3]
        is_followed = call.name == "listxattr"
        found = self._find_reading(call, AT_FDCWD, address, is_followed=is_followed)
        if found is None or found.is_nameless:
            return Continue()
        return self._fill(call, found.position, buffer, size)

    def _fill(
        self, call: SystemCall, position: Position, buffer: int, size: int, *names: bytes
    ) -> Answer:
        content = ctypes.create_string_buffer(max(min(size, _XATTR_VALUE_BYTES), 1))
        path = self._by_path(position)
        with self._as_program(call):
            length = self._call(call.name, path, *names, content, min(size, _XATTR_VALUE_BYTES))
        if size:
            call.memory.write(buffer, content.raw[:length])
        return Result(length)

    def _answer_set_xattr(self, call: SystemCall) -> Answer:
        address, name, value, size, flags = call.arguments[:5]
        if size > _XATTR_VALUE_BYTES:
            return Failure(errno.E2BIG)
        found = self._find_changed(
            call, AT_FDCWD, address, is_followed=not call.name.startswith("l")
        )
        if self._is_kernels(found):
            return Continue()
        attribute = read_string(call.memory, name)
        content = call.memory.read(value, size) if size else b""
        with self._layer.change():
            path = self._by_path(self._prepare_change(found))
            with self._as_program(call):
                self._call(call.name, path, attribute, content, size, as_signed(flags))
        return Result()

    def _answer_remove_xattr(self, call: SystemCall) -> Answer:
        address, name = call.arguments[:2]
        found = self._find_changed(
            call, AT_FDCWD, address, is_followed=not call.name.startswith("l")
        )
        if self._is_kernels(found):
            return Continue()
        attribute = read_string(call.memory, name)
        with self._layer.change():
            path = self._by_path(self._prepare_change(found))
            with self._as_program(call):
                self._call(call.name, path, attribute)
        return Result()

    def _answer_set_open_xattr(self, call: SystemCall) -> Answer:
        fd, name, value, size, flags = call.arguments[:5]
        if size > _XATTR_VALUE_BYTES:
            return Failure(errno.E2BIG)

        def perform(position: Position) -> int:
            attribute = read_string(call.memory, name)
            content = call.memory.read(value, size) if size else b""
            path = self._by_path(position)
            return self._call("setxattr", path, attribute, content, size, as_signed(flags))

        return self._change_open(call, as_signed(fd), perform)

    def _answer_remove_open_xattr(self, call: SystemCall) -> Answer:
        fd, name = call.arguments[:2]
        return self._change_open(
            call,
            as_signed(fd),
            lambda position: self._call(
                "removexattr", self._by_path(position), read_string(call.memory, name)
            ),
        )

    # -- changes of files and folders

    @staticmethod
    def _is_kernels(found: Found) -> bool:
        """Return whether a change is the kernel's to make: the file is one for all."""
        return found.is_plain and (found.is_nameless or found.position.area.is_special)

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
        if self._is_of_descriptor(call, address, flags):
            return self._change_open(call, dirfd, perform)
        found = self._find_changed(
            call, dirfd, address, is_followed=not flags & _AT_SYMLINK_NOFOLLOW
        )
        if self._is_kernels(found):
            return Continue()
        return self._change_found(call, found, perform)

    def _change_found(
        self, call: SystemCall, found: Found, perform: Callable[[Position], int]
    ) -> Answer:
        with self._layer.change():
            position = self._prepare_change(found)
            with self._as_program(call):
                perform(position)
        return Result()

    def _change_open(self, call: SystemCall, fd: int, perform: Callable[[Position], int]) -> Answer:
        """Change the status of an open file: of its copy, if it is the machine's."""
        link = f"/proc/{call.thread}/fd/{fd}".encode()
        try:
            found = self._paths.resolve(call.thread, AT_FDCWD, link)
        except PathError:
            return Continue()
        if found.is_nameless:
            # The container may have removed what the machine still has.
            return Continue() if found.is_plain else Result()
        if found.position.area.is_special:
            return Continue()
        self._check_writable(found.position)
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
            lambda position: self._perform_chmod(position, mode, flags & _AT_SYMLINK_NOFOLLOW),
        )  # fmt: skip

    def _perform_chmod(self, position: Position, mode: int, flags: int) -> int:
        fd, path = self._at(position)
        if flags:
            return self._call("fchmodat2", fd, path, mode & 0o7777, flags)
        return self._call("fchmodat", fd, path, mode & 0o7777)

    def _answer_chown(self, call: SystemCall) -> Answer:
        path, user, group = call.arguments[:3]
        flags = _AT_SYMLINK_NOFOLLOW if call.name == "lchown" else 0
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
        nofollow = flags & _AT_SYMLINK_NOFOLLOW
        return self._change_entry(
            call, dirfd, path, flags,
            lambda position: self._perform_chown(position, user, group, nofollow),
        )  # fmt: skip

    def _perform_chown(self, position: Position, user: int, group: int, flags: int) -> int:
        fd, path = self._at(position)
        return self._call("fchownat", fd, path, as_signed(user), as_signed(group), flags)

    def _answer_truncate(self, call: SystemCall) -> Answer:
        path, length = call.arguments[:2]
        size = length - ((length & 1 << 63) << 1)
        if size < 0:
            return Failure(errno.EINVAL)
        found = self._find_changed(call, AT_FDCWD, path)
        if self._is_kernels(found):
            return Continue()
        if found.position.area.is_machine and found.status is not None:
            if stat.S_ISDIR(found.status.st_mode):
                return Failure(errno.EISDIR)
            self._check_writable(found.position)
            self._check_access(call, found.position, os.W_OK)
        return self._change_found(
            call, found, lambda position: self._call("truncate", self._by_path(position), size)
        )

    # -- times

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
            raise _error(errno.EINVAL)
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
        nofollow = flags & _AT_SYMLINK_NOFOLLOW
        return self._change_entry(
            call, dirfd, path, flags,
            lambda position: self._perform_set_times(position, times, nofollow),
        )  # fmt: skip

    def _perform_set_times(self, position: Position, times: bytes | None, flags: int) -> int:
        fd, path = self._at(position)
        return self._call("utimensat", fd, path, _NONE if times is None else times, flags)

    # -- entries of folders

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
        with self._layer.change():
            fd, relative = self._at(self._prepare_creation(call, found))
            with self._as_program(call):
                self._call("symlinkat", text, fd, relative)
        return Result()

    def _find_new(self, call: SystemCall, dirfd: int, path: int, *, is_folder: bool) -> Found:
        found = self._find_entry(call, dirfd, path)
        if found.status is not None or found.is_dots:
            raise _error(errno.EEXIST)
        if found.must_be_folder and not is_folder:
            raise _error(errno.ENOENT)
        return found

    def _make(self, call: SystemCall, dirfd: int, path: int, name: str, *arguments: int) -> Answer:
        """Create an entry of a folder."""
        found = self._find_new(call, dirfd, path, is_folder=name == "mkdirat")
        if self._is_kernels(found):
            return Continue()
        with self._layer.change():
            fd, relative = self._at(self._prepare_creation(call, found))
            with self._as_program(call):
                self._call(name, fd, relative, *arguments)
        return Result()

    def _answer_unlink(self, call: SystemCall) -> Answer:
        flags = _AT_REMOVEDIR if call.name == "rmdir" else 0
        return self._remove(call, AT_FDCWD, call.arguments[0], flags)

    def _answer_unlinkat(self, call: SystemCall) -> Answer:
        dirfd, path, flags = call.arguments[:3]
        return self._remove(call, as_signed(dirfd), path, as_signed(flags))

    def _remove(self, call: SystemCall, dirfd: int, path: int, flags: int) -> Answer:
        found = self._find_entry(call, dirfd, path)
        is_folder = bool(flags & _AT_REMOVEDIR)
        if found.is_dots:
            if not is_folder:
                return Failure(errno.EISDIR)
            numbers = {b".": errno.EINVAL, b"..": errno.ENOTEMPTY}
            return Failure(numbers.get(found.last, errno.EBUSY))
        if self._is_kernels(found):
            return Continue()
        self._check_writable(found.folder)
        status = found.status
        if status is None:
            return Failure(errno.ENOENT)
        if found.must_be_folder and not is_folder:
            return Failure(errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.ENOTDIR)
        node = found.position.node
        if node is not None and node.has_target:
            return Failure(errno.EBUSY)
        with self._layer.change():
            position = self._prepare_moving(call, found, is_copied=is_folder)
            fd, relative = self._at(position)
            with self._as_program(call):
                self._call("unlinkat", fd, relative, flags)
            self._note_changed(position)
        return Result()

    def _note_changed(self, position: Position) -> None:
        if isinstance(position.area, Layer):
            self._layer.note_changed(position.path)

    def _prepare_moving(self, call: SystemCall, found: Found, *, is_copied: bool) -> Position:
        """Return where an entry is removed, or put, by the kernel itself.

        Args:
            is_copied: whether its own copy is needed; else there may be a placeholder.
        """
        folder = found.folder
        if folder.area.is_machine:
            self._check_access(call, folder, os.W_OK | os.X_OK)
        name = found.position.path.rpartition(b"/")[2]
        folder = self._layer.copy_folder(folder)
        position = self._paths.step(folder, name)
        if not position.area.is_machine:
            return position
        status = found.status
        if status is not None and (is_copied or stat.S_ISDIR(status.st_mode)):
            return self._layer.copy_entry(position)
        return position._replace(host=folder.host + b"/" + name, area=folder.area)

    # -- rename and link

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
        source = self._find_entry(call, old_fd, old)
        target = self._find_entry(call, new_fd, new)
        if not self._is_one_area(source, target):
            return Failure(errno.EXDEV)
        if source.is_dots:
            return Failure(errno.EBUSY)
        if target.is_dots:
            return Failure(errno.EEXIST if flags & _RENAME_NOREPLACE else errno.EBUSY)
        if self._is_kernels(source) and self._is_kernels(target):
            return Continue()
        self._check_writable(source.folder)
        number = _check_rename(source, target, flags)
        if number:
            return Failure(number)
        with self._layer.change():
            old_position = self._prepare_moving(call, source, is_copied=True)
            new_position = self._prepare_moving(
                call, target, is_copied=bool(flags & _RENAME_EXCHANGE)
            )
            (from_fd, from_path), (to_fd, to_path) = (
                self._at(old_position),
                self._at(new_position),
            )
            with self._as_program(call):
                self._call("renameat2", from_fd, from_path, to_fd, to_path, flags)
            self._note_moved(old_position, new_position, flags)
        return Result()

    def _note_moved(self, old: Position, new: Position, flags: int) -> None:
        if not isinstance(old.area, Layer):
            return
        if flags & _RENAME_EXCHANGE:
            self._layer.note_exchanged(old.path, new.path)
        elif not os.path.lexists(old.host):  # else they were links to one file
            self._layer.note_moved(old.path, new.path)

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
        if flags & ~(_AT_SYMLINK_FOLLOW | _AT_EMPTY_PATH):
            return Failure(errno.EINVAL)
        if self._is_of_descriptor(call, old, flags):
            path = b"/proc/%d/fd/%d" % (call.thread, old_fd)
            source = self._paths.resolve(call.thread, AT_FDCWD, path)
        else:
            source = self._paths.resolve(
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
        if not self._is_one_area(source, target) or source.position.is_target:
            return Failure(errno.EXDEV)
        if self._is_kernels(source) and self._is_kernels(target):
            return Continue()
        self._check_writable(target.folder)
        if stat.S_ISDIR(source.status.st_mode):
            return Failure(errno.EPERM)
        with self._layer.change():
            old_position = self._layer.copy_entry(source.position)
            (from_fd, from_path), (to_fd, to_path) = (
                self._at(old_position),
                self._at(self._prepare_creation(call, target)),
            )
            with self._as_program(call):
                self._call("linkat", from_fd, from_path, to_fd, to_path, 0)
        return Result()

    def _link_nameless(self, call: SystemCall, path: bytes, fd: int, target: Found) -> Answer:
        """Give a name to a file without one, as of O_TMPFILE."""
        source = path if path.startswith(b"/proc/") else b"/proc/%d/fd/%d" % (call.thread, fd)
        parts = source.split(b"/")
        if parts[2] in (b"self", b"thread-self"):
            source = b"/proc/%d/fd/%s" % (call.thread, parts[-1])
        opened = os.open(source, os.O_PATH | os.O_CLOEXEC)
        try:
            with self._layer.change():
                to_fd, to_path = self._at(self._prepare_creation(call, target))
                with self._as_program(call):
                    own = b"/proc/self/fd/%d" % opened
                    self._call("linkat", AT_FDCWD, own, to_fd, to_path, _AT_SYMLINK_FOLLOW)
        finally:
            os.close(opened)
        return Result()

    # -- calls that change the process

    def _answer_chdir(self, call: SystemCall) -> Answer:
        found = self._find_reading(call, AT_FDCWD, call.arguments[0])
        if found is None or found.is_nameless:
            return Continue()
        return Change({0: found.position.host_path + b"\0"})

    def _answer_execve(self, call: SystemCall) -> Answer:
        path = read_string(call.memory, call.arguments[0])
        return self._execute(call, AT_FDCWD, path, 0, is_followed=True)

    def _answer_execveat(self, call: SystemCall) -> Answer:
        dirfd, address = call.arguments[:2]
        flags = as_signed(call.arguments[4])
        if self._is_of_descriptor(call, address, flags):
            return Continue()
        path = read_string(call.memory, address)
        is_followed = not flags & _AT_SYMLINK_NOFOLLOW
        return self._execute(call, as_signed(dirfd), path, 1, is_followed=is_followed)

    def _execute(
        self, call: SystemCall, dirfd: int, path: bytes, place: int, *, is_followed: bool
    ) -> Answer:
        try:
            found = self._paths.resolve(call.thread, dirfd, path, is_followed=is_followed)
        except PathError as error:
            if error.is_plain:
                return Continue()
            raise
        if found.status is None:
            return Continue() if found.is_plain else Failure(errno.ENOENT)
        if found.is_jump:
            return Continue()
        if not stat.S_ISREG(found.status.st_mode):
            return Failure(errno.EACCES)
        if b".." in path.split(b"/"):
            path = found.position.path
        elif not path.startswith(b"/"):
            path = self._paths.read_start(call.thread, dirfd) + b"/" + path
        host = self._find_executable(call, path, found, _MAX_INTERPRETERS)
        if host == found.position.host and found.is_plain:
            return Continue()
        return Change({place: host + b"\0"})

    def _find_executable(self, call: SystemCall, path: bytes, found: Found, depth: int) -> bytes:
        """Return the path on the machine by which a program can be executed.

        A script whose path or whose interpreter's is not plain is executed by a file that has its
        first line, in a folder of the machine where the container's paths are seen: so the
        interpreter finds the script by the path that the kernel gives it.

        Args:
            path: absolute path as the program has it, which may be one of links.
        """
        position = found.position
        line = _read_script_line(position.host)
        if line is None:
            return position.host
        if not depth:
            raise _error(errno.ELOOP)
        interpreter, space, argument = line.partition(b" ")
        inner = self._paths.resolve(call.thread, AT_FDCWD, interpreter)
        if inner.status is None:
            raise _error(errno.ENOENT)
        if inner.is_plain or inner.is_jump:
            if found.is_plain:
                return position.host
            host = interpreter
        elif interpreter.startswith(b"/"):
            host = self._find_executable(call, interpreter, inner, depth - 1)
            if not host.startswith(self._paths.aliases):
                # Programs look for their own files beside the path that they are executed by.
                host = self._make_alias(interpreter, host, is_script=False)
        else:
            host = inner.position.host
        with self._as_program(call):
            at_fd, relative = self._at(position)
            self._call("faccessat", at_fd, relative, os.X_OK)
        return self._make_alias(path, b"#!" + host + space + argument + b"\n", is_script=True)

    def _make_alias(self, path: bytes, content: bytes, *, is_script: bool) -> bytes:
        """Return the path of a file by which a program of the container can be executed.

        Args:
            path: its path in the container.
            content: the first line of a script; of another program, its path on the machine.
        """
        if path.startswith(self._paths.aliases):
            path = path[len(self._paths.aliases) - 1 :]
        path = self._layer.aliases + path
        if is_script and len(content) > _SCRIPT_LINE_BYTES:
            raise _error(errno.ENOEXEC)
        with self._layer.change():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            temporary = path + b".%d~" % os.getpid()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            if is_script:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                fd = os.open(temporary, flags, 0o755)
                try:
                    os.write(fd, content)
                    os.fchmod(fd, 0o755)
                finally:
                    os.close(fd)
            else:
                os.symlink(content, temporary)
            os.rename(temporary, path)
        return path

    # -- watches, and what is refused

    def _answer_inotify_add_watch(self, call: SystemCall) -> Answer:
        _, address, mask = call.arguments[:3]
        path = read_string(call.memory, address)
        is_followed = not mask & _IN_DONT_FOLLOW
        try:
            found = self._paths.resolve(call.thread, AT_FDCWD, path, is_followed=is_followed)
        except PathError as error:
            if error.is_plain:
                return Continue()
            raise
        status, position = found.status, found.position
        if status is None:
            return Failure(errno.ENOENT)
        if found.is_jump or (found.is_plain and position.area.is_special):
            return Continue()
        if position.area.is_machine and stat.S_ISDIR(status.st_mode) and not self._read_only_root:
            # Changes of the container happen in its layer.
            position = self._layer.copy_folder(position)
        elif found.is_plain:
            return Continue()
        return Change({1: position.host_path + b"\0"})

    def _answer_plain_only(self, call: SystemCall) -> Answer:
        dirfd, address = {
            "chroot": (AT_FDCWD, call.arguments[0]),
            "name_to_handle_at": (as_signed(call.arguments[0]), call.arguments[1]),
            "fanotify_mark": (as_signed(call.arguments[3]), call.arguments[4]),
        }[call.name]
        if call.name != "chroot" and (not address or call.memory.read(address, 1) == b"\0"):
            return Continue()
        found = self._find_reading(call, dirfd, address)
        if found is not None or (
            call.name == "chroot" and read_string(call.memory, address) != b"/"
        ):
            return Failure(errno.EPERM)
        return Continue()

    def _answer_unknown(self, _call: SystemCall) -> Answer:
        """Refuse a call for which programs have another one."""
        return Failure(errno.ENOSYS)

    _ANSWERS: ClassVar[Mapping[str, Callable[[FileCalls, SystemCall], Answer]]] = {
        "access": _answer_access,
        "chdir": _answer_chdir,
        "chmod": _answer_chmod,
        "chown": _answer_chown,
        "chroot": _answer_plain_only,
        "creat": _answer_creat,
        "execve": _answer_execve,
        "execveat": _answer_execveat,
        "faccessat": _answer_faccessat,
        "faccessat2": _answer_faccessat2,
        "fanotify_mark": _answer_plain_only,
        "fchmod": _answer_fchmod,
        "fchmodat": _answer_fchmodat,
        "fchmodat2": _answer_fchmodat2,
        "fchown": _answer_fchown,
        "fchownat": _answer_fchownat,
        "file_getattr": _answer_unknown,
        "file_setattr": _answer_unknown,
        "fremovexattr": _answer_remove_open_xattr,
        "fsetxattr": _answer_set_open_xattr,
        "futimesat": _answer_futimesat,
        "getcwd": _answer_getcwd,
        "getxattr": _answer_get_xattr,
        "getxattrat": _answer_unknown,
        "inotify_add_watch": _answer_inotify_add_watch,
        "lchown": _answer_chown,
        "lgetxattr": _answer_get_xattr,
        "link": _answer_link,
        "linkat": _answer_linkat,
        "listxattr": _answer_list_xattrs,
        "listxattrat": _answer_unknown,
        "llistxattr": _answer_list_xattrs,
        "lremovexattr": _answer_remove_xattr,
        "lsetxattr": _answer_set_xattr,
        "lstat": _answer_lstat,
        "mkdir": _answer_mkdir,
        "mkdirat": _answer_mkdirat,
        "mknod": _answer_mknod,
        "mknodat": _answer_mknodat,
        "name_to_handle_at": _answer_plain_only,
        "newfstatat": _answer_newfstatat,
        "open": _answer_open,
        "openat": _answer_openat,
        "openat2": _answer_openat2,
        "readlink": _answer_readlink,
        "readlinkat": _answer_readlinkat,
        "removexattr": _answer_remove_xattr,
        "removexattrat": _answer_unknown,
        "rename": _answer_rename,
        "renameat": _answer_renameat,
        "renameat2": _answer_renameat2,
        "rmdir": _answer_unlink,
        "setxattr": _answer_set_xattr,
        "setxattrat": _answer_unknown,
        "stat": _answer_stat,
        "statfs": _answer_statfs,
        "statx": _answer_statx,
        "symlink": _answer_symlink,
        "symlinkat": _answer_symlinkat,
        "truncate": _answer_truncate,
        "unlink": _answer_unlink,
        "unlinkat": _answer_unlinkat,
        "utime": _answer_utime,
        "utimensat": _answer_utimensat,
        "utimes": _answer_utimes,
    }
    CAUGHT: Mapping[str, Conditions] = {
        **dict.fromkeys(_ANSWERS, ()),
        "newfstatat": (Condition(3, _EMPTY_PATHS, is_excluded=True),),
        "statx": (Condition(2, _EMPTY_PATHS, is_excluded=True),),
    }
    """The system calls that need an answer."""


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


def _read_script_line(path: bytes) -> bytes | None:
    """Return interpreter and argument of a script, with a space between them; None for others."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        head = os.read(fd, _SCRIPT_LINE_BYTES)
    finally:
        os.close(fd)
    if not head.startswith(b"#!"):
        return None
    parts = head[2:].split(b"\n", 1)[0].strip(b" \t").split(None, 1)
    return b" ".join(part.strip(b" \t") for part in parts) or None
