"""Waits on answers of pods, services and kubelets, and the rolling update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.faults.family import POLL, Family, template
from pytest_kwait import (
    rolling_update,
    wait_for_log,
    wait_for_pods_responding,
    wait_for_pods_running_on_nodes,
    wait_for_service_reachable,
)
from pytest_kwait.client.resource import PODS, REPLICATION_CONTROLLERS, SERVICES

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

PAUSE = 0.5
"""Seconds between two requests, each of which passes two servers, of a hundred waits."""

PORT = 8080
SERVER = f"mkdir -p /tmp/www; echo here > /tmp/www/index.html; exec httpd -f -p {PORT} -h /tmp/www"


class RespondingWait(Family):
    """A pod that gets a node, and then answers."""

    title = "pod that answers"
    asks = "get pods/proxy"
    script = SERVER

    def prepare(self) -> None:
        """Create the pod."""
        pod = template(self.name)
        (main,) = pod["spec"]["containers"]
        main["command"] = ["sh", "-c", self.script]
        self.place.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod})

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for its answer."""
        return wait_for_pods_responding(
            client,
            self.place.namespace,
            pods=[self.name],
            port=PORT,
            timeout=timeout,
            poll=PAUSE,
        )

    def fulfill(self) -> None:
        """Bind the pod: the kubelet runs it."""
        self.place.bind(self.name)

    def is_expected_result(self, result: Any) -> bool:
        """The pod."""
        return [pod["metadata"]["name"] for pod in result] == [self.name]


class ReachableWait(RespondingWait):
    """A service whose pod gets a node, and then answers."""

    title = "service that answers"
    watches = 3
    asks = "get services/proxy"

    def prepare(self) -> None:
        """Create the service and its pod."""
        super().prepare()
        spec = {"selector": {"app": self.name}, "ports": [{"port": PORT}]}
        head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": self.name}}
        self.place.create(SERVICES, {**head, "spec": spec})

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for its answer."""
        return wait_for_service_reachable(
            client, self.place.namespace, self.name, timeout=timeout, poll=PAUSE
        )

    def is_expected_result(self, result: Any) -> bool:
        """Its slice."""
        labels = [each["metadata"]["labels"] for each in result]
        return [each["kubernetes.io/service-name"] for each in labels] == [self.name]


class RunningOnNodeWait(RespondingWait):
    """A pod that a kubelet says it runs."""

    title = "pods that a kubelet runs"
    asks = "get nodes/proxy"

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until the kubelet names it."""
        return wait_for_pods_running_on_nodes(
            client,
            self.place.namespace,
            [self.place.node],
            1,
            self.name,
            timeout=timeout,
            poll=PAUSE,
        )


class LogWait(RespondingWait):
    """A pod that gets a node, and then writes a line."""

    title = "line of a log"
    asks = "get pods/log"
    script = "echo here; sleep 600"

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for its line."""
        return wait_for_log(
            client, self.place.namespace, self.name, "here", timeout=timeout, poll=PAUSE
        )

    def is_expected_result(self, result: Any) -> bool:
        """The line."""
        return bool(result == (self.name, "main", "here"))


class RollingUpdateWait(Family):
    """A controller whose pod is deleted, and comes back."""

    title = "rolling_update"
    watches = 2
    shared = False
    lasts = False

    def prepare(self) -> None:
        """Create a controller of one pod."""
        head = {"apiVersion": "v1", "kind": "ReplicationController"}
        spec = {"replicas": 1, "template": template(self.name)}
        made = {**head, "metadata": {"name": self.name}, "spec": spec}
        self.place.create(REPLICATION_CONTROLLERS, made)
        self.old = self.place.pod_of(self.name)

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Update it."""
        return rolling_update(
            client,
            self.place.namespace,
            f"rc/{self.name}",
            0,
            within=timeout,
            timeout=timeout,
            poll=POLL,
            mode="watch",
        )

    def fulfill(self) -> None:
        """Leave that to its controller."""

    def is_expected_result(self, result: Any) -> bool:
        """Another pod."""
        names = [pod["metadata"]["name"] for pod in result]
        return len(names) == 1 and names != [self.old]


ANSWER_FAMILIES: tuple[type[Family], ...] = (
    RespondingWait,
    ReachableWait,
    RunningOnNodeWait,
    LogWait,
    RollingUpdateWait,
)
