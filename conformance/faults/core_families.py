"""The core families of waits: jobs, pods, deployments, endpoints, caches, deletions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from conformance.faults.family import POLL, Family, template
from e2e.objects import config_map
from pytest_kwait import (
    cache,
    wait_for,
    wait_for_deployment_complete,
    wait_for_endpoint_count,
    wait_for_job_pods_running,
    wait_for_pods_on_minions,
    wait_for_pods_running,
)
from pytest_kwait.client.resource import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    JOBS,
    PODS,
    REPLICATION_CONTROLLERS,
    SERVICES,
)
from pytest_kwait.clock import Deadline

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.options import Mode

READY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": None}],
}


class JobWait(Family):
    """A job with a running pod."""

    title = "job, watch mode"
    watches = 2
    mode: ClassVar[Mode] = "watch"

    def prepare(self) -> None:
        """Create a job of one pod."""
        self.place.create(
            JOBS,
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": self.name},
                "spec": {"template": template(self.name, restart="Never")},
            },
        )

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for one Running pod."""
        return wait_for_job_pods_running(
            client,
            self.place.namespace,
            self.name,
            1,
            timeout=timeout,
            poll=POLL,
            mode=self.mode,
        )

    def fulfill(self) -> None:
        """Write the status Running."""
        self.place.set_status(self.place.pod_of(self.name), {"phase": "Running"})

    def is_expected_result(self, result: Any) -> bool:
        """One pod, Running."""
        return [pod["status"]["phase"] for pod in result] == ["Running"]


class PolledJobWait(JobWait):
    """The same in poll mode."""

    title = "job, poll mode"
    watches = 0
    mode = "poll"


class ConditionWait(Family):
    """A pod that becomes ready."""

    title = "condition of a pod"

    def prepare(self) -> None:
        """Create a pod."""
        self.place.create(PODS, {"apiVersion": "v1", "kind": "Pod", **template(self.name)})

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for the condition Ready."""
        target = f"pod/{self.name}"
        return wait_for(
            client, self.place.namespace, target, "condition=Ready", timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Write the condition Ready."""
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": None}
        self.place.set_status(self.name, {"conditions": [condition]})

    def is_expected_result(self, result: Any) -> bool:
        """The pod, ready."""
        return {"Ready": "True"}.items() <= {
            condition["type"]: condition["status"] for condition in result["status"]["conditions"]
        }.items()


class DeletionWait(Family):
    """A config map that is deleted."""

    title = "deletion"

    def prepare(self) -> None:
        """Create a config map."""
        self.place.create(CONFIG_MAPS, config_map(self.name))

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for its deletion."""
        target = f"configmap/{self.name}"
        return wait_for(client, self.place.namespace, target, "delete", timeout=timeout, poll=POLL)

    def fulfill(self) -> None:
        """Delete it."""
        self.place.delete(CONFIG_MAPS, self.name)

    def is_expected_result(self, result: Any) -> bool:
        """Nothing."""
        return result is None


class MinionsWait(Family):
    """A controller's pod that its kubelet lists."""

    title = "pods on minions"
    watches = 2

    def prepare(self) -> None:
        """Create a controller of one pod."""
        self.place.create(
            REPLICATION_CONTROLLERS,
            {
                "apiVersion": "v1",
                "kind": "ReplicationController",
                "metadata": {"name": self.name},
                "spec": {"replicas": 1, "template": template(self.name)},
            },
        )

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until the pod's kubelet lists it."""
        return wait_for_pods_on_minions(
            client,
            self.place.namespace,
            f"rc/{self.name}",
            pod_info=self.place.pod_info,
            timeout=timeout,
            poll=POLL,
        )

    def fulfill(self) -> None:
        """Bind the pod."""
        self.place.bind(self.place.pod_of(self.name))

    def is_expected_result(self, result: Any) -> bool:
        """The pod, on the node."""
        return [pod["spec"]["nodeName"] for pod in result] == [self.place.node]


