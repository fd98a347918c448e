"""Waits on Deployments.

Upstream's functions compare with an object read by the caller, and end at the first error of the
API; these use the present spec on the server, and compare the status with its generation.

Source: kubernetes/test/e2e/framework/deployment/wait.go and
kubernetes/test/utils/deployment.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.engine.options import WaitOptions, check_count
from pytest_kwait.framework.deployment.conditions import (
    ConditionReason,
    DeploymentComplete,
    ObservedDeployment,
    RevisionAndImage,
    RollingUpdate,
    UpdatedReplicas,
)
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.framework.registry import ConditionOf

__all__ = [
    "wait_for_deployment_complete",
    "wait_for_deployment_complete_and_check_rolling",
    "wait_for_deployment_revision_and_image",
    "wait_for_deployment_updated_replicas_gte",
    "wait_for_deployment_with_condition",
    "wait_for_observed_deployment",
]


@wait(limit="deployment", summary="a deployment whose pods are all updated and available")
def wait_for_deployment_complete(
    client: ApiClient, namespace: str, deployment: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a Deployment once exactly its replicas exist, all updated and available.

    With 0 replicas it holds once no pod is left. Upstream does not detect failures. A pod without a
    readiness probe is available as soon as its container runs, even if that is about to crash:
    `stable_for`, or `minReadySeconds` of the Deployment, tells them apart.

    Raises:
        WaitFailed: its progress deadline was missed, pods of its present ReplicaSet are stuck or
            refused, it stays paused, or it was deleted.

    Source: test/utils/deployment.go WaitForDeploymentComplete, and
    pkg/controller/deployment/util/deployment_util.go DeploymentComplete.
    """
    return DeploymentComplete(namespace, deployment)


@wait(limit="deployment", summary="the same, within the bounds of its rolling update at every step")
def wait_for_deployment_complete_and_check_rolling(
    client: ApiClient, namespace: str, deployment: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a complete Deployment that kept the bounds of its strategy throughout.

    At every step its ReplicaSets must be scaled to at most the replicas plus `maxSurge`, and at
    least the replicas minus `maxUnavailable` must be available. Upstream polls every 2 s, and fails
    on a Deployment that was just created or scaled; here a bound applies once it has first held
    under the present replicas and strategy.

    Raises:
        WaitFailed: there were too many pods, or too few available; or it can no longer become
            complete, as for `wait_for_deployment_complete`.

    Source: test/utils/deployment.go WaitForDeploymentCompleteAndCheckRolling.
    """
    return RollingUpdate(namespace, deployment)


@wait(limit="deployment", summary="a deployment and its replica set at a revision, with an image")
def wait_for_deployment_revision_and_image(
    client: ApiClient,
    namespace: str,
    deployment: str,
    revision: int | str,
    image: str,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a Deployment once it and its present ReplicaSet have a revision and image.

    Pods are ignored. Upstream finds the present ReplicaSet by its template; here it is the one that
    the Deployment controls with the Deployment's revision.

    Args:
        revision: the number that both are annotated with; 1 or more.
        image: the image that one of the containers has in both, exactly as written there.

    Raises:
        WaitFailed: the Deployment is past the revision, stays paused, or was deleted.

    Source: test/utils/deployment.go WaitForDeploymentRevisionAndImage.
    """
    return RevisionAndImage(namespace, deployment, revision, image)


@wait(limit="deployment", summary="a deployment with enough updated pods")
def wait_for_deployment_updated_replicas_gte(
    client: ApiClient,
    namespace: str,
    deployment: str,
    min_updated_replicas: int,
    desired_generation: int | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a Deployment once at least `min_updated_replicas` of its pods are updated.

    They need not run. Upstream's message reads a Deployment that it may never have received.

    Args:
        min_updated_replicas: the minimum number; 0 or more.
        desired_generation: the minimum observed generation, 1 or more; None for the one on the
            server.

    Raises:
        WaitFailed: it is to have fewer pods, its progress deadline was missed, pods are refused,
            all existing pods are stuck, it stays paused, or it was deleted.

    Source: test/utils/deployment.go WaitForDeploymentUpdatedReplicasGTE.
    """
    least = check_count("min_updated_replicas", min_updated_replicas)
    generation = 1
    if desired_generation is not None:
        generation = check_count("desired_generation", desired_generation, least=1)
    return UpdatedReplicas(namespace, deployment, least, generation)


@wait(limit="deployment", summary="a deployment of which a condition has a reason")
def wait_for_deployment_with_condition(
    client: ApiClient,
    namespace: str,
    deployment: str,
    reason: str,
    condition: str,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a Deployment once one of its conditions has a reason, whatever its status.

    As upstream the reason alone decides; `wait_for` takes `condition=Available` for the status.
    Unlike upstream, a status of an older generation does not count.

    Args:
        reason: the reason, for example `NewReplicaSetAvailable` or `ProgressDeadlineExceeded`.
        condition: `Available`, `Progressing` or `ReplicaFailure`.

    Raises:
        WaitFailed: it is to be available, or its new ReplicaSet, and pods are stuck; it has no
            progress deadline to be exceeded; or it was deleted.

    Source: test/utils/deployment.go WaitForDeploymentWithCondition.
    """
    return ConditionReason(namespace, deployment, reason, condition)


@wait(limit="deployment_short", summary="a deployment of which a generation has been observed")
def wait_for_observed_deployment(
    client: ApiClient,
    namespace: str,
    deployment: str,
    desired_generation: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a Deployment once its controller has observed its present generation.

    Args:
        desired_generation: a minimum generation as well, for example from before an update; 1 or
            more.

    Raises:
        WaitFailed: the Deployment was deleted.

    Source: test/utils/deployment.go WaitForObservedDeployment.
    """
    return ObservedDeployment(namespace, deployment, desired_generation)
