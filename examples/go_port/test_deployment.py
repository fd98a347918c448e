"""Tests of test/e2e/apps/deployment.go, with upstream's names of tests and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubernetes import client

from pytest_kwait import wait

if TYPE_CHECKING:
    from pytest_kwait import Kwait

IMAGE = "busybox:1.36"


def new_deployment(name: str, replicas: int, strategy: str = "RollingUpdate") -> dict[str, Any]:
    """Return a Deployment of pods that sleep, as `e2edeployment.NewDeployment`."""
    labels = {"name": name}
    container = {"name": "sleeper", "image": IMAGE, "command": ["sleep", "3600"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "strategy": {"type": strategy},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            },
        },
    }


def change_command(kwait: Kwait, name: str, seconds: int) -> dict[str, Any]:
    """Change the template of a Deployment, as `UpdateDeploymentWithRetries`; return it."""

    def change(deployment: dict[str, Any]) -> None:
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        container["command"] = ["sleep", str(seconds)]

    return kwait.update(f"deployment/{name}", change)


def test_rolling_update_should_delete_old_pods_and_create_new_ones(kwait: Kwait) -> None:
    """`WaitForDeploymentCompleteAndCheckRolling`: within the bounds at each step."""
    kwait.create(new_deployment("test-rolling-update", 3))
    kwait.wait_for_deployment_complete("test-rolling-update")
    kwait.wait_for_deployment_revision_and_image("test-rolling-update", 1, IMAGE)
    change_command(kwait, "test-rolling-update", 7200)
    kwait.wait_for_deployment_complete_and_check_rolling("test-rolling-update")
    kwait.wait_for_deployment_revision_and_image("test-rolling-update", 2, IMAGE)
    old, new = sorted(
        kwait.list("replicasets", selector="name=test-rolling-update"),
        key=lambda each: each["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
    )
    assert (old["spec"]["replicas"], new["spec"]["replicas"]) == (0, 3)


def test_recreate_should_delete_old_pods_before_it_creates_new_ones(kwait: Kwait) -> None:
    """`WaitForObservedDeployment` and `WaitForDeploymentComplete`."""
    kwait.create(new_deployment("test-recreate", 2, strategy="Recreate"))
    kwait.wait_for_deployment_complete("test-recreate")
    changed = change_command(kwait, "test-recreate", 7200)
    kwait.wait_for_observed_deployment("test-recreate", changed["metadata"]["generation"])
    kwait.wait_for_deployment_complete("test-recreate")
    pods = kwait.wait_for_pods_running(2, selector="name=test-recreate")
    assert {tuple(pod["spec"]["containers"][0]["command"]) for pod in pods} == {("sleep", "7200")}


def test_deployment_reaping_should_cascade(kwait: Kwait) -> None:
    """`Delete`, then `gomega.Eventually` over lists: `wait_for` with a count of none."""
    kwait.create(new_deployment("test-new-deployment", 1))
    kwait.wait_for_deployment_complete("test-new-deployment")
    kwait.delete_and_wait("deployment/test-new-deployment")
    kwait.wait_for("replicasets", "delete", selector="name=test-new-deployment")
    assert kwait.list("pods", selector="name=test-new-deployment") == []


def test_should_have_a_working_scale_subresource(kwait: Kwait) -> None:
    """With `f.ClientSet`, the official client, and `wait.PollUntilContextTimeout`."""
    kwait.create(new_deployment("test-scale", 1))
    kwait.wait_for_deployment_complete("test-scale")
    apps = client.AppsV1Api(kwait.client)
    apps.patch_namespaced_deployment_scale("test-scale", kwait.namespace, {"spec": {"replicas": 2}})

    def scaled() -> bool:
        scale = apps.read_namespaced_deployment_scale("test-scale", kwait.namespace)
        return scale.status is not None and bool(scale.status.replicas == 2)

    wait.poll_immediate("100ms", "1m", scaled)
    kwait.wait_for_pods_with_label_running_ready("name=test-scale", 2)
