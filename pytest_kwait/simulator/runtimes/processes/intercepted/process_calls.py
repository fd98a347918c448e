"""Answers to system calls that change the calling process: its program and working directory.

Only the process itself can make them; so they are made with other paths.

Source: fs/exec.c; fs/binfmt_script.c; fs/binfmt_elf.c.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, ClassVar

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Change,
    Continue,
    Failure,
    OpenedFile,
    Pointers,
    Result,
    as_signed,
    read_pointers,
    read_string,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.executables import (
    read_executable,
    takes_first_argument,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.file_system import (
    AT_EACCESS,
    AT_SYMLINK_NOFOLLOW,
    make_error,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import AT_FDCWD, PathError
from pytest_kwait.simulator.runtimes.processes.intercepted.users import (
    as_user_of,
    read_process_link,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer, SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.file_system import FileSystem
    from pytest_kwait.simulator.runtimes.processes.intercepted.paths import Found, Position

# Source: fs/exec.c, `exec_binprm`.
_MAX_INTERPRETERS = 5


class ProcessCalls:
    """Answers calls that change the calling process.

    Args:
        files: the container's files.
    """

    def __init__(self, files: FileSystem) -> None:
        self._files = files

    def _answer_chdir(self, call: SystemCall) -> Answer:
        found = self._files.find_reading(call, AT_FDCWD, call.arguments[0])
        if found is None or found.is_nameless:
            return Continue()
        return Change({0: found.position.host_path + b"\0"})

    def _answer_getcwd(self, call: SystemCall) -> Answer:
        buffer, size = call.arguments[:2]
        try:
            host = read_process_link(call.thread, b"/proc/%d/cwd" % call.thread)
        except OSError:
            return Continue()
        if host.endswith(b" (deleted)") and not os.path.lexists(host):
            return Continue()  # which fails
        path = self._files.paths.to_container(host) or b"/"
        if path == host:
            return Continue()
        text = path + b"\0"
        if len(text) > size:
            return Failure(errno.ERANGE)
        call.memory.write(buffer, text)
        return Result(len(text))

    def _answer_execve(self, call: SystemCall) -> Answer:
        path = read_string(call.memory, call.arguments[0])
        return self._execute(call, AT_FDCWD, path, 0, is_followed=True)

    def _answer_execveat(self, call: SystemCall) -> Answer:
        dirfd, address = call.arguments[:2]
        flags = as_signed(call.arguments[4])
        if self._files.is_of_descriptor(call, address, flags):
            return Continue()
        path = read_string(call.memory, address)
        is_followed = not flags & AT_SYMLINK_NOFOLLOW
        return self._execute(call, as_signed(dirfd), path, 1, is_followed=is_followed)

    def _execute(
        self, call: SystemCall, dirfd: int, path: bytes, place: int, *, is_followed: bool
    ) -> Answer:
        self._files.paths.note_start(call.thread)
        try:
            found = self._files.paths.resolve(call.thread, dirfd, path, is_followed=is_followed)
        except PathError as error:
            if error.is_plain:
                return Continue()
            raise
        if found.status is None:
            return Continue() if found.is_plain else Failure(errno.ENOENT)
        if found.is_jump:
            return Continue()
        if stat.S_ISLNK(found.status.st_mode):
            return Failure(errno.ELOOP)
        if not stat.S_ISREG(found.status.st_mode):
            return Failure(errno.EACCES)
        is_kept = True
        if dirfd != AT_FDCWD and not path.startswith(b"/"):
            path = b"/dev/fd/%d/%s" % (dirfd, path)
            is_kept = _is_kept(call.thread, dirfd)
        given = read_pointers(call.memory, call.arguments[place + 1])
        first = given[0] if given else path + b"\0"
        program, arguments = self._find_executable(call, path, found, first, _MAX_INTERPRETERS)
        if program.host == found.position.host and found.is_plain:
            return Continue()
        if arguments and not is_kept:  # an interpreter would not find the program
            return Failure(errno.ENOENT)
        name = self._find_name(call, program)
        if not arguments:
            return Change({place: name})
        return Change({place: name, place + 1: Pointers((*arguments, *given[1:]))})

    def _find_name(self, call: SystemCall, program: Position) -> bytes | OpenedFile:
        """Return the path by which the kernel finds a program.

        The folders of the machine that lead to it may be closed to the program's user: on a node it
        is at its place in the container.
        """
        host = program.host + b"\0"
        at_fd, relative = self._files.get_path_at(program)
        if at_fd == AT_FDCWD:
            return host
        try:
            self._files.check_access(call, program, os.X_OK)
        except OSError:
            self._check_executable(call, program)
            # One of O_PATH cannot be passed on.
            return OpenedFile(os.open(relative, os.O_RDONLY | os.O_CLOEXEC, dir_fd=at_fd))
        return host

    def _find_executable(
        self, call: SystemCall, path: bytes, found: Found, first: bytes | int, depth: int
    ) -> tuple[Position, tuple[bytes | int, ...]]:
        """Return the place of what is executed for a program.

        A script whose path or whose interpreter's is not plain is executed as the kernel does it:
        by its interpreter, which finds the script by its path in the container. So is a program
        whose loader's path is not plain, by its loader.

        Args:
            path: the program's path, which may be one of links.
            first: the program's first argument, or its address.

        Returns:
            The place, and the arguments in place of the first one; none for other programs.
        """
        position = found.position
        line, loader = read_executable(position.host)
        if loader is not None:
            return self._find_loaded(call, path, found, first, loader)
        if line is None:
            return position, ()
        if not depth:
            raise make_error(errno.ELOOP)
        interpreter, _, argument = line.partition(b" ")
        inner = self._files.paths.resolve(call.thread, AT_FDCWD, interpreter)
        if inner.status is None:
            raise make_error(errno.ENOENT)
        name = interpreter + b"\0"
        program, arguments = self._find_executable(call, interpreter, inner, name, depth - 1)
        is_kernels = (inner.is_plain or inner.is_jump) and not arguments
        if is_kernels and found.is_plain:
            return position, ()
        self._check_executable(call, position)
        own = (argument + b"\0", path + b"\0") if argument else (path + b"\0",)
        return program, (*(arguments or (name,)), *own)

    def _find_loaded(
        self, call: SystemCall, path: bytes, found: Found, first: bytes | int, loader: bytes
    ) -> tuple[Position, tuple[bytes | int, ...]]:
        position = found.position
        if self._files.paths.is_plain(call.thread, AT_FDCWD, loader, is_followed=True):
            return position, ()
        inner = self._files.paths.resolve(call.thread, AT_FDCWD, loader)
        if inner.is_plain:
            return position, ()
        if inner.status is None:
            raise make_error(errno.ENOENT)
        self._check_executable(call, position)
        # A name without a slash would be one of a library.
        program = (path if b"/" in path else b"./" + path) + b"\0"
        if takes_first_argument(inner.position.host):
            return inner.position, (loader + b"\0", b"--argv0\0", first, program)
        return inner.position, (loader + b"\0", program)

    def _check_executable(self, call: SystemCall, position: Position) -> None:
        with self._files.as_program(call):
            at_fd, relative = self._files.get_path_at(position)
            self._files.make_call("faccessat2", at_fd, relative, os.X_OK, AT_EACCESS)

    def _answer_plain_only(self, call: SystemCall) -> Answer:
        dirfd, address = {
            "chroot": (AT_FDCWD, call.arguments[0]),
            "name_to_handle_at": (as_signed(call.arguments[0]), call.arguments[1]),
            "fanotify_mark": (as_signed(call.arguments[3]), call.arguments[4]),
        }[call.name]
        if call.name != "chroot" and (not address or call.memory.read(address, 1) == b"\0"):
            return Continue()
        found = self._files.find_reading(call, dirfd, address)
        if found is not None or (
            call.name == "chroot" and read_string(call.memory, address) != b"/"
        ):
            return Failure(errno.EPERM)
        return Continue()

    ANSWERS: ClassVar[Mapping[str, Callable[[ProcessCalls, SystemCall], Answer]]] = {
        "chdir": _answer_chdir,
        "chroot": _answer_plain_only,
        "execve": _answer_execve,
        "execveat": _answer_execveat,
        "fanotify_mark": _answer_plain_only,
        "getcwd": _answer_getcwd,
        "name_to_handle_at": _answer_plain_only,
    }


def _is_kept(thread: int, fd: int) -> bool:
    """Return whether programs that a process executes inherit a descriptor."""
    with as_user_of(thread), open(f"/proc/{thread}/fdinfo/{fd}", encoding="ascii") as file:
        flags = next(line for line in file if line.startswith("flags:"))
    return not int(flags.split()[1], 8) & os.O_CLOEXEC
