"""Run a command under the restrictions of Docker's default profile, without Docker.

    python -m tools.docker_profile -- pytest e2e -n 4

The command has the capabilities of a container, and may neither create namespaces nor mount. Not
imposed are the container's own namespaces and its read-only /sys. It needs Linux on x86_64 or
aarch64; as root it drops capabilities, as another user it only forbids new ones.

Source: moby profiles/seccomp/default.json, oci/caps/defaults.go; man 2 seccomp, prctl.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import platform
import sys
from typing import NamedTuple, NoReturn

from pytest_kwait.simulator.runtimes.processes.system_calls import (
    forbid_new_privileges,
    limit_capabilities,
)

CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
        "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip
"""The capabilities of root in a container."""

EX_UNAVAILABLE = 69
"""The exit status where the profile cannot be imposed."""


class _Processor(NamedTuple):
    """Numbers of system calls on a processor.

    Args:
        architecture: its AUDIT_ARCH_ constant.
        refused: those that the profile refuses without CAP_SYS_ADMIN.
    """

    architecture: int
    clone: int
    refused: tuple[int, ...]


_CLONE3 = 435
# open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, io_uring_setup,
# io_uring_enter, io_uring_register
_REFUSED = (428, 429, 430, 431, 432, 433, 442, 425, 426, 427)
# mount, umount2, pivot_root, setns, unshare, sethostname, setdomainname, bpf, perf_event_open,
# add_key, request_key, keyctl, open_by_handle_at, userfaultfd
_PROCESSORS = {
    "x86_64": _Processor(
        0xC000003E,
        56,
        (165, 166, 155, 308, 272, 170, 171, 321, 298, 248, 249, 250, 304, 323, *_REFUSED),
    ),
    "aarch64": _Processor(
        0xC00000B7,
        220,
        (40, 39, 41, 268, 97, 161, 162, 280, 241, 217, 218, 219, 265, 282, *_REFUSED),
    ),
}
_NEW_NAMESPACES = 0x7E020000
"""The flags of clone for new namespaces, as the profile masks them."""

# Source: include/uapi/linux/bpf_common.h, seccomp.h, prctl.h.
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2


class _Instruction(ctypes.Structure):
    """A `struct sock_filter`."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    """A `struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def main() -> NoReturn:
    """Run the command of the command line in place of this process."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.docker_profile",
        usage="%(prog)s -- COMMAND ...",
        description="Run a command under the restrictions of Docker's default profile.",
    )
    parser.add_argument("command", nargs="+", help="the command and its arguments")
    run(parser.parse_args().command)


def run(command: list[str]) -> NoReturn:
    """Replace this process by a command under the profile."""
    try:
        impose_profile()
    except OSError as error:
        sys.stderr.write(f"Docker's default profile cannot be imposed: {error}\n")
        sys.exit(EX_UNAVAILABLE)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}")


def impose_profile() -> None:
    """Restrict this process and those that it starts; this cannot be undone.

    Raises:
        OSError: the system is not Linux, the processor is unknown, or the kernel refuses.
    """
    if sys.platform != "linux":
        raise OSError(f"it restricts system calls of Linux, and this is {sys.platform}")
    machine = platform.machine()
    if machine not in _PROCESSORS:
        known = ", ".join(_PROCESSORS)
        raise OSError(f"the numbers of system calls are known for {known}, and this is {machine}")
    if os.geteuid() == 0:
        limit_capabilities(CAPABILITIES)
    else:
        forbid_new_privileges()
    filter_ = _list_instructions(_PROCESSORS[machine])
    try:
        _load(filter_)
    except PermissionError:  # root without CAP_SYS_ADMIN, as in a container
        forbid_new_privileges()
        _load(filter_)


def _list_instructions(processor: _Processor) -> list[tuple[int, int, int, int]]:
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    instructions = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 1, 0, processor.architecture),
        refuse,
        (_LOAD, 0, 0, _NUMBER),
    ]
    for number in processor.refused:
        instructions += [(_JUMP_IF_EQUAL, 0, 1, number), refuse]
    # Its flags are in memory, which a filter cannot read: the C library then calls clone.
    instructions += [(_JUMP_IF_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    return [
        *instructions,
        (_JUMP_IF_EQUAL, 0, 3, processor.clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_IF_SET, 0, 1, _NEW_NAMESPACES),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
    ]


def _load(instructions: list[tuple[int, int, int, int]]) -> None:
    """Filter the system calls of this process, and of those that it starts."""
    array = (_Instruction * len(instructions))(*(_Instruction(*fields) for fields in instructions))
    program = _Program(len(instructions), array)
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    if libc.prctl(_PR_SET_SECCOMP, mode, ctypes.byref(program), zero, zero) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "seccomp")


if __name__ == "__main__":
    main()
