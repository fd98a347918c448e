"""Files of the kernel in interpreted containers: limits of the cgroup, OOM score and sysctls.

Source: opencontainers/cgroups utils.go, `ConvertCPUSharesToCgroupV2Value`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.files import Directory, File, GeneratedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.busybox.os.files import Inode
    from pytest_kwait.simulator.kubelet.cri import LinuxContainerResources

_MIN_SHARES, _MAX_SHARES = 2, 262_144
_MAX_WEIGHT = 10_000
_CONTROLLERS = "cpuset cpu io memory hugetlb pids rdma misc"
# Safe sysctls, with the values that a container has by default.
_SYSCTLS = {
    "kernel.shm_rmid_forced": "0",
    "net.ipv4.ip_local_port_range": "32768\t60999",
    "net.ipv4.ip_unprivileged_port_start": "0",
    "net.ipv4.ping_group_range": "0\t2147483647",
    "net.ipv4.tcp_syncookies": "1",
}


def _make_sysctls(values: Mapping[str, str]) -> dict[str, Callable[[], Inode]]:
    return {
        f"/proc/sys/{name.replace('.', '/')}": partial(File, f"{value}\n".encode())
        for name, value in values.items()
    }


_SYSCTL_FILES = _make_sysctls(_SYSCTLS)


def make_kernel_files(
    get_resources: Callable[[], LinuxContainerResources], sysctls: Mapping[str, str]
) -> dict[str, Callable[[], Inode]]:
    """Return functions that make the files and folders of a container, by path.

    Args:
        get_resources: returns the current resources of the container.
        sysctls: settings of the pod by dotted name.
    """
    return {
        "/sys": partial(_make_system_folder, get_resources),
        "/proc/1/oom_score_adj": partial(GeneratedFile, lambda: str(get_resources().oom_score_adj)),
        **_SYSCTL_FILES,
        **_make_sysctls(sysctls),
    }


def _make_system_folder(get_resources: Callable[[], LinuxContainerResources]) -> Directory:
    """Return `/sys` with the limits of the cgroup."""
    contents: dict[str, Callable[[], str]] = {
        "cgroup.controllers": lambda: _CONTROLLERS,
        "cpu.max": lambda: _format_quota(get_resources()),
        "cpu.weight": lambda: str(_find_weight(get_resources().cpu_shares)),
        "memory.max": lambda: str(get_resources().memory_limit_in_bytes or "max"),
    }
    cgroup = Directory()
    cgroup.entries.update({name: GeneratedFile(read) for name, read in contents.items()})
    folder = Directory(read_only=True)
    folder.entries["cgroup"] = cgroup
    cgroup.read_only = True
    system = Directory(read_only=True)
    system.entries["fs"] = folder
    return system


def _format_quota(resources: LinuxContainerResources) -> str:
    quota = "max" if resources.cpu_quota is None else resources.cpu_quota
    return f"{quota} {resources.cpu_period}"


def _find_weight(shares: int) -> int:
    if shares >= _MAX_SHARES:
        return _MAX_WEIGHT
    if shares == _MIN_SHARES:
        return 1
    # A quadratic function that fits minimum, maximum and default.
    size = math.log2(shares)
    return math.ceil(10 ** ((size * size + 125 * size) / 612 - 7 / 34))
