"""Restrict the system calls and the user of a command, for launchers that imitate environments.

A `SystemCallFilter` says what is refused; `run_command` imposes it and executes the command.

Source: man 2 seccomp, prctl; include/uapi/linux/bpf_common.h, seccomp.h.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import platform
import pwd
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pytest_kwait.simulator.runtimes.processes import system_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

EX_UNAVAILABLE = 69
"""The exit status where a restriction cannot be imposed."""

NEW_NAMESPACES = 0x7E020000
"""The flags of clone and unshare for new namespaces, as profiles mask them."""

NEW_USER_NAMESPACE = 0x10000000

_DEFAULT_USER = 1000

_Instruction = tuple[int, int, int, int]


class _Processor(NamedTuple):
    """A processor: its AUDIT_ARCH_ constant, and its column of `_NUMBERS`."""

    architecture: int
    column: int


_PROCESSORS = {"x86_64": _Processor(0xC000003E, 0), "aarch64": _Processor(0xC00000B7, 1)}

_NUMBERS: Mapping[str, tuple[int | None, int | None]] = {
    "_sysctl": (156, None), "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280),
    "chroot": (161, 51), "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "finit_module": (313, 273),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),
    "get_mempolicy": (239, 236), "init_module": (175, 105), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioperm": (173, None),
    "iopl": (172, None), "kcmp": (312, 272), "kexec_file_load": (320, 294),
    "kexec_load": (246, 104), "keyctl": (250, 219), "lookup_dcookie": (212, 18),
    "mbind": (237, 235), "migrate_pages": (256, 238), "mount": (165, 40),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239),
    "nfsservctl": (180, 42), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41), "process_madvise": (440, 440), "ptrace": (101, 117),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142),
    "request_key": (249, 218), "seccomp": (317, 277), "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450), "setdomainname": (171, 162), "setgroups": (116, 159),
    "sethostname": (170, 161), "setns": (308, 268), "settimeofday": (164, 170), "socket": (41, 198),
    "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116), "sysfs": (139, None),
    "umount2": (166, 39), "unshare": (272, 97), "uselib": (134, None), "userfaultfd": (323, 282),
    "ustat": (136, None), "vhangup": (153, 58),
}  # fmt: skip
"""The numbers of system calls on x86_64 and aarch64; None where there is none."""

_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_GREATER, _JUMP_IF_SET, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW: _Instruction = (_RETURN, 0, 0, 0x7FFF0000)
_REFUSE: _Instruction = (_RETURN, 0, 0, 0x00050000 | errno.EPERM)
_UNKNOWN: _Instruction = (_RETURN, 0, 0, 0x00050000 | errno.ENOSYS)
_LOAD_ARGUMENT: _Instruction = (_LOAD, 0, 0, _FIRST_ARGUMENT)
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2


class _SockFilter(ctypes.Structure):
    """A `struct sock_filter`."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _SockFprog(ctypes.Structure):
    """A `struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_SockFilter)))


@dataclass(frozen=True, kw_only=True)
class SystemCallFilter:
    """System calls that are refused; those of another architecture are, too.

    `clone3` is unknown: its flags are in memory, which a filter cannot read. The C library then
    calls `clone`.

    Args:
        refused: the names of those that fail with EPERM.
        flags: by name the flags of the first argument with which it fails, unless it has the
            second ones.
        values: by name the values of the first argument with which it fails.
        only_values: by name the only values of the first argument with which it does not fail.
        last: the highest number that is known; None for all.
    """

    refused: tuple[str, ...]
    flags: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    values: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    only_values: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    last: int | None = None

    def load(self) -> None:
        """Filter the system calls of this process, and of those that it starts, for good.

        Raises:
            OSError: the processor is unknown, or the kernel refuses.
        """
        instructions = self._list_instructions(_find_processor())
        try:
            _load(instructions)
        except PermissionError:  # without CAP_SYS_ADMIN
            system_calls.forbid_new_privileges()
            _load(instructions)

    def _list_instructions(self, processor: _Processor) -> list[_Instruction]:
        found = [
            (_LOAD, 0, 0, _ARCHITECTURE),
            (_JUMP_IF_EQUAL, 1, 0, processor.architecture),
            _REFUSE,
            (_LOAD, 0, 0, _NUMBER),
        ]
        if self.last is not None:
            found += [(_JUMP_IF_GREATER, 0, 1, self.last), _UNKNOWN]
        rules = [("clone3", [_UNKNOWN]), *((name, [_REFUSE]) for name in self.refused)]
        for name, (flags, unless) in self.flags.items():
            tests = [(_JUMP_IF_SET, 0, 2, flags), (_JUMP_IF_SET, 1, 0, unless)]
            rules.append((name, [_LOAD_ARGUMENT, *tests, _REFUSE, _ALLOW]))
        for table, match, end in (
            (self.values, _REFUSE, _ALLOW),
            (self.only_values, _ALLOW, _REFUSE),
        ):
            for name, values in table.items():
                block = [_LOAD_ARGUMENT]
                for value in values:
                    block += [(_JUMP_IF_EQUAL, 0, 1, value), match]
                rules.append((name, [*block, end]))
        for name, block in rules:
            number = _NUMBERS[name][processor.column]
            if number is not None:
                found += [(_JUMP_IF_EQUAL, 0, len(block), number), *block]
        return [*found, _ALLOW]


def run_command(
    module: str,
    title: str,
    description: str,
    impose: Callable[[int], None],
    arguments: Sequence[str] | None,
) -> NoReturn:
    """Run the command of a launcher's command line in place of this process.

    Args:
        module: the launcher.
        title: what is imposed, for errors.
        description: the first line of its help.
        impose: restricts this process, with the user id to run as.
        arguments: those of the command line; None for this process's own.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        usage="%(prog)s [--user UID] -- COMMAND ...",
        description=description,
    )
    parser.add_argument(
        "--user",
        type=int,
        default=_DEFAULT_USER,
        metavar="UID",
        help=f"id of the user and group to run as, where root starts it (default: {_DEFAULT_USER})",
    )
    parser.add_argument("command", nargs="+", help="the command and its arguments")
    given = parser.parse_args(arguments)
    if given.user < 1:
        parser.error(f"argument --user: {given.user} is not a user other than root: 1 or more")
    execute(title, given.command, lambda: impose(given.user))


