"""Linux system calls that the standard library lacks; each raises OSError.

Source: man 2 clone, setns, mount, mount_setattr, pivot_root, prctl, signalfd; man 7 capabilities.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
_MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_STRICTATIME = 0x1000000
MNT_DETACH = 2

_SIGCHLD = 17
# Of the C library's `sigset_t`.
_SIGSET_BYTES = 128
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NODEV = 0x1, 0x4

# Source: include/uapi/linux/capability.h, `_LINUX_CAPABILITY_VERSION_3`.
_CAPABILITY_VERSION = 0x20080522
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

# Source: include/uapi/linux/capability.h; a name's place is its number.
CAPABILITIES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
]

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, name: str = "") -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), *([name] if name else []))
    return result


def clone(flags: int) -> int:
    """Fork into new namespaces; returns 0 in the child.

    Unlike `os.fork`, no handlers of the interpreter run: for a single-threaded process only.
    """
    number = _SYS_CLONE.get(platform.machine())
    if number is None:
        raise OSError(38, f"clone is not known on {platform.machine()}")
    arguments = [ctypes.c_ulong(flags | _SIGCHLD), *[ctypes.c_ulong(0)] * 4]
    return _check(_libc.syscall(ctypes.c_long(number), *arguments))


def unshare(flags: int) -> None:
    """Move this process (with CLONE_NEWPID: its children) to new namespaces."""
    _check(_libc.unshare(ctypes.c_int(flags)))


def setns(fd: int, flags: int = 0) -> None:
    """Move this process (for a PID namespace: its children) to the namespace of a file."""
    _check(_libc.setns(fd, ctypes.c_int(flags)))


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Mount a file system."""
    result = _libc.mount(
        None if source is None else os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        os.fsencode(data) if data else None,
    )
    _check(result, target)


def umount(target: str, flags: int = 0) -> None:
    """Unmount a file system."""
    _check(_libc.umount2(os.fsencode(target), flags), target)


def restrict_mount(target: str, *, read_only: bool, recursive: bool = False) -> None:
    """Refuse devices, and writes where asked for, through a mount and those below it."""
    kinds = _MOUNT_ATTR_NODEV | (_MOUNT_ATTR_RDONLY if read_only else 0)
    attributes = (ctypes.c_uint64 * 4)(kinds, 0, 0, 0)
    result = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(target),
        ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    if result < 0:
        if ctypes.get_errno() != 38:  # ENOSYS
            _check(result, target)
        # Before Linux 5.12.
        flags = MS_NODEV | (MS_RDONLY if read_only else 0)
        for point in list_mounts(target) if recursive else [target]:
            kept = os.statvfs(point).f_flag & (MS_RDONLY | MS_NOSUID | MS_NOEXEC)
            mount(None, point, None, MS_BIND | _MS_REMOUNT | flags | kept)


def list_mounts(target: str) -> list[str]:
    """Return a mount point and those below it."""
    root = os.path.realpath(target)
    with open("/proc/self/mountinfo", "rb") as file:
        fields = [line.split()[4] for line in file]
    points = [os.fsdecode(re.sub(rb"\\([0-7]{3})", _decode_octal, field)) for field in fields]
    return [point for point in points if point == root or point.startswith(f"{root}/")]


def _decode_octal(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 8)])


def pivot_root(root: str) -> None:
    """Make a mount the root; the old root stays mounted above it until `umount(".")`."""
    os.chdir(root)
    _check(_libc.pivot_root(b".", b"."), root)


def set_domain_name(name: str) -> None:
    """Set the NIS domain name of the UTS namespace."""
    data = name.encode()
    _check(_libc.setdomainname(data, len(data)))


def _prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, *[ctypes.c_ulong(argument) for argument in (value, 0, 0, 0)]))


def open_signals(*numbers: int) -> int:
    """Return a descriptor that can be read whenever one of these signals has come.

    They must be blocked.
    """
    mask = sum(1 << number - 1 for number in numbers).to_bytes(_SIGSET_BYTES, sys.byteorder)
    return _check(_libc.signalfd(-1, mask, os.O_CLOEXEC | os.O_NONBLOCK))


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends; a change of user resets it."""
    _prctl(_PR_SET_PDEATHSIG, 9)


def make_subreaper() -> None:
    """Become the parent of orphans below this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide_from_tracers() -> None:
    """Refuse containers this process' root, memory and descriptors until it executes a program.

    Source: runc libcontainer/nsenter/nsexec.c.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def show_to_tracers() -> None:
    """Let processes of the same user look into this one, which a change of user ends."""
    _prctl(_PR_SET_DUMPABLE, 1)


def forbid_new_privileges() -> None:
    """Ignore set-user-ID bits and file capabilities from now on."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def limit_capabilities(capabilities: frozenset[str]) -> None:
    """Let programs that this process executes have no other capabilities."""
    for number, name in enumerate(CAPABILITIES):
        if name not in capabilities:
            try:
                _prctl(_PR_CAPBSET_DROP, number)
            except OSError as error:
                if error.errno != 22:  # EINVAL: newer than the kernel
                    raise


def use_permitted_capabilities() -> None:
    """Make all capabilities effective that this process may have."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # Effective, permitted and inheritable ones: the lower 32, then the upper.
    sets = (ctypes.c_uint32 * 6)()
    _check(_libc.capget(header, sets))
    sets[0], sets[3] = sets[1], sets[4]
    _check(_libc.capset(header, sets))


def has_capability(name: str) -> bool:
    """Return whether this process has a capability."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    return bool(int(fields["CapEff"], 16) >> CAPABILITIES.index(name) & 1)
