"""Waits on ReplicaSets.

Source: kubernetes/test/e2e/framework/replicaset/wait.go and kubernetes/test/e2e/apps/deployment.go.
Those end at the first error of the API; a status of an older generation counts for none of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, check_count, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.replica_set_conditions import (
    AvailableReplicas,
    DesiredReplicas,
    ObservedReplicaSet,
    ReadyReplicaSet,
    SpecReplicas,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "observed_replica_set",
    "ready_replica_set",
    "replica_set_desired_replicas",
    "replica_set_target_available_replicas",
    "replica_set_target_spec_replicas",
    "wait_for_observed_replica_set",
    "wait_for_ready_replica_set",
    "wait_for_replica_set_desired_replicas",
    "wait_for_replica_set_target_available_replicas",
    "wait_for_replica_set_target_spec_replicas",
]


def ready_replica_set(namespace: str, replica_set: str) -> ReadyReplicaSet:
    """Return the condition of `wait_for_ready_replica_set`."""
    return ReadyReplicaSet(namespace, replica_set)


def wait_for_ready_replica_set(
    client: ApiClient, namespace: str, replica_set: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a ReplicaSet once it has exactly the pods that it is to have, all of them ready.

    With 0 replicas it holds once no pod is left. Upstream does not ask which generation the status
    is of.

    Args:
        client: the official client.
        namespace: where the ReplicaSet is.
        replica_set: its name.
        **options: `timeout` (default: `replica_set`, 5 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: pods are stuck or refused, or it was deleted.
        WaitTimeout: it did not come within the limit.

    Source: replicaset/wait.go WaitForReadyReplicaSet.
    """
    awaited = ready_replica_set(namespace, replica_set)
    return cast("dict[str, Any]", _wait(client, awaited, options, "replica_set"))


def replica_set_target_available_replicas(
    namespace: str, replica_set: str, target_replicas: int
) -> AvailableReplicas:
    """Return the condition of `wait_for_replica_set_target_available_replicas`."""
    target = check_count("target_replicas", target_replicas)
    return AvailableReplicas(namespace, replica_set, target)


def wait_for_replica_set_target_available_replicas(
    client: ApiClient,
    namespace: str,
    replica_set: str,
    target_replicas: int,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a ReplicaSet once exactly so many of its pods are available.

    Available is what has been ready for `minReadySeconds`. One too many is as little as one too
    few; there may be others that are not available.

    Args:
        client: the official client.
        namespace: where the ReplicaSet is.
        replica_set: its name.
        target_replicas: how many, 0 or more.
        **options: `timeout` (default: `replica_set`, 5 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: it is to have fewer pods, too many of them are stuck or
            refused, or it was deleted.
        WaitTimeout: it did not come within the limit.

    Source: replicaset/wait.go WaitForReplicaSetTargetAvailableReplicas.
    """
    awaited = replica_set_target_available_replicas(namespace, replica_set, target_replicas)
    return cast("dict[str, Any]", _wait(client, awaited, options, "replica_set"))


def replica_set_target_spec_replicas(
    namespace: str, replica_set: str, target_replicas: int
) -> SpecReplicas:
    """Return the condition of `wait_for_replica_set_target_spec_replicas`."""
    target = check_count("target_replicas", target_replicas)
    return SpecReplicas(namespace, replica_set, target)


def wait_for_replica_set_target_spec_replicas(
    client: ApiClient,
    namespace: str,
    replica_set: str,
    target_replicas: int,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a ReplicaSet once it is to have so many pods, and its controller has seen that.

    Nothing is said of pods.

    Args:
        client: the official client.
        namespace: where the ReplicaSet is.
        replica_set: its name.
        target_replicas: how many, 0 or more.
        **options: `timeout` (default: `poll_short`, 1 minute) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the ReplicaSet was deleted.
        WaitTimeout: it did not come within the limit.

    Source: test/e2e/apps/deployment.go waitForReplicaSetTargetSpecReplicas.
    """
    awaited = replica_set_target_spec_replicas(namespace, replica_set, target_replicas)
    return cast("dict[str, Any]", _wait(client, awaited, options, "poll_short"))


def replica_set_desired_replicas(namespace: str, replica_set: str) -> DesiredReplicas:
    """Return the condition of `wait_for_replica_set_desired_replicas`."""
    return DesiredReplicas(namespace, replica_set)


def wait_for_replica_set_desired_replicas(
    client: ApiClient, namespace: str, replica_set: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a ReplicaSet once it has exactly the pods that it is to have, in whatever state.

    Args:
        client: the official client.
        namespace: where the ReplicaSet is.
        replica_set: its name.
        **options: `timeout` (default: `poll_short`, 1 minute) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: pods are refused, or it was deleted.
        WaitTimeout: it did not come within the limit.

    Source: test/e2e/apps/deployment.go waitForReplicaSetDesiredReplicas, and
    test/utils/replicaset.go WaitRSStable.
    """
    awaited = replica_set_desired_replicas(namespace, replica_set)
    return cast("dict[str, Any]", _wait(client, awaited, options, "poll_short"))


def observed_replica_set(
    namespace: str, replica_set: str, desired_generation: int
) -> ObservedReplicaSet:
    """Return the condition of `wait_for_observed_replica_set`."""
    generation = check_count("desired_generation", desired_generation, least=1)
    return ObservedReplicaSet(namespace, replica_set, generation)


def wait_for_observed_replica_set(
    client: ApiClient,
    namespace: str,
    replica_set: str,
    desired_generation: int,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a ReplicaSet once its controller has seen a generation, and the present one.

    Args:
        client: the official client.
        namespace: where the ReplicaSet is.
        replica_set: its name.
        desired_generation: the generation, or one before what it may be by then; 1 or more.
        **options: `timeout` (default: `poll_short`, 1 minute) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the ReplicaSet was deleted.
        WaitTimeout: it did not come within the limit.

    Source: as test/utils/deployment.go WaitForObservedDeployment; upstream asks this of a
    ReplicaSet only beside other things.
    """
    awaited = observed_replica_set(namespace, replica_set, desired_generation)
    return cast("dict[str, Any]", _wait(client, awaited, options, "poll_short"))


def _wait(client: ApiClient, condition: Condition, options: WaitOptions, timeout: str) -> Any:
    settings = resolve_options(options, timeout=timeout)
    return wait_for_condition(Session.of(client), condition, settings)
