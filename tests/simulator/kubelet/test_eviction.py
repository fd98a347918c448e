"""Eviction of pods that exceed their storage limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.kubelet.eviction import find_excess_usage, get_pod_limit
from tests.simulator.cluster import Cluster, conditions, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

WRITE = "head -c 2000000 /dev/zero > {}; echo written; sleep 1000"


def _limits(**limits: str) -> Obj:
    return {
        "resources": {"limits": {name.replace("_", "-"): text for name, text in limits.items()}}
    }


def _empty_dir(path: str = "/v", **source: str) -> Obj:
    return {
        "volumes": [{"name": "v", "emptyDir": source}],
        "container": {"volumeMounts": [{"name": "v", "mountPath": path}]},
    }


def _shell_container(name: str, script: str, **limits: str) -> Obj:
    image = {"name": name, "image": "busybox:1.36", "command": ["sh", "-c", script]}
    return {**image, **(_limits(**limits) if limits else {})}


def _seen(cluster: Cluster) -> tuple[str, str, list[str]]:
    status = cluster.get("pods", "p")["status"]
    states = [
        f"{kind} {detail.get('reason', '')} {detail.get('exitCode', '')}".strip()
        for one in status["containerStatuses"]
        for kind, detail in one["state"].items()
    ]
    return status["phase"], status.get("reason", ""), states


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            pod_spec("sh", "-c", WRITE.format("/v/f"), **_empty_dir(sizeLimit="1Mi")),
            'Usage of EmptyDir volume "v" exceeds the limit "1Mi". ',
        ),
        (
            pod_spec("sh", "-c", WRITE.format("/f"), container=_limits(ephemeral_storage="1Mi")),
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
        ),
        (
            pod_spec(
                "sh", "-c", "seq 200000; sleep 1000", container=_limits(ephemeral_storage="1Mi")
            ),
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
        ),
        (
            {
                "containers": [
                    _shell_container("c", WRITE.format("/f"), ephemeral_storage="1Mi"),
                    _shell_container("d", "sleep 1000", ephemeral_storage="4Mi"),
                ]
            },
            'Container c exceeded its local ephemeral storage limit "1Mi". ',
        ),
    ],
)
def test_a_pod_over_its_storage_limit_is_evicted(cluster: Cluster, spec: Obj, message: str) -> None:
    cluster.create("pods", "p", {**spec, "terminationGracePeriodSeconds": 600})
    cluster.run(100)
    phase, reason, states = _seen(cluster)
    assert (phase, reason) == ("Failed", "Evicted")
    assert set(states) == {"terminated Error 137"}
    pod = cluster.get("pods", "p")
    assert pod["status"]["message"] == message
    assert conditions(pod)["Ready"] == "False PodFailed"
    # Only evictions under node pressure get the condition.
    assert "DisruptionTarget" not in conditions(pod)
    told = [one for one in cluster.events("p") if one.startswith(("Evicted", "Killing"))]
    assert told[0] == f"Evicted x1: {message}"
    assert told[1] == "Killing x1: Stopping container c"
    assert len(told) == 1 + len(states)


@pytest.mark.parametrize(
    "spec",
    [
        pod_spec("sh", "-c", WRITE.format("/v/f"), **_empty_dir(sizeLimit="2Mi")),
        pod_spec("sh", "-c", WRITE.format("/v/f"), **_empty_dir()),
        pod_spec("sh", "-c", WRITE.format("/f"), container=_limits(ephemeral_storage="2Mi")),
        pod_spec(
            "sh", "-c", WRITE.format("/dev/shm/f"), container=_limits(ephemeral_storage="1Mi")
        ),
        pod_spec("sh", "-c", WRITE.format("/f") + "; rm /f", **_empty_dir(sizeLimit="1Mi")),
    ],
)
def test_a_pod_within_its_storage_limit_is_not_evicted(cluster: Cluster, spec: Obj) -> None:
    cluster.create("pods", "p", spec)
    cluster.run(200)
    assert _seen(cluster) == ("Running", "", ["running"])


def test_removed_files_do_not_count_as_usage(cluster: Cluster) -> None:
    script = "sleep 62; head -c 2000000 /dev/zero > /v/f; sleep 30; rm /v/f; sleep 1000"
    cluster.create("pods", "p", pod_spec("sh", "-c", script, **_empty_dir(sizeLimit="1Mi")))
    cluster.run(300)
    assert _seen(cluster)[0] == "Running"


def test_a_volume_in_memory_is_full_at_its_limit(cluster: Cluster) -> None:
    script = "head -c 2000000 /dev/zero > /v/f; wc -c < /v/f; sleep 1000"
    spec = pod_spec("sh", "-c", script, **_empty_dir(medium="Memory", sizeLimit="1Mi"))
    cluster.create("pods", "p", spec)
    cluster.run(200)
    assert _seen(cluster)[0] == "Running"
    log = cluster.api.kubelets["kwait-node-1"].logs("t", "p", "c")
    assert [line for _, line in log] == [
        b"head: write error: No space left on device\n", b"1048576\n",
    ]  # fmt: skip


def test_a_memory_volume_is_charged_to_its_writer(cluster: Cluster) -> None:
    spec = pod_spec(
        "sh", "-c", "x=$(seq 20000); " + WRITE.format("/v/f"), **_empty_dir(medium="Memory")
    )
    spec["containers"][0] |= _limits(memory="1Mi")
    cluster.create("pods", "p", {**spec, "restartPolicy": "Never"})
    cluster.run(20)
    assert _seen(cluster) == ("Failed", "", ["terminated OOMKilled 137"])


def test_the_storage_limit_of_a_pod_includes_init_containers() -> None:
    sidecar = {**_shell_container("s", "", ephemeral_storage="1Mi"), "restartPolicy": "Always"}
    small, large = (_shell_container("i", "", ephemeral_storage=size) for size in ("1Mi", "9Mi"))
    regular = _shell_container("c", "", ephemeral_storage="2Mi")
    free = _shell_container("d", "")

    def limit(*inits: Obj, containers: list[Obj], **fields: Obj) -> str:
        pod = {"spec": {"initContainers": list(inits), "containers": containers, **fields}}
        return str(get_pod_limit(pod))

    assert limit(containers=[free]) == "None"
    assert limit(containers=[regular, free]) == "2Mi"
    assert limit(sidecar, small, containers=[regular]) == "3Mi"
    assert limit(sidecar, large, containers=[regular]) == "10Mi"
    assert limit(containers=[regular], overhead={"ephemeral-storage": "1Mi"}) == "3Mi"


def test_a_pod_without_limit_is_not_measured() -> None:
    def refuse(name: str) -> int:
        raise AssertionError(name)

    pod = {"spec": pod_spec("true")}
    assert find_excess_usage(pod, {}, refuse, refuse) == ""
