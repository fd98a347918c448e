"""Lifecycle hooks: delays, and containers whose hooks fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.cluster import NAMESPACE, Cluster, pod_spec

Obj = dict[str, Any]

_TRAP = "trap 'exit 0' TERM; while true; do sleep 1; done"


def _create(cluster: Cluster, script: str, lifecycle: Obj, **fields: Any) -> None:
    container = {"lifecycle": lifecycle}
    fields = {"terminationGracePeriodSeconds": 3, **fields}
    cluster.create("pods", "p", pod_spec("sh", "-c", script, container=container, **fields))


def _status(cluster: Cluster) -> Obj:
    found: Obj = cluster.get("pods", "p")["status"]["containerStatuses"][0]
    return found


def _ended(cluster: Cluster) -> Obj:
    """Return the last state of the container."""
    last = [obj for resource, _, obj in cluster.history if resource == "pods"][-1]
    found: Obj = last["status"]["containerStatuses"][0]["state"]["terminated"]
    return found


@pytest.mark.parametrize(
    "hook", [{"exec": {"command": ["sh", "-c", "sleep 2"]}}, {"sleep": {"seconds": 2}}]
)
def test_a_container_runs_after_its_post_start_hook(cluster: Cluster, hook: Obj) -> None:
    _create(cluster, "sleep 99", {"postStart": hook})
    cluster.run(2)
    assert cluster.get("pods", "p")["status"]["phase"] == "Pending"
    assert "Started x1: Container started" in cluster.events("p")
    cluster.run(3)
    assert _status(cluster)["ready"]


@pytest.mark.parametrize(
    ("hook", "told"),
    [
        (
            {"exec": {"command": ["sh", "-c", "echo out; echo err >&2; exit 7"]}},
            "Exec lifecycle hook ([sh -c echo out; echo err >&2; exit 7]) {of} command 'sh -c "
            'echo out; echo err >&2; exit 7\' exited with 7: err\n, message: "out\\nerr\\n"',
        ),
        (
            {"httpGet": {"port": 8080, "path": "/x"}},
            'HTTP lifecycle hook (/x) {of} Get "http://10.244.1.2:8080/x": '
            "dial tcp 10.244.1.2:8080: connect: connection refused",
        ),
        (
            {"httpGet": {"port": "web", "path": "/x"}},
            'HTTP lifecycle hook (/x) {of} strconv.Atoi: parsing "web": invalid syntax',
        ),
    ],
)
def test_a_failed_hook_kills_its_container(cluster: Cluster, hook: Obj, told: str) -> None:
    _create(cluster, "sleep 99", {"postStart": hook})
    cluster.run(6)
    pod = cluster.get("pods", "p")
    of = f'for Container "c" in Pod "p_{NAMESPACE}({pod["metadata"]["uid"]})" failed - error:'
    waiting = {"reason": "PostStartHookError", "message": told.format(of=of)}
    states = cluster.states("pods", "p", lambda one: one["status"].get("containerStatuses"))
    assert waiting in [state[0]["state"].get("waiting") for state in states if state]
    assert _status(cluster)["lastState"]["terminated"]["exitCode"] == 137
    events = [one for one in cluster.events("p") if one.startswith(("Failed", "Killing"))]
    assert [one.partition(": ")[2] for one in events[:2]] == [
        "PostStartHook failed",
        "FailedPostStartHook",
    ]


def test_a_failed_hook_fails_a_pod_that_never_restarts(cluster: Cluster) -> None:
    hook = {"exec": {"command": ["false"]}}
    _create(cluster, "sleep 99", {"postStart": hook}, restartPolicy="Never")
    cluster.run(9)
    assert cluster.get("pods", "p")["status"]["phase"] == "Failed"
    assert _status(cluster)["state"]["terminated"]["reason"] == "Error"


def test_any_http_response_to_a_hook_is_success(cluster: Cluster) -> None:
    script = "mkdir /w; httpd -p 8080 -h /w; sleep 99"
    _create(cluster, script, {"postStart": {"httpGet": {"port": 8080, "path": "/nope"}}})
    cluster.run(4)
    assert _status(cluster)["ready"]


@pytest.mark.parametrize(
    ("hook", "failed"),
    [
        ({"exec": {"command": ["sh", "-c", "echo bye >> /dev/termination-log"]}}, False),
        ({"sleep": {"seconds": 1}}, False),
        ({"exec": {"command": ["sh", "-c", "exit 9"]}}, True),
        ({"httpGet": {"port": 8080}}, True),
    ],
)
def test_the_pre_stop_hook_runs_before_the_signal(
    cluster: Cluster, hook: Obj, failed: bool
) -> None:
    _create(cluster, _TRAP, {"preStop": hook})
    cluster.run(3)
    cluster.delete("pods", "p")
    cluster.run(9)
    assert cluster.find("pods", "p") is None
    assert _ended(cluster)["exitCode"] == 0
    assert ("FailedPreStopHook x1: PreStopHook failed" in cluster.events("p")) == failed
    if "exec" in hook and not failed:
        assert _ended(cluster)["message"] == "bye\n"


def test_a_slow_hook_leaves_two_seconds_of_grace(cluster: Cluster) -> None:
    _create(cluster, _TRAP, {"preStop": {"exec": {"command": ["sleep", "100"]}}})
    cluster.run(3)
    cluster.delete("pods", "p")
    cluster.run(2.9)
    assert "terminated" not in _status(cluster)["state"]
    cluster.run(3)
    assert cluster.find("pods", "p") is None
    assert _ended(cluster)["exitCode"] == 0
    # The hook fails when its container ends.
    assert "FailedPreStopHook x1: PreStopHook failed" in cluster.events("p")


def test_a_forced_deletion_runs_no_hook(cluster: Cluster) -> None:
    _create(cluster, _TRAP, {"preStop": {"exec": {"command": ["false"]}}})
    cluster.run(3)
    cluster.delete("pods", "p", grace=0)
    cluster.run(3)
    assert cluster.find("pods", "p") is None
    assert "Killing x1: Stopping container c" in cluster.events("p")
    assert not [one for one in cluster.events("p") if one.startswith("FailedPreStop")]


def test_sidecars_end_last_in_reverse_order(cluster: Cluster) -> None:
    script = "trap 'sleep 1; exit 0' TERM; while true; do sleep 1; done"
    sidecars = [
        {
            "name": name,
            "image": "busybox:1.36",
            "command": ["sh", "-c", script],
            "restartPolicy": "Always",
        }
        for name in ("s1", "s2")
    ]
    _create(cluster, script, {}, initContainers=sidecars, terminationGracePeriodSeconds=30)
    cluster.run(5)
    cluster.delete("pods", "p")
    cluster.run(15)
    last = [obj for resource, _, obj in cluster.history if resource == "pods"][-1]["status"]
    ends = {
        one["name"]: one["state"]["terminated"]["finishedAt"]
        for one in [*last["initContainerStatuses"], *last["containerStatuses"]]
    }
    assert ends["c"] < ends["s2"] < ends["s1"]


def test_a_request_of_an_unsimulated_container_reaches_another_pod(cluster: Cluster) -> None:
    script = r"(sleep 1; printf 'HTTP/1.1 200 OK\r\n\r\n') | nc -lp 80"
    cluster.create("pods", "server", pod_spec("sh", "-c", script))
    cluster.run(5)
    server = cluster.get("pods", "server")
    request = {"host": server["status"]["podIP"], "port": 80, "path": "/began"}
    hooks = {"postStart": {"httpGet": request}, "preStop": {"httpGet": {"port": 80}}}
    container = {"image": "nginx", "lifecycle": hooks}
    cluster.create("pods", "p", pod_spec(container=container))
    cluster.run(5)
    assert _status(cluster)["ready"]
    kubelet = cluster.api.kubelets[server["spec"]["nodeName"]]
    (first, *_) = kubelet.logs("t", "server", "c")
    assert first[1] == b"GET /began HTTP/1.1\n"
    cluster.delete("pods", "p")
    cluster.run(5)
    assert not [one for one in cluster.events("p") if "Failed" in one]
