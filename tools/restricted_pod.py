"""Run a command as a container of a restricted pod, without a cluster.

    python -m tools.restricted_pod --user 10001 -- pytest e2e/programs -n 4

As with `runAsNonRoot`, `runAsUser`, `capabilities: {drop: [ALL]}`, no `allowPrivilegeEscalation`
and `seccompProfile: {type: RuntimeDefault}`: the command is another user than root, has no
capabilities, gets none, and has containerd's default filter. Not imposed are the container's own
namespaces, its file system and its read-only /sys; 32-bit system calls are refused. It needs Linux
on x86_64 or aarch64; started as another user than root it keeps that.

Source: containerd contrib/seccomp/seccomp_default.go (1.7); runc
libcontainer/seccomp/patchbpf/enosys_linux.go; kubernetes Pod Security Standards, `restricted`.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, NoReturn

from pytest_kwait.simulator.runtimes.processes.system_calls import (
    forbid_new_privileges,
    limit_capabilities,
)
from tools.system_call_filter import (
    NEW_NAMESPACES,
    SystemCallFilter,
    check_platform,
    leave_root,
    open_folders,
    run_command,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_VSOCK = getattr(socket, "AF_VSOCK", 40)
_FILTER = SystemCallFilter(
    refused=(
        "_sysctl", "acct", "add_key", "bpf", "chroot", "clock_settime", "delete_module",
        "fanotify_init", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick",
        "get_mempolicy", "init_module", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load",
        "keyctl", "lookup_dcookie", "mbind", "migrate_pages", "mount", "mount_setattr",
        "move_mount", "move_pages", "nfsservctl", "open_by_handle_at", "open_tree",
        "perf_event_open", "pidfd_getfd", "pivot_root", "process_madvise", "quotactl",
        "quotactl_fd", "reboot", "request_key", "set_mempolicy", "set_mempolicy_home_node",
        "setdomainname", "sethostname", "setns", "settimeofday", "swapoff", "swapon", "sysfs",
        "syslog", "umount2", "unshare", "uselib", "userfaultfd", "ustat", "vhangup",
    ),
    flags={"clone": (NEW_NAMESPACES, 0)},
    values={"socket": (_VSOCK,)},
    only_values={"personality": (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)},
    # That of futex_requeue: runc knows no call that is newer than all in the profile.
    last=456,
)  # fmt: skip
"""The calls that are not in the profile of a container without capabilities."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command of the command line in place of this process."""
    run_command(
        "tools.restricted_pod",
        "A restricted pod's security context",
        "Run a command as a container of a restricted pod.",
        lambda user: impose_context(user),
        arguments,
    )


def impose_context(user: int) -> None:
    """Restrict this process and those that it starts; this cannot be undone.

    Args:
        user: the id of the user and group to become, where this is root.

    Raises:
        OSError: the system is not Linux, the processor is unknown, or the kernel refuses.
    """
    check_platform()
    open_folders(user)
    if os.geteuid() == 0:
        limit_capabilities(frozenset())
        os.setgroups([])
    leave_root(user)
    forbid_new_privileges()
    _FILTER.load()


if __name__ == "__main__":
    main()
