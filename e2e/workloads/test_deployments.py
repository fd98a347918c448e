"""Waiting for deployments: completion, bounds, revisions, and failures."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import pytest_kwait
from e2e.objects import NEVER_READY, TYPO, deployment
from e2e.raising import raises, times_out
from e2e.workloads.quotas import hold_to_quota
from pytest_kwait import ApiError, WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


NEW = {"command": ["sh", "-c", "sleep 301"]}
NONE_LESS = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def test_deployment_complete(kwait: Kwait) -> None:
    """Exactly its replicas, all of the present spec and available; 0 of them included."""
    kwait.create(deployment("web", 2), deployment("empty", 0))

    status = kwait.wait_for_deployment_complete("web")["status"]

    assert (status["replicas"], status["updatedReplicas"], status["availableReplicas"]) == (2, 2, 2)
    assert kwait.wait_for_deployment_complete("empty", mode="poll")["metadata"]["name"] == "empty"
    web = pytest_kwait.wait_for_deployment_complete(kwait.client, kwait.namespace, "web")
    assert web["kind"] == "Deployment"


@pytest.mark.kwait_manifests("web.yaml")
@pytest.mark.wait_for_deployment_complete("web", timeout="4m")
def test_deployment_marker(kwait: Kwait) -> None:
    """As a marker: the body starts when the deployment is complete."""
    assert kwait.get("deployment/web")["status"]["availableReplicas"] == 2


def test_after_a_change_the_old_status_does_not_count(kwait: Kwait) -> None:
    """The status at the wait's start is of an older generation."""
    kwait.apply(deployment("web", 1, strategy=NONE_LESS))
    first = kwait.wait_for_deployment_complete("web")
    kwait.apply(deployment("web", 1, NEW, strategy=NONE_LESS))

    second = kwait.wait_for_deployment_complete_and_check_rolling("web")

    assert second["status"]["observedGeneration"] > first["status"]["observedGeneration"]
    (made,) = [each for each in kwait.list("replicasets") if each["spec"]["replicas"]]
    assert made["spec"]["template"]["spec"]["containers"][0]["command"] == NEW["command"]
    generation = second["metadata"]["generation"]
    assert kwait.wait_for_observed_deployment("web", generation)["metadata"]["name"] == "web"
    times_out(
        f"generation {generation + 1} is not observed yet, its status is of",
        kwait.wait_for_observed_deployment,
        "web",
        generation + 1,
    )


def test_max_surge_and_max_unavailable_are_kept(kwait: Kwait) -> None:
    """An old pod is deleted before the new one is ready: briefly one too few."""
    kwait.apply(deployment("web", 2, strategy=NONE_LESS))
    kwait.wait_for_deployment_complete("web")
    (old,) = kwait.list("replicasets", selector="app=web")
    kwait.apply(deployment("web", 2, NEW | NEVER_READY, strategy=NONE_LESS))
    kwait.wait_for_deployment_updated_replicas_gte("web", 1)
    selector = f"pod-template-hash={old['metadata']['labels']['pod-template-hash']}"
    seen = threading.Event()

    def lose_old_pods() -> None:
        while not seen.wait(0.5):
            for pod in kwait.list("pods", selector=selector)[:1]:
                with suppress(ApiError):
                    kwait.delete(f"pod/{pod['metadata']['name']}")

    loser = threading.Thread(target=lose_old_pods)
    loser.start()
    try:
        with raises(WaitFailed, r"[01] pods? (is|are) available, 2 must be at every step"):
            kwait.wait_for_deployment_complete_and_check_rolling("web", timeout="4m")
    finally:
        seen.set()
        loser.join()


def test_deployment_revision_and_image(kwait: Kwait) -> None:
    """The deployment and the replica set that it controls both name them."""
    kwait.apply(deployment("web"))
    kwait.wait_for_deployment_revision_and_image("web", 1, "busybox:1.36")
    kwait.apply(deployment("web", 1, NEW))

    web = kwait.wait_for_deployment_revision_and_image("web", "2", "busybox:1.36")

    assert web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    with raises(WaitFailed, "the deployment is at revision 2 already"):
        kwait.wait_for_deployment_revision_and_image("web", 1, "busybox:1.36", grace=0)


