"""The registry of waits: fixtures, markers and documentation are generated from it.

A row is name, arguments after client (and namespace, for namespaced waits), summary, module and
default limit. The condition is made by the function of the same module that has the wait's name
without `wait_for_`.

Reading the registry imports no wait: a wait's module is imported when its function is first
used.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "CLAIM_WAITS",
    "CLUSTER_WAITS",
    "JOB_WAITS",
    "NAMESPACE_WAITS",
    "NODE_POD_WAITS",
    "NODE_WAITS",
    "POD_WAITS",
    "SERVICE_WAITS",
    "SET_WAITS",
    "VERBS",
    "VERB_ROWS",
    "VOLUME_WAITS",
    "WAITS",
    "WORKLOAD_WAITS",
    "Wait",
]

CLUSTER_WAITS = (
    (
        "wait_for_namespaces_deleted",
        "namespaces",
        "namespaces that are gone, by their UIDs",
        "cluster.namespaces",
        "namespace_deletion",
    ),
    (
        "wait_for_api_server_healthy",
        "",
        "an API server that says it is ready",
        "cluster.api_server",
        "api_server",
    ),
    (
        "wait_for_authz_update",
        "user, attributes, allowed=True, *, groups=()",
        "a user who is allowed something, by resource attributes, or is not",
        "cluster.authorization",
        "authorization",
    ),
    (
        "wait_for_crd_established",
        "crd",
        "a definition that is established, and whose versions are served",
        "cluster.crds",
        "crd",
    ),
    (
        "wait_for_api_service_available",
        "api_service",
        "an APIService that is available",
        "cluster.api_server",
        "api_service",
    ),
)
"""Rows of the catalogue."""

NAMESPACE_WAITS = (
    (
        "wait_for_default_service_account",
        "",
        "the namespace's ServiceAccount `default`",
        "cluster.namespaces",
        "service_account_provision",
    ),
    (
        "wait_for_kube_root_ca",
        "",
        "the namespace's config map with the cluster's root CA",
        "cluster.namespaces",
        "service_account_provision",
    ),
    (
        "wait_for_event",
        "reason=None, message=None, *, about=None, type=None",
        "an event with a reason, with words in its message, about an object",
        "events",
        "pod_event",
    ),
    (
        "wait_for_authorization_update",
        "user, verb, resource, allowed=True, *, groups=(), all_namespaces=False",
        "a user who may do something with a kind, or may not",
        "cluster.authorization",
        "authorization",
    ),
    (
        "wait_for_named_authorization_update",
        "user, verb, resource, name, allowed=True, *, groups=()",
        "a user who may do something with one object, or may not",
        "cluster.authorization",
        "authorization",
    ),
    (
        "wait_for_webhook_ready",
        "webhook, probe=None, *, denial=None, mutation=None",
        "admission webhooks that answer, shown by a dry run",
        "cluster.webhooks",
        "webhook",
    ),
    (
        "wait_for_hpa_replicas",
        "hpa, min_replicas, max_replicas=None",
        "an autoscaler whose replicas lie in a range",
        "cluster.hpa",
        "autoscaling",
    ),
)
"""Rows of the catalogue."""


JOB_WAITS = (
    (
        "wait_for_job_ready",
        "job, ready",
        "a job that counts an exact number of ready pods",
        "job.wait",
        "job",
    ),
    ("wait_for_job_suspend", "job", "a job that is suspended", "job.wait", "job"),
    (
        "wait_for_job_condition",
        "job, condition, reason=None",
        "a job of which a condition is True",
        "job.wait",
        "job",
    ),
    (
        "wait_for_job_state",
        "job, state",
        "a job that a callable says is as awaited",
        "job.wait",
        "job",
    ),
    ("wait_for_job_gone", "job, uid=None", "a job that is gone, by its UID", "job.wait", "job"),
    (
        "wait_for_all_job_pods_gone",
        "job, uid=None",
        "a job of which no pod is left",
        "job.wait",
        "job",
    ),
)
"""Rows of the catalogue."""


NODE_WAITS = (
    (
        "wait_for_node_ready",
        "node",
        "a node that is ready",
        "node.wait",
        "restart_node_ready_again",
    ),
    (
        "wait_for_node_not_ready",
        "node",
        "a node that is not ready",
        "node.wait",
        "node_not_ready",
    ),
    (
        "wait_for_node_condition",
        "node, condition, wanted=True",
        "a node of which a condition is True, or is not",
        "node.wait",
        "node_not_ready",
    ),
    (
        "wait_for_node_schedulable",
        "node, want_schedulable=True",
        "a node that takes pods, or takes none",
        "node.wait",
        "node_schedulable",
    ),
    (
        "wait_for_node_heartbeat_after",
        "node, after",
        "a node whose last heartbeat is later",
        "node.wait",
        "nodes_ready",
    ),
    (
        "wait_for_all_nodes_schedulable",
        "allowed_not_ready=0, non_blocking_taints=('node-role.kubernetes.io/control-plane',)",
        "nodes that take pods, all but a few",
        "node.wait",
        "node_schedulable",
    ),
    (
        "wait_for_nodes_ready",
        "count",
        "an exact number of uncordoned nodes, all ready",
        "node.wait",
        "nodes_ready",
    ),
    (
        "wait_for_total_healthy",
        "required_pods=(), system_namespace='kube-system'",
        "nodes that are all ready and run what they must",
        "node.wait",
        "nodes_ready",
    ),
)
"""Rows of the catalogue."""

NODE_POD_WAITS = (
    (
        "wait_for_pods_running_on_nodes",
        "nodes, count, prefix=''",
        "an exact number of pods that kubelets say they run",
        "node.kubelet_pods",
        "pod_start",
    ),
)
"""Rows of the catalogue."""


POD_WAITS = (
    (
        "wait_for_pod_condition",
        "pod, description, condition",
        "a pod that a callable says is as awaited",
        "pod.wait",
        "pod",
    ),
    (
        "wait_for_pod_running",
        "pod",
        "a pod in phase Running",
        "pod.wait",
        "pod",
    ),
    (
        "wait_for_pod_ready",
        "pod",
        "a pod that is Running and ready",
        "pod.wait",
        "pod_start",
    ),
    (
        "wait_for_pod_running_ready",
        "pod",
        "a pod that is Running and ready",
        "pod.wait",
        "pod",
    ),
    (
        "wait_for_pod_success",
        "pod",
        "a pod in phase Succeeded",
        "pod.wait",
        "pod",
    ),
    (
        "wait_for_pod_no_longer_running",
        "pod",
        "a pod in phase Succeeded or Failed",
        "pod.wait",
        "pod",
    ),
    (
        "wait_for_pod_terminated",
        "pod, reason",
        "a pod that failed with a reason, or without any",
        "pod.wait",
        "pod",
    ),
    (
        "wait_for_pod_failed_reason",
        "pod, reason",
        "a pod that failed with a reason",
        "pod.wait",
        "pod",
    ),
    (
        "wait_for_pod_not_pending",
        "pod",
        "a pod in any phase but Pending",
        "pod.wait",
        "pod",
    ),
    (
        "wait_for_pod_scheduled",
        "pod",
        "a pod that has a node",
        "pod.wait",
        "pod_scheduled_before",
    ),
    (
        "wait_for_pod_unschedulable",
        "pod",
        "a pod that no node can take",
        "pod.wait",
        "pod",
    ),
    (
        "wait_for_pod_terminating",
        "pod",
        "a pod that is being deleted",
        "pod.wait",
        "pod_delete",
    ),
    (
        "wait_for_pod_not_found",
        "pod, uid=None",
        "a pod that is gone, by its UID",
        "pod.wait",
        "pod_delete",
    ),
    (
        "wait_for_pod_observed_generation",
        "pod, expected_generation, condition=None",
        "a pod of which a generation has been observed",
        "pod.wait",
        "pod",
    ),
    (
        "wait_for_container_started",
        "pod, container",
        "a container that has passed its startup probe",
        "pod.containers",
        "pod",
    ),
    (
        "wait_for_container_running",
        "pod, container",
        "a container that runs",
        "pod.containers",
        "pod",
    ),
    (
        "wait_for_container_terminated",
        "pod, container",
        "a container that has ended",
        "pod.containers",
        "pod",
    ),
    (
        "wait_for_container_to_fail",
        "pod, container, reason",
        "a container that waits for a reason",
        "pod.containers",
        "pod",
    ),
    (
        "wait_for_number_of_pods",
        "count, *, selector=None",
        "an exact number of pods",
        "pod.list_wait",
        "pod_scheduled_before",
    ),
    (
        "wait_for_pods_running",
        "count, *, selector=None",
        "an exact number of pods that are Running and ready",
        "pod.list_wait",
        "pod",
    ),
    (
        "wait_for_pods_scheduling_gated",
        "count, *, selector=None",
        "an exact number of pods behind scheduling gates",
        "pod.list_wait",
        "pod",
    ),
    (
        "wait_for_pods_with_scheduling_gates",
        "count, gates, *, selector=None",
        "an exact number of pods with exactly these gates",
        "pod.list_wait",
        "pod",
    ),
    (
        "wait_for_pods_with_label",
        "selector",
        "a pod with a label",
        "pod.list_wait",
        "pods_list",
    ),
    (
        "wait_for_pods_with_label_scheduled",
        "selector",
        "pods with a label, all with a node",
        "pod.list_wait",
        "pod_scheduled_before",
    ),
    (
        "wait_for_pods_with_label_running",
        "selector, count=1",
        "enough pods with a label, all in phase Running",
        "pod.list_wait",
        "pod",
    ),
    (
        "wait_for_pods_with_label_running_ready",
        "selector, count",
        "enough pods with a label, all Running and ready",
        "pod.list_wait",
        "pod",
    ),
    (
        "wait_for_pods_running_ready",
        "min_pods, allowed_not_ready=0, *, selector=None",
        "enough pods Running and ready, and few that are not",
        "pod.list_wait",
        "pod",
    ),
    (
        "wait_for_almost_all_pods_ready",
        "min_pods, allowed_not_ready=0",
        "the same, and few replicas missing",
        "pod.list_wait",
        "system_pods_startup",
    ),
    (
        "wait_for_pods_responding",
        "*, selector=None, pods=None, want_name=False, port=None, path=''",
        "pods that answer through the API server's proxy",
        "pod.responding",
        "pod_responding",
    ),
)
"""Rows of the catalogue."""


SERVICE_WAITS = (
    (
        "wait_for_endpoint_count",
        "service, expected_count",
        "a service with an exact number of endpoints",
        "endpoints.wait",
        "endpoint_slice",
    ),
    (
        "wait_for_endpoint_pods",
        "service, pods",
        "a service with endpoints at exactly these pods",
        "endpoints.wait",
        "endpoint_slice",
    ),
    (
        "wait_for_endpoint_ports",
        "service, ports",
        "a service with endpoints at exactly these ports of pods",
        "endpoints.wait",
        "endpoint_slice",
    ),
    (
        "wait_for_endpoint_on_node",
        "service, node",
        "a service with ready endpoints on one node",
        "endpoints.wait",
        "kube_proxy_lag",
    ),
    (
        "wait_for_endpoint_slices",
        "service, condition",
        "a service of whose EndpointSlices a callable says that they are as awaited",
        "endpoints.wait",
        "endpoint_slice",
    ),
    (
        "wait_for_service_reachable",
        "service, port=None, path='', scheme='http'",
        "a service behind which a pod answers anything",
        "service.reachability",
        "service_reachability",
    ),
    (
        "wait_for_service_responding",
        "service, port=None, path='', scheme='http'",
        "a service that answers with success",
        "service.reachability",
        "service_responding",
    ),
    (
        "wait_for_service",
        "service, exist=True",
        "a service that is there, or gone",
        "service.wait",
        "service_start",
    ),
    (
        "wait_for_load_balancer",
        "service",
        "a service whose load balancer has an address",
        "service.wait",
        "load_balancer_create",
    ),
    (
        "wait_for_new_ingress_ip",
        "service, existing_ip",
        "a service whose load balancer has another address",
        "service.wait",
        "load_balancer_create",
    ),
    (
        "wait_for_load_balancer_destroy",
        "service",
        "a service without load balancer",
        "service.wait",
        "load_balancer_cleanup",
    ),
    (
        "wait_for_service_updated_with_finalizer",
        "service, has_finalizer=True",
        "a service with the load balancer's finalizer, or without",
        "service.wait",
        "load_balancer_create",
    ),
    (
        "wait_for_service_deleted_with_finalizer",
        "service, uid=None",
        "a service that is gone, by its UID",
        "service.wait",
        "load_balancer_create",
    ),
)
"""Rows of the catalogue."""


SET_WAITS = (
    (
        "wait_for_stateful_set_running",
        "stateful_set, pods_running, pods_ready",
        "a stateful set of which so many pods run, the first of them ready",
        "statefulset.wait",
        "stateful_set",
    ),
    (
        "wait_for_stateful_set_running_and_ready",
        "stateful_set, count",
        "a stateful set's exact number of pods, all Running and ready",
        "statefulset.wait",
        "stateful_set",
    ),
    (
        "wait_for_stateful_set_pod_ready",
        "stateful_set, pod",
        "one pod of a stateful set that is Running and ready",
        "statefulset.wait",
        "stateful_set",
    ),
    (
        "wait_for_stateful_set_status_replicas",
        "stateful_set, count",
        "a stateful set that counts so many pods",
        "statefulset.wait",
        "stateful_set",
    ),
    (
        "wait_for_stateful_set_status_ready_replicas",
        "stateful_set, count",
        "a stateful set that counts so many ready pods",
        "statefulset.wait",
        "stateful_set",
    ),
    (
        "wait_for_stateful_set_status_available_replicas",
        "stateful_set, count",
        "a stateful set that counts so many available pods",
        "statefulset.wait",
        "stateful_set",
    ),
    (
        "wait_for_daemon_set_running_on_all_nodes",
        "daemon_set",
        "a daemon set's one available pod on each node that it is to run on",
        "daemonset",
        "pod_start",
    ),
    (
        "wait_for_daemon_set_pods_on_nodes",
        "daemon_set, nodes",
        "a daemon set's one available pod on each of these nodes alone",
        "daemonset",
        "pod_start",
    ),
    (
        "wait_for_daemon_set_present_on_nodes",
        "daemon_set, count",
        "a daemon set's one started pod on each of so many nodes",
        "daemonset",
        "pod_start",
    ),
    (
        "wait_for_daemon_set_status",
        "daemon_set",
        "a daemon set that counts all its pods as scheduled and ready",
        "daemonset",
        "pod_start",
    ),
    (
        "wait_for_daemon_sets",
        "allowed_not_ready=0",
        "all daemon sets of a namespace, but for a few pods of each",
        "daemonset",
        "system_daemonset_startup",
    ),
    (
        "wait_for_controlled_pods",
        "controller",
        "a pod of any controller",
        "rc",
        "controlled_pods",
    ),
    (
        "wait_for_controlled_pods_running",
        "controller",
        "all pods of any controller in phase Running",
        "rc",
        "controlled_pods",
    ),
    (
        "wait_for_rc_pods_running",
        "rc, count",
        "a replication controller's exact number of pods in phase Running",
        "rc",
        "controlled_pods",
    ),
    (
        "wait_for_rc_to_stabilize",
        "rc",
        "a replication controller that counts as many pods as it is to have",
        "rc",
        "controlled_pods",
    ),
)
"""Rows of the catalogue."""

VERB_ROWS = (
    ("scale", "target, replicas", "what it has scaled", "operations.scale", "controlled_pods"),
    ("restart", "target", "what it has restarted", "operations.rollout", "deployment"),
    (
        "rolling_update",
        "target, update_period=60.0, *, strict=False, within=None",
        "pods in the place of those it has deleted",
        "operations.rolling_update",
        "rolling_update",
    ),
    (
        "delete_and_wait",
        "target, *, grace_period=None, propagation='Background'",
        "what it has deleted",
        "operations.delete",
        "pod_deletion",
    ),
    (
        "wait_for_gone",
        "resource, name, uid",
        "what is to go",
        "operations.delete",
        "pod_client_deletion",
    ),
    ("wait_for_created", "made, condition=None", "what was created", "operations.create", "pod"),
)
"""Rows of the same shape of what does something first; no fixture and no marker is made of them."""


CLAIM_WAITS = (
    (
        "wait_for_persistent_volume_claim_phase",
        "claim, phase",
        "a claim in a phase",
        "storage.claims",
        "claim_bound",
    ),
    (
        "wait_for_persistent_volume_claims_phase",
        "claims, phase, match_any=False",
        "claims in a phase, all of them or any",
        "storage.claims",
        "claim_bound",
    ),
    (
        "wait_for_persistent_volume_claim_deleted",
        "claim, uid=None",
        "a claim that is gone, by its UID",
        "storage.claims",
        "pv_delete",
    ),
    (
        "wait_for_pvc_finalizer",
        "claim, finalizer, present=True",
        "a claim with a finalizer, or without",
        "storage.claims",
        "claim_bound",
    ),
    (
        "wait_for_persistent_volume_claim_modified",
        "claim",
        "a claim with the class of volume attributes that it asks for",
        "storage.claims",
        "claim_provision",
    ),
    (
        "wait_for_persistent_volume_claim_modification_failure",
        "claim",
        "a claim that was refused that class",
        "storage.claims",
        "claim_provision",
    ),
    (
        "wait_for_pv_and_pvc",
        "volume, claim",
        "a volume and a claim that are bound to each other",
        "storage.persistent_volumes",
        "pv_bound",
    ),
    (
        "wait_for_pv_claim_bound_phase",
        "claims",
        "claims and their volumes, bound to each other",
        "storage.persistent_volumes",
        "claim_provision",
    ),
)
"""Rows of what lives in a namespace."""

VOLUME_WAITS = (
    (
        "wait_for_persistent_volume_phase",
        "volume, phase",
        "a volume in a phase",
        "storage.persistent_volumes",
        "pv_bound",
    ),
    (
        "wait_for_persistent_volume_deleted",
        "volume, uid=None",
        "a volume that is gone, by its UID",
        "storage.persistent_volumes",
        "pv_delete",
    ),
    (
        "wait_for_pv_finalizer",
        "volume, finalizer, present=True",
        "a volume with a finalizer, or without",
        "storage.persistent_volumes",
        "pv_create",
    ),
    (
        "wait_for_volume_attachment_created",
        "attachment",
        "a VolumeAttachment that is there",
        "storage.volume_attachments",
        "pod_start",
    ),
    (
        "wait_for_volume_attachment_attached",
        "attachment",
        "a VolumeAttachment whose volume is attached",
        "storage.volume_attachments",
        "pod_start",
    ),
    (
        "wait_for_volume_attachment_terminated",
        "attachment, uid=None",
        "a VolumeAttachment that is gone, by its UID",
        "storage.volume_attachments",
        "pv_delete",
    ),
)
"""Rows of what lives in the cluster."""


WORKLOAD_WAITS = (
    (
        "wait_for_deployment_complete",
        "deployment",
        "a deployment whose pods are all updated and available",
        "deployment.wait",
        "deployment",
    ),
    (
        "wait_for_deployment_complete_and_check_rolling",
        "deployment",
        "the same, within the bounds of its rolling update at every step",
        "deployment.wait",
        "deployment",
    ),
    (
        "wait_for_deployment_revision_and_image",
        "deployment, revision, image",
        "a deployment and its replica set at a revision, with an image",
        "deployment.wait",
        "deployment",
    ),
    (
        "wait_for_deployment_updated_replicas_gte",
        "deployment, min_updated_replicas, desired_generation=None",
        "a deployment with enough updated pods",
        "deployment.wait",
        "deployment",
    ),
    (
        "wait_for_deployment_with_condition",
        "deployment, reason, condition",
        "a deployment of which a condition has a reason",
        "deployment.wait",
        "deployment",
    ),
    (
        "wait_for_observed_deployment",
        "deployment, desired_generation",
        "a deployment of which a generation has been observed",
        "deployment.wait",
        "deployment_short",
    ),
    (
        "wait_for_ready_replica_set",
        "replica_set",
        "a replica set whose pods are all ready",
        "replicaset",
        "replica_set",
    ),
    (
        "wait_for_replica_set_target_available_replicas",
        "replica_set, target_replicas",
        "a replica set with an exact number of available pods",
        "replicaset",
        "replica_set",
    ),
    (
        "wait_for_replica_set_target_spec_replicas",
        "replica_set, target_replicas",
        "a replica set that is to have an exact number of pods",
        "replicaset",
        "poll_short",
    ),
    (
        "wait_for_replica_set_desired_replicas",
        "replica_set",
        "a replica set with as many pods as it is to have",
        "replicaset",
        "poll_short",
    ),
    (
        "wait_for_observed_replica_set",
        "replica_set, desired_generation",
        "a replica set of which a generation has been observed",
        "replicaset",
        "poll_short",
    ),
    (
        "wait_for_rollout_status",
        "target, revision=None",
        "a deployment, daemon set or stateful set rolled out by kubectl's rules",
        "operations.rollout",
        "deployment",
    ),
)
"""Rows of the catalogue."""


class Wait(NamedTuple):
    """One wait.

    Args:
        name: its name as function, fixture and marker.
        usage: its arguments after client and namespace, for the marker's help.
        summary: what it waits for, as a phrase.
        module: where its function lives.
        timeout: the name in the timeout table of its default limit.
        namespaced: whether the function takes `client, namespace` first; otherwise `client`.
        bound: whether the function takes a client at all; `wait_for_cache_sync` does not, and as
            a marker takes resource names instead of informers.
        condition: the name, in the same module, of the function that makes the condition out of
            the same arguments without any request; None where there is none.
    """

    name: str
    usage: str
    summary: str
    module: str
    timeout: str
    namespaced: bool = True
    bound: bool = True
    condition: str | None = None

    @property
    def function(self) -> Callable[..., Any]:
        """The wait itself; the first use imports its module."""
        return cast("Callable[..., Any]", getattr(import_module(self.module), self.name))

    def check(self, *args: object, **kwargs: object) -> None:
        """Raise what calling the wait with these arguments would refuse before any request.

        Args:
            *args: the arguments after client and namespace.
            **kwargs: the same, and the wait's options.

        Raises:
            InvalidArgument: an argument is missing, unknown or cannot be meant.
        """
        if self.condition is None:
            return
        from pytest_kwait.engine.options import WaitOptions, resolve_options

        options = {name: kwargs.pop(name) for name in WaitOptions.__annotations__ if name in kwargs}
        resolve_options(options, timeout=self.timeout)
        condition: Callable[..., Any] = getattr(import_module(self.module), self.condition)
        first = ("default",) if self.namespaced else ()
        try:
            bound = inspect.signature(condition).bind(*first, *args, **kwargs)
        except TypeError as error:
            given = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
            raise InvalidArgument(
                f"arguments of {self.name}",
                f"({', '.join(given)})",
                f"{error}; use {self.name}({self.usage}) and the options of every wait: "
                f"{', '.join(WaitOptions.__annotations__)}",
            ) from None
        condition(*bound.args, **bound.kwargs)


def _to_waits(
    rows: Iterable[tuple[str, str, str, str, str]], *, namespaced: bool = True
) -> list[Wait]:
    return [
        Wait(
            name,
            usage,
            summary,
            f"pytest_kwait.framework.{module}",
            timeout,
            namespaced=namespaced,
            condition=name.removeprefix("wait_for_"),
        )
        for name, usage, summary, module, timeout in rows
    ]


_JOBS = "pytest_kwait.framework.job.wait"

_WAITS = (
    Wait(
        "wait_for",
        "target, condition, *, selector=None, count=None",
        "any condition on any kind of object",
        "pytest_kwait.framework.objects.wait",
        "wait_for",
        condition="general_condition",
    ),
    Wait(
        "wait_for_cache_sync",
        "*resources",
        "informers that have seen their first list",
        "pytest_kwait.cache",
        "cache_sync",
        namespaced=False,
        bound=False,
    ),
    Wait(
        "wait_for_job_complete",
        "job, reason=None, completions=None",
        "a job that is complete",
        _JOBS,
        "job",
        condition="job_complete",
    ),
    Wait(
        "wait_for_job_failed", "job", "a job that has failed", _JOBS, "job", condition="job_failed"
    ),
    Wait(
        "wait_for_job_finish",
        "job",
        "a job that is complete or has failed",
        _JOBS,
        "job",
        condition="job_finish",
    ),
    Wait(
        "wait_for_job_pods_running",
        "job, expected_count",
        "a number of a job's pods in phase Running",
        _JOBS,
        "job",
        condition="job_pods_running",
    ),
    Wait(
        "wait_for_job_pods_succeeded",
        "job, expected_count",
        "a number of a job's pods in phase Succeeded",
        _JOBS,
        "job",
        condition="job_pods_succeeded",
    ),
    *_to_waits(JOB_WAITS),
    Wait(
        "wait_for_pods_on_minions",
        "controller=None, *, selector=None, pods=None, pod_info=None",
        "pods that have a host whose agent knows them",
        "pytest_kwait.framework.node.minions",
        "minions",
        condition="pods_on_minions",
    ),
    *_to_waits(POD_WAITS),
    *_to_waits(NODE_WAITS, namespaced=False),
    *_to_waits(NODE_POD_WAITS),
    *_to_waits(SET_WAITS),
    *_to_waits(WORKLOAD_WAITS),
    *_to_waits(SERVICE_WAITS),
    *_to_waits(CLUSTER_WAITS, namespaced=False),
    *_to_waits(NAMESPACE_WAITS),
    *_to_waits(CLAIM_WAITS),
    *_to_waits(VOLUME_WAITS, namespaced=False),
)

WAITS: Mapping[str, Wait] = MappingProxyType({wait.name: wait for wait in _WAITS})
"""Every wait by its name."""

VERBS: Mapping[str, Wait] = MappingProxyType(
    {verb.name: verb._replace(condition=None) for verb in _to_waits(VERB_ROWS)}
)
"""What does something and then waits, by name: functions, and verbs of the bench."""
