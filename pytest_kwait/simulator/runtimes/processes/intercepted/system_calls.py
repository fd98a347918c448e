"""System calls of the processors: their numbers and where registers have their arguments.

Source: arch/x86/entry/syscalls/syscall_64.tbl; include/uapi/asm-generic/unistd.h;
include/uapi/linux/audit.h; arch/{x86,arm64}/include/uapi/asm/ptrace.h.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Processor(NamedTuple):
    """A kind of processor.

    Args:
        architecture: its AUDIT_ARCH_ constant.
        numbers: numbers of system calls by name.
        register_count: registers of 64 bits that ptrace returns.
        call: place of a system call's number among them, where one is made.
        arguments: places of its arguments.
        result: place of its result.
        program_counter: place of the address of the next instruction.
        call_bytes: length of the instruction that makes a system call.
        is_result_kept: whether a call that is to be restarted is seen with its error as result;
            else it is seen before its instruction.
    """

    architecture: int
    numbers: Mapping[str, int]
    register_count: int
    call: int
    arguments: tuple[int, ...]
    result: int
    program_counter: int
    call_bytes: int
    is_result_kept: bool


# Those that both processors have, with the number on x86_64 and on aarch64.
_COMMON = {
    "accept": (43, 202),
    "accept4": (288, 242),
    "bind": (49, 200),
    "chdir": (80, 49),
    "chroot": (161, 51),
    "connect": (42, 203),
    "execve": (59, 221),
    "execveat": (322, 281),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "fanotify_mark": (301, 263),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "file_getattr": (468, 468),
    "file_setattr": (469, 469),
    "fremovexattr": (199, 16),
    "fsetxattr": (190, 7),
    "getcwd": (79, 17),
    "getegid": (108, 177),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getgroups": (115, 158),
    "getpeername": (52, 205),
    "getresgid": (120, 150),
    "getresuid": (118, 148),
    "getsockname": (51, 204),
    "getsockopt": (55, 209),
    "getuid": (102, 174),
    "getxattr": (191, 8),
    "getxattrat": (464, 464),
    "inotify_add_watch": (254, 27),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "lgetxattr": (192, 9),
    "linkat": (265, 37),
    "listxattr": (194, 11),
    "listxattrat": (465, 465),
    "llistxattr": (195, 12),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "mkdirat": (258, 34),
    "mknodat": (259, 33),
    "mmap": (9, 222),
    "name_to_handle_at": (303, 264),
    "newfstatat": (262, 79),
    "openat": (257, 56),
    "openat2": (437, 437),
    "prctl": (157, 167),
    "readlinkat": (267, 78),
    "recvfrom": (45, 207),
    "recvmmsg": (299, 243),
    "recvmsg": (47, 212),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "sendmmsg": (307, 269),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "setdomainname": (171, 162),
    "setfsgid": (123, 152),
    "setfsuid": (122, 151),
    "setgid": (106, 144),
    "setgroups": (116, 159),
    "sethostname": (170, 161),
    "setregid": (114, 143),
    "setresgid": (119, 149),
    "setresuid": (117, 147),
    "setreuid": (113, 145),
    "setsockopt": (54, 208),
    "setuid": (105, 146),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
    "socket": (41, 198),
    "statfs": (137, 43),
    "statx": (332, 291),
    "symlinkat": (266, 36),
    "truncate": (76, 45),
    "uname": (63, 160),
    "unlinkat": (263, 35),
    "utimensat": (280, 88),
}
_X86_64_ALONE = {
    "access": 21,
    "chmod": 90,
    "chown": 92,
    "creat": 85,
    "futimesat": 261,
    "lchown": 94,
    "link": 86,
    "lstat": 6,
    "mkdir": 83,
    "mknod": 133,
    "open": 2,
    "readlink": 89,
    "rename": 82,
    "rmdir": 84,
    "stat": 4,
    "symlink": 88,
    "unlink": 87,
    "utime": 132,
    "utimes": 235,
}

X86_64 = Processor(
    architecture=0xC000003E,
    numbers={**{name: both[0] for name, both in _COMMON.items()}, **_X86_64_ALONE},
    register_count=27,
    call=10,
    arguments=(14, 13, 12, 7, 9, 8),
    result=10,
    program_counter=16,
    call_bytes=2,
    is_result_kept=True,
)
AARCH64 = Processor(
    architecture=0xC00000B7,
    numbers={name: both[1] for name, both in _COMMON.items()},
    register_count=34,
    call=8,
    arguments=(0, 1, 2, 3, 4, 5),
    result=0,
    program_counter=32,
    call_bytes=4,
    is_result_kept=False,
)
PROCESSORS: Mapping[str, Processor] = {"x86_64": X86_64, "aarch64": AARCH64}


def find_processor() -> Processor | None:
    """Return the kind of this machine's processor; None for an unknown one."""
    return PROCESSORS.get(platform.machine())
