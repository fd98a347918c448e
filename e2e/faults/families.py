"""The families of waits, each with something of its own to wait for that a test can bring about.

Nothing here depends on how fast a cluster's scheduler or kubelet is: pods name a scheduler that
does not exist, so they stay as they are until the test binds them or writes their status.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_kwait import (
    cache,
    wait_for,
    wait_for_job_pods_running,
    wait_for_pods_on_minions,
)
from pytest_kwait.api.resource import (
    CONFIG_MAPS,
    JOBS,
    PODS,
    REPLICATION_CONTROLLERS,
    Resource,
)
from pytest_kwait.api.session import Session
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait import PodInfo
    from pytest_kwait.engine.options import Mode

__all__ = ["FAMILIES", "POLL", "Family", "Place"]

POLL = 0.1
"""Seconds between two looks in poll mode, and at what cannot be watched."""

_PATIENCE = 20.0


@dataclass(frozen=True)
class Place:
    """Where the awaited objects are, and the direct way to them.

    Args:
        client: a client that no fault stands before.
        namespace: the namespace.
        node: the name of a node.
        pod_info: who is asked for the pods of a node; None for its kubelet.
    """

    client: ApiClient
    namespace: str
    node: str
    pod_info: PodInfo | None = None

    def create(self, resource: Resource, obj: dict[str, Any]) -> None:
        """Create an object."""
        session = Session.of(self.client)
        session.create(resource, obj, self.namespace, deadline=_deadline())

    def delete(self, resource: Resource, name: str) -> None:
        """Delete an object."""
        session = Session.of(self.client)
        session.delete(resource, name, self.namespace, deadline=_deadline())

    def wait_until_deleted(self, resource: Resource, name: str) -> None:
        """Return once an object is gone."""
        target = f"{resource.qualified}/{name}"
        wait_for(self.client, self.namespace, target, "delete", timeout=_PATIENCE)

    def pod_of(self, app: str) -> str:
        """Return the name of the pod with this label, once there is one."""
        pods = wait_for(
            self.client,
            self.namespace,
            "pods",
            lambda pods: len(pods) == 1,
            selector=f"app={app}",
            timeout=_PATIENCE,
        )
        assert isinstance(pods, list)
        return str(pods[0]["metadata"]["name"])

    def set_status(self, pod: str, status: dict[str, Any]) -> None:
        """Write the status of a pod, as a kubelet does."""
        Session.of(self.client).patch(
            PODS,
            pod,
            {"status": status},
            self.namespace,
            subresource="status",
            deadline=_deadline(),
        )

    def bind(self, pod: str) -> None:
        """Put a pod on the node, as the scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod},
            "target": target,
        }
        Session.of(self.client).create(
            PODS, binding, self.namespace, name=pod, subresource="binding", deadline=_deadline()
        )


class Family(ABC):
    """A wait, its object, and what makes it come true.

    Args:
        place: where.
        name: the name of its object.
    """

    title: ClassVar[str]
    watches: ClassVar[int] = 1
    """How many watches it has open."""

    def __init__(self, place: Place, name: str) -> None:
        self.place = place
        self.name = name

    @abstractmethod
    def prepare(self) -> None:
        """Make the object."""

    @abstractmethod
    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait over a client."""

    @abstractmethod
    def bring_about(self) -> None:
        """Let come true what is awaited."""

    @abstractmethod
    def is_right(self, result: Any) -> bool:
        """Say whether this is what the wait must return."""


class JobWait(Family):
    """A job's pod that runs."""

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
                "spec": {"template": _template(self.name, restart="Never")},
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

    def bring_about(self) -> None:
        """Let the pod run."""
        self.place.set_status(self.place.pod_of(self.name), {"phase": "Running"})

    def is_right(self, result: Any) -> bool:
        """One pod, Running."""
        return [pod["status"]["phase"] for pod in result] == ["Running"]


class PolledJobWait(JobWait):
    """The same by lists alone."""

    title = "job, poll mode"
    watches = 0
    mode = "poll"


class ConditionWait(Family):
    """A pod that gets ready."""

    title = "condition of a pod"

    def prepare(self) -> None:
        """Create a pod."""
        self.place.create(PODS, {"apiVersion": "v1", "kind": "Pod", **_template(self.name)})

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for the condition Ready."""
        target = f"pod/{self.name}"
        return wait_for(
            client, self.place.namespace, target, "condition=Ready", timeout=timeout, poll=POLL
        )

    def bring_about(self) -> None:
        """Let the pod be ready."""
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": None}
        self.place.set_status(self.name, {"conditions": [condition]})

    def is_right(self, result: Any) -> bool:
        """The pod, ready."""
        return {"Ready": "True"}.items() <= {
            condition["type"]: condition["status"] for condition in result["status"]["conditions"]
        }.items()


class DeletionWait(Family):
    """A config map that goes."""

    title = "deletion"

    def prepare(self) -> None:
        """Create a config map."""
        self.place.create(CONFIG_MAPS, _config_map(self.name))

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for its deletion."""
        target = f"configmap/{self.name}"
        return wait_for(client, self.place.namespace, target, "delete", timeout=timeout, poll=POLL)

    def bring_about(self) -> None:
        """Delete it."""
        self.place.delete(CONFIG_MAPS, self.name)

    def is_right(self, result: Any) -> bool:
        """Nothing."""
        return result is None


class MinionsWait(Family):
    """A controller's pod that arrives on its node."""

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
                "spec": {"replicas": 1, "template": _template(self.name)},
            },
        )

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until the pod has a host that knows it."""
        return wait_for_pods_on_minions(
            client,
            self.place.namespace,
            f"rc/{self.name}",
            pod_info=self.place.pod_info,
            timeout=timeout,
            poll=POLL,
        )

    def bring_about(self) -> None:
        """Bind the pod."""
        self.place.bind(self.place.pod_of(self.name))

    def is_right(self, result: Any) -> bool:
        """The pod, on the node."""
        return [pod["spec"]["nodeName"] for pod in result] == [self.place.node]


class CacheWait(Family):
    """An informer that has synced and then learns of a change."""

    title = "cache sync"

    def prepare(self) -> None:
        """Create what the first list must bring."""
        self.place.create(CONFIG_MAPS, _config_map(self.name))

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

    def bring_about(self) -> None:
        """Create another object."""
        self.place.create(CONFIG_MAPS, _config_map(f"{self.name}-changed"))

    def is_right(self, result: Any) -> bool:
        """The other object."""
        return bool(result["metadata"]["name"] == f"{self.name}-changed")


FAMILIES: tuple[type[Family], ...] = (
    JobWait,
    PolledJobWait,
    ConditionWait,
    DeletionWait,
    MinionsWait,
    CacheWait,
)


def _template(name: str, *, restart: str = "Always") -> dict[str, Any]:
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "300"]}
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "schedulerName": "nobody",
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


def _config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def _deadline() -> Deadline:
    return Deadline.after(_PATIENCE, SYSTEM_CLOCK)
