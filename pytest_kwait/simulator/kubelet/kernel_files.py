"""Files of the kernel in simulated containers: limits of the cgroup, OOM score, sysctls.

Source: kubelet/cm/helpers_linux.go; kubelet/qos/policy.go; opencontainers/cgroups utils.go,
`ConvertCPUSharesToCgroupV2Value`; containerd pkg/cri/server/sandbox_run_linux.go.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.simulator.busybox.os.files import Directory, File, GeneratedFile
from pytest_kwait.simulator.kubelet.restart_policy import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.busybox.os.files import Inode
    from pytest_kwait.simulator.objects import Obj

__all__ = ["find_oom_score", "make_kernel_files"]

_PERIOD_MICROSECONDS, _MIN_QUOTA = 100_000, 1000
_MIN_SHARES, _MAX_SHARES, _SHARES_PER_CPU = 2, 262_144, 1024
_MAX_WEIGHT = 10_000
_GUARANTEED_SCORE, _BEST_EFFORT_SCORE = -997, 1000
_CONTROLLERS = "cpuset cpu io memory hugetlb pids rdma misc"
# Safe sysctls, with the values that a container has by default.
_SYSCTLS = {
    "kernel.shm_rmid_forced": "0",
    "net.ipv4.ip_local_port_range": "32768\t60999",
    "net.ipv4.ip_unprivileged_port_start": "0",
    "net.ipv4.ping_group_range": "0\t2147483647",
    "net.ipv4.tcp_syncookies": "1",
}


def make_kernel_files(
    pod: Obj, get_container: Callable[[], Obj], node_memory: int
) -> dict[str, Inode]:
    """Return the files and folders of a container by path.

    Args:
        get_container: returns the container with its current resources.
        node_memory: the memory of the node in bytes.
    """
    contents: dict[str, Callable[[], str]] = {
        "cgroup.controllers": lambda: _CONTROLLERS,
        "cpu.max": lambda: _format_quota(get_container()),
        "cpu.weight": lambda: str(_find_weight(get_container())),
        "memory.max": lambda: str(_find_amount(get_container(), "limits", "memory") or "max"),
    }
    cgroup = Directory()
    cgroup.entries.update({name: GeneratedFile(read) for name, read in contents.items()})
    folder = Directory(read_only=True)
    folder.entries["cgroup"] = cgroup
    cgroup.read_only = True
    system = Directory(read_only=True)
    system.entries["fs"] = folder
    found: dict[str, Inode] = {
        "/sys": system,
        "/proc/1/oom_score_adj": GeneratedFile(
            lambda: str(find_oom_score(pod, get_container(), node_memory))
        ),
    }
    given = (pod["spec"].get("securityContext") or {}).get("sysctls") or ()
    sysctls = {**_SYSCTLS, **{one["name"]: one["value"] for one in given}}
    for name, value in sysctls.items():
        found[f"/proc/sys/{name.replace('.', '/')}"] = File(f"{value}\n".encode())
    return found


def _find_amount(container: Obj, kind: str, name: str, scale: int = 1) -> int:
    """Return an amount of a container's resources, rounded up; 0 if it is not set."""
    given = ((container.get("resources") or {}).get(kind) or {}).get(name)
    return math.ceil(parse_quantity(given).amount * scale) if given is not None else 0


def _format_quota(container: Obj) -> str:
    limit = _find_amount(container, "limits", "cpu", 1000)
    quota = max(limit * _PERIOD_MICROSECONDS // 1000, _MIN_QUOTA) if limit else "max"
    return f"{quota} {_PERIOD_MICROSECONDS}"


def _find_weight(container: Obj) -> int:
    request = _find_amount(container, "requests", "cpu", 1000)
    request = request or _find_amount(container, "limits", "cpu", 1000)
    shares = max(request * _SHARES_PER_CPU // 1000, _MIN_SHARES)
    if shares >= _MAX_SHARES:
        return _MAX_WEIGHT
    if shares == _MIN_SHARES:
        return 1
    # A quadratic function that fits minimum, maximum and default.
    size = math.log2(shares)
    return math.ceil(10 ** ((size * size + 125 * size) / 612 - 7 / 34))


def find_oom_score(pod: Obj, container: Obj, node_memory: int) -> int:
    """Return the `oom_score_adj` of a container's processes."""
    spec = pod["spec"]
    quality = (pod.get("status") or {}).get("qosClass")
    if spec.get("priorityClassName") == "system-node-critical" or quality == "Guaranteed":
        return _GUARANTEED_SCORE
    if quality == "BestEffort" or not node_memory:
        return _BEST_EFFORT_SCORE
    request = _find_amount(container, "requests", "memory")
    if is_sidecar(container):
        request = max(
            request, min(_find_amount(one, "requests", "memory") for one in spec["containers"])
        )
    score = 1000 - 1000 * request // node_memory
    return min(max(score, 1000 + _GUARANTEED_SCORE), _BEST_EFFORT_SCORE - 1)
