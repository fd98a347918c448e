"""The types of wait fixtures, written by `python -m tools.waits`.

Methods of `Kwait` of the same name satisfy them, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, Unpack, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    import typing_extensions

    from pytest_kwait.apimachinery.selectors import Selector
    from pytest_kwait.apimachinery.times import Duration
    from pytest_kwait.cache.sync import Stop, Synced
    from pytest_kwait.engine.condition import Verdict
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.named_objects import KubernetesObject, KubernetesObjects, ObjectList
    from pytest_kwait.framework.node.minions import PodInfo
    from pytest_kwait.framework.objects.combinators import ConditionInput
    from pytest_kwait.framework.objects.lists import Count
    from pytest_kwait.framework.predicates import HeldPredicate

    # Without `as_model`, objects are dicts.
    _Model = typing_extensions.TypeVar("_Model", default=dict[str, Any])


class WaitForCacheSync(Protocol):
    """The type of the fixture `wait_for_cache_sync`."""

    def __call__(
        self,
        *synced: Synced | str,
        name: str | None = None,
        stop: Stop | None = None,
        timeout: Duration | None = None,
    ) -> bool:
        """Wait for informers that have seen their first list."""
        ...


class WaitForApiServerHealthy(Protocol):
    """The type of the fixture `wait_for_api_server_healthy`."""

    def __call__(self, **options: Unpack[WaitOptions]) -> None:
        """Wait for an API server that says it is ready."""
        ...


class WaitForApiServiceAvailable(Protocol):
    """The type of the fixture `wait_for_api_service_available`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for an APIService that is available."""
        ...


class WaitForAuthorizationUpdate(Protocol):
    """The type of the fixture `wait_for_authorization_update`."""

    def __call__(
        self,
        user: str,
        verb: str,
        resource: str,
        allowed: bool = True,
        *,
        groups: Sequence[str] = (),
        all_namespaces: bool = False,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for access of a user to a kind, allowed or denied."""
        ...


