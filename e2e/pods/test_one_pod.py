"""Waiting for one pod: phase, readiness, node, deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kubernetes.client
import pytest

import pytest_kwait
from e2e.objects import container, pod
from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait, Mode


UNREADY = {"exec": {"command": ["false"]}}
FROM_NOWHERE = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "a"}}}]
HUGE = {"requests": {"cpu": "1000"}}


def release(kwait: Kwait, name: str) -> None:
    """Take the finalizers off a pod."""
    kubernetes.client.CoreV1Api(kwait.client).patch_namespaced_pod(
        name, kwait.namespace, {"metadata": {"finalizers": None}}
    )


def test_running_and_ready(kwait: Kwait) -> None:
    kwait.create(pod("web"))

    assert kwait.wait_for_pod_running("web")["status"]["phase"] == "Running"
    ready = kwait.wait_for_pod_ready("web")

    assert {"Ready": "True"}.items() <= {
        each["type"]: each["status"] for each in ready["status"]["conditions"]
    }.items()


def test_a_readiness_probe_that_comes_late(kwait: Kwait) -> None:
    probe = {"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1}
    kwait.create(
        pod("web", container(script="sleep 2; touch /tmp/up; sleep 300", readinessProbe=probe))
    )

    assert kwait.wait_for_pod_running_ready("web", timeout="4m")["metadata"]["name"] == "web"


def test_pod_success_and_its_log(kwait: Kwait) -> None:
    kwait.create(pod("greeter", container(script="echo hello")))

    assert kwait.wait_for_pod_success("greeter")["status"]["phase"] == "Succeeded"
    assert kwait.wait_for_pod_no_longer_running("greeter")["status"]["phase"] == "Succeeded"
    assert kwait.logs("greeter") == "hello\n"


def test_a_failed_pod_never_succeeds(kwait: Kwait) -> None:
    """The message has the exit code and the end of the log."""
    kwait.create(pod("broken", container(script="echo no database; exit 3")))

    with pytest.raises(WaitFailed) as caught:
        kwait.wait_for_pod_success("broken", timeout="4m")

    (headline,) = caught.value.args
    assert headline.endswith(
        "broken can no longer succeed: the pod has failed: container main ended with exit code 3"
    )
    assert "| no database" in str(caught.value)


@pytest.mark.parametrize("awaited", ["running", "ready", "running_ready"])
def test_a_pod_that_has_ended_will_not_run(kwait: Kwait, awaited: str) -> None:
    kwait.create(pod("over", container(script="true")))
    kwait.wait_for_pod_success("over")

    with raises(WaitFailed, "the pod has succeeded"):
        getattr(pytest_kwait, f"wait_for_pod_{awaited}")(
            kwait.client, kwait.namespace, "over", timeout="4m"
        )


def test_an_always_restarted_pod_never_succeeds(kwait: Kwait) -> None:
    kwait.create(pod("server", restartPolicy="Always"))

    with raises(WaitFailed, "restart policy is Always"):
        kwait.wait_for_pod_success("server", timeout="4m")


def test_terminated_by_its_deadline(kwait: Kwait) -> None:
    """The kubelet sets a reason, here for the pod's deadline."""
    kwait.create(pod("late", activeDeadlineSeconds=1))

    late = kwait.wait_for_pod_terminated("late", "DeadlineExceeded", timeout="4m")

    assert late["status"]["phase"] == "Failed"
    with raises(WaitFailed, "DeadlineExceeded"):
        pytest_kwait.wait_for_pod_failed_reason(kwait.client, kwait.namespace, "late", "Evicted")


def test_scheduled_and_unschedulable(kwait: Kwait) -> None:
    kwait.create(pod("small"), pod("huge", container(resources=HUGE)))

    assert kwait.wait_for_pod_scheduled("small")["spec"]["nodeName"] in kwait.cluster.nodes
    assert kwait.wait_for_pod_unschedulable("huge")["status"]["phase"] == "Pending"
    with raises(WaitFailed, "the pod was scheduled to "):
        kwait.wait_for_pod_unschedulable("small")
    with raises(WaitFailed, r"Unschedulable: .*Insufficient cpu"):
        kwait.wait_for_pod_scheduled("huge", grace="1s")