def execute(title: str, command: list[str], impose: Callable[[], None]) -> NoReturn:
    """Replace this process by a command under a restriction."""
    try:
        impose()
    except OSError as error:
        sys.stderr.write(f"{title} cannot be imposed: {error}\n")
        sys.exit(EX_UNAVAILABLE)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}")


def check_platform() -> None:
    """Check that system calls can be filtered here.

    Raises:
        OSError: the system is not Linux, or the processor is unknown.
    """
    if sys.platform != "linux":
        raise OSError(f"it restricts system calls of Linux, and this is {sys.platform}")
    _find_processor()


def open_folders(user: int) -> None:
    """Let a user enter the folders of this Python and the current one, as if they were elsewhere.

    In a mount namespace of this process, an empty folder that holds them covers each that root
    alone may enter, such as /root. No-op for another user than root.

    Raises:
        OSError: the user may not enter a folder, and this process may not mount.
    """
    if os.geteuid() != 0:
        return
    wanted = {os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, os.getcwd())}  # noqa: PTH109
    closed = {path: folder for path in wanted if (folder := _find_closed(path, user))}
    if not closed:
        return
    held: dict[str, int] = {}
    current = os.getcwd()  # noqa: PTH109
    try:
        system_calls.unshare(system_calls.CLONE_NEWNS)
        private = system_calls.MS_REC | system_calls.MS_PRIVATE
        system_calls.mount(None, "/", None, private)
        # Within the new namespace: a mount of another one cannot be bound.
        held |= {path: os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in closed}
        for folder in set(closed.values()):
            system_calls.mount("tmpfs", folder, "tmpfs", 0, "mode=755")
        for path, fd in held.items():
            os.makedirs(path, exist_ok=True)  # noqa: PTH103
            bind = system_calls.MS_REC | system_calls.MS_BIND
            system_calls.mount(f"/proc/self/fd/{fd}", path, None, bind)
        os.chdir(current)
    except OSError as error:
        folder = next(iter(closed.values()))
        text = f"user {user} may not enter {folder}, and a cover cannot be mounted"
        raise OSError(f"{text}: {error.strerror}") from error
    finally:
        for fd in held.values():
            os.close(fd)


def _find_closed(path: str, user: int) -> str:
    """Return the first folder on the way to a path that a user may not enter; empty if none."""
    for folder in (*reversed(Path(path).parents), Path(path)):
        status = folder.stat()
        if not status.st_mode & (stat.S_IXUSR if status.st_uid == user else stat.S_IXOTH):
            return str(folder)
    return ""


def leave_root(user: int) -> None:
    """Give up the groups and the user of root, and its home folder; no-op for another user.

    Raises:
        OSError: the kernel refuses.
    """
    if os.geteuid() != 0:
        return
    os.setgid(user)
    os.setuid(user)
    try:
        os.environ["HOME"] = pwd.getpwuid(user).pw_dir
    except KeyError:
        os.environ["HOME"] = "/"  # as container runtimes do


def _find_processor() -> _Processor:
    machine = platform.machine()
    if machine not in _PROCESSORS:
        known = ", ".join(_PROCESSORS)
        raise OSError(f"the numbers of system calls are known for {known}, and this is {machine}")
    return _PROCESSORS[machine]


def _load(instructions: Sequence[_Instruction]) -> None:
    array = (_SockFilter * len(instructions))(*(_SockFilter(*fields) for fields in instructions))
    program = _SockFprog(len(instructions), array)
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    if libc.prctl(_PR_SET_SECCOMP, mode, ctypes.byref(program), zero, zero) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "seccomp")