class WaitForNamedAuthorizationUpdate(Protocol):
    """The type of the fixture `wait_for_named_authorization_update`."""

    def __call__(
        self,
        user: str,
        verb: str,
        resource: str,
        name: str,
        allowed: bool = True,
        *,
        groups: Sequence[str] = (),
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for access of a user to one object, allowed or denied."""
        ...


class WaitForAuthzUpdate(Protocol):
    """The type of the fixture `wait_for_authz_update`."""

    def __call__(
        self,
        user: str,
        attributes: Mapping[str, Any],
        allowed: bool = True,
        *,
        groups: Sequence[str] = (),
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for access of a user by resource attributes, allowed or denied."""
        ...


class WaitForCrdEstablished(Protocol):
    """The type of the fixture `wait_for_crd_established`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a CustomResourceDefinition that is established, with all versions served."""
        ...


class WaitForHpaReplicas(Protocol):
    """The type of the fixture `wait_for_hpa_replicas`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        min_replicas: int,
        max_replicas: int | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for an autoscaler whose replicas lie in a range."""
        ...


class WaitForNamespacesDeleted(Protocol):
    """The type of the fixture `wait_for_namespaces_deleted`."""

    def __call__(self, namespaces: KubernetesObjects, **options: Unpack[WaitOptions]) -> None:
        """Wait for namespaces that are gone, by their UIDs."""
        ...


class WaitForDefaultServiceAccount(Protocol):
    """The type of the fixture `wait_for_default_service_account`."""

    def __call__(
        self,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for the namespace's ServiceAccount `default`."""
        ...


class WaitForKubeRootCa(Protocol):
    """The type of the fixture `wait_for_kube_root_ca`."""

    def __call__(
        self,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for the namespace's config map with the cluster's root CA."""
        ...


class WaitForWebhookReady(Protocol):
    """The type of the fixture `wait_for_webhook_ready`."""

    def __call__(
        self,
        target: str | KubernetesObject,
        probe: Mapping[str, Any] | None = None,
        *,
        denial: str | None = None,
        mutation: Mapping[str, Any] | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for admission webhooks that answer, shown by a dry run."""
        ...


class WaitForDaemonSetRunningOnAllNodes(Protocol):
    """The type of the fixture `wait_for_daemon_set_running_on_all_nodes`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a daemon set's one available pod on each eligible node."""
        ...


class WaitForDaemonSetPodsOnNodes(Protocol):
    """The type of the fixture `wait_for_daemon_set_pods_on_nodes`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        nodes: KubernetesObjects,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a daemon set's one available pod on each of these nodes alone."""
        ...


class WaitForDaemonSetPresentOnNodes(Protocol):
    """The type of the fixture `wait_for_daemon_set_present_on_nodes`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a daemon set's one started pod on each of an exact number of nodes."""
        ...


class WaitForDaemonSetStatus(Protocol):
    """The type of the fixture `wait_for_daemon_set_status`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a daemon set whose status has all pods scheduled and ready."""
        ...


class WaitForDaemonSets(Protocol):
    """The type of the fixture `wait_for_daemon_sets`."""

    def __call__(
        self,
        allowed_not_ready: int = 0,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for all daemon sets of a namespace, except a few pods of each."""
        ...


class WaitForDeploymentComplete(Protocol):
    """The type of the fixture `wait_for_deployment_complete`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a deployment whose pods are all updated and available."""
        ...


class WaitForDeploymentCompleteAndCheckRolling(Protocol):
    """The type of the fixture `wait_for_deployment_complete_and_check_rolling`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a complete deployment, within the bounds of its rolling update at every step."""
        ...


class WaitForDeploymentRevisionAndImage(Protocol):
    """The type of the fixture `wait_for_deployment_revision_and_image`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        revision: int | str,
        image: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a deployment and its replica set at a revision, with an image."""
        ...


class WaitForDeploymentUpdatedReplicasGte(Protocol):
    """The type of the fixture `wait_for_deployment_updated_replicas_gte`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        min_count: int,
        generation: int | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a deployment with enough updated pods."""
        ...


class WaitForDeploymentWithCondition(Protocol):
    """The type of the fixture `wait_for_deployment_with_condition`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        reason: str,
        condition: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a deployment with a condition that has a reason."""
        ...


class WaitForObservedDeployment(Protocol):
    """The type of the fixture `wait_for_observed_deployment`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        generation: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a deployment whose controller has observed a generation."""
        ...


class WaitForEndpointCount(Protocol):
    """The type of the fixture `wait_for_endpoint_count`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service with an exact number of endpoints."""
        ...


class WaitForEndpointPods(Protocol):
    """The type of the fixture `wait_for_endpoint_pods`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        pods: KubernetesObjects,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service with endpoints at exactly these pods."""
        ...


class WaitForEndpointPorts(Protocol):
    """The type of the fixture `wait_for_endpoint_ports`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        ports: Mapping[str, Sequence[int | str]],
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service with endpoints at exactly these ports of pods."""
        ...


class WaitForEndpointOnNode(Protocol):
    """The type of the fixture `wait_for_endpoint_on_node`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        node: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service with ready endpoints on one node."""
        ...


class WaitForEndpointSlices(Protocol):
    """The type of the fixture `wait_for_endpoint_slices`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        condition: Callable[[list[dict[str, Any]]], Any],
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service whose EndpointSlices a callable accepts."""
        ...


class WaitForEvent(Protocol):
    """The type of the fixture `wait_for_event`."""

    def __call__(
        self,
        reason: str | None = None,
        message: str | None = None,
        *,
        about: str | KubernetesObject | None = None,
        type: str | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for an event with a reason, with words in its message, about an object."""
        ...


class WaitForJobPodsRunning(Protocol):
    """The type of the fixture `wait_for_job_pods_running`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of a job's pods in phase Running."""
        ...


class WaitForJobPodsSucceeded(Protocol):
    """The type of the fixture `wait_for_job_pods_succeeded`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of a job's pods in phase Succeeded."""
        ...


class WaitForJobFinish(Protocol):
    """The type of the fixture `wait_for_job_finish`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job that is complete or has failed."""
        ...


class WaitForJobComplete(Protocol):
    """The type of the fixture `wait_for_job_complete`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        reason: str | None = None,
        completions: int | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job that is complete."""
        ...


class WaitForJobFailed(Protocol):
    """The type of the fixture `wait_for_job_failed`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job that has failed."""
        ...


class WaitForJobReady(Protocol):
    """The type of the fixture `wait_for_job_ready`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job whose status has an exact number of ready pods."""
        ...


class WaitForJobSuspend(Protocol):
    """The type of the fixture `wait_for_job_suspend`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job that is suspended."""
        ...


class WaitForJobCondition(Protocol):
    """The type of the fixture `wait_for_job_condition`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        condition: str,
        reason: str | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job with a condition that is True."""
        ...


class WaitForJobState(Protocol):
    """The type of the fixture `wait_for_job_state`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        state: Callable[[dict[str, Any]], Any],
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job that a callable accepts."""
        ...


class WaitForJobGone(Protocol):
    """The type of the fixture `wait_for_job_gone`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        uid: str | None = None,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Wait for a job that is gone, by its UID."""
        ...


class WaitForAllJobPodsGone(Protocol):
    """The type of the fixture `wait_for_all_job_pods_gone`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        uid: str | None = None,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Wait for a job without any pods left."""
        ...


class WaitForPodsRunningOnNodes(Protocol):
    """The type of the fixture `wait_for_pods_running_on_nodes`."""

    def __call__(
        self,
        nodes: KubernetesObjects,
        count: int,
        prefix: str = "",
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of running pods, as kubelets report them."""
        ...


class WaitForPodsOnMinions(Protocol):
    """The type of the fixture `wait_for_pods_on_minions`."""

    def __call__(
        self,
        controller: str | KubernetesObject | None = None,
        *,
        selector: Selector | None = None,
        pods: KubernetesObjects | None = None,
        pod_info: PodInfo | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for pods that are known to the agents of their hosts."""
        ...


class WaitForNodeReady(Protocol):
    """The type of the fixture `wait_for_node_ready`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a node that is ready."""
        ...


class WaitForNodeNotReady(Protocol):
    """The type of the fixture `wait_for_node_not_ready`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a node that is not ready."""
        ...


class WaitForNodeCondition(Protocol):
    """The type of the fixture `wait_for_node_condition`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        condition: str,
        status: bool = True,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a node with a condition that is True, or is not."""
        ...


class WaitForNodeSchedulable(Protocol):
    """The type of the fixture `wait_for_node_schedulable`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        schedulable: bool = True,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a node that takes pods, or takes none."""
        ...


class WaitForNodeHeartbeatAfter(Protocol):
    """The type of the fixture `wait_for_node_heartbeat_after`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        after: datetime | str,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a node whose last heartbeat is later."""
        ...


class WaitForAllNodesSchedulable(Protocol):
    """The type of the fixture `wait_for_all_nodes_schedulable`."""

    def __call__(
        self,
        allowed_not_ready: int = 0,
        non_blocking_taints: Sequence[str] = ("node-role.kubernetes.io/control-plane",),
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for nodes that take pods, all but a few."""
        ...


class WaitForNodesReady(Protocol):
    """The type of the fixture `wait_for_nodes_ready`."""

    def __call__(
        self, count: int, *, as_model: type[_Model] | None = None, **options: Unpack[WaitOptions]
    ) -> list[_Model]:
        """Wait for an exact number of uncordoned nodes, all ready."""
        ...


class WaitForTotalHealthy(Protocol):
    """The type of the fixture `wait_for_total_healthy`."""

    def __call__(
        self,
        required_pods: Sequence[str] = (),
        system_namespace: str = "kube-system",
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for nodes that are all ready and run what they must."""
        ...


class WaitFor(Protocol):
    """The type of the fixture `wait_for`: wait for any condition on any kind of object."""

    @overload
    def __call__(  # type: ignore[overload-overlap] # a list's model is a model, too
        self,
        target: ObjectList | list[Any] | tuple[Any, ...],
        condition: ConditionInput | HeldPredicate,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[Any]: ...

    @overload
    def __call__(
        self,
        target: ObjectList | list[Any] | tuple[Any, ...],
        condition: ConditionInput | HeldPredicate,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...

    @overload
    def __call__(  # type: ignore[overload-overlap] # a variable may have this value
        self,
        target: str | KubernetesObject,
        condition: Literal["delete"],
        *,
        selector: Selector | None = None,
        count: int | Count | None = None,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None: ...

    @overload
    def __call__(
        self,
        target: str | KubernetesObject,
        condition: ConditionInput | HeldPredicate,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model: ...

    @overload
    def __call__(
        self,
        target: str,
        condition: ConditionInput | HeldPredicate,
        *,
        selector: Selector,
        count: int | Count | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForRolloutStatus(Protocol):
    """The type of the fixture `wait_for_rollout_status`."""

    def __call__(
        self,
        target: str | KubernetesObject,
        revision: int | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a deployment, daemon set or stateful set rolled out by kubectl's rules."""
        ...


class WaitForContainerStarted(Protocol):
    """The type of the fixture `wait_for_container_started`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        container: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a container that has passed its startup probe."""
        ...


class WaitForContainerRunning(Protocol):
    """The type of the fixture `wait_for_container_running`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        container: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a container that runs."""
        ...


class WaitForContainerTerminated(Protocol):
    """The type of the fixture `wait_for_container_terminated`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        container: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a container that has ended."""
        ...


class WaitForContainerToFail(Protocol):
    """The type of the fixture `wait_for_container_to_fail`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        container: str,
        reason: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a container that waits for a reason."""
        ...


class WaitForNumberOfPods(Protocol):
    """The type of the fixture `wait_for_number_of_pods`."""

    def __call__(
        self,
        count: int,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of pods."""
        ...


class WaitForPodsRunning(Protocol):
    """The type of the fixture `wait_for_pods_running`."""

    def __call__(
        self,
        count: int,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of pods that are Running and ready."""
        ...


class WaitForPodsSchedulingGated(Protocol):
    """The type of the fixture `wait_for_pods_scheduling_gated`."""

    def __call__(
        self,
        count: int,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of pods behind scheduling gates."""
        ...


class WaitForPodsWithSchedulingGates(Protocol):
    """The type of the fixture `wait_for_pods_with_scheduling_gates`."""

    def __call__(
        self,
        count: int,
        gates: Sequence[str],
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of pods with exactly these gates."""
        ...


class WaitForPodsWithLabel(Protocol):
    """The type of the fixture `wait_for_pods_with_label`."""

    def __call__(
        self,
        selector: Selector,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a pod with a label."""
        ...


class WaitForPodsWithLabelScheduled(Protocol):
    """The type of the fixture `wait_for_pods_with_label_scheduled`."""

    def __call__(
        self,
        selector: Selector,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for pods with a label, all with a node."""
        ...


class WaitForPodsWithLabelRunning(Protocol):
    """The type of the fixture `wait_for_pods_with_label_running`."""

    def __call__(
        self,
        selector: Selector,
        count: int = 1,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for enough pods with a label, all in phase Running."""
        ...


class WaitForPodsWithLabelRunningReady(Protocol):
    """The type of the fixture `wait_for_pods_with_label_running_ready`."""

    def __call__(
        self,
        selector: Selector,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for enough pods with a label, all Running and ready."""
        ...


class WaitForPodsRunningReady(Protocol):
    """The type of the fixture `wait_for_pods_running_ready`."""

    def __call__(
        self,
        min_count: int,
        allowed_not_ready: int = 0,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for enough pods Running and ready, and few that are not."""
        ...


class WaitForAlmostAllPodsReady(Protocol):
    """The type of the fixture `wait_for_almost_all_pods_ready`."""

    def __call__(
        self,
        min_count: int,
        allowed_not_ready: int = 0,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for enough pods Running and ready, and few replicas missing."""
        ...


class WaitForPodsResponding(Protocol):
    """The type of the fixture `wait_for_pods_responding`."""

    def __call__(
        self,
        *,
        selector: Selector | None = None,
        pods: KubernetesObjects | None = None,
        want_name: bool = False,
        port: int | None = None,
        path: str = "",
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for pods that answer through the API server's proxy."""
        ...


class WaitForPodCondition(Protocol):
    """The type of the fixture `wait_for_pod_condition`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        description: str,
        condition: Callable[[dict[str, Any]], bool | Verdict],
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that a callable accepts."""
        ...


class WaitForPodRunning(Protocol):
    """The type of the fixture `wait_for_pod_running`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod in phase Running."""
        ...


class WaitForPodReady(Protocol):
    """The type of the fixture `wait_for_pod_ready`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that is Running and ready."""
        ...


class WaitForPodRunningReady(Protocol):
    """The type of the fixture `wait_for_pod_running_ready`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that is Running and ready."""
        ...


class WaitForPodSuccess(Protocol):
    """The type of the fixture `wait_for_pod_success`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod in phase Succeeded."""
        ...


class WaitForPodNoLongerRunning(Protocol):
    """The type of the fixture `wait_for_pod_no_longer_running`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod in phase Succeeded or Failed."""
        ...


class WaitForPodTerminated(Protocol):
    """The type of the fixture `wait_for_pod_terminated`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        reason: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that failed with a reason, or without any."""
        ...


class WaitForPodFailedReason(Protocol):
    """The type of the fixture `wait_for_pod_failed_reason`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        reason: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that failed with a reason."""
        ...


class WaitForPodNotPending(Protocol):
    """The type of the fixture `wait_for_pod_not_pending`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod in any phase but Pending."""
        ...


class WaitForPodScheduled(Protocol):
    """The type of the fixture `wait_for_pod_scheduled`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that has a node."""
        ...


class WaitForPodUnschedulable(Protocol):
    """The type of the fixture `wait_for_pod_unschedulable`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that no node can take."""
        ...


class WaitForPodTerminating(Protocol):
    """The type of the fixture `wait_for_pod_terminating`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that is being deleted."""
        ...


class WaitForPodNotFound(Protocol):
    """The type of the fixture `wait_for_pod_not_found`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        uid: str | None = None,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Wait for a pod that is gone, by its UID."""
        ...


class WaitForPodObservedGeneration(Protocol):
    """The type of the fixture `wait_for_pod_observed_generation`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        generation: int,
        condition: str | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod whose kubelet has observed a generation."""
        ...


class WaitForControlledPods(Protocol):
    """The type of the fixture `wait_for_controlled_pods`."""

    def __call__(
        self,
        target: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a pod of any controller."""
        ...


class WaitForControlledPodsRunning(Protocol):
    """The type of the fixture `wait_for_controlled_pods_running`."""

    def __call__(
        self,
        target: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for all pods of any controller in phase Running."""
        ...


class WaitForRcPodsRunning(Protocol):
    """The type of the fixture `wait_for_rc_pods_running`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a replication controller's exact number of pods in phase Running."""
        ...


class WaitForRcToStabilize(Protocol):
    """The type of the fixture `wait_for_rc_to_stabilize`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a replication controller whose status has its desired number of pods."""
        ...


class WaitForReadyReplicaSet(Protocol):
    """The type of the fixture `wait_for_ready_replica_set`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a replica set whose pods are all ready."""
        ...


class WaitForReplicaSetTargetAvailableReplicas(Protocol):
    """The type of the fixture `wait_for_replica_set_target_available_replicas`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a replica set with an exact number of available pods."""
        ...


class WaitForReplicaSetTargetSpecReplicas(Protocol):
    """The type of the fixture `wait_for_replica_set_target_spec_replicas`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a replica set whose spec has an exact number of replicas."""
        ...


class WaitForReplicaSetDesiredReplicas(Protocol):
    """The type of the fixture `wait_for_replica_set_desired_replicas`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a replica set with its desired number of pods."""
        ...


class WaitForObservedReplicaSet(Protocol):
    """The type of the fixture `wait_for_observed_replica_set`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        generation: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a replica set whose controller has observed a generation."""
        ...


class WaitForLoadBalancer(Protocol):
    """The type of the fixture `wait_for_load_balancer`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a service whose load balancer has an address."""
        ...


class WaitForNewIngressIp(Protocol):
    """The type of the fixture `wait_for_new_ingress_ip`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        existing_ip: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a service whose load balancer has another address."""
        ...


class WaitForLoadBalancerDestroy(Protocol):
    """The type of the fixture `wait_for_load_balancer_destroy`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model | None:
        """Wait for a service without load balancer."""
        ...


class WaitForServiceUpdatedWithFinalizer(Protocol):
    """The type of the fixture `wait_for_service_updated_with_finalizer`.

    It waits for a service with the load balancer's finalizer, or without.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        present: Literal[True] = True,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model | None: ...


class WaitForServiceDeletedWithFinalizer(Protocol):
    """The type of the fixture `wait_for_service_deleted_with_finalizer`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        uid: str | None = None,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Wait for a service that is gone, by its UID."""
        ...


class WaitForService(Protocol):
    """The type of the fixture `wait_for_service`: wait for a service that is there, or gone."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        present: Literal[True] = True,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        present: Literal[False],
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model | None: ...


class WaitForServiceReachable(Protocol):
    """The type of the fixture `wait_for_service_reachable`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        port: int | str | None = None,
        path: str = "",
        scheme: str = "http",
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service behind which a pod answers anything."""
        ...


class WaitForServiceResponding(Protocol):
    """The type of the fixture `wait_for_service_responding`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        port: int | str | None = None,
        path: str = "",
        scheme: str = "http",
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service that answers with success."""
        ...


class WaitForStatefulSetRunning(Protocol):
    """The type of the fixture `wait_for_stateful_set_running`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        ready_count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a stateful set with an exact number of running pods, the first of them ready."""
        ...


class WaitForStatefulSetRunningAndReady(Protocol):
    """The type of the fixture `wait_for_stateful_set_running_and_ready`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a stateful set's exact number of pods, all Running and ready."""
        ...


class WaitForStatefulSetPodReady(Protocol):
    """The type of the fixture `wait_for_stateful_set_pod_ready`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        pod: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for one pod of a stateful set that is Running and ready."""
        ...


class WaitForStatefulSetStatusReplicas(Protocol):
    """The type of the fixture `wait_for_stateful_set_status_replicas`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a stateful set whose status has an exact number of pods."""
        ...


class WaitForStatefulSetStatusReadyReplicas(Protocol):
    """The type of the fixture `wait_for_stateful_set_status_ready_replicas`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a stateful set whose status has an exact number of ready pods."""
        ...


class WaitForStatefulSetStatusAvailableReplicas(Protocol):
    """The type of the fixture `wait_for_stateful_set_status_available_replicas`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a stateful set whose status has an exact number of available pods."""
        ...


class WaitForPersistentVolumeClaimPhase(Protocol):
    """The type of the fixture `wait_for_persistent_volume_claim_phase`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        phase: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a claim in a phase."""
        ...


class WaitForPersistentVolumeClaimsPhase(Protocol):
    """The type of the fixture `wait_for_persistent_volume_claims_phase`."""

    def __call__(
        self,
        claims: KubernetesObjects,
        phase: str,
        match_any: bool = False,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for claims in a phase, all of them or any."""
        ...


class WaitForPersistentVolumeClaimDeleted(Protocol):
    """The type of the fixture `wait_for_persistent_volume_claim_deleted`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        uid: str | None = None,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Wait for a claim that is gone, by its UID."""
        ...


class WaitForPvcFinalizer(Protocol):
    """The type of the fixture `wait_for_pvc_finalizer`.

    It waits for a claim with a finalizer, or without.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: Literal[True] = True,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model | None: ...


class WaitForPersistentVolumeClaimModified(Protocol):
    """The type of the fixture `wait_for_persistent_volume_claim_modified`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a claim with its requested class of volume attributes."""
        ...


class WaitForPersistentVolumeClaimModificationFailure(Protocol):
    """The type of the fixture `wait_for_persistent_volume_claim_modification_failure`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a claim whose requested class of volume attributes was refused."""
        ...


class WaitForPvAndPvc(Protocol):
    """The type of the fixture `wait_for_pv_and_pvc`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        claim: str | KubernetesObject,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]:
        """Wait for a volume and a claim that are bound to each other."""
        ...


class WaitForPvClaimBoundPhase(Protocol):
    """The type of the fixture `wait_for_pv_claim_bound_phase`."""

    def __call__(
        self,
        claims: KubernetesObjects,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]:
        """Wait for claims and their volumes, bound to each other."""
        ...


class WaitForPersistentVolumePhase(Protocol):
    """The type of the fixture `wait_for_persistent_volume_phase`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        phase: str,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a volume in a phase."""
        ...


class WaitForPersistentVolumeDeleted(Protocol):
    """The type of the fixture `wait_for_persistent_volume_deleted`."""

    def __call__(
        self, name: str | KubernetesObject, uid: str | None = None, **options: Unpack[WaitOptions]
    ) -> None:
        """Wait for a volume that is gone, by its UID."""
        ...


class WaitForPvFinalizer(Protocol):
    """The type of the fixture `wait_for_pv_finalizer`.

    It waits for a volume with a finalizer, or without.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: Literal[True] = True,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: bool,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model | None: ...


class WaitForVolumeAttachmentCreated(Protocol):
    """The type of the fixture `wait_for_volume_attachment_created`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a VolumeAttachment that is there."""
        ...


class WaitForVolumeAttachmentAttached(Protocol):
    """The type of the fixture `wait_for_volume_attachment_attached`."""

    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a VolumeAttachment whose volume is attached."""
        ...


class WaitForVolumeAttachmentTerminated(Protocol):
    """The type of the fixture `wait_for_volume_attachment_terminated`."""

    def __call__(
        self, name: str | KubernetesObject, uid: str | None = None, **options: Unpack[WaitOptions]
    ) -> None:
        """Wait for a VolumeAttachment that is gone, by its UID."""
        ...
