"""Files of the kernel in interpreted containers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pytest_kwait.simulator.busybox.os.files import FileSystem
from pytest_kwait.simulator.kubelet.cri import LinuxContainerResources
from pytest_kwait.simulator.runtimes.interpreted.kernel_files import make_kernel_files

_NONE = LinuxContainerResources(100_000, None, 2, None, 1000)


def _read(resources: LinuxContainerResources, path: str, **sysctls: str) -> str:
    files = FileSystem(lambda: 0.0)
    named = {name.replace("__", "."): value for name, value in sysctls.items()}
    for mounted, make in make_kernel_files(lambda: resources, named).items():
        files.mount(mounted, make)
    return (files.read(path) or b"missing").decode().strip()


@pytest.mark.parametrize(
    ("resources", "name", "content"),
    [
        (_NONE, "cpu.max", "max 100000"),
        (replace(_NONE, cpu_quota=50_000), "cpu.max", "50000 100000"),
        (_NONE, "cpu.weight", "1"),
        (replace(_NONE, cpu_shares=1024), "cpu.weight", "100"),
        (replace(_NONE, cpu_shares=262_144), "cpu.weight", "10000"),
        (_NONE, "memory.max", "max"),
        (replace(_NONE, memory_limit_in_bytes=1 << 20), "memory.max", "1048576"),
    ],
)
def test_limits_are_those_of_the_cgroup(
    resources: LinuxContainerResources, name: str, content: str
) -> None:
    assert _read(resources, f"/sys/fs/cgroup/{name}") == content


def test_resources_are_read_when_the_file_is() -> None:
    current = [_NONE]
    make = make_kernel_files(lambda: current[0], {})["/proc/1/oom_score_adj"]
    files = FileSystem(lambda: 0.0)
    files.mount("/score", make)
    assert (files.read("/score") or b"").strip() == b"1000"
    current[0] = replace(_NONE, oom_score_adj=-997)
    assert (files.read("/score") or b"").strip() == b"-997"


def test_sysctls_of_the_pod_replace_defaults() -> None:
    path = "/proc/sys/kernel/shm_rmid_forced"
    assert _read(_NONE, path) == "0"
    assert _read(_NONE, path, kernel__shm_rmid_forced="1") == "1"
