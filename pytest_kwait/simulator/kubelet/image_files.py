"""The files that a container finds in busybox's image and that its node adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.files import Device, File, Folder, Link, Node
from pytest_kwait.simulator.kubelet.programs import APPLETS, UNSIMULATED

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["image_root"]

_PASSWORDS = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:\n"
_GROUPS = b"root:x:0:\nnobody:x:65534:\n"
_programs: dict[str, Node] = {}


def _bin() -> dict[str, Node]:
    """The programs, which all containers share until one of them changes its own."""
    if not _programs:
        _programs["busybox"] = File(b"\x7fELF", 0o755)
        for name in sorted({*APPLETS, *UNSIMULATED, "ash", "sh"} - {"busybox"}):
            _programs[name] = Link("busybox")
    return _programs


def image_root(hostname: str, address: Callable[[], str], search: Callable[[], str]) -> Folder:
    """Make the tree.

    Args:
        hostname: the pod's.
        address: the pod's, when it is looked at.
        search: the domains that names are looked for in.
    """
    hosts = (
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost "
        "ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\n"
        f"fe00::2\tip6-allrouters\n{address()}\t{hostname}\n"
    )
    resolver = f"search {search()}\nnameserver 10.0.0.10\noptions ndots:5\n"
    etc = Folder()
    etc.entries.update(
        group=File(_GROUPS), hostname=File(f"{hostname}\n".encode()), hosts=File(hosts.encode()),
        passwd=File(_PASSWORDS), **{"resolv.conf": File(resolver.encode())},
    )  # fmt: skip
    devices = {
        "null": "null", "zero": "zero", "full": "full", "random": "random", "urandom": "random",
        "stdin": "fd0", "stdout": "fd1", "stderr": "fd2", "tty": "fd0",
    }  # fmt: skip
    dev = Folder()
    dev.entries.update({name: Device(kind) for name, kind in devices.items()})
    dev.entries["shm"] = Folder(mode=0o1777)
    dev.entries["fd"] = fds = Folder()
    fds.entries.update({str(number): Device(f"fd{number}") for number in range(3)})
    dev.entries["termination-log"] = File(mode=0o666)
    one = Folder()
    one.entries["fd"] = fds
    proc = Folder()
    proc.entries.update({"1": one, "self": one})
    var = Folder()
    run = Folder()
    var.entries.update(run=run)
    root = Folder()
    root.entries.update(
        bin=Folder(_bin()), dev=dev, etc=etc, home=Folder(), proc=proc, root=Folder(mode=0o700),
        sys=Folder(read_only=True), tmp=Folder(mode=0o1777), usr=Folder(), var=var,
    )  # fmt: skip
    return root
