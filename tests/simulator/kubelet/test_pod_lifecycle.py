"""Pods from binding to removal, with the statuses that the real kubelet publishes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.kubelet import volume_manager
from pytest_kwait.simulator.kubelet.volumes import make_volume_files
from tests.simulator.cluster import NAMESPACE, Cluster, conditions, pod_spec
from tests.simulator.runtimes.interpreted.container_harness import take_output

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj


def _state(pod: Obj, name: str = "c") -> str:
    """`phase container-state reason(exit code)`."""
    status = pod["status"]
    every = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    for one in every:
        if one["name"] == name:
            (kind, detail), *_ = one["state"].items()
            code = f"({detail['exitCode']})" if "exitCode" in detail else ""
            return f"{status['phase']} {kind} {detail.get('reason', '')}{code}".strip()
    return str(status["phase"])


def _status(pod: Obj, name: str = "c") -> Obj:
    found: Obj = next(one for one in pod["status"]["containerStatuses"] if one["name"] == name)
    return found


def test_a_pod_starts_in_the_kubelets_order(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "100"))
    cluster.run(5)
    seen = cluster.states("pods", "p", lambda pod: (pod["status"]["phase"], conditions(pod)))
    unready = "False ContainersNotReady"
    waiting = {
        "PodReadyToStartContainers": "False",
        "Initialized": "True",
        "Ready": unready,
        "ContainersReady": unready,
        "PodScheduled": "True",
    }
    assert seen == [
        ("Pending", {}),
        ("Pending", {"PodScheduled": "True"}),
        ("Pending", waiting),
        ("Pending", {**waiting, "PodReadyToStartContainers": "True"}),
        ("Running", dict.fromkeys(waiting, "True")),
    ]
    assert list(seen[-1][1]) == list(waiting)
    assert cluster.events("p") == [
        "Scheduled x1: Successfully assigned t/p to kwait-node-1",
        'Pulled x1: Container image "busybox:1.36" already present on machine '
        "and can be accessed by the pod",
        "Created x1: Container created",
        "Started x1: Container started",
    ]
    status = cluster.get("pods", "p")["status"]
    assert status["hostIP"] == "172.30.0.2"
    assert status["podIP"] == status["podIPs"][0]["ip"] == "10.244.1.2"
    container = _status(cluster.get("pods", "p"))
    assert container["image"] == "docker.io/library/busybox:1.36"
    assert container["containerID"].startswith("containerd://")
    assert (container["ready"], container["started"], container["restartCount"]) == (True, True, 0)


@pytest.mark.parametrize(
    ("code", "reason", "phase", "ready"),
    [(0, "Completed", "Succeeded", "PodCompleted"), (3, "Error", "Failed", "PodFailed")],
)
def test_a_terminal_phase_is_published_after_the_sandbox_is_down(
    cluster: Cluster, code: int, reason: str, phase: str, ready: str
) -> None:
    script = f"echo hi; sleep 2; exit {code}"
    cluster.create("pods", "p", pod_spec("sh", "-c", script, restartPolicy="Never"))
    cluster.run(10)
    assert cluster.states("pods", "p", _state)[-3:] == [
        "Running running",
        f"Running terminated {reason}({code})",
        f"{phase} terminated {reason}({code})",
    ]
    told = cluster.states(
        "pods",
        "p",
        lambda pod: [conditions(pod).get(one) for one in ("PodReadyToStartContainers", "Ready")],
    )
    assert told[-2:] == [["True", f"False {ready}"], ["False", f"False {ready}"]]


def test_a_crash_loop_backs_off(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sh", "-c", "sleep 1; exit 1"))
    cluster.run(60)
    seen = cluster.states(
        "pods",
        "p",
        lambda pod: (
            _state(pod),
            pod["status"].get("containerStatuses", [{}])[0].get("restartCount"),
        ),
    )
    assert seen[1:] == [
        ("Pending waiting ContainerCreating", 0),
        ("Running running", 0),
        ("Running terminated Error(1)", 0),
        ("Running running", 1),
        ("Running terminated Error(1)", 1),
        ("Running waiting CrashLoopBackOff", 1),
        ("Running running", 2),
        ("Running terminated Error(1)", 2),
        ("Running waiting CrashLoopBackOff", 2),
        ("Running running", 3),
        ("Running terminated Error(1)", 3),
    ]
    uid = cluster.get("pods", "p")["metadata"]["uid"]
    messages = cluster.states(
        "pods",
        "p",
        lambda pod: (
            (pod["status"].get("containerStatuses") or [{"state": {}}])[0]["state"]
            .get("waiting", {})
            .get("message")
        ),
    )
    where = f"restarting failed container=c pod=p_t({uid})"
    assert [one for one in messages if one] == [f"back-off 10s {where}", f"back-off 20s {where}"]
    assert (
        f"BackOff x3: Back-off restarting failed container c in pod p_t({uid})"
        in cluster.events("p")
    )


def test_fast_time_shortens_back_off_but_not_commands() -> None:
    cluster = Cluster(scale=0.1)
    cluster.create("pods", "p", pod_spec("sh", "-c", "sleep 1; exit 1"))
    cluster.run(8)
    # Four runs of a second, and 0 + 1 + 2 seconds between them.
    assert _status(cluster.get("pods", "p"))["restartCount"] == 3


_NOT_FOUND = (
    'failed to pull and unpack image "example.invalid/x:1": failed to resolve reference '
    '"example.invalid/x:1": failed to do request: Head '
    '"https://example.invalid/v2/x/manifests/1": dial tcp: lookup example.invalid: no such host'
)


def test_a_failing_pull_alternates_between_error_and_back_off(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec(container={"image": "example.invalid/x:1"}))
    cluster.run(45)
    waiting = cluster.states(
        "pods",
        "p",
        lambda pod: (pod["status"].get("containerStatuses") or [{"state": {}}])[0]["state"].get(
            "waiting"
        ),
    )
    backing_off = {
        "reason": "ImagePullBackOff",
        "message": f'Back-off pulling image "example.invalid/x:1": ErrImagePull: {_NOT_FOUND}',
    }
    failed = {"reason": "ErrImagePull", "message": _NOT_FOUND}
    assert waiting == [
        None,
        {"reason": "ContainerCreating"},
        failed,
        backing_off,
        failed,
        backing_off,
    ]
    assert cluster.events("p")[1:] == [
        'Pulling x3: Pulling image "example.invalid/x:1"',
        f'Failed x3: Failed to pull image "example.invalid/x:1": {_NOT_FOUND}',
        "Failed x3: Error: ErrImagePull",
        'BackOff x2: Back-off pulling image "example.invalid/x:1"',
        "Failed x2: Error: ImagePullBackOff",
    ]


@pytest.mark.parametrize(
    ("container", "waiting", "events"),
    [
        (
            {"image": "x:1:2:3"},
            {
                "reason": "InvalidImageName",
                "message": 'Failed to apply default image tag "x:1:2:3": couldn\'t parse image '
                'name "x:1:2:3": invalid reference format',
            },
            ["InspectFailed", "Failed"],
        ),
        (
            {"image": "nginx", "imagePullPolicy": "Never"},
            {
                "reason": "ErrImageNeverPull",
                "message": 'Container image "nginx" is not present with pull policy of Never',
            },
            ["ErrImageNeverPull", "Failed"],
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "k"}}}]},
            {"reason": "CreateContainerConfigError", "message": 'configmap "no" not found'},
            ["Pulled", "Failed"],
        ),
    ],
)
def test_reasons_of_failed_starts_are_published(
    cluster: Cluster, container: Obj, waiting: Obj, events: list[str]
) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "9", container=container))
    cluster.run(5)
    pod = cluster.get("pods", "p")
    assert pod["status"]["phase"] == "Pending"
    assert _status(pod)["state"] == {"waiting": waiting}
    assert cluster.reasons("p")[1:] == events


def test_a_container_starts_once_its_config_map_exists(cluster: Cluster) -> None:
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}
    script = "echo $A; sleep 100"
    cluster.create("pods", "p", pod_spec("sh", "-c", script, container={"env": [variable]}))
    cluster.run(5)
    cluster.api.create("configmaps", {"metadata": {"name": "m"}, "data": {"k": "v"}}, NAMESPACE)
    cluster.run(15)
    assert _state(cluster.get("pods", "p")) == "Running running"
    assert [line for _, line in _kubelet(cluster).logs(NAMESPACE, "p", "c")] == [b"v\n"]


def test_a_missing_program_is_a_start_error(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("foo", restartPolicy="Never"))
    cluster.run(5)
    terminated = _status(cluster.get("pods", "p"))["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (128, "StartError")
    assert terminated["startedAt"] == "1970-01-01T00:00:00Z"
    assert terminated["message"].endswith(
        'exec: "foo": executable file not found in $PATH: unknown'
    )
    cluster.create("pods", "again", pod_spec("foo"))
    cluster.run(2)
    assert _state(cluster.get("pods", "again")) == "Running waiting RunContainerError"


_MISSING_PROFILE = {"type": "Localhost", "localhostProfile": "no/such.json"}


@pytest.mark.parametrize(
    ("pods", "own", "state"),
    [
        ({}, {"seccompProfile": _MISSING_PROFILE}, "Pending waiting CreateContainerError"),
        ({"seccompProfile": _MISSING_PROFILE}, {}, "Pending waiting CreateContainerError"),
        (
            {"seccompProfile": _MISSING_PROFILE},
            {"seccompProfile": {"type": "Unconfined"}},
            "Running running",
        ),
        ({"seccompProfile": _MISSING_PROFILE}, {"privileged": True}, "Running running"),
        ({}, {"seccompProfile": {"type": "RuntimeDefault"}}, "Running running"),
    ],
)
def test_a_local_seccomp_profile_is_missing(
    cluster: Cluster, pods: Obj, own: Obj, state: str
) -> None:
    cluster.create(
        "pods",
        "p",
        pod_spec("sleep", "9", container={"securityContext": own}, securityContext=pods),
    )
    cluster.run(3)
    pod = cluster.get("pods", "p")
    assert _state(pod) == state
    if state.startswith("Pending"):
        text = (
            "failed to create containerd container: cannot load seccomp profile "
            '"/var/lib/kubelet/seccomp/no/such.json": open '
            "/var/lib/kubelet/seccomp/no/such.json: no such file or directory"
        )
        assert _status(pod)["state"]["waiting"]["message"] == text
        assert cluster.events("p")[-1].endswith(f": Error: {text}")


def test_a_missing_volume_keeps_the_pod_pending(cluster: Cluster) -> None:
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "configMap": {"name": "m"}}]
    cluster.create(
        "pods",
        "p",
        pod_spec("cat", "/v/k", container=mounts, volumes=volumes, restartPolicy="Never"),
    )
    cluster.run(4)
    assert cluster.events("p")[1:] == [
        'FailedMount x4: MountVolume.SetUp failed for volume "v" : configmap "m" not found'
    ]
    assert conditions(cluster.get("pods", "p"))["PodReadyToStartContainers"] == "False"
    cluster.api.create("configmaps", {"metadata": {"name": "m"}, "data": {"k": "v"}}, NAMESPACE)
    cluster.run(10)
    assert cluster.get("pods", "p")["status"]["phase"] == "Succeeded"


def test_init_containers_run_in_sequence(cluster: Cluster) -> None:
    init = [
        {"name": "i1", "image": "busybox", "command": ["sleep", "2"]},
        {"name": "i2", "image": "busybox", "command": ["true"]},
    ]
    cluster.create("pods", "p", pod_spec("sleep", "9", initContainers=init))
    cluster.run(10)
    told = cluster.states("pods", "p", lambda pod: conditions(pod).get("Initialized"))
    assert told == [None, "False ContainersNotInitialized", "True"]
    states = cluster.states("pods", "p", lambda pod: _state(pod, "i1"))
    assert states == [
        "Pending",
        "Pending waiting PodInitializing",
        "Pending running",
        "Pending terminated Completed(0)",
        "Running terminated Completed(0)",
    ]


def test_a_failed_init_container_fails_the_pod(cluster: Cluster) -> None:
    init = [{"name": "i", "image": "busybox", "command": ["false"]}]
    cluster.create("pods", "p", pod_spec("sleep", "9", initContainers=init, restartPolicy="Never"))
    cluster.run(5)
    pod = cluster.get("pods", "p")
    assert pod["status"]["phase"] == "Failed"
    assert _state(pod, "i") == "Failed terminated Error(1)"


def test_sidecars_end_after_regular_containers(cluster: Cluster) -> None:
    sidecar = {
        "name": "s",
        "image": "busybox",
        "command": ["sleep", "99"],
        "restartPolicy": "Always",
    }
    spec = pod_spec(
        "sleep",
        "2",
        initContainers=[sidecar],
        restartPolicy="Never",
        terminationGracePeriodSeconds=1,
    )
    cluster.create("pods", "p", spec)
    cluster.run(10)
    assert "Running running" in cluster.states("pods", "p", lambda pod: _state(pod, "s"))
    pod = cluster.get("pods", "p")
    assert _state(pod) == "Succeeded terminated Completed(0)"
    assert _state(pod, "s") == "Succeeded terminated Error(137)"


@pytest.mark.parametrize(
    ("command", "policy", "grace", "end"),
    [
        (("sleep", "99"), "Always", 3, "Failed terminated Error(137)"),
        (
            ("sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1; done"),
            "Always",
            20,
            "Succeeded terminated Completed(0)",
        ),
        (
            ("sh", "-c", "trap 'sleep 99' TERM; while true; do sleep 1; done"),
            "Always",
            3,
            "Failed terminated Error(137)",
        ),
    ],
)
def test_a_deleted_pod_is_terminated_and_removed(
    cluster: Cluster, command: tuple[str, ...], policy: str, grace: int, end: str
) -> None:
    spec = pod_spec(*command, restartPolicy=policy, terminationGracePeriodSeconds=grace)
    cluster.create("pods", "p", spec)
    cluster.run(5)
    cluster.delete("pods", "p")
    cluster.run(grace + 2)
    assert cluster.states("pods", "p", _state)[-3:] == ["Running running", end, "DELETED"]
    assert cluster.events("p")[-1] == "Killing x1: Stopping container c"
    graces = cluster.states(
        "pods", "p", lambda pod: pod["metadata"].get("deletionGracePeriodSeconds")
    )
    assert graces == [None, grace, 0, "DELETED"]


def test_an_unsimulated_program_ends_at_once_on_sigterm(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec(container={"image": "nginx"}))
    cluster.run(5)
    assert cluster.events("p")[1:3] == [
        'Pulling x1: Pulling image "nginx"',
        'Pulled x1: Successfully pulled image "nginx" in 1000ms (1000ms including waiting). '
        f"Image size: {_size()} bytes.",
    ]
    cluster.delete("pods", "p")
    cluster.run(1)
    assert cluster.states("pods", "p", _state)[-2:] == [
        "Succeeded terminated Completed(0)",
        "DELETED",
    ]


def _size() -> int:
    from pytest_kwait.simulator.image_reference import parse_image

    return parse_image("nginx").size


def test_a_pod_deleted_before_it_ran_has_unknown_container_statuses(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec(container={"image": "example.invalid/x:1"}))
    cluster.run(5)
    cluster.delete("pods", "p")
    cluster.run(2)
    assert cluster.states("pods", "p", _state)[-4:] == [
        "Pending waiting ErrImagePull",
        "Pending waiting ContainerCreating",
        "Failed terminated ContainerStatusUnknown(137)",
        "DELETED",
    ]
    assert cluster.states("pods", "p", lambda pod: conditions(pod).get("Ready"))[-2:] == [
        "False ContainersNotReady",
        "DELETED",
    ]


def test_a_deletion_interrupts_a_pull() -> None:
    cluster = Cluster()
    cluster.create("pods", "p", pod_spec(container={"image": "nginx"}))
    cluster.run(0.5)
    assert cluster.reasons("p")[-1] == "Pulling"
    cluster.delete("pods", "p")
    cluster.run(0.6)
    assert cluster.find("pods", "p") is None


def test_a_failed_sync_is_retried_and_leaves_other_pods_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [LookupError("not expected"), RuntimeError("not expected")]

    def make_files(*arguments: Any) -> Any:
        if arguments[1]["metadata"]["name"] == "broken" and failures:
            raise failures.pop()
        return make_volume_files(*arguments)

    monkeypatch.setattr(volume_manager, "make_volume_files", make_files)
    for name in ("broken", "other"):
        cluster.create("pods", name, pod_spec("sleep", "100"))
    cluster.run(2)
    assert _state(cluster.get("pods", "other")) == "Running running"
    assert _state(cluster.get("pods", "broken")) == "Pending waiting ContainerCreating"
    cluster.run(30)
    assert _state(cluster.get("pods", "broken")) == "Running running"
    assert f"the sync of pod {NAMESPACE}/broken failed and is retried" in caplog.text
    cluster.delete("pods", "broken")
    cluster.run(40)
    assert cluster.find("pods", "broken") is None


def test_a_finalizer_keeps_the_object_but_not_the_containers(cluster: Cluster) -> None:
    spec = pod_spec("sleep", "99", terminationGracePeriodSeconds=1)
    cluster.create("pods", "p", spec, finalizers=["example.org/keep"])
    cluster.run(5)
    cluster.delete("pods", "p")
    cluster.run(5)
    assert _state(cluster.get("pods", "p")) == "Failed terminated Error(137)"
    cluster.change("pods", "p", lambda pod: pod["metadata"].update(finalizers=[]))
    assert cluster.find("pods", "p") is None
    assert _kubelet(cluster).pods()["items"] == []


def test_a_pod_fails_at_its_deadline(cluster: Cluster) -> None:
    spec = pod_spec(
        "sleep",
        "99",
        activeDeadlineSeconds=3,
        terminationGracePeriodSeconds=1,
        restartPolicy="Never",
    )
    cluster.create("pods", "p", spec)
    cluster.run(8)
    status = cluster.get("pods", "p")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert cluster.reasons("p")[-2:] == ["DeadlineExceeded", "Killing"]


def test_a_deadline_added_to_a_running_pod_applies(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "99", terminationGracePeriodSeconds=1))
    cluster.run(1)
    cluster.change("pods", "p", lambda pod: pod["spec"].update(activeDeadlineSeconds=3))
    cluster.run(8)
    assert cluster.get("pods", "p")["status"]["reason"] == "DeadlineExceeded"


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"container": {"resources": {"requests": {"cpu": "100"}}}},
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 100000, used: 0, capacity: 8000",
        ),
        (
            {"nodeSelector": {"a": "b"}},
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
    ],
)
def test_a_bound_pod_that_does_not_fit_is_rejected(
    cluster: Cluster, spec: Obj, reason: str, message: str
) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "1", nodeName="kwait-node-1", **spec))
    cluster.run(1)
    status = cluster.get("pods", "p")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", reason)
    assert status["message"] == f"Pod was rejected: {message}"
    assert cluster.events("p") == [f"{reason} x1: {message}"]


def test_admission_uses_the_current_labels_of_the_node(cluster: Cluster) -> None:
    node = cluster.api.get("nodes", "kwait-node-1")
    labels = {**node["metadata"]["labels"], "a": "b"}
    cluster.api.update("nodes", {**node, "metadata": {**node["metadata"], "labels": labels}})

    cluster.create(
        "pods", "p", pod_spec("sleep", "9", nodeName="kwait-node-1", nodeSelector={"a": "b"})
    )
    cluster.run(2)

    assert cluster.get("pods", "p")["status"]["phase"] == "Running"


def test_a_host_port_is_exclusive(cluster: Cluster) -> None:
    ports = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    for name in ("a", "b"):
        cluster.create(
            "pods", name, pod_spec("sleep", "9", nodeName="kwait-node-1", container=ports)
        )
        cluster.run(1)
    assert cluster.get("pods", "b")["status"]["reason"] == "NodePorts"


# -- probes


def _probed(**probes: Obj) -> Obj:
    script = "sleep 4; touch /ok; sleep 4; rm /ok; sleep 99"
    return pod_spec("sh", "-c", script, container=probes, terminationGracePeriodSeconds=1)


_CAT = {"exec": {"command": ["cat", "/ok"]}, "periodSeconds": 1}
_NO_FILE = "probe failed: cat: can't open '/ok': No such file or directory\n"


def test_readiness_follows_its_probe(cluster: Cluster) -> None:
    cluster.create("pods", "p", _probed(readinessProbe=_CAT))
    cluster.run(14)
    ready = cluster.states("pods", "p", lambda pod: conditions(pod).get("Ready"))
    assert ready == [None, "False ContainersNotReady", "True", "False ContainersNotReady"]
    assert _status(cluster.get("pods", "p"))["restartCount"] == 0
    unhealthy = [event for event in cluster.events("p") if event.startswith("Unhealthy")]
    assert unhealthy[0].partition(": ")[2] == f"Readiness {_NO_FILE}"


def test_a_failed_liveness_probe_restarts_the_container(cluster: Cluster) -> None:
    script = "touch /ok; sleep 4; rm /ok; sleep 99"
    probe = {"livenessProbe": {**_CAT, "failureThreshold": 2}}
    spec = pod_spec("sh", "-c", script, container=probe, terminationGracePeriodSeconds=1)
    cluster.create("pods", "p", spec)
    cluster.run(8)
    status = _status(cluster.get("pods", "p"))
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 137
    assert f"Unhealthy x2: Liveness {_NO_FILE}" in cluster.events("p")
    assert "Killing x1: Container c failed liveness probe, will be restarted" in cluster.events("p")


def test_other_probes_wait_for_the_startup_probe(cluster: Cluster) -> None:
    startup = {**_CAT, "failureThreshold": 30}
    ready = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    cluster.create("pods", "p", _probed(startupProbe=startup, readinessProbe=ready))
    cluster.run(3)
    assert not _status(cluster.get("pods", "p"))["started"]
    cluster.run(5)
    status = _status(cluster.get("pods", "p"))
    assert (status["started"], status["ready"]) == (True, True)


def test_a_failed_startup_probe_restarts_the_container(cluster: Cluster) -> None:
    cluster.create("pods", "p", _probed(startupProbe={**_CAT, "failureThreshold": 2}))
    cluster.run(5)
    assert "Killing x2: Container c failed startup probe, will be restarted" in cluster.events("p")


def test_a_slow_probe_times_out(cluster: Cluster) -> None:
    probe = {"exec": {"command": ["sleep", "5"]}, "periodSeconds": 1}
    cluster.create("pods", "p", _probed(readinessProbe=probe))
    cluster.run(3)
    events = [event for event in cluster.events("p") if event.startswith("Unhealthy")]
    told = 'Readiness probe failed: command timed out: "sleep 5" timed out after 1s'
    assert events[0].partition(": ")[2] == told


def test_readiness_gates_are_set_by_other_components(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "99", readinessGates=[{"conditionType": "x/y"}]))
    cluster.run(3)
    assert conditions(cluster.get("pods", "p"))["Ready"] == "False ReadinessGatesNotReady"

    def open_gate(pod: Obj) -> None:
        pod["status"]["conditions"].insert(0, {"type": "x/y", "status": "True"})

    cluster.api.modify("pods", "p", NAMESPACE, open_gate, subresource="status")
    cluster.run(1)
    assert conditions(cluster.get("pods", "p"))["Ready"] == "True"
    assert conditions(cluster.get("pods", "p"))["x/y"] == "True"


# -- what the API server asks


def _kubelet(cluster: Cluster) -> Any:
    return cluster.api.kubelets["kwait-node-1"]


def test_logs_have_timestamps_and_a_previous_instance(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sh", "-c", "echo a; sleep 1; echo -n b >&2; exit 1"))
    cluster.run(4)
    agent = _kubelet(cluster)
    previous = agent.logs(NAMESPACE, "p", "c", previous=True)
    assert [line for _, line in previous] == [b"a\n", b"b"]
    assert previous[1][0] - previous[0][0] == pytest.approx(1.0)
    assert agent.logs(NAMESPACE, "p", "nope") == []
    assert agent.logs(NAMESPACE, "nope", "c") == []


def test_logs_can_be_followed_to_the_end(cluster: Cluster) -> None:
    cluster.create(
        "pods", "p", pod_spec("sh", "-c", "echo a; sleep 9; echo b", restartPolicy="Never")
    )
    cluster.run(2)

    async def follow() -> list[bytes]:
        async def read() -> list[bytes]:
            return [line async for _, line in _kubelet(cluster).follow(NAMESPACE, "p", "c")]

        reading = asyncio.create_task(read())
        await asyncio.wait({asyncio.create_task(asyncio.wait_for(asyncio.Event().wait(), 0.01))})
        assert not reading.done()
        cluster.run(10)
        return await asyncio.wait_for(reading, 60)

    assert asyncio.run(follow()) == [b"a\n", b"b\n"]


def test_commands_run_in_the_container(cluster: Cluster) -> None:
    variable = {"env": [{"name": "A", "value": "1"}]}
    cluster.create("pods", "p", pod_spec("sh", "-c", "echo x > /f; sleep 99", container=variable))
    cluster.run(3)
    agent = _kubelet(cluster)

    def run(*argv: str) -> Any:
        return agent.run(NAMESPACE, "p", "c", list(argv), stdin=False, tty=False)

    session = run("sh", "-c", "cat /f; echo $A; exit 3")
    assert take_output(session) == {1: b"x\n1\n", 2: b""}
    assert session.output.code == 3
    assert run("cat", "/nope").output.code == 1
    assert run("sleep", "infinity").output.code is None
    with pytest.raises(LookupError, match='container not found \\("nope"\\)'):
        agent.run(NAMESPACE, "p", "nope", ["true"], stdin=False, tty=False)
    with pytest.raises(LookupError, match=f"container c not found in pod nope_{NAMESPACE}"):
        agent.attach(NAMESPACE, "nope", "c", stdin=False)


def test_ports_belong_to_the_pod(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("nc", "-ll", "-p", "80", "-e", "hostname"))
    cluster.run(3)
    agent = _kubelet(cluster)
    address = cluster.get("pods", "p")["status"]["podIP"]
    for connecting in (agent.network_of(NAMESPACE, "p").connect(80), agent.dial(address, 80)):
        session = asyncio.run(connecting)
        cluster.run(1)
        assert take_output(session)[1] == b"p\n"
    assert asyncio.run(agent.dial(address, 81)) is None
    assert asyncio.run(agent.dial("192.0.2.1", 80)) is None
    with pytest.raises(OSError, match="no simulated program speaks TLS"):
        asyncio.run(agent.dial(address, 80, tls=True))
    with pytest.raises(LookupError, match=f'pod not found \\("nope_{NAMESPACE}"\\)'):
        agent.network_of(NAMESPACE, "nope")


@pytest.mark.parametrize("on_host", [False, True])
def test_a_name_outside_of_the_cluster_is_an_event_of_the_pod(
    cluster: Cluster, *, on_host: bool
) -> None:
    """Even if the program asks for it before the status has the pod's address."""
    spec = pod_spec("nslookup", "pypi.org", restartPolicy="Never", hostNetwork=on_host)
    cluster.create("pods", "p", spec)
    cluster.run(3)
    found = [event for event in cluster.events("p") if event.startswith("EgressNotAllowed")]
    message = "pypi.org is outside of the cluster: allow it by --kwait-egress=pypi.org:PORT"
    assert found == ([] if on_host else [f"EgressNotAllowed x1: {message}"])
    assert _kubelet(cluster).list_addresses() == []


