"""The service controller, with load balancers that are none."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.components import SharedParts
from pytest_kwait.simulator.controllers.service import ServiceController
from pytest_kwait.simulator.objects import uid_of
from tests.simulator.cluster import Cluster

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
ADDRESS = {"ip": "127.5.0.1", "ipMode": "VIP"}
ENSURED = ["EnsuringLoadBalancer x1: Ensuring load balancer"]
ENSURED += ["EnsuredLoadBalancer x1: Ensured load balancer"]


class FakeProvider:
    """Load balancers as names."""

    def __init__(self) -> None:
        self.balancers: dict[str, list[int]] = {}
        self.refusal = ""

    def has(self, service: Obj) -> bool:
        return uid_of(service) in self.balancers

    def ensure(self, service: Obj) -> list[Obj]:
        if self.refusal:
            raise OSError(errno.EACCES, self.refusal)
        self.balancers[uid_of(service)] = [port["port"] for port in service["spec"]["ports"]]
        return [ADDRESS]

    def ensure_deleted(self, service: Obj) -> None:
        self.balancers.pop(uid_of(service), None)


class BalancedCluster(Cluster):
    """A cluster whose services get load balancers."""

    def __init__(self, nodes: int = 1) -> None:
        super().__init__(nodes=nodes)
        self.provider = FakeProvider()
        ServiceController(self.api, self.provider)

    def add(self, **spec: Any) -> None:
        """Create the service `web` and let the controller see it."""
        self.create("services", "web", {"type": "LoadBalancer", "ports": [{"port": 80}], **spec})
        self.run(1)

    def set_spec(self, **spec: Any) -> None:
        self.change("services", "web", lambda obj: obj["spec"].update(spec))
        self.run(1)

    @property
    def service(self) -> Obj:
        return self.get("services", "web")

    @property
    def ingress(self) -> list[Obj]:
        return self.service["status"]["loadBalancer"].get("ingress") or []

    @property
    def ports(self) -> list[list[int]]:
        """The ports of all load balancers."""
        return list(self.provider.balancers.values())


@pytest.fixture
def cluster() -> BalancedCluster:
    return BalancedCluster()


def test_load_balancer_comes_with_its_finalizer_and_address(cluster: BalancedCluster) -> None:
    cluster.add()
    assert (cluster.ingress, cluster.ports) == ([ADDRESS], [[80]])
    assert cluster.service["metadata"]["finalizers"] == [FINALIZER]
    assert cluster.events("web") == ENSURED
    event = next(obj for kind, _, obj in cluster.history if kind == "events")
    assert event["source"] == {"component": "service-controller"}


def test_deleted_service_goes_after_its_load_balancer(cluster: BalancedCluster) -> None:
    cluster.add()
    cluster.delete("services", "web")
    assert cluster.find("services", "web") is not None
    cluster.run(1)
    assert cluster.find("services", "web") is None
    assert cluster.ports == []
    assert cluster.events("web") == [
        *ENSURED,
        "DeletingLoadBalancer x1: Deleting load balancer",
        "DeletedLoadBalancer x1: Deleted load balancer",
    ]


def test_service_of_another_type_loses_its_load_balancer(cluster: BalancedCluster) -> None:
    cluster.add()
    cluster.set_spec(type="ClusterIP")
    assert (cluster.ingress, cluster.ports) == ([], [])
    assert not cluster.service["metadata"].get("finalizers")
    assert cluster.reasons("web")[2:] == ["DeletingLoadBalancer", "DeletedLoadBalancer"]
    cluster.set_spec(type="LoadBalancer")
    assert (cluster.ingress, cluster.ports) == ([ADDRESS], [[80]])


@pytest.mark.parametrize(
    "spec", [{"type": "ClusterIP"}, {"type": "NodePort"}, {"loadBalancerClass": "example.com/lb"}]
)
def test_services_of_others_are_left_alone(cluster: BalancedCluster, spec: dict[str, str]) -> None:
    cluster.add(**spec)
    assert cluster.events("web") == []
    assert not cluster.service["metadata"].get("finalizers")


def test_change_of_the_ports_is_one_of_the_load_balancer(cluster: BalancedCluster) -> None:
    cluster.add()
    cluster.set_spec(ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "b"}])
    assert cluster.ports == [[80, 81]]
    events = cluster.events("web")
    cluster.change("services", "web", lambda obj: obj["metadata"].update(labels={"a": "b"}))
    cluster.set_spec(selector={"app": "other"})
    assert cluster.events("web") == events


def test_failure_is_an_event_and_tried_again_with_a_growing_delay(cluster: BalancedCluster) -> None:
    cluster.provider.refusal = "Permission denied"
    cluster.add()
    failed = "SyncLoadBalancerFailed x{}: Error syncing load balancer: failed to ensure load "
    failed += "balancer: Permission denied"
    assert cluster.ingress == []
    assert cluster.events("web") == [ENSURED[0], failed.format(1)]
    cluster.run(4.5)
    assert cluster.events("web")[1] == failed.format(2)
    cluster.run(9)
    assert cluster.events("web")[1] == failed.format(2)
    cluster.run(1)
    assert cluster.events("web")[1] == failed.format(3)
    cluster.provider.refusal = ""
    cluster.run(20)
    assert cluster.ingress == [ADDRESS]
    assert cluster.reasons("web")[-1] == "EnsuredLoadBalancer"


@pytest.mark.parametrize(
    ("is_deleted", "refused", "text"),
    [
        (False, None, "failed to add load balancer cleanup finalizer: denied"),
        (False, "status", "failed to update load balancer status: denied"),
        (True, None, "failed to remove load balancer cleanup finalizer: denied"),
    ],
)
def test_refused_write_is_an_event_and_tried_again(
    cluster: BalancedCluster,
    monkeypatch: pytest.MonkeyPatch,
    is_deleted: bool,
    refused: str | None,
    text: str,
) -> None:
    """As by a webhook."""
    modify = cluster.api.modify

    def refuse(resource: str, *arguments: Any, subresource: str | None = None, **more: Any) -> Obj:
        if (resource, subresource) == ("services", refused):
            raise StatusError(403, "Forbidden", "denied")
        return modify(resource, *arguments, subresource=subresource, **more)

    if is_deleted:
        cluster.add()
    with monkeypatch.context() as patch:
        patch.setattr(cluster.api, "modify", refuse)
        if is_deleted:
            cluster.delete("services", "web")
        else:
            cluster.add()
        cluster.run(1)
    failed = f"SyncLoadBalancerFailed x1: Error syncing load balancer: {text}"
    assert failed in cluster.events("web")
    cluster.run(5)
    if is_deleted:
        assert cluster.find("services", "web") is None
    else:
        assert cluster.ingress == [ADDRESS]


def test_deletion_of_a_service_without_a_load_balancer_yet(cluster: BalancedCluster) -> None:
    cluster.provider.refusal = "Permission denied"
    cluster.add()
    cluster.delete("services", "web")
    cluster.run(1)
    assert cluster.find("services", "web") is None
    assert cluster.reasons("web")[2:] == ["DeletedLoadBalancer"]


def test_service_that_lost_its_finalizer_leaves_no_load_balancer(cluster: BalancedCluster) -> None:
    cluster.add()
    cluster.change("services", "web", lambda obj: obj["metadata"].update(finalizers=[]))
    cluster.delete("services", "web")
    cluster.run(1)
    assert cluster.ports == []
    assert cluster.reasons("web")[-2:] == ["DeletingLoadBalancer", "DeletedLoadBalancer"]
    cluster.add(ports=[{"port": 90}])
    assert cluster.ports == [[90]]


def test_service_that_is_created_again_before_it_is_seen(cluster: BalancedCluster) -> None:
    cluster.add()
    cluster.change("services", "web", lambda obj: obj["metadata"].update(finalizers=[]))
    cluster.delete("services", "web")
    cluster.add(ports=[{"port": 90}])
    assert cluster.ports == [[90]]


def test_load_balancer_without_nodes() -> None:
    cluster = BalancedCluster(nodes=0)
    cluster.add()
    assert (
        "UnAvailableLoadBalancer x1: There are no available nodes for LoadBalancer"
        in cluster.events("web")
    )


@pytest.mark.parametrize("has_load_balancers", [False, True])
def test_controller_runs_where_the_cluster_has_load_balancers(has_load_balancers: bool) -> None:
    cluster = Cluster(has_load_balancers=has_load_balancers)
    assert (SharedParts(cluster.api).load_balancers is not None) == has_load_balancers
    spec = {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "SCTP"}]}
    cluster.create("services", "web", spec)
    cluster.run(1)
    assert bool(cluster.events("web")) == has_load_balancers
    assert cluster.get("services", "web")["status"] == {"loadBalancer": {}}
    asyncio.run(cluster.api.services.close())
