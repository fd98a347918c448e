"""Run a command under the restrictions of Docker's default profile, without Docker.

    python -m tools.docker_profile -- pytest e2e -n 4

The command has the capabilities of a container, and may neither create namespaces nor mount. Not
imposed are the container's own namespaces and its read-only /sys. It needs Linux on x86_64 or
aarch64; as root it drops capabilities, as another user it only forbids new ones.

Source: moby profiles/seccomp/default.json, oci/caps/defaults.go; man 2 seccomp, prctl.
"""

from __future__ import annotations

import argparse
import os
from typing import NoReturn

from pytest_kwait.simulator.runtimes.processes.system_calls import (
    forbid_new_privileges,
    limit_capabilities,
)
from tools.system_call_filter import NEW_NAMESPACES, SystemCallFilter, check_platform, execute

CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
        "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip
"""The capabilities of root in a container."""

_FILTER = SystemCallFilter(
    refused=(
        "mount", "umount2", "pivot_root", "setns", "unshare", "sethostname", "setdomainname",
        "bpf", "perf_event_open", "add_key", "request_key", "keyctl", "open_by_handle_at",
        "userfaultfd", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
        "mount_setattr", "io_uring_setup", "io_uring_enter", "io_uring_register", "kcmp",
        "pidfd_getfd", "process_madvise",
    ),
    flags={"clone": (NEW_NAMESPACES, 0)},
)  # fmt: skip
"""The calls that the profile refuses without CAP_SYS_ADMIN and CAP_SYS_PTRACE."""


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
    execute("Docker's default profile", command, lambda: impose_profile())


def impose_profile() -> None:
    """Restrict this process and those that it starts; this cannot be undone.

    Raises:
        OSError: the system is not Linux, the processor is unknown, or the kernel refuses.
    """
    check_platform()
    if os.geteuid() == 0:
        limit_capabilities(CAPABILITIES)
    else:
        forbid_new_privileges()
    _FILTER.load()


if __name__ == "__main__":
    main()