def test_the_server_lists_running_pods(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "9"))
    cluster.create("pods", "over", pod_spec("true", restartPolicy="Never"))
    cluster.run(3)
    running = _kubelet(cluster).running_pods()
    (found,) = running["items"]
    assert found["metadata"]["name"] == "p"
    assert [one["name"] for one in found["spec"]["containers"]] == ["c"]
    assert _kubelet(cluster).counts() == {"created": 0, "exited": 1, "running": 1}


def test_the_server_lists_pods(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "9"))
    cluster.run(3)
    known = _kubelet(cluster).pods()
    assert known["kind"] == "PodList"
    assert [pod["metadata"]["name"] for pod in known["items"]] == ["p"]
    assert known["items"][0]["status"]["phase"] == "Running"


def test_a_termination_message_is_published(cluster: Cluster) -> None:
    script = "echo why > /dev/termination-log; exit 1"
    cluster.create("pods", "p", pod_spec("sh", "-c", script, restartPolicy="Never"))
    cluster.run(3)
    terminated = _status(cluster.get("pods", "p"))["state"]["terminated"]
    assert terminated["message"] == "why\n"


# -- nodes


def test_nodes_are_ready_from_the_start() -> None:
    cluster = Cluster(nodes=2)
    nodes = cluster.api.list("nodes")
    assert [node["metadata"]["name"] for node in nodes] == ["kwait-node-1", "kwait-node-2"]
    for node in nodes:
        assert conditions(node) == {
            "MemoryPressure": "False KubeletHasSufficientMemory",
            "DiskPressure": "False KubeletHasNoDiskPressure",
            "PIDPressure": "False KubeletHasSufficientPID",
            "Ready": "True KubeletReady",
        }
        assert node["status"]["capacity"]["pods"] == "110"
        assert [one["type"] for one in node["status"]["addresses"]] == ["InternalIP", "Hostname"]


def test_a_node_renews_and_recreates_its_lease() -> None:
    cluster = Cluster()

    def lease() -> Obj:
        return cluster.api.get("leases.coordination.k8s.io", "kwait-node-1", "kube-node-lease")

    assert lease()["spec"]["leaseDurationSeconds"] == 40
    before = lease()["spec"]["renewTime"]
    cluster.run(10)
    assert lease()["spec"]["renewTime"] > before
    cluster.api.delete("leases.coordination.k8s.io", "kwait-node-1", "kube-node-lease")
    cluster.run(10)
    assert lease()["spec"]["holderIdentity"] == "kwait-node-1"


def test_a_node_reports_its_heartbeat() -> None:
    cluster = Cluster()
    cluster.run(301)
    beats = {
        one["lastHeartbeatTime"]
        for one in cluster.api.get("nodes", "kwait-node-1")["status"]["conditions"]
    }
    assert beats == {"2026-01-01T00:05:00Z"}