class PodSetWait(Family):
    """A number of pods that are ready."""

    title = "set of pods"
    # No controller wants this number of pods: it must hold.
    confirms = True

    def prepare(self) -> None:
        """Create a pod."""
        self.place.create(PODS, {"apiVersion": "v1", "kind": "Pod", **template(self.name)})

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for one that is Running and ready."""
        return wait_for_pods_running(
            client,
            self.place.namespace,
            1,
            selector=f"app={self.name}",
            timeout=timeout,
            poll=POLL,
        )

    def fulfill(self) -> None:
        """Write the condition Ready."""
        self.place.set_status(self.name, READY)

    def is_expected_result(self, result: Any) -> bool:
        """The pod."""
        return [pod["metadata"]["name"] for pod in result] == [self.name]


class DeploymentWait(Family):
    """A deployment with a pod that becomes ready."""

    title = "deployment"
    watches = 3

    def prepare(self) -> None:
        """Create a deployment of one pod."""
        spec = {
            "replicas": 1,
            "selector": {"matchLabels": {"app": self.name}},
            "template": template(self.name),
        }
        self.place.create(
            DEPLOYMENTS,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": self.name},
                "spec": spec,
            },
        )

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it is complete."""
        return wait_for_deployment_complete(
            client, self.place.namespace, self.name, timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Write the condition Ready of its pod."""
        self.place.set_status(self.place.pod_of(self.name), READY)

    def is_expected_result(self, result: Any) -> bool:
        """The deployment, with its replica available."""
        return bool(result["status"]["availableReplicas"] == 1)


class EndpointsWait(Family):
    """A service that gets an endpoint."""

    title = "endpoints of a service"
    # The number of endpoints must hold.
    confirms = True
    watches = 2

    def prepare(self) -> None:
        """Create a service without selector."""
        self.place.create(
            SERVICES,
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": self.name},
                "spec": {"ports": [{"port": 80}]},
            },
        )

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for one endpoint."""
        return wait_for_endpoint_count(
            client, self.place.namespace, self.name, 1, timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Create a slice with one endpoint."""
        labels = {"kubernetes.io/service-name": self.name}
        self.place.create(
            ENDPOINT_SLICES,
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": self.name, "labels": labels},
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["192.0.2.10"], "conditions": {"ready": True}}],
                "ports": [{"port": 80}],
            },
        )

    def is_expected_result(self, result: Any) -> bool:
        """The slice."""
        return [each["metadata"]["name"] for each in result] == [self.name]


class CacheWait(Family):
    """An informer that has synced and then learns of a change."""

    title = "cache sync"

    def prepare(self) -> None:
        """Create an object for the first list."""
        self.place.create(CONFIG_MAPS, config_map(self.name))

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for the informer, then for the change; return the change."""
        deadline = Deadline.after(timeout)
        factory = cache.SharedInformerFactory(client, namespace=self.place.namespace)
        configs = factory.informer_for("configmaps")
        factory.start()
        try:
            cache.wait_for_cache_sync(factory, timeout=deadline.remaining)
            key = f"{self.place.namespace}/{self.name}-changed"
            cache.wait_for_cache_sync(
                lambda: configs.store.get_by_key(key) is not None, timeout=deadline.remaining
            )
            return configs.store.get_by_key(key)
        finally:
            factory.stop()

    def fulfill(self) -> None:
        """Create another object."""
        self.place.create(CONFIG_MAPS, config_map(f"{self.name}-changed"))

    def is_expected_result(self, result: Any) -> bool:
        """The other object."""
        return bool(result["metadata"]["name"] == f"{self.name}-changed")


CORE_FAMILIES: tuple[type[Family], ...] = (
    JobWait,
    PolledJobWait,
    ConditionWait,
    DeletionWait,
    MinionsWait,
    PodSetWait,
    DeploymentWait,
    EndpointsWait,
    CacheWait,
)