def test_pod_not_pending(kwait: Kwait) -> None:
    kwait.create(pod("web"))

    assert kwait.wait_for_pod_not_pending("web")["status"]["phase"] == "Running"


def test_terminating_then_not_found(kwait: Kwait) -> None:
    """By UID: a recreated pod of the same name ends the wait."""
    held = pod("held")
    held["metadata"]["finalizers"] = ["kwait.example/held"]
    kwait.create(held)
    uid = kwait.wait_for_pod_running("held")["metadata"]["uid"]
    kwait.delete("pod/held")

    assert kwait.wait_for_pod_terminating("held")["metadata"]["uid"] == uid
    times_out(r"held by kwait\.example/held", kwait.wait_for_pod_not_found, "held", uid)
    release(kwait, "held")
    held["metadata"].pop("finalizers")
    kwait.wait_for_pod_not_found("held", uid)

    kwait.create(held)
    kwait.wait_for_pod_not_found("held", uid, timeout="1m")


def test_observed_generation(kwait: Kwait) -> None:
    kwait.create(pod("web"))

    web = kwait.wait_for_pod_observed_generation("web", 1, timeout="4m")

    assert web["status"]["observedGeneration"] == 1


def test_pod_condition(kwait: Kwait) -> None:
    """The condition is a callable, with a name for messages."""
    kwait.create(pod("web"))

    web = kwait.wait_for_pod_condition(
        "web", "with an address", lambda each: "podIP" in each["status"]
    )

    assert web["status"]["podIP"]
    times_out(
        "did not become blue within LIMIT",
        kwait.wait_for_pod_condition,
        "web",
        "blue",
        lambda each: False,
    )


def test_pod_deleted_while_awaited(kwait: Kwait) -> None:
    """The deletion is named, whether the kubelet has failed the pod by then or not."""
    held = pod("held", container(image="Busybox:not a tag"))
    held["metadata"]["finalizers"] = ["kwait.example/held"]
    kwait.create(held)
    kwait.delete("pod/held")

    with raises(WaitFailed, "the pod is being deleted"):
        kwait.wait_for_pod_ready("held", timeout="4m")
    release(kwait, "held")


@pytest.mark.parametrize(
    ("containers", "spec", "reason"),
    [
        ([container(image="Busybox:not a tag")], {}, "InvalidImageName"),
        (
            [container(env=FROM_NOWHERE)],
            {},
            'CreateContainerConfigError: configmap "no" not found',
        ),
        (
            [container(volumeMounts=[{"name": "cfg", "mountPath": "/cfg"}])],
            {"volumes": [{"name": "cfg", "configMap": {"name": "no"}}]},
            'x): configmap "no" not found',
        ),
        ([container(resources=HUGE)], {}, "Unschedulable: "),
        (
            [container()],
            {"initContainers": [container("prepare", "exit 4")]},
            "container prepare ended with exit code 4",
        ),
        (
            [container("a", readinessProbe=UNREADY), container("b", "exit 5")],
            {},
            "container b ended with exit code 5",
        ),
    ],
    ids=["image", "config", "mount", "unschedulable", "init", "ended"],
)
def test_failing_pods_fail_the_wait_early(
    kwait: Kwait, containers: Any, spec: Any, reason: str
) -> None:
    kwait.create(pod("hopeless", *containers, **spec))

    with pytest.raises(WaitFailed) as caught:
        kwait.wait_for_pod_ready("hopeless", timeout="4m", grace="2s")

    assert reason in str(caught.value.evidence["reason"])


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_pod_waits_in_watch_and_poll_mode(kwait: Kwait, mode: Mode) -> None:
    kwait.create(pod("web"))

    assert kwait.wait_for_pod_ready("web", mode=mode, poll="200ms")["metadata"]["name"] == "web"
