"""Embedded clusters without HTTP whose time a test moves by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.components import start_components
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.protocol.nodes import Nodes

NAMESPACE = "t"


def new_cluster() -> SimulatedCluster:
    """Return a cluster without controllers, with the service accounts that pods need."""
    api = SimulatedCluster(ManualClock())
    api.bootstrap()
    api.create("serviceaccounts", {"metadata": {"name": "default"}}, "default")
    return api


class Cluster:
    """A cluster with controllers and kubelets, and a record of its changes."""

    def __init__(
        self, nodes: Nodes = 1, scale: float = 1.0, *, has_load_balancers: bool = False
    ) -> None:
        self.clock = ManualClock(scale)
        self.api = SimulatedCluster(self.clock)
        self.api.root_ca = "CERTIFICATE"
        self.api.has_load_balancers = has_load_balancers
        self.api.bootstrap()
        start_components(self.api, nodes=nodes)
        self.clock.advance(0)
        self.api.create("namespaces", {"metadata": {"name": NAMESPACE}})
        self.history: list[tuple[str, str, Obj]] = []
        self.api.subscribe_all(
            lambda resource, change, new, _: self.history.append((resource, change, new))
        )
        self.history.clear()

    def create(self, resource: str, name: str, spec: Obj, **metadata: Any) -> Obj:
        obj = {"metadata": {"name": name, **metadata}, "spec": spec}
        return self.api.create(resource, obj, NAMESPACE)

    def get(self, resource: str, name: str) -> Obj:
        return self.api.get(resource, name, NAMESPACE)

    def find(self, resource: str, name: str) -> Obj | None:
        return self.api.find(resource, name, NAMESPACE)

    def every(self, resource: str) -> list[Obj]:
        return self.api.list(resource, NAMESPACE)

    def change(self, resource: str, name: str, change: Callable[[Obj], None]) -> Obj:
        return self.api.modify(resource, name, NAMESPACE, change)

    def delete(self, resource: str, name: str, **options: Any) -> None:
        self.api.delete(resource, name, NAMESPACE, **options)

    def run(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def states(self, resource: str, name: str, show: Callable[[Obj], Any]) -> list[Any]:
        """Return `show` of every version of an object so far, without repetitions."""
        seen: list[Any] = []
        for kind, change, obj in self.history:
            if kind == resource and obj["metadata"]["name"] == name:
                shown = "DELETED" if change == "DELETED" else show(obj)
                if not seen or seen[-1] != shown:
                    seen.append(shown)
        return seen

    def events(self, name: str) -> list[str]:
        """`reason xcount: message` of the events about an object, in order of first appearance."""
        found: dict[str, str] = {}
        for kind, change, obj in self.history:
            if kind == "events" and change != "DELETED" and obj["involvedObject"]["name"] == name:
                count = obj.get("count") or (obj.get("series") or {}).get("count", 1)
                found[obj["metadata"]["name"]] = f"{obj['reason']} x{count}: {obj['message']}"
        return list(found.values())

    def reasons(self, name: str) -> list[str]:
        """The reasons of the events about an object, in order of first appearance."""
        return [event.partition(" ")[0] for event in self.events(name)]


def pod_spec(*command: str, **fields: Any) -> Obj:
    """One busybox container that runs `command`."""
    container: Obj = {"name": "c", "image": "busybox:1.36", **fields.pop("container", {})}
    if command:
        container["command"] = list(command)
    return {"containers": [container], **fields}


def template(*command: str, app: str = "web", **fields: Any) -> Obj:
    """A pod template labelled `app`."""
    return {"metadata": {"labels": {"app": app}}, "spec": pod_spec(*command, **fields)}


def set_spec(*command: str, pod: Obj | None = None, **fields: Any) -> Obj:
    """The spec of a controller of pods labelled `web`, which sleep and end at once."""
    fields_of_pod = {"terminationGracePeriodSeconds": 0, **(pod or {})}
    made = template(*(command or ("sleep", "99")), **fields_of_pod)
    return {"selector": {"matchLabels": {"app": "web"}}, "template": made, **fields}


def conditions(obj: Obj) -> dict[str, str]:
    """Status and reason of the conditions by type, in their order."""
    return {
        one["type"]: " ".join(filter(None, (one["status"], one.get("reason"))))
        for one in (obj.get("status") or {}).get("conditions") or ()
    }
