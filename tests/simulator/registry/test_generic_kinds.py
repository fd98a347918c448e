from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.request_info import internal_caller
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

Obj = dict[str, Any]


@pytest.fixture
def api() -> SimulatedCluster:
    return new_cluster()


def create(api: SimulatedCluster, resource: str, name: str = "a", **fields: Any) -> Obj:
    namespace = "default" if api.kind_of(resource).namespaced else ""
    return api.create(resource, {"metadata": {"name": name}, **fields}, namespace)


def change(api: SimulatedCluster, resource: str, obj: Obj, **metadata: Any) -> Obj:
    new = clone(obj)
    new["metadata"] |= metadata
    kind = api.kind_of(resource)
    entry = api.entry(kind, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
    return api.replace(kind, entry, new, None, internal_caller())


def test_defaults_that_no_schema_tells_are_learned(api: SimulatedCluster) -> None:
    schema = create(
        api,
        "flowschemas.flowcontrol.apiserver.k8s.io",
        spec={"priorityLevelConfiguration": {"name": "x"}},
    )
    assert schema["spec"]["matchingPrecedence"] == 1000
    assert schema["metadata"]["generation"] == 1
    request = {"name": "a", "exactly": {"deviceClassName": "b"}}
    claim = create(api, "resourceclaims.resource.k8s.io", spec={"devices": {"requests": [request]}})
    exactly = claim["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly == {"deviceClassName": "b", "allocationMode": "ExactCount", "count": 1}


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ({}, ["Ingress"]),
        ({"egress": [{}]}, ["Ingress", "Egress"]),
        ({"policyTypes": ["Egress"]}, ["Egress"]),
    ],
)
def test_a_network_policy_is_for_what_comes_in(
    api: SimulatedCluster, spec: Obj, types: list[str]
) -> None:
    policy = create(api, "networkpolicies.networking.k8s.io", spec={"podSelector": {}, **spec})
    assert policy["spec"]["policyTypes"] == types


def test_labels_of_endpoint_slices_count_and_annotations_do_not(api: SimulatedCluster) -> None:
    resource = "endpointslices.discovery.k8s.io"
    slices = create(api, resource, addressType="IPv4")
    assert slices["metadata"]["generation"] == 1
    noted = change(api, resource, slices, annotations={"a": "b"})
    assert noted["metadata"]["generation"] == 1
    named = change(api, resource, noted, labels={"a": "b"})
    assert named["metadata"]["generation"] == 2
    named = clone(named)
    named["endpoints"] = [{"addresses": ["10.0.0.1"]}]
    assert change(api, resource, named)["metadata"]["generation"] == 3
