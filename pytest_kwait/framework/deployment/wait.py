"""Waits on Deployments.

Upstream's functions compare with an object that the caller has read, and end at the first error
of the API; these use the spec that the server has at each moment, and compare the status with
its generation.

Source: kubernetes/test/e2e/framework/deployment/wait.go and
kubernetes/test/utils/deployment.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, check_count, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.deployment.conditions import (
    ConditionReason,
    DeploymentComplete,
    ObservedDeployment,
    RevisionAndImage,
    RollingUpdate,
    UpdatedReplicas,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "deployment_complete",
    "deployment_complete_and_check_rolling",
    "deployment_revision_and_image",
    "deployment_updated_replicas_gte",
    "deployment_with_condition",
    "observed_deployment",
    "wait_for_deployment_complete",
    "wait_for_deployment_complete_and_check_rolling",
    "wait_for_deployment_revision_and_image",
    "wait_for_deployment_updated_replicas_gte",
    "wait_for_deployment_with_condition",
    "wait_for_observed_deployment",
]


def deployment_complete(namespace: str, deployment: str) -> DeploymentComplete:
    """Return the condition of `wait_for_deployment_complete`."""
    return DeploymentComplete(namespace, deployment)


def wait_for_deployment_complete(
    client: ApiClient, namespace: str, deployment: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a Deployment once it has exactly its replicas, all of the present spec and available.

    With 0 replicas it holds once no pod is left. Upstream does not notice that it cannot come.
    A pod without a readiness probe is available from the moment that its container runs, even if
    that is about to crash: `stable_for`, or `minReadySeconds` of the Deployment, tells them apart.

    Args:
        client: the official client.
        namespace: where the Deployment is.
        deployment: its name.
        **options: `timeout` (default: `deployment`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: its progress deadline was missed, pods of its present
            ReplicaSet are stuck or refused, it stays paused, or it was deleted.
        WaitTimeout: it did not come within the limit.

    Source: test/utils/deployment.go WaitForDeploymentComplete, and
    pkg/controller/deployment/util/deployment_util.go DeploymentComplete.
    """
    awaited = deployment_complete(namespace, deployment)
    return cast("dict[str, Any]", _wait(client, awaited, options, "deployment"))


def deployment_complete_and_check_rolling(namespace: str, deployment: str) -> RollingUpdate:
    """Return the condition of `wait_for_deployment_complete_and_check_rolling`."""
    return RollingUpdate(namespace, deployment)


