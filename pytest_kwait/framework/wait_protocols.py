"""The types of wait fixtures, written by `python -m tools.waits`.

Methods of `Kwait` of the same name satisfy them, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, Unpack, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

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

__all__ = [
    "WaitFor",
    "WaitForAllJobPodsGone",
    "WaitForAllNodesSchedulable",
    "WaitForAlmostAllPodsReady",
    "WaitForApiServerHealthy",
    "WaitForApiServiceAvailable",
    "WaitForAuthorizationUpdate",
    "WaitForAuthzUpdate",
    "WaitForCacheSync",
    "WaitForContainerRunning",
    "WaitForContainerStarted",
    "WaitForContainerTerminated",
    "WaitForContainerToFail",
    "WaitForControlledPods",
    "WaitForControlledPodsRunning",
    "WaitForCrdEstablished",
    "WaitForDaemonSetPodsOnNodes",
    "WaitForDaemonSetPresentOnNodes",
    "WaitForDaemonSetRunningOnAllNodes",
    "WaitForDaemonSetStatus",
    "WaitForDaemonSets",
    "WaitForDefaultServiceAccount",
    "WaitForDeploymentComplete",
    "WaitForDeploymentCompleteAndCheckRolling",
    "WaitForDeploymentRevisionAndImage",
    "WaitForDeploymentUpdatedReplicasGte",
    "WaitForDeploymentWithCondition",
    "WaitForEndpointCount",
    "WaitForEndpointOnNode",
    "WaitForEndpointPods",
    "WaitForEndpointPorts",
    "WaitForEndpointSlices",
    "WaitForEvent",
    "WaitForHpaReplicas",
    "WaitForJobComplete",
    "WaitForJobCondition",
    "WaitForJobFailed",
    "WaitForJobFinish",
    "WaitForJobGone",
    "WaitForJobPodsRunning",
    "WaitForJobPodsSucceeded",
    "WaitForJobReady",
    "WaitForJobState",
    "WaitForJobSuspend",
    "WaitForKubeRootCa",
    "WaitForLoadBalancer",
    "WaitForLoadBalancerDestroy",
    "WaitForNamedAuthorizationUpdate",
    "WaitForNamespacesDeleted",
    "WaitForNewIngressIp",
    "WaitForNodeCondition",
    "WaitForNodeHeartbeatAfter",
    "WaitForNodeNotReady",
    "WaitForNodeReady",
    "WaitForNodeSchedulable",
    "WaitForNodesReady",
    "WaitForNumberOfPods",
    "WaitForObservedDeployment",
    "WaitForObservedReplicaSet",
    "WaitForPersistentVolumeClaimDeleted",
    "WaitForPersistentVolumeClaimModificationFailure",
    "WaitForPersistentVolumeClaimModified",
    "WaitForPersistentVolumeClaimPhase",
    "WaitForPersistentVolumeClaimsPhase",
    "WaitForPersistentVolumeDeleted",
    "WaitForPersistentVolumePhase",
    "WaitForPodCondition",
    "WaitForPodFailedReason",
    "WaitForPodNoLongerRunning",
    "WaitForPodNotFound",
    "WaitForPodNotPending",
    "WaitForPodObservedGeneration",
    "WaitForPodReady",
    "WaitForPodRunning",
    "WaitForPodRunningReady",
    "WaitForPodScheduled",
    "WaitForPodSuccess",
    "WaitForPodTerminated",
    "WaitForPodTerminating",
    "WaitForPodUnschedulable",
    "WaitForPodsOnMinions",
    "WaitForPodsResponding",
    "WaitForPodsRunning",
    "WaitForPodsRunningOnNodes",
    "WaitForPodsRunningReady",
    "WaitForPodsSchedulingGated",
    "WaitForPodsWithLabel",
    "WaitForPodsWithLabelRunning",
    "WaitForPodsWithLabelRunningReady",
    "WaitForPodsWithLabelScheduled",
    "WaitForPodsWithSchedulingGates",
    "WaitForPvAndPvc",
    "WaitForPvClaimBoundPhase",
    "WaitForPvFinalizer",
    "WaitForPvcFinalizer",
    "WaitForRcPodsRunning",
    "WaitForRcToStabilize",
    "WaitForReadyReplicaSet",
    "WaitForReplicaSetDesiredReplicas",
    "WaitForReplicaSetTargetAvailableReplicas",
    "WaitForReplicaSetTargetSpecReplicas",
    "WaitForRolloutStatus",
    "WaitForService",
    "WaitForServiceDeletedWithFinalizer",
    "WaitForServiceReachable",
    "WaitForServiceResponding",
    "WaitForServiceUpdatedWithFinalizer",
    "WaitForStatefulSetPodReady",
    "WaitForStatefulSetRunning",
    "WaitForStatefulSetRunningAndReady",
    "WaitForStatefulSetStatusAvailableReplicas",
    "WaitForStatefulSetStatusReadyReplicas",
    "WaitForStatefulSetStatusReplicas",
    "WaitForTotalHealthy",
    "WaitForVolumeAttachmentAttached",
    "WaitForVolumeAttachmentCreated",
    "WaitForVolumeAttachmentTerminated",
    "WaitForWebhookReady",
]

_Model = TypeVar("_Model")


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
    """The type of the fixture `wait_for_api_service_available`.

    It waits for an APIService that is available.
    """

    @overload
    def __call__(
        self, name: str | KubernetesObject, *, as_model: None = None, **options: Unpack[WaitOptions]
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForAuthorizationUpdate(Protocol):
    """The type of the fixture `wait_for_authorization_update`.

    It waits for access of a user to a kind, allowed or denied.
    """

    @overload
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
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
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
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForNamedAuthorizationUpdate(Protocol):
    """The type of the fixture `wait_for_named_authorization_update`.

    It waits for access of a user to one object, allowed or denied.
    """

    @overload
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
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
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
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForAuthzUpdate(Protocol):
    """The type of the fixture `wait_for_authz_update`.

    It waits for access of a user by resource attributes, allowed or denied.
    """

    @overload
    def __call__(
        self,
        user: str,
        attributes: Mapping[str, Any],
        allowed: bool = True,
        *,
        groups: Sequence[str] = (),
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        user: str,
        attributes: Mapping[str, Any],
        allowed: bool = True,
        *,
        groups: Sequence[str] = (),
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForCrdEstablished(Protocol):
    """The type of the fixture `wait_for_crd_established`.

    It waits for a CustomResourceDefinition that is established, with all versions served.
    """

    @overload
    def __call__(
        self, name: str | KubernetesObject, *, as_model: None = None, **options: Unpack[WaitOptions]
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForHpaReplicas(Protocol):
    """The type of the fixture `wait_for_hpa_replicas`.

    It waits for an autoscaler whose replicas lie in a range.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        min_replicas: int,
        max_replicas: int | None = None,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        min_replicas: int,
        max_replicas: int | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForNamespacesDeleted(Protocol):
    """The type of the fixture `wait_for_namespaces_deleted`."""

    def __call__(self, namespaces: KubernetesObjects, **options: Unpack[WaitOptions]) -> None:
        """Wait for namespaces that are gone, by their UIDs."""
        ...


