"""Container restarts: policies, rules, image changes, resizes."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.kubelet.restart_policy import should_restart
from tests.simulator.cluster import Cluster, conditions, pod_spec

Obj = dict[str, Any]


def _rule(action: str = "Restart", operator: str = "In", *values: int) -> Obj:
    codes = {"operator": operator, "values": list(values)}
    return {"action": action, "exitCodes": codes}


@pytest.mark.parametrize(
    ("pods", "own", "rules", "code", "again"),
    [
        ("Always", None, [], 0, True),
        ("OnFailure", None, [], 0, False),
        ("OnFailure", None, [], 1, True),
        ("Never", None, [], 1, False),
        ("Never", "Always", [], 0, True),
        ("Always", "Never", [], 1, False),
        ("Never", "OnFailure", [], 1, True),
        ("Always", "OnFailure", [], 0, False),
        ("Never", "Never", [_rule("Restart", "In", 42)], 42, True),
        ("Never", "Never", [_rule("Restart", "In", 42)], 41, False),
        ("Never", "Never", [_rule("Restart", "NotIn", 42)], 41, True),
        ("Never", "Never", [_rule("Restart", "NotIn", 42)], 42, False),
        ("Never", "Never", [_rule("RestartAllContainers", "In", 7)], 7, True),
        # Rules need a restart policy of the container.
        ("Never", None, [_rule("Restart", "In", 42)], 42, False),
    ],
)
def test_container_restart_policies_and_rules_override_the_pods(
    pods: str, own: str | None, rules: list[Obj], code: int, again: bool
) -> None:
    container: Obj = {"name": "c", "restartPolicyRules": rules}
    if own:
        container["restartPolicy"] = own
    pod = {"spec": {"restartPolicy": pods, "containers": [container]}}
    assert should_restart(pod, container, code) == again


@pytest.mark.parametrize(
    ("own", "code", "again"),
    [(None, 0, False), (None, 1, True), ("Never", 1, False), ("OnFailure", 1, True)],
)
def test_successful_init_containers_do_not_run_again(
    own: str | None, code: int, again: bool
) -> None:
    container = {"name": "i", **({"restartPolicy": own} if own else {})}
    pod = {"spec": {"restartPolicy": "Always", "initContainers": [container], "containers": []}}
    assert should_restart(pod, container, code) == again


def test_an_init_container_that_never_restarts_fails_the_pod(cluster: Cluster) -> None:
    init = {"name": "i", "image": "busybox", "command": ["false"], "restartPolicy": "Never"}
    cluster.create("pods", "p", pod_spec("sleep", "9", initContainers=[init]))
    cluster.run(6)
    assert cluster.get("pods", "p")["status"]["phase"] == "Failed"


def test_a_rule_restarts_all_containers(cluster: Cluster) -> None:
    rules = {
        "restartPolicy": "Never",
        "restartPolicyRules": [_rule("RestartAllContainers", "In", 42)],
    }
    spec = pod_spec("sh", "-c", "sleep 2; exit 42", container=rules, restartPolicy="Never")
    spec["containers"].append({"name": "d", "image": "busybox", "command": ["sleep", "99"]})
    spec["initContainers"] = [{"name": "i", "image": "busybox", "command": ["true"]}]
    cluster.create("pods", "p", spec)
    cluster.run(3.5)
    assert conditions(cluster.get("pods", "p"))["AllContainersRestarting"] == "False"
    cluster.run(6)
    seen = cluster.states("pods", "p", conditions)
    wanted = "True RestartAllContainersStarted"
    assert wanted in [one.get("AllContainersRestarting") for one in seen]
    status = cluster.get("pods", "p")["status"]
    every = [*status["initContainerStatuses"], *status["containerStatuses"]]
    assert {one["restartCount"] for one in every} == {1}
    assert {one["lastState"]["terminated"]["reason"] for one in every} == {
        "RestartingAllContainers"
    }
    assert status["phase"] == "Running"
    assert "Killing x1: killing" in cluster.events("p")


def test_a_new_image_restarts_the_container(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "99", terminationGracePeriodSeconds=1))
    cluster.run(3)

    def other_image(pod: Obj) -> None:
        pod["spec"]["containers"][0]["image"] = "busybox:1.37"

    cluster.change("pods", "p", other_image)
    cluster.run(5)
    (status,) = cluster.get("pods", "p")["status"]["containerStatuses"]
    assert (status["restartCount"], status["ready"]) == (1, True)
    told = "Killing x1: Container c definition changed, will be restarted"
    assert told in cluster.events("p")


def test_an_ephemeral_container_runs_once(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "99"))
    cluster.run(3)

    def debug(pod: Obj) -> None:
        script = ["sh", "-c", "sleep 1; exit 4"]
        extra = {"name": "e", "image": "busybox:1.36", "command": script}
        pod["spec"]["ephemeralContainers"] = [extra]

    cluster.api.modify("pods", "p", "t", debug, subresource="ephemeralcontainers")
    cluster.run(1)
    (status,) = cluster.get("pods", "p")["status"]["ephemeralContainerStatuses"]
    assert "running" in status["state"]
    assert (status["ready"], "started" in status) == (False, False)
    cluster.run(30)
    pod = cluster.get("pods", "p")
    (status,) = pod["status"]["ephemeralContainerStatuses"]
    assert (status["state"]["terminated"]["exitCode"], status["restartCount"]) == (4, 0)
    assert conditions(pod)["Ready"] == "True"


def _resize(cluster: Cluster, **container: Any) -> list[Any]:
    """Return the conditions of a pod in every status after a resize."""
    fields = {"resources": {"requests": {"memory": "16Mi"}}, **container}
    spec = pod_spec("sleep", "99", container=fields, terminationGracePeriodSeconds=1)
    cluster.create("pods", "p", spec)
    cluster.run(3)

    def increase(pod: Obj) -> None:
        pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = "32Mi"

    cluster.api.modify("pods", "p", "t", increase, subresource="resize")
    cluster.run(6)
    return cluster.states("pods", "p", conditions)


def test_resources_are_resized_in_place(cluster: Cluster) -> None:
    seen = _resize(cluster)
    assert "True" in [one.get("PodResizeInProgress") for one in seen]
    assert "PodResizeInProgress" not in seen[-1]
    (status,) = cluster.get("pods", "p")["status"]["containerStatuses"]
    assert status["resources"]["requests"]["memory"] == "32Mi"
    assert (status["allocatedResources"]["memory"], status["restartCount"]) == ("32Mi", 0)
    resources = (
        '{"containers":[{"name":"c","resources":{"requests":{"memory":"32Mi"}}}],"generation":2}'
    )
    told = [one for one in cluster.events("p") if one.startswith("Resize")]
    assert told == [
        f"ResizeStarted x1: Pod resize started: {resources}",
        f"ResizeCompleted x1: Pod resize completed: {resources}",
    ]


def test_a_resize_may_restart_the_container(cluster: Cluster) -> None:
    _resize(cluster, resizePolicy=[{"resourceName": "memory", "restartPolicy": "RestartContainer"}])
    assert "Killing x1: Container c resize requires restart" in cluster.events("p")
    (status,) = cluster.get("pods", "p")["status"]["containerStatuses"]
    assert (status["ready"], status["restartCount"]) == (True, 1)
    assert status["resources"]["requests"]["memory"] == "32Mi"


def test_a_probe_that_kills_the_last_container_ends_the_pod(cluster: Cluster) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    spec = pod_spec("sleep", "99", container={"livenessProbe": probe}, restartPolicy="Never")
    cluster.create("pods", "p", {**spec, "terminationGracePeriodSeconds": 1})
    cluster.run(8)
    assert cluster.get("pods", "p")["status"]["phase"] == "Failed"
    assert "Killing x1: Stopping container c" in cluster.events("p")