def wait_for_deployment_complete_and_check_rolling(
    client: ApiClient, namespace: str, deployment: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a Deployment once it is complete, if it kept the bounds of its strategy all the time.

    At every step its ReplicaSets must be scaled to no more than the replicas and `maxSurge`, and
    no fewer pods be available than the replicas without `maxUnavailable`. Upstream looks every
    2 s, and fails on a Deployment that was just made or scaled; here a bound counts from the moment
    that it first holds under the present replicas and strategy.

    Args:
        client: the official client.
        namespace: where the Deployment is.
        deployment: its name.
        **options: `timeout` (default: `deployment`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: there were too many pods, or too few available; or it can no longer become
            complete, as for `wait_for_deployment_complete`.
        WaitTimeout: it did not come within the limit.

    Source: test/utils/deployment.go WaitForDeploymentCompleteAndCheckRolling.
    """
    awaited = deployment_complete_and_check_rolling(namespace, deployment)
    return cast("dict[str, Any]", _wait(client, awaited, options, "deployment"))


def deployment_revision_and_image(
    namespace: str, deployment: str, revision: int | str, image: str
) -> RevisionAndImage:
    """Return the condition of `wait_for_deployment_revision_and_image`."""
    return RevisionAndImage(namespace, deployment, revision, image)


def wait_for_deployment_revision_and_image(
    client: ApiClient,
    namespace: str,
    deployment: str,
    revision: int | str,
    image: str,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a Deployment once it and its present ReplicaSet have a revision and an image.

    Nothing is said of pods. Upstream finds the present ReplicaSet by its template; here it is the
    one that the Deployment controls and whose revision is the Deployment's.

    Args:
        client: the official client.
        namespace: where the Deployment is.
        deployment: its name.
        revision: the number that both are annotated with; 1 or more.
        image: the image that one of the containers has in both, as it is written there.
        **options: `timeout` (default: `deployment`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the Deployment is past the revision, stays paused, or
            was deleted.
        WaitTimeout: it did not come within the limit.

    Source: test/utils/deployment.go WaitForDeploymentRevisionAndImage.
    """
    awaited = deployment_revision_and_image(namespace, deployment, revision, image)
    return cast("dict[str, Any]", _wait(client, awaited, options, "deployment"))


def deployment_updated_replicas_gte(
    namespace: str,
    deployment: str,
    min_updated_replicas: int,
    desired_generation: int | None = None,
) -> UpdatedReplicas:
    """Return the condition of `wait_for_deployment_updated_replicas_gte`."""
    least = check_count("min_updated_replicas", min_updated_replicas)
    generation = 1
    if desired_generation is not None:
        generation = check_count("desired_generation", desired_generation, least=1)
    return UpdatedReplicas(namespace, deployment, least, generation)


def wait_for_deployment_updated_replicas_gte(
    client: ApiClient,
    namespace: str,
    deployment: str,
    min_updated_replicas: int,
    desired_generation: int | None = None,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a Deployment once at least so many pods are there that are of its present spec.

    They need not run. Upstream's message reads a Deployment that it may never have got.

    Args:
        client: the official client.
        namespace: where the Deployment is.
        deployment: its name.
        min_updated_replicas: how many, or more; 0 or more.
        desired_generation: a generation that must have been observed at least, 1 or more; None for
            the one that the server has.
        **options: `timeout` (default: `deployment`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: it is to have fewer pods, its progress deadline was
            missed, pods are refused, all that are there are stuck, it stays paused, or it was
            deleted.
        WaitTimeout: it did not come within the limit.

    Source: test/utils/deployment.go WaitForDeploymentUpdatedReplicasGTE.
    """
    awaited = deployment_updated_replicas_gte(
        namespace, deployment, min_updated_replicas, desired_generation
    )
    return cast("dict[str, Any]", _wait(client, awaited, options, "deployment"))


def deployment_with_condition(
    namespace: str, deployment: str, reason: str, condition: str
) -> ConditionReason:
    """Return the condition of `wait_for_deployment_with_condition`."""
    return ConditionReason(namespace, deployment, reason, condition)


def wait_for_deployment_with_condition(
    client: ApiClient,
    namespace: str,
    deployment: str,
    reason: str,
    condition: str,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a Deployment once one of its conditions has a reason, whether it is True or not.

    As upstream the reason alone decides; `wait_for` takes `condition=Available` for the status.
    Unlike there, a status of an older generation does not count.

    Args:
        client: the official client.
        namespace: where the Deployment is.
        deployment: its name.
        reason: the reason, for example `NewReplicaSetAvailable` or `ProgressDeadlineExceeded`.
        condition: `Available`, `Progressing` or `ReplicaFailure`.
        **options: `timeout` (default: `deployment`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: it is to be available, or its new ReplicaSet, and pods
            are stuck; it has no progress deadline to be exceeded; or it was deleted.
        WaitTimeout: it did not come within the limit.

    Source: test/utils/deployment.go WaitForDeploymentWithCondition.
    """
    awaited = deployment_with_condition(namespace, deployment, reason, condition)
    return cast("dict[str, Any]", _wait(client, awaited, options, "deployment"))


def observed_deployment(
    namespace: str, deployment: str, desired_generation: int
) -> ObservedDeployment:
    """Return the condition of `wait_for_observed_deployment`."""
    return ObservedDeployment(namespace, deployment, desired_generation)


def wait_for_observed_deployment(
    client: ApiClient,
    namespace: str,
    deployment: str,
    desired_generation: int,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a Deployment once its controller has seen a generation, and the present one.

    Args:
        client: the official client.
        namespace: where the Deployment is.
        deployment: its name.
        desired_generation: the generation, or one before what it may be by then; 1 or more.
        **options: `timeout` (default: `deployment_short`, 1 minute) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the Deployment was deleted.
        WaitTimeout: it did not come within the limit.

    Source: test/utils/deployment.go WaitForObservedDeployment.
    """
    awaited = observed_deployment(namespace, deployment, desired_generation)
    return cast("dict[str, Any]", _wait(client, awaited, options, "deployment_short"))


def _wait(client: ApiClient, condition: Condition, options: WaitOptions, timeout: str) -> Any:
    settings = resolve_options(options, timeout=timeout)
    return wait_for_condition(Session.of(client), condition, settings)
