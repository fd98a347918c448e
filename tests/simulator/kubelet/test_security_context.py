"""Users and read-only roots of simulated containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulator.cluster import Cluster, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj


def _says(script: str, of_container: Obj, of_pod: Obj | None = None) -> list[str]:
    """Return the output of a pod with security contexts."""
    cluster = Cluster()
    mounts = [{"name": "v", "mountPath": "/data"}]
    container = {"securityContext": of_container, "volumeMounts": mounts}
    volumes = [{"name": "v", "emptyDir": {}}]
    spec = pod_spec(
        "sh", "-c", script, container=container, volumes=volumes, securityContext=of_pod or {}
    )
    cluster.create("pods", "p", {**spec, "restartPolicy": "Never"})
    cluster.run(20)
    node = cluster.get("pods", "p")["spec"]["nodeName"]
    return [line.decode().rstrip() for _, line in cluster.api.kubelets[node].logs("t", "p", "c")]


@pytest.mark.parametrize(
    ("of_container", "of_pod", "shown"),
    [
        ({}, {}, "uid=0(root) gid=0(root) groups=0(root)"),
        ({"runAsUser": 1001}, {}, "uid=1001 gid=0(root) groups=0(root)"),
        ({"runAsUser": 65534}, {}, "uid=65534(nobody) gid=65534(nobody) groups=65534(nobody)"),
        ({"runAsGroup": 2002}, {"runAsUser": 1001}, "uid=1001 gid=2002 groups=2002"),
        ({"runAsUser": 1}, {"runAsUser": 2, "runAsGroup": 3}, "uid=1 gid=3 groups=3"),
        (
            {},
            {"runAsUser": 1, "runAsGroup": 5, "fsGroup": 7, "supplementalGroups": [4, 7]},
            "uid=1 gid=5 groups=4,5,7",
        ),
    ],
)
def test_a_container_runs_as_its_user(of_container: Obj, of_pod: Obj, shown: str) -> None:
    assert _says("id", of_container, of_pod) == [shown]


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("id -u", ["1001"]),
        ("id -g", ["2002"]),
        ("id -G", ["2002 5"]),
        ("id -un", ["1001", "id: unknown ID 1001"]),
        ("id -u root", ["0"]),
        ("whoami", ["whoami: unknown uid 1001"]),
        ("cd /; busybox id -u", ["1001"]),
        ("(id -u) | cat", ["1001"]),
    ],
)
def test_programs_show_their_user(command: str, lines: list[str]) -> None:
    of_pod = {"runAsUser": 1001, "runAsGroup": 2002, "supplementalGroups": [5]}
    assert _says(command, {}, of_pod) == lines


def test_a_read_only_root_can_be_written_in_volumes_alone() -> None:
    script = "echo x > /file; mkdir /tmp/d; rm /etc/passwd; echo y > /data/f; cat /data/f"
    assert _says(script, {"readOnlyRootFilesystem": True}) == [
        "sh: can't create /file: Read-only file system",
        "mkdir: can't create directory '/tmp/d': Read-only file system",
        "rm: can't remove '/etc/passwd': Read-only file system",
        "y",
    ]
    assert _says("echo x > /file; cat /file", {}) == ["x"]
