"""Files of the kernel in simulated containers, and the programs that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.kubelet.kernel_files import find_oom_score
from tests.simulator.controllers.cluster import NAMESPACE, Cluster, pod_spec
from tests.simulator.kubelet.container_harness import take_output

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj


def _start(resources: Obj, **fields: object) -> Cluster:
    cluster = Cluster()
    container = {"resources": resources}
    cluster.create("pods", "p", pod_spec("sleep", "999", container=container, **fields))
    cluster.run(5)
    return cluster


def _sh(cluster: Cluster, script: str) -> str:
    node = cluster.get("pods", "p")["spec"]["nodeName"]
    kubelet = cluster.api.kubelets[node]
    session = kubelet.run("t", "p", "c", ["sh", "-c", f"({script}) 2>&1"], stdin=False, tty=False)
    cluster.run(1)
    return take_output(session)[1].decode()


@pytest.mark.parametrize(
    ("resources", "shown"),
    [
        ({}, ["max 100000", "1", "max"]),
        ({"requests": {"cpu": "1"}}, ["max 100000", "100", "max"]),
        (
            {"limits": {"cpu": "250m", "memory": "64Mi"}},
            ["25000 100000", "35", "67108864"],
        ),
        ({"limits": {"cpu": "5m"}, "requests": {"cpu": "1m"}}, ["1000 100000", "1", "max"]),
    ],
)
def test_the_cgroup_has_the_containers_resources(resources: Obj, shown: list[str]) -> None:
    lines = _sh(_start(resources), "cd /sys/fs/cgroup; cat cpu.max cpu.weight memory.max")
    assert lines.splitlines() == shown


def test_a_resize_shows_in_the_cgroup() -> None:
    cluster = _start({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})

    def change(pod: Obj) -> None:
        pod["spec"]["containers"][0]["resources"] = {kind: {"cpu": "2"} for kind in kinds}

    kinds = ("requests", "limits")
    cluster.api.modify("pods", "p", NAMESPACE, change, subresource="resize")
    cluster.run(5)
    assert _sh(cluster, "cat /sys/fs/cgroup/cpu.max") == "200000 100000\n"


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        (
            "mount -t cgroup2",
            "cgroup on /sys/fs/cgroup type cgroup2 (ro,nosuid,nodev,noexec,relatime)\n",
        ),
        ("mount | grep -c overlay", "1\n"),
        ("mount /dev/vda1 /mnt", "mount: permission denied (are you root?)\n"),
        (
            "echo 1 > /sys/fs/cgroup/cpu.max",
            "sh: can't create /sys/fs/cgroup/cpu.max: Read-only file system\n",
        ),
        ("cat /proc/1/oom_score_adj", "1000\n"),
        ("sysctl kernel.shm_rmid_forced", "kernel.shm_rmid_forced = 1\n"),
        ("sysctl -n net.ipv4.tcp_syncookies", "1\n"),
        ("sysctl kernel.none", "sysctl: error: 'kernel.none' is an unknown key\n"),
        ("ip link add dummy0 type dummy", "ip: RTNETLINK answers: Operation not permitted\n"),
        ("ip addr", "ip: not simulated by the embedded kubelet\n"),
        (
            "printf 'ab\\001' | hexdump -C",
            "00000000  61 62 01                                          |ab.|\n00000003\n",
        ),
        ("printf abc | hexdump", "0000000 6261 0063                              \n0000003\n"),
        (
            "yes | head -c 50 | hexdump -C -s 2",
            "00000002  79 0a 79 0a 79 0a 79 0a  79 0a 79 0a 79 0a 79 0a  |y.y.y.y.y.y.y.y.|\n"
            "*\n00000032\n",
        ),
        ("printf '' | hexdump -C", ""),
    ],
)  # fmt: skip
def test_programs_about_the_kernel(script: str, shown: str) -> None:
    sysctls = [{"name": "kernel.shm_rmid_forced", "value": "1"}]
    assert _sh(_start({}, securityContext={"sysctls": sysctls}), script) == shown


_GIB = 1 << 30


@pytest.mark.parametrize(
    ("quality", "request_", "more", "score"),
    [
        ("Guaranteed", "1Gi", {}, -997),
        ("BestEffort", "0", {}, 1000),
        ("Burstable", "1Gi", {}, 900),
        ("Burstable", "0", {}, 999),
        ("Burstable", "10Gi", {}, 3),
        ("Burstable", "0", {"restartPolicy": "Always"}, 800),
    ],
)
def test_the_oom_score_follows_the_quality_of_service(
    quality: str, request_: str, more: Obj, score: int
) -> None:
    main = {"name": "main", "resources": {"requests": {"memory": "2Gi"}}}
    pod: Obj = {"spec": {"containers": [main]}, "status": {"qosClass": quality}}
    container = {"name": "c", "resources": {"requests": {"memory": request_}}, **more}
    assert find_oom_score(pod, container, 10 * _GIB) == score
    critical = {**pod, "spec": {**pod["spec"], "priorityClassName": "system-node-critical"}}
    assert find_oom_score(critical, container, 10 * _GIB) == -997


def test_a_termination_message_from_the_log_ends_as_the_output() -> None:
    cluster = Cluster()
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    for name, script in (("whole", "echo a; echo b"), ("part", "echo a; printf b")):
        spec = pod_spec("sh", "-c", f"{script}; exit 1", container=fallback)
        cluster.create("pods", name, {**spec, "restartPolicy": "Never"})
    cluster.run(5)
    statuses = [
        cluster.get("pods", name)["status"]["containerStatuses"][0] for name in ("whole", "part")
    ]
    assert [one["state"]["terminated"]["message"] for one in statuses] == ["a\nb\n", "a\nb"]
