"""Run a command as an ordinary user of Ubuntu 24.04, whose AppArmor restricts user namespaces.

    python -m tools.apparmor_profile -- pytest e2e/programs -n 4

User namespaces can be made, with others in the same call, and have no capabilities: mounts, host
names, groups, further namespaces and the entering of others fail with EPERM, as there. Not imposed,
as a filter sees no memory: the refusal of the namespace's own process to map its user, and that of
messages to the kernel's network (netlink). It needs Linux on x86_64 or aarch64; started as root it
becomes another user.

Source: Ubuntu's /etc/apparmor.d/unprivileged_userns with
kernel.apparmor_restrict_unprivileged_userns=1; man 7 user_namespaces.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

from tools.system_call_filter import (
    NEW_NAMESPACES,
    NEW_USER_NAMESPACE,
    SystemCallFilter,
    check_platform,
    leave_root,
    open_folders,
    run_command,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_FILTER = SystemCallFilter(
    refused=(
        "mount", "umount2", "pivot_root", "chroot", "setns", "sethostname", "setdomainname",
        "setgroups", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
        "mount_setattr",
    ),
    flags={
        "clone": (NEW_NAMESPACES, NEW_USER_NAMESPACE),
        "unshare": (NEW_NAMESPACES, NEW_USER_NAMESPACE),
    },
)  # fmt: skip
"""The calls that need a capability of the namespace."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command of the command line in place of this process."""
    run_command(
        "tools.apparmor_profile",
        "Ubuntu's restriction of user namespaces",
        "Run a command as an ordinary user of Ubuntu 24.04.",
        lambda user: impose_profile(user),
        arguments,
    )


def impose_profile(user: int) -> None:
    """Restrict this process and those that it starts; this cannot be undone.

    Args:
        user: the id of the user and group to become, where this is root.

    Raises:
        OSError: the system is not Linux, the processor is unknown, or the kernel refuses.
    """
    check_platform()
    open_folders(user)
    if os.geteuid() == 0:
        os.setgroups([])
    # As root: programs of the user may still have the set-user-ID bit.
    _FILTER.load()
    leave_root(user)


if __name__ == "__main__":
    main()