def test_conditions_and_updated_replicas(kwait: Kwait) -> None:
    """A condition by its reason; pods that are there, whether they run or not."""
    kwait.create(deployment("web", 2))

    updated = kwait.wait_for_deployment_updated_replicas_gte("web", 2, 1)
    available = kwait.wait_for_deployment_with_condition(
        "web", "MinimumReplicasAvailable", "Available"
    )
    kwait.wait_for_deployment_with_condition("web", "NewReplicaSetAvailable", "Progressing")

    assert updated["status"]["updatedReplicas"] == 2
    assert available["status"]["availableReplicas"] >= 1
    with raises(WaitFailed, "the deployment is to have 2 pods"):
        kwait.wait_for_deployment_updated_replicas_gte("web", 3, grace=0)


def test_a_missed_progress_deadline(kwait: Kwait) -> None:
    """An exceeded progress deadline fails the wait early."""
    kwait.create(deployment("slow", 1, NEVER_READY, progressDeadlineSeconds=1))

    with raises(WaitFailed, "ProgressDeadlineExceeded: ReplicaSet .* has timed out progressing"):
        kwait.wait_for_deployment_complete("slow", timeout="4m", grace=0)

    kwait.wait_for_deployment_with_condition("slow", "ProgressDeadlineExceeded", "Progressing")


def test_deployment_with_missing_image(kwait: Kwait) -> None:
    """Pods in a terminal state fail the wait long before the progress deadline."""
    kwait.create(deployment("typo", 1, TYPO))

    with raises(WaitFailed, r"can no longer become complete: pod typo-\S+: InvalidImageName"):
        kwait.wait_for_deployment_complete("typo", timeout="4m", grace=0)


def test_pods_of_an_older_replica_set_do_not_fail_the_wait(kwait: Kwait) -> None:
    """Failed pods of the previous spec do not count."""
    kwait.apply(deployment("web", 1, TYPO))
    kwait.wait_for_deployment_updated_replicas_gte("web", 1)
    kwait.apply(deployment("web", 1))

    assert kwait.wait_for_deployment_complete("web", grace=0)["status"]["availableReplicas"] == 1


def test_a_paused_deployment(kwait: Kwait) -> None:
    """A paused deployment fails the wait early."""
    kwait.apply(deployment("web", paused=True))

    with raises(WaitFailed, "can no longer become complete: the deployment is paused"):
        kwait.wait_for_deployment_complete("web", timeout="4m", grace=0)

    kwait.apply(deployment("web", paused=False))
    kwait.wait_for_deployment_complete("web")


def test_a_deployment_that_is_deleted(kwait: Kwait) -> None:
    """A deployment deleted during the wait fails it early."""
    kwait.create(deployment("brief", 1, NEVER_READY))
    gone = threading.Timer(1.0, kwait.delete, ["deployment/brief"])
    gone.start()

    with raises(WaitFailed, "the deployment was deleted"):
        kwait.wait_for_deployment_complete("brief", timeout="4m")

    gone.join()


def test_deployment_pods_rejected_by_pod_security(kwait: Kwait) -> None:
    """The message has the refusal's text, without a pod."""
    enforce = {"pod-security.kubernetes.io/enforce": "restricted"}
    kwait.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": kwait.namespace, "labels": enforce},
        }
    )
    kwait.create(deployment("root"))

    with raises(WaitFailed, 'replicaset root-\\S+: FailedCreate: .* violates PodSecurity "restr'):
        kwait.wait_for_deployment_complete("root", timeout="4m", grace=0)


def test_deployment_pods_rejected_by_quota(kwait: Kwait) -> None:
    """An exceeded quota has the long grace."""
    hold_to_quota(kwait, pods="1")
    kwait.create(deployment("web", 2))

    with raises(WaitFailed, "replicaset web-.*: FailedCreate: .* exceeded quota: few"):
        kwait.wait_for_deployment_complete("web", timeout="4m", grace="1s")


def test_replica_set_rejected_by_quota(kwait: Kwait) -> None:
    """The controller reports it without observing the generation."""
    hold_to_quota(kwait, **{"count/replicasets.apps": "0"})
    kwait.create(deployment("web"))

    with raises(WaitFailed, "ReplicaSetCreateError: Failed to create new replica set .* exceeded"):
        kwait.wait_for_deployment_complete("web", timeout="4m", grace="1s")
