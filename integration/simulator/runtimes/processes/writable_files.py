"""Program of a container: prints files of the kernel and devices that open for writing.

Each is opened and closed; nothing is ever written. Files of processes and of the pod's own network
are left out. It uses each way around a mount that capabilities may allow, and prints what it finds
there too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MS_REMOUNT, _MS_BIND, _MS_MOVE = 0x20, 0x1000, 0x2000
_BIND_FLAGS = (_MS_BIND, _MS_MOVE)
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_CLONE_NEWNS, _CLONE_NEWCGROUP, _CLONE_NEWUSER = 0x00020000, 0x02000000, 0x10000000
_CLONE_NEWPID, _CLONE_NEWNET = 0x20000000, 0x40000000
_OWN_DEVICES = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}
_FILE_SYSTEMS = [
    ("proc", ""), ("sysfs", ""), ("cgroup2", ""), ("devtmpfs", ""), ("debugfs", ""),
    ("tracefs", ""), ("securityfs", ""), ("configfs", ""), ("pstore", ""), ("efivarfs", ""),
    *(("cgroup", one) for one in ("cpu", "cpuacct", "cpuset", "devices", "freezer", "blkio")),
    *(("cgroup", one) for one in ("memory", "pids", "none,name=systemd")),
]  # fmt: skip
_BOUND = ("/proc", "/proc/sys", "/sys")
_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> bool:
    arguments = [None if each is None else each.encode() for each in (source, target, kind)]
    result: int = _libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() or None)
    return result == 0


def _get_target(*parts: object) -> str:
    """Return the folder for a mount."""
    return "/tmp/" + "-".join(map(str, parts)).replace("/", "-").replace(",", "-")


def _list_mounts() -> Iterator[str]:
    """Yield the mount points in /proc, /sys and /dev, inner ones first."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        points = [line.split()[4] for line in file]
    for point in reversed(points):
        if point.split("/")[1] in ("proc", "sys", "dev"):
            yield point


def _is_skipped(folder: str) -> bool:
    """Return whether the kernel opens nothing here for writing: read-only, with no mounts below.

    With the argument `every`, these folders are walked too.
    """
    if "every" in sys.argv or not os.statvfs(folder).f_flag & os.ST_RDONLY:
        return False
    return not any(point.startswith(f"{folder}/") for point in _list_mounts())


def _list_writable(folder: str) -> Iterator[str]:
    """Yield what opens for writing, and devices."""
    for parent, names, files in os.walk(folder):
        if parent == folder:
            # Of processes; `self` and `thread-self` are links, which are not followed.
            names[:] = [name for name in names if not name.isdecimal()]
        if parent.endswith("/sys/net") or parent == "/dev/pts" or _is_skipped(parent):
            names.clear()
            continue
        for name in files:
            path = f"{parent}/{name}"
            with contextlib.suppress(OSError):
                mode = os.lstat(path).st_mode
                if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                    if name not in _OWN_DEVICES:
                        yield f"device {path}"
                elif stat.S_ISREG(mode) and not parent.startswith(("/dev/shm", "/dev/mqueue")):
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY))
                    yield path


def _report(way: str, folder: str) -> None:
    for path in _list_writable(folder):
        print(f"{way}: {path}", flush=True)


def _report_everything(way: str) -> None:
    folders = ["/proc", "/sys", "/dev"]
    # Another root, of a process that is not in the container.
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        for folder in ("/proc", "/sys"):
            path = f"/proc/{pid}/root{folder}"
            with contextlib.suppress(OSError):
                if not os.path.samestat(os.stat(path), os.stat(folder)):
                    folders.append(path)
    for folder in folders:
        _report(way, folder)


def _is_writable_mount(target: str) -> bool:
    """Return whether a file system was mounted at an empty folder, other than read-only."""
    is_mounted = os.stat(target).st_dev != os.stat(f"{target}/..").st_dev
    return is_mounted and not os.statvfs(target).f_flag & os.ST_RDONLY


def _mount_afresh() -> None:
    """Mount each file system of the kernel, and walk it."""
    for kind, data in _FILE_SYSTEMS:
        target = _get_target(kind, data)
        _mount(kind, target, kind, 0, data)
        if _is_writable_mount(target):
            _report(f"mount {kind} {data}", target)


def _change_mounts() -> None:
    """Remount, bind, move and unmount what covers files of the kernel."""
    for folder in _BOUND:
        for flags in _BIND_FLAGS:
            target = _get_target("bound", folder, flags)
            if _mount(folder, target, None, flags):
                _mount("none", target, None, _MS_REMOUNT | _MS_BIND)
                if _is_writable_mount(target):
                    _report(f"bind {folder}", target)
    changed = [
        point
        for point in _list_mounts()
        for flags in (_MS_REMOUNT | _MS_BIND, _MS_REMOUNT)
        if os.statvfs(point).f_flag & os.ST_RDONLY and _mount("none", point, None, flags)
    ]
    removed = [
        point
        for point in _list_mounts()
        for flags in (_UMOUNT_NOFOLLOW, _MNT_DETACH)
        if not _libc.umount2(point.encode(), flags)
    ]
    if changed or removed:
        _report_everything(f"remount {changed} umount {removed}")


def _make_nodes() -> None:
    """Create nodes of the machine's memory and of its first disks."""
    for folder in ("/dev", "/tmp", "/usr", ""):
        for kind, major, minor in ((stat.S_IFCHR, 1, 1), (stat.S_IFBLK, 8, 0)):
            path = f"{folder}/node-{major}"
            with contextlib.suppress(OSError):
                os.mknod(path, kind | 0o666, os.makedev(major, minor))
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                print(f"mknod: {path}", flush=True)


def _in_child(call: Callable[[], None]) -> None:
    pid = os.fork()
    if not pid:
        try:
            call()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _try_everything(flags: int) -> None:
    # Without a map of users, which would have to be written.
    _libc.unshare(flags)

    def change_mounts() -> None:
        _make_nodes()
        _mount_afresh()
        _change_mounts()
        _mount_afresh()

    # A child, as a new PID namespace has children alone.
    _in_child(change_mounts)


def main() -> None:
    """Look as the program was started, then with further namespaces."""
    _report_everything("open")
    targets = [_get_target(*each) for each in _FILE_SYSTEMS]
    targets += [_get_target("bound", path, flags) for path in _BOUND for flags in _BIND_FLAGS]
    for target in targets:
        os.mkdir(target)
    every = _CLONE_NEWNS | _CLONE_NEWCGROUP | _CLONE_NEWPID | _CLONE_NEWNET
    for flags in (0, _CLONE_NEWNS, every, every | _CLONE_NEWUSER, _CLONE_NEWUSER | _CLONE_NEWNS):
        _in_child(lambda flags=flags: _try_everything(flags))  # type: ignore[misc]
    print("walked", flush=True)


if __name__ == "__main__":
    main()
