"""Prints as JSON what the kernel lets this process do, and exits with 7."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.simulator.runtimes.processes import system_calls

if TYPE_CHECKING:
    from collections.abc import Callable

_PERSONALITY_OF_ANOTHER_SYSTEM = 0x0001


def main() -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def call(function: Callable[..., object], *arguments: object) -> str:
        try:
            function(*arguments)
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        return ""

    def call_libc(name: str, *arguments: int) -> str:
        failed = getattr(libc, name)(*arguments) < 0
        return errno.errorcode[ctypes.get_errno()] if failed else ""

    def in_child(function: Callable[[], str]) -> str:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.write(write, function().encode() or b"-")
            os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        with os.fdopen(read) as answer:
            return answer.read().strip("-")

    def unshare(flags: int, then: Callable[[], str] = str) -> Callable[[], str]:
        return lambda: call(system_calls.unshare, flags) or then()

    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    user, mounts = system_calls.CLONE_NEWUSER, system_calls.CLONE_NEWNS
    network = system_calls.CLONE_NEWNET
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    status = dict(line.split(":", 1) for line in lines)
    found = {
        "user": [os.getuid(), os.getgid(), *(group for group in os.getgroups() if not group)],
        "capabilities": int(status["CapEff"], 16),
        "bounding": int(status["CapBnd"], 16),
        "no_new_privs": int(status["NoNewPrivs"]),
        "home": os.environ.get("HOME"),
        "user_namespace": in_child(unshare(user)),
        "all_namespaces": in_child(unshare(user | mounts | network)),
        "mount_namespace": in_child(unshare(mounts)),
        "second_namespace": in_child(unshare(user, unshare(network))),
        "mount": in_child(
            unshare(user | mounts, lambda: call(system_calls.mount, "none", "/", "tmpfs", 0))
        ),
        "hostname": in_child(
            unshare(user | system_calls.CLONE_NEWUTS, lambda: call(socket.sethostname, "x"))
        ),
        "chroot": in_child(unshare(user, lambda: call(os.chroot, "/"))),
        "own_setns": call_libc("setns", -1, 0),
        "personality": call_libc("personality", _PERSONALITY_OF_ANOTHER_SYSTEM),
        "vsock": call(lambda: socket.socket(getattr(socket, "AF_VSOCK", 40)).close()),
        "unknown": call_libc("syscall", 460, 0, 0, 0, 0),
        "tcp": call(lambda: socket.socket().close()),
    }
    print(json.dumps(found))
    sys.exit(7)


if __name__ == "__main__":
    main()