class WaitForDefaultServiceAccount(Protocol):
    """The type of the fixture `wait_for_default_service_account`.

    It waits for the namespace's ServiceAccount `default`.
    """

    @overload
    def __call__(
        self, *, namespace: str | None = None, as_model: None = None, **options: Unpack[WaitOptions]
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForKubeRootCa(Protocol):
    """The type of the fixture `wait_for_kube_root_ca`.

    It waits for the namespace's config map with the cluster's root CA.
    """

    @overload
    def __call__(
        self, *, namespace: str | None = None, as_model: None = None, **options: Unpack[WaitOptions]
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForWebhookReady(Protocol):
    """The type of the fixture `wait_for_webhook_ready`.

    It waits for admission webhooks that answer, shown by a dry run.
    """

    @overload
    def __call__(
        self,
        target: str | KubernetesObject,
        probe: Mapping[str, Any] | None = None,
        *,
        denial: str | None = None,
        mutation: Mapping[str, Any] | None = None,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        target: str | KubernetesObject,
        probe: Mapping[str, Any] | None = None,
        *,
        denial: str | None = None,
        mutation: Mapping[str, Any] | None = None,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForDaemonSetRunningOnAllNodes(Protocol):
    """The type of the fixture `wait_for_daemon_set_running_on_all_nodes`.

    It waits for a daemon set's one available pod on each eligible node.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForDaemonSetPodsOnNodes(Protocol):
    """The type of the fixture `wait_for_daemon_set_pods_on_nodes`.

    It waits for a daemon set's one available pod on each of these nodes alone.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        nodes: KubernetesObjects,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        nodes: KubernetesObjects,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForDaemonSetPresentOnNodes(Protocol):
    """The type of the fixture `wait_for_daemon_set_present_on_nodes`.

    It waits for a daemon set's one started pod on each of an exact number of nodes.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForDaemonSetStatus(Protocol):
    """The type of the fixture `wait_for_daemon_set_status`.

    It waits for a daemon set whose status has all pods scheduled and ready.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForDaemonSets(Protocol):
    """The type of the fixture `wait_for_daemon_sets`.

    It waits for all daemon sets of a namespace, except a few pods of each.
    """

    @overload
    def __call__(
        self,
        allowed_not_ready: int = 0,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        allowed_not_ready: int = 0,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForDeploymentComplete(Protocol):
    """The type of the fixture `wait_for_deployment_complete`.

    It waits for a deployment whose pods are all updated and available.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForDeploymentCompleteAndCheckRolling(Protocol):
    """The type of the fixture `wait_for_deployment_complete_and_check_rolling`.

    It waits for a complete deployment, within the bounds of its rolling update at every step.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForDeploymentRevisionAndImage(Protocol):
    """The type of the fixture `wait_for_deployment_revision_and_image`.

    It waits for a deployment and its replica set at a revision, with an image.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        revision: int | str,
        image: str,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        revision: int | str,
        image: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForDeploymentUpdatedReplicasGte(Protocol):
    """The type of the fixture `wait_for_deployment_updated_replicas_gte`.

    It waits for a deployment with enough updated pods.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        min_count: int,
        generation: int | None = None,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        min_count: int,
        generation: int | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForDeploymentWithCondition(Protocol):
    """The type of the fixture `wait_for_deployment_with_condition`.

    It waits for a deployment with a condition that has a reason.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        reason: str,
        condition: str,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        reason: str,
        condition: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForObservedDeployment(Protocol):
    """The type of the fixture `wait_for_observed_deployment`.

    It waits for a deployment whose controller has observed a generation.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        generation: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        generation: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForEndpointCount(Protocol):
    """The type of the fixture `wait_for_endpoint_count`.

    It waits for a service with an exact number of endpoints.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForEndpointPods(Protocol):
    """The type of the fixture `wait_for_endpoint_pods`.

    It waits for a service with endpoints at exactly these pods.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        pods: KubernetesObjects,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        pods: KubernetesObjects,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForEndpointPorts(Protocol):
    """The type of the fixture `wait_for_endpoint_ports`.

    It waits for a service with endpoints at exactly these ports of pods.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        ports: Mapping[str, Sequence[int | str]],
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        ports: Mapping[str, Sequence[int | str]],
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForEndpointOnNode(Protocol):
    """The type of the fixture `wait_for_endpoint_on_node`.

    It waits for a service with ready endpoints on one node.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        node: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        node: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForEndpointSlices(Protocol):
    """The type of the fixture `wait_for_endpoint_slices`.

    It waits for a service whose EndpointSlices a callable accepts.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        condition: Callable[[list[dict[str, Any]]], Any],
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        condition: Callable[[list[dict[str, Any]]], Any],
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForEvent(Protocol):
    """The type of the fixture `wait_for_event`.

    It waits for an event with a reason, with words in its message, about an object.
    """

    @overload
    def __call__(
        self,
        reason: str | None = None,
        message: str | None = None,
        *,
        about: str | KubernetesObject | None = None,
        type: str | None = None,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        reason: str | None = None,
        message: str | None = None,
        *,
        about: str | KubernetesObject | None = None,
        type: str | None = None,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForJobPodsRunning(Protocol):
    """The type of the fixture `wait_for_job_pods_running`.

    It waits for an exact number of a job's pods in phase Running.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForJobPodsSucceeded(Protocol):
    """The type of the fixture `wait_for_job_pods_succeeded`.

    It waits for an exact number of a job's pods in phase Succeeded.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForJobFinish(Protocol):
    """The type of the fixture `wait_for_job_finish`.

    It waits for a job that is complete or has failed.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForJobComplete(Protocol):
    """The type of the fixture `wait_for_job_complete`: wait for a job that is complete."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        reason: str | None = None,
        completions: int | None = None,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        reason: str | None = None,
        completions: int | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForJobFailed(Protocol):
    """The type of the fixture `wait_for_job_failed`: wait for a job that has failed."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForJobReady(Protocol):
    """The type of the fixture `wait_for_job_ready`.

    It waits for a job whose status has an exact number of ready pods.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForJobSuspend(Protocol):
    """The type of the fixture `wait_for_job_suspend`: wait for a job that is suspended."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForJobCondition(Protocol):
    """The type of the fixture `wait_for_job_condition`.

    It waits for a job with a condition that is True.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        condition: str,
        reason: str | None = None,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        condition: str,
        reason: str | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForJobState(Protocol):
    """The type of the fixture `wait_for_job_state`: wait for a job that a callable accepts."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        state: Callable[[dict[str, Any]], Any],
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        state: Callable[[dict[str, Any]], Any],
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


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
    """The type of the fixture `wait_for_pods_running_on_nodes`.

    It waits for an exact number of running pods, as kubelets report them.
    """

    @overload
    def __call__(
        self,
        nodes: KubernetesObjects,
        count: int,
        prefix: str = "",
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        nodes: KubernetesObjects,
        count: int,
        prefix: str = "",
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForPodsOnMinions(Protocol):
    """The type of the fixture `wait_for_pods_on_minions`.

    It waits for pods that are known to the agents of their hosts.
    """

    @overload
    def __call__(
        self,
        controller: str | KubernetesObject | None = None,
        *,
        selector: Selector | None = None,
        pods: KubernetesObjects | None = None,
        pod_info: PodInfo | None = None,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        controller: str | KubernetesObject | None = None,
        *,
        selector: Selector | None = None,
        pods: KubernetesObjects | None = None,
        pod_info: PodInfo | None = None,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForNodeReady(Protocol):
    """The type of the fixture `wait_for_node_ready`: wait for a node that is ready."""

    @overload
    def __call__(
        self, name: str | KubernetesObject, *, as_model: None = None, **options: Unpack[WaitOptions]
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForNodeNotReady(Protocol):
    """The type of the fixture `wait_for_node_not_ready`: wait for a node that is not ready."""

    @overload
    def __call__(
        self, name: str | KubernetesObject, *, as_model: None = None, **options: Unpack[WaitOptions]
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForNodeCondition(Protocol):
    """The type of the fixture `wait_for_node_condition`.

    It waits for a node with a condition that is True, or is not.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        condition: str,
        status: bool = True,
        *,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        condition: str,
        status: bool = True,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForNodeSchedulable(Protocol):
    """The type of the fixture `wait_for_node_schedulable`.

    It waits for a node that takes pods, or takes none.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        schedulable: bool = True,
        *,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        schedulable: bool = True,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForNodeHeartbeatAfter(Protocol):
    """The type of the fixture `wait_for_node_heartbeat_after`.

    It waits for a node whose last heartbeat is later.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        after: datetime | str,
        *,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        after: datetime | str,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForAllNodesSchedulable(Protocol):
    """The type of the fixture `wait_for_all_nodes_schedulable`.

    It waits for nodes that take pods, all but a few.
    """

    @overload
    def __call__(
        self,
        allowed_not_ready: int = 0,
        non_blocking_taints: Sequence[str] = ("node-role.kubernetes.io/control-plane",),
        *,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        allowed_not_ready: int = 0,
        non_blocking_taints: Sequence[str] = ("node-role.kubernetes.io/control-plane",),
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForNodesReady(Protocol):
    """The type of the fixture `wait_for_nodes_ready`.

    It waits for an exact number of uncordoned nodes, all ready.
    """

    @overload
    def __call__(
        self, count: int, *, as_model: None = None, **options: Unpack[WaitOptions]
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self, count: int, *, as_model: type[_Model], **options: Unpack[WaitOptions]
    ) -> list[_Model]: ...


class WaitForTotalHealthy(Protocol):
    """The type of the fixture `wait_for_total_healthy`.

    It waits for nodes that are all ready and run what they must.
    """

    @overload
    def __call__(
        self,
        required_pods: Sequence[str] = (),
        system_namespace: str = "kube-system",
        *,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        required_pods: Sequence[str] = (),
        system_namespace: str = "kube-system",
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


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
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        target: str | KubernetesObject,
        condition: ConditionInput | HeldPredicate,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
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
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        target: str,
        condition: ConditionInput | HeldPredicate,
        *,
        selector: Selector,
        count: int | Count | None = None,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForRolloutStatus(Protocol):
    """The type of the fixture `wait_for_rollout_status`.

    It waits for a deployment, daemon set or stateful set rolled out by kubectl's rules.
    """

    @overload
    def __call__(
        self,
        target: str | KubernetesObject,
        revision: int | None = None,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        target: str | KubernetesObject,
        revision: int | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForContainerStarted(Protocol):
    """The type of the fixture `wait_for_container_started`.

    It waits for a container that has passed its startup probe.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        container: str,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        container: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForContainerRunning(Protocol):
    """The type of the fixture `wait_for_container_running`: wait for a container that runs."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        container: str,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        container: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForContainerTerminated(Protocol):
    """The type of the fixture `wait_for_container_terminated`.

    It waits for a container that has ended.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        container: str,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        container: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForContainerToFail(Protocol):
    """The type of the fixture `wait_for_container_to_fail`.

    It waits for a container that waits for a reason.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        container: str,
        reason: str,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        container: str,
        reason: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForNumberOfPods(Protocol):
    """The type of the fixture `wait_for_number_of_pods`: wait for an exact number of pods."""

    @overload
    def __call__(
        self,
        count: int,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        count: int,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForPodsRunning(Protocol):
    """The type of the fixture `wait_for_pods_running`.

    It waits for an exact number of pods that are Running and ready.
    """

    @overload
    def __call__(
        self,
        count: int,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        count: int,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForPodsSchedulingGated(Protocol):
    """The type of the fixture `wait_for_pods_scheduling_gated`.

    It waits for an exact number of pods behind scheduling gates.
    """

    @overload
    def __call__(
        self,
        count: int,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        count: int,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForPodsWithSchedulingGates(Protocol):
    """The type of the fixture `wait_for_pods_with_scheduling_gates`.

    It waits for an exact number of pods with exactly these gates.
    """

    @overload
    def __call__(
        self,
        count: int,
        gates: Sequence[str],
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        count: int,
        gates: Sequence[str],
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForPodsWithLabel(Protocol):
    """The type of the fixture `wait_for_pods_with_label`: wait for a pod with a label."""

    @overload
    def __call__(
        self,
        selector: Selector,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        selector: Selector,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForPodsWithLabelScheduled(Protocol):
    """The type of the fixture `wait_for_pods_with_label_scheduled`.

    It waits for pods with a label, all with a node.
    """

    @overload
    def __call__(
        self,
        selector: Selector,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        selector: Selector,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForPodsWithLabelRunning(Protocol):
    """The type of the fixture `wait_for_pods_with_label_running`.

    It waits for enough pods with a label, all in phase Running.
    """

    @overload
    def __call__(
        self,
        selector: Selector,
        count: int = 1,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        selector: Selector,
        count: int = 1,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForPodsWithLabelRunningReady(Protocol):
    """The type of the fixture `wait_for_pods_with_label_running_ready`.

    It waits for enough pods with a label, all Running and ready.
    """

    @overload
    def __call__(
        self,
        selector: Selector,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        selector: Selector,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForPodsRunningReady(Protocol):
    """The type of the fixture `wait_for_pods_running_ready`.

    It waits for enough pods Running and ready, and few that are not.
    """

    @overload
    def __call__(
        self,
        min_count: int,
        allowed_not_ready: int = 0,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        min_count: int,
        allowed_not_ready: int = 0,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForAlmostAllPodsReady(Protocol):
    """The type of the fixture `wait_for_almost_all_pods_ready`.

    It waits for enough pods Running and ready, and few replicas missing.
    """

    @overload
    def __call__(
        self,
        min_count: int,
        allowed_not_ready: int = 0,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        min_count: int,
        allowed_not_ready: int = 0,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForPodsResponding(Protocol):
    """The type of the fixture `wait_for_pods_responding`.

    It waits for pods that answer through the API server's proxy.
    """

    @overload
    def __call__(
        self,
        *,
        selector: Selector | None = None,
        pods: KubernetesObjects | None = None,
        want_name: bool = False,
        port: int | None = None,
        path: str = "",
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        *,
        selector: Selector | None = None,
        pods: KubernetesObjects | None = None,
        want_name: bool = False,
        port: int | None = None,
        path: str = "",
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForPodCondition(Protocol):
    """The type of the fixture `wait_for_pod_condition`: wait for a pod that a callable accepts."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        description: str,
        condition: Callable[[dict[str, Any]], bool | Verdict],
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        description: str,
        condition: Callable[[dict[str, Any]], bool | Verdict],
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPodRunning(Protocol):
    """The type of the fixture `wait_for_pod_running`: wait for a pod in phase Running."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPodReady(Protocol):
    """The type of the fixture `wait_for_pod_ready`: wait for a pod that is Running and ready."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPodRunningReady(Protocol):
    """The type of the fixture `wait_for_pod_running_ready`.

    It waits for a pod that is Running and ready.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPodSuccess(Protocol):
    """The type of the fixture `wait_for_pod_success`: wait for a pod in phase Succeeded."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPodNoLongerRunning(Protocol):
    """The type of the fixture `wait_for_pod_no_longer_running`.

    It waits for a pod in phase Succeeded or Failed.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPodTerminated(Protocol):
    """The type of the fixture `wait_for_pod_terminated`.

    It waits for a pod that failed with a reason, or without any.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        reason: str,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        reason: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPodFailedReason(Protocol):
    """The type of the fixture `wait_for_pod_failed_reason`.

    It waits for a pod that failed with a reason.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        reason: str,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        reason: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPodNotPending(Protocol):
    """The type of the fixture `wait_for_pod_not_pending`.

    It waits for a pod in any phase but Pending.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPodScheduled(Protocol):
    """The type of the fixture `wait_for_pod_scheduled`: wait for a pod that has a node."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPodUnschedulable(Protocol):
    """The type of the fixture `wait_for_pod_unschedulable`.

    It waits for a pod that no node can take.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPodTerminating(Protocol):
    """The type of the fixture `wait_for_pod_terminating`: wait for a pod that is being deleted."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


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
    """The type of the fixture `wait_for_pod_observed_generation`.

    It waits for a pod whose kubelet has observed a generation.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        generation: int,
        condition: str | None = None,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        generation: int,
        condition: str | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForControlledPods(Protocol):
    """The type of the fixture `wait_for_controlled_pods`: wait for a pod of any controller."""

    @overload
    def __call__(
        self,
        target: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        target: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForControlledPodsRunning(Protocol):
    """The type of the fixture `wait_for_controlled_pods_running`.

    It waits for all pods of any controller in phase Running.
    """

    @overload
    def __call__(
        self,
        target: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        target: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForRcPodsRunning(Protocol):
    """The type of the fixture `wait_for_rc_pods_running`.

    It waits for a replication controller's exact number of pods in phase Running.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForRcToStabilize(Protocol):
    """The type of the fixture `wait_for_rc_to_stabilize`.

    It waits for a replication controller whose status has its desired number of pods.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForReadyReplicaSet(Protocol):
    """The type of the fixture `wait_for_ready_replica_set`.

    It waits for a replica set whose pods are all ready.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForReplicaSetTargetAvailableReplicas(Protocol):
    """The type of the fixture `wait_for_replica_set_target_available_replicas`.

    It waits for a replica set with an exact number of available pods.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForReplicaSetTargetSpecReplicas(Protocol):
    """The type of the fixture `wait_for_replica_set_target_spec_replicas`.

    It waits for a replica set whose spec has an exact number of replicas.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForReplicaSetDesiredReplicas(Protocol):
    """The type of the fixture `wait_for_replica_set_desired_replicas`.

    It waits for a replica set with its desired number of pods.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForObservedReplicaSet(Protocol):
    """The type of the fixture `wait_for_observed_replica_set`.

    It waits for a replica set whose controller has observed a generation.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        generation: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        generation: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForLoadBalancer(Protocol):
    """The type of the fixture `wait_for_load_balancer`.

    It waits for a service whose load balancer has an address.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForNewIngressIp(Protocol):
    """The type of the fixture `wait_for_new_ingress_ip`.

    It waits for a service whose load balancer has another address.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        existing_ip: str,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        existing_ip: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForLoadBalancerDestroy(Protocol):
    """The type of the fixture `wait_for_load_balancer_destroy`.

    It waits for a service without load balancer.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model | None: ...


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
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        present: Literal[True] = True,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
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
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        present: Literal[True] = True,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
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
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model | None: ...


class WaitForServiceReachable(Protocol):
    """The type of the fixture `wait_for_service_reachable`.

    It waits for a service behind which a pod answers anything.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        port: int | str | None = None,
        path: str = "",
        scheme: str = "http",
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        port: int | str | None = None,
        path: str = "",
        scheme: str = "http",
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForServiceResponding(Protocol):
    """The type of the fixture `wait_for_service_responding`.

    It waits for a service that answers with success.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        port: int | str | None = None,
        path: str = "",
        scheme: str = "http",
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        port: int | str | None = None,
        path: str = "",
        scheme: str = "http",
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForStatefulSetRunning(Protocol):
    """The type of the fixture `wait_for_stateful_set_running`.

    It waits for a stateful set with an exact number of running pods, the first of them ready.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        ready_count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        ready_count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForStatefulSetRunningAndReady(Protocol):
    """The type of the fixture `wait_for_stateful_set_running_and_ready`.

    It waits for a stateful set's exact number of pods, all Running and ready.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


class WaitForStatefulSetPodReady(Protocol):
    """The type of the fixture `wait_for_stateful_set_pod_ready`.

    It waits for one pod of a stateful set that is Running and ready.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        pod: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        pod: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForStatefulSetStatusReplicas(Protocol):
    """The type of the fixture `wait_for_stateful_set_status_replicas`.

    It waits for a stateful set whose status has an exact number of pods.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForStatefulSetStatusReadyReplicas(Protocol):
    """The type of the fixture `wait_for_stateful_set_status_ready_replicas`.

    It waits for a stateful set whose status has an exact number of ready pods.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForStatefulSetStatusAvailableReplicas(Protocol):
    """The type of the fixture `wait_for_stateful_set_status_available_replicas`.

    It waits for a stateful set whose status has an exact number of available pods.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPersistentVolumeClaimPhase(Protocol):
    """The type of the fixture `wait_for_persistent_volume_claim_phase`.

    It waits for a claim in a phase.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        phase: str,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        phase: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPersistentVolumeClaimsPhase(Protocol):
    """The type of the fixture `wait_for_persistent_volume_claims_phase`.

    It waits for claims in a phase, all of them or any.
    """

    @overload
    def __call__(
        self,
        claims: KubernetesObjects,
        phase: str,
        match_any: bool = False,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def __call__(
        self,
        claims: KubernetesObjects,
        phase: str,
        match_any: bool = False,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...


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
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: Literal[True] = True,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
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
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model | None: ...


class WaitForPersistentVolumeClaimModified(Protocol):
    """The type of the fixture `wait_for_persistent_volume_claim_modified`.

    It waits for a claim with its requested class of volume attributes.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForPersistentVolumeClaimModificationFailure(Protocol):
    """The type of the fixture `wait_for_persistent_volume_claim_modification_failure`.

    It waits for a claim whose requested class of volume attributes was refused.
    """

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


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
    """The type of the fixture `wait_for_persistent_volume_phase`: wait for a volume in a phase."""

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        phase: str,
        *,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        phase: str,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


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
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: Literal[True] = True,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: bool,
        *,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: bool,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model | None: ...


class WaitForVolumeAttachmentCreated(Protocol):
    """The type of the fixture `wait_for_volume_attachment_created`.

    It waits for a VolumeAttachment that is there.
    """

    @overload
    def __call__(
        self, name: str | KubernetesObject, *, as_model: None = None, **options: Unpack[WaitOptions]
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForVolumeAttachmentAttached(Protocol):
    """The type of the fixture `wait_for_volume_attachment_attached`.

    It waits for a VolumeAttachment whose volume is attached.
    """

    @overload
    def __call__(
        self, name: str | KubernetesObject, *, as_model: None = None, **options: Unpack[WaitOptions]
    ) -> dict[str, Any]: ...

    @overload
    def __call__(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...


class WaitForVolumeAttachmentTerminated(Protocol):
    """The type of the fixture `wait_for_volume_attachment_terminated`."""

    def __call__(
        self, name: str | KubernetesObject, uid: str | None = None, **options: Unpack[WaitOptions]
    ) -> None:
        """Wait for a VolumeAttachment that is gone, by its UID."""
        ...
