"""The root file system of busybox's image, with the files that the node adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.applets import APPLETS, UNSIMULATED
from pytest_kwait.simulator.busybox.os.files import Device, Directory, File, Inode, Symlink

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["make_root"]

_ETC_PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:\n"
_ETC_GROUP = b"root:x:0:\nnobody:x:65534:\n"
_program_files: dict[str, Inode] = {}


def _make_bin() -> dict[str, Inode]:
    """Return the programs; containers share them until they change their own."""
    if not _program_files:
        _program_files["busybox"] = File(b"\x7fELF", 0o755)
        for name in sorted({*APPLETS, *UNSIMULATED} - {"busybox"}):
            _program_files[name] = Symlink("busybox")
    return _program_files


def make_root(hostname: str, address: Callable[[], str], search: Callable[[], str]) -> Directory:
    """Return the root directory.

    Args:
        hostname: the pod's host name.
        address: returns the pod's address.
        search: returns the search domains.
    """
    hosts = (
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost "
        "ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\n"
        f"fe00::2\tip6-allrouters\n{address()}\t{hostname}\n"
    )
    resolver = f"search {search()}\nnameserver 10.0.0.10\noptions ndots:5\n"
    etc = Directory()
    etc.entries.update(
        group=File(_ETC_GROUP), hostname=File(f"{hostname}\n".encode()), hosts=File(hosts.encode()),
        passwd=File(_ETC_PASSWD), **{"resolv.conf": File(resolver.encode())},
    )  # fmt: skip
    devices = {
        "null": "null", "zero": "zero", "full": "full", "random": "random", "urandom": "random",
        "stdin": "fd0", "stdout": "fd1", "stderr": "fd2", "tty": "fd0",
    }  # fmt: skip
    dev = Directory()
    dev.entries.update({name: Device(kind) for name, kind in devices.items()})
    dev.entries["shm"] = Directory(mode=0o1777)
    dev.entries["fd"] = fds = Directory()
    fds.entries.update({str(number): Device(f"fd{number}") for number in range(3)})
    dev.entries["termination-log"] = File(mode=0o666)
    one = Directory()
    one.entries["fd"] = fds
    proc = Directory()
    proc.entries.update({"1": one, "self": one})
    var = Directory()
    run = Directory()
    var.entries.update(run=run)
    root = Directory()
    root.entries.update(
        bin=Directory(_make_bin()), dev=dev, etc=etc, home=Directory(), proc=proc,
        root=Directory(mode=0o700), sys=Directory(read_only=True), tmp=Directory(mode=0o1777),
        usr=Directory(), var=var,
    )  # fmt: skip
    return root
