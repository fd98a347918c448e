"""Waits on workloads and services, and verbs that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.faults.family import POLL, Family, template
from e2e.objects import config_map
from pytest_kwait import (
    create_and_wait,
    delete_and_wait,
    restart,
    scale,
    wait_for,
    wait_for_daemon_set_running_on_all_nodes,
    wait_for_job_gone,
    wait_for_load_balancer,
    wait_for_pod_not_found,
    wait_for_replica_set_target_available_replicas,
    wait_for_rollout_status,
    wait_for_stateful_set_running_and_ready,
)
from pytest_kwait.client.resource import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

READY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": None}],
}
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced=True)


class RolloutWait(Family):
    """A deployment that is rolled out once its pod is ready."""

    title = "rollout of a deployment"
    watches = 3
    resource = DEPLOYMENTS
    replicas = 1

    def prepare(self) -> None:
        """Create it."""
        spec = {
            "replicas": self.replicas,
            "selector": {"matchLabels": {"app": self.name}},
            "template": template(self.name),
        }
        head = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        self.place.create(self.resource, {**head, "metadata": {"name": self.name}, "spec": spec})

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it is rolled out."""
        return wait_for_rollout_status(
            client, self.place.namespace, f"deployment/{self.name}", timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Write the condition Ready of its pod."""
        self.place.set_status(self.place.pod_of(self.name), READY)

    def is_expected_result(self, result: Any) -> bool:
        """The deployment, with its replicas."""
        return bool(result["metadata"]["name"] == self.name)


class ReplicaSetWait(RolloutWait):
    """A replica set with a pod that becomes available."""

    title = "replica set"
    watches = 2
    resource = REPLICA_SETS

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for one available replica."""
        return wait_for_replica_set_target_available_replicas(
            client, self.place.namespace, self.name, 1, timeout=timeout, poll=POLL
        )


class StatefulSetWait(RolloutWait):
    """A stateful set with a pod that becomes ready."""

    title = "stateful set"
    watches = 2
    resource = STATEFUL_SETS

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for one ready pod."""
        return wait_for_stateful_set_running_and_ready(
            client, self.place.namespace, self.name, 1, timeout=timeout, poll=POLL
        )

    def is_expected_result(self, result: Any) -> bool:
        """Its pod."""
        return [pod["metadata"]["name"] for pod in result] == [f"{self.name}-0"]


class DaemonSetWait(Family):
    """A daemon set with a pod that becomes ready on the node."""

    title = "daemon set"
    watches = 2

    def prepare(self) -> None:
        """Create it for one node, with pods of an unknown scheduler."""
        made = template(self.name)
        made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": self.place.node}
        spec = {"selector": {"matchLabels": {"app": self.name}}, "template": made}
        head = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": self.name}}
        self.place.create(DAEMON_SETS, {**head, "spec": spec})

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for it on all nodes."""
        return wait_for_daemon_set_running_on_all_nodes(
            client, self.place.namespace, self.name, timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Bind its pod: the kubelet runs it."""
        self.place.bind(self.place.pod_of(self.name))

    def is_expected_result(self, result: Any) -> bool:
        """Its pod, on the node."""
        return [pod["spec"]["nodeName"] for pod in result] == [self.place.node]


class JobGoneWait(Family):
    """A job that is deleted with its pod."""

    title = "job that is deleted"
    watches = 2

    def prepare(self) -> None:
        """Create a job of one pod."""
        head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": self.name}}
        spec = {"template": template(self.name, restart="Never")}
        self.place.create(JOBS, {**head, "spec": spec})

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it is gone."""
        return wait_for_job_gone(
            client, self.place.namespace, self.name, timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Delete it."""
        self.place.delete(JOBS, self.name)

    def is_expected_result(self, result: Any) -> bool:
        """Nothing."""
        return result is None


class PodGoneWait(Family):
    """A pod that is deleted."""

    title = "pod that is deleted"

    def prepare(self) -> None:
        """Create a pod."""
        self.place.create(PODS, {"apiVersion": "v1", "kind": "Pod", **template(self.name)})

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it is gone."""
        return wait_for_pod_not_found(
            client, self.place.namespace, self.name, timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Delete it."""
        self.place.delete(PODS, self.name)

    def is_expected_result(self, result: Any) -> bool:
        """Nothing."""
        return result is None


class LoadBalancerWait(Family):
    """A service that gets a load balancer's address."""

    title = "load balancer of a service"

    def prepare(self) -> None:
        """Create a service without a load balancer."""
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": self.name}}
        self.place.create(SERVICES, {**head, "spec": spec})

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for its address."""
        return wait_for_load_balancer(
            client, self.place.namespace, self.name, timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Write one."""
        balancer = {"ingress": [{"ip": "192.0.2.1"}]}
        self.place.patch_status(SERVICES, self.name, {"loadBalancer": balancer})

    def is_expected_result(self, result: Any) -> bool:
        """The service."""
        return bool(result["metadata"]["name"] == self.name)


class DiscoveredWait(Family):
    """An object of a kind that needs discovery."""

    title = "kind that is not built in"

    def prepare(self) -> None:
        """Leave the object to be made later."""

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for its creation."""
        target = f"roles.rbac.authorization.k8s.io/{self.name}"
        return wait_for(client, self.place.namespace, target, "create", timeout=timeout, poll=POLL)

    def fulfill(self) -> None:
        """Create it."""
        head = {"apiVersion": ROLES.api_version, "kind": "Role", "metadata": {"name": self.name}}
        self.place.create(ROLES, {**head, "rules": []})

    def is_expected_result(self, result: Any) -> bool:
        """The object."""
        return bool(result["metadata"]["name"] == self.name)


class ScaleWait(RolloutWait):
    """A deployment that is scaled to nothing."""

    title = "scale"
    watches = 3
    shared = False
    lasts = False

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Scale it."""
        return scale(
            client, self.place.namespace, f"deployment/{self.name}", 0, timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Leave that to its controllers."""


class RestartWait(RolloutWait):
    """A deployment without pods that is restarted."""

    title = "restart"
    shared = False
    lasts = False
    replicas = 0

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Restart it."""
        return restart(
            client, self.place.namespace, f"deployment/{self.name}", timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Leave that to its controllers."""


class CreationWait(Family):
    """A pod that is created and becomes ready."""

    title = "create_and_wait"
    shared = False

    def prepare(self) -> None:
        """Leave the pod to the wait."""

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Create it, and wait until it is ready."""
        pod = template(self.name)
        pod["metadata"]["name"] = self.name
        manifest = {"apiVersion": "v1", "kind": "Pod", **pod}
        return create_and_wait(client, self.place.namespace, manifest, timeout=timeout, poll=POLL)

    def fulfill(self) -> None:
        """Write the condition Ready."""
        self.place.set_status(self.place.pod_of(self.name), READY)

    def is_expected_result(self, result: Any) -> bool:
        """The pod."""
        return bool(result["metadata"]["name"] == self.name)


class RemovalWait(Family):
    """A config map that is deleted."""

    title = "delete_and_wait"
    shared = False
    lasts = False

    def prepare(self) -> None:
        """Create it."""
        self.place.create(CONFIG_MAPS, config_map(self.name))

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Delete it."""
        return delete_and_wait(
            client, self.place.namespace, f"configmap/{self.name}", timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Leave that to the wait."""

    def is_expected_result(self, result: Any) -> bool:
        """Nothing."""
        return result is None


WORKLOAD_FAMILIES: tuple[type[Family], ...] = (
    RolloutWait,
    ReplicaSetWait,
    StatefulSetWait,
    DaemonSetWait,
    JobGoneWait,
    PodGoneWait,
    LoadBalancerWait,
    DiscoveredWait,
    ScaleWait,
    RestartWait,
    CreationWait,
    RemovalWait,
)
