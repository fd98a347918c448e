from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.aggregator.api_services import (
    AutoRegistrationController,
    AvailabilityController,
    check_availability,
)
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.aggregator.api_services import AggregatedServer
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from tests.simulator.manual_clock import ManualClock

Obj = dict[str, Any]
SERVICES = "apiservices.apiregistration.k8s.io"


def api_service(name: str = "far", **more: Any) -> Obj:
    spec = {"group": "a.example", "version": "v1", "groupPriorityMinimum": 10}
    spec |= {"versionPriority": 10, "service": {"name": name, "namespace": "default"}}
    return {"metadata": {"name": "v1.a.example"}, "spec": {**spec, **more}}


def condition(api: SimulatedCluster, name: str = "v1.a.example") -> tuple[str, str, str]:
    (found,) = api.get(SERVICES, name)["status"]["conditions"]
    return found["status"], found["reason"], found["message"]


def run(api: SimulatedCluster, seconds: float = 0.0) -> None:
    clock: ManualClock = api.clock  # type: ignore[assignment]
    clock.advance(seconds)


def test_built_in_groups_are_local() -> None:
    api = new_cluster()
    AutoRegistrationController(api)
    names = [one["metadata"]["name"] for one in api.list(SERVICES)]
    assert len(names) == 21
    assert names[:3] == ["v1.", "v1.admissionregistration.k8s.io", "v1.apiextensions.k8s.io"]
    always = ("True", "Local", "Local APIServices are always available")
    assert {condition(api, name) for name in names} == {always}


def test_groups_come_and_go_with_their_definitions() -> None:
    api = new_cluster()
    AutoRegistrationController(api)
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "a.example", "scope": "Cluster", "names": names, "versions": [version]}
    definitions = "customresourcedefinitions.apiextensions.k8s.io"
    api.create(definitions, {"metadata": {"name": "things.a.example"}, "spec": spec})
    run(api)
    found = api.get(SERVICES, "v1.a.example")
    assert found["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
    assert found["spec"]["groupPriorityMinimum"] == 1000
    api.delete(definitions, "things.a.example")
    run(api)
    assert api.find(SERVICES, "v1.a.example") is None


def slice_of(name: str, *, ready: bool, port: str = "") -> Obj:
    labels = {"kubernetes.io/service-name": name}
    endpoint = {"addresses": ["10.1.2.3"], "conditions": {"ready": ready}}
    ports = [{"name": port, "port": 8443, "protocol": "TCP"}]
    metadata = {"name": f"{name}-x", "labels": labels}
    return {
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": [endpoint],
        "ports": ports,
    }


@pytest.mark.parametrize(
    ("port", "slices", "reason", "message"),
    [
        (80, [], "ServicePortError", 'service/far in "default" is not listening on port 443'),
        (
            443,
            [],
            "EndpointsNotFound",
            'cannot find endpointslices for service/far in "default"',
        ),
        (
            443,
            [slice_of("far", ready=False)],
            "MissingEndpoints",
            'endpointslices for service/far in "default" have no addresses with port name ""',
        ),
        (
            443,
            [slice_of("far", ready=True)],
            "FailedDiscoveryCheck",
            "failing or missing response from https://10.0.0.9:443/apis/a.example/v1: Get"
            ' "https://10.0.0.9:443/apis/a.example/v1": dial tcp 10.0.0.9:443: connect: connection'
            " refused",
        ),
    ],
)
def test_unavailable_service_conditions(
    port: int, slices: list[Obj], reason: str, message: str
) -> None:
    api = new_cluster()
    spec = {"ports": [{"port": port}], "clusterIP": "10.0.0.9"}
    api.create("services", {"metadata": {"name": "far"}, "spec": spec}, "default")
    for one in slices:
        api.create("endpointslices.discovery.k8s.io", one, "default")
    assert check_availability(api, api_service()) == (reason, message)


def test_responding_service_is_available() -> None:
    api = new_cluster()
    asked: list[tuple[AggregatedServer, Callable[..., None]]] = []
    AvailabilityController(api, lambda backend, _, tell: asked.append((backend, tell)))
    api.create(SERVICES, api_service())
    run(api)
    missing = 'service/far in "default" is not present'
    assert condition(api) == ("False", "ServiceNotFound", missing)
    assert ("a.example", "v1") in api.kinds.elsewhere
    spec = {"type": "ExternalName", "externalName": "there.example"}
    api.create("services", {"metadata": {"name": "far"}, "spec": spec}, "default")
    run(api)
    ((backend, tell),) = asked
    assert (backend.url, backend.name) == ("https://there.example:443", "far.default.svc")
    tell(("FailedDiscoveryCheck", "not yet"), None)
    assert condition(api) == ("False", "FailedDiscoveryCheck", "not yet")
    run(api, 6)
    asked[1][1](("Passed", "all checks passed"), [])
    assert condition(api) == ("True", "Passed", "all checks passed")
    assert api.kinds.discovered == {("a.example", "v1"): []}
    api.delete(SERVICES, "v1.a.example")
    assert not api.kinds.elsewhere
    assert not api.kinds.discovered


def test_a_group_without_a_service_is_the_servers_own() -> None:
    api = new_cluster()
    AvailabilityController(api, lambda *_: None)
    local = api_service()
    del local["spec"]["service"]
    api.create(SERVICES, local)
    run(api)
    assert condition(api) == ("True", "Local", "Local APIServices are always available")
