"""A family of waits: its object, its location, and the change that ends the wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from e2e.objects import container, pod
from pytest_kwait import ApiError, wait_for
from pytest_kwait.client.resource import PODS, Resource
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait import PodInfo

_PATIENCE = 20.0


@dataclass(frozen=True)
class Place:
    """The location of a trial's objects, and direct access to them.

    Args:
        client: a client that bypasses the fault proxy.
        namespace: the namespace.
        node: the name of a node.
        pod_info: the source of the pods of a node; None for its kubelet.
    """

    client: ApiClient
    namespace: str
    node: str
    pod_info: PodInfo | None = None

    def create(self, resource: Resource, obj: dict[str, Any]) -> None:
        """Create an object."""
        session = ApiSession.of(self.client)
        session.create(resource, obj, self.namespace, deadline=_deadline())

    def delete(self, resource: Resource, name: str) -> None:
        """Delete an object."""
        session = ApiSession.of(self.client)
        session.delete(resource, name, self.namespace, deadline=_deadline())

    def remove(self, resource: Resource, name: str) -> None:
        """Delete an object if it exists."""
        try:
            self.delete(resource, name)
        except ApiError as error:
            if error.status != 404:
                raise

    def wait_until_deleted(self, resource: Resource, name: str) -> None:
        """Return once an object is deleted."""
        target = f"{resource.qualified}/{name}"
        wait_for(self.client, self.namespace, target, "delete", timeout=_PATIENCE)

    def pod_of(self, app: str) -> str:
        """Return the name of the pod with this label, once it exists."""
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
        self.patch_status(PODS, pod, status)

    def patch_status(self, resource: Resource, name: str, status: dict[str, Any]) -> None:
        """Write the status of an object, as its controller does."""
        ApiSession.of(self.client).patch(
            resource,
            name,
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
        ApiSession.of(self.client).create(
            PODS, binding, self.namespace, name=pod, subresource="binding", deadline=_deadline()
        )


def template(name: str, *, restart: str = "Always") -> dict[str, Any]:
    """Return metadata and spec of a pod that no scheduler binds."""
    sleeper = container(command=["sleep", "300"])
    labels = {"app": name}
    made = pod(name, sleeper, labels=labels, schedulerName="absent", restartPolicy=restart)
    return {part: made[part] for part in ("metadata", "spec")}


def _deadline() -> Deadline:
    return Deadline.after(_PATIENCE, SYSTEM_CLOCK)


POLL = 0.1
"""Seconds between two polls."""


class Family(ABC):
    """A wait, its object, and the change that fulfills it.

    Args:
        place: the location of the object.
        name: the object's name.
    """

    title: ClassVar[str]
    watches: ClassVar[int] = 1
    """The number of its open watches."""

    confirms: ClassVar[bool] = False
    """Whether its resources are listed once more before it is met.

    The watches that follow these lists may be opened or not: the wait ends meanwhile.
    """

    asks: ClassVar[str] = ""
    """The prefix of the label of its further requests; empty for none."""

    shared: ClassVar[bool] = True
    """Whether several waits can share an object."""

    lasts: ClassVar[bool] = True
    """Whether a fault can occur between its start and its end."""

    def __init__(self, place: Place, name: str) -> None:
        self.place = place
        self.name = name

    @abstractmethod
    def prepare(self) -> None:
        """Create the object."""

    @abstractmethod
    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait through a client."""

    @abstractmethod
    def fulfill(self) -> None:
        """Make the condition true."""

    @abstractmethod
    def is_expected_result(self, result: Any) -> bool:
        """Return whether this is the expected result of the wait."""

    def dispose(self) -> None:
        """Delete what is not deleted with the namespace."""
        return
