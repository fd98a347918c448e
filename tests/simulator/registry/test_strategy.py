"""What controllers of the process write: only what differs is decoded, the rest is shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.objects import Obj, clone
from pytest_kwait.simulator.registry.strategy import (
    _STRATEGIES,
    Strategy,
    decode,
    decode_change,
    strategy_of,
)
from pytest_kwait.simulator.request_info import internal_caller
from pytest_kwait.simulator.scheme import Scheme
from tests.objects import pod
from tests.rows import check_rows

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

KINDS = Scheme()


def test_every_row_names_the_strategy_of_a_kind_that_is_served() -> None:
    check_rows(sorted(_STRATEGIES), _check_strategy)


def _check_strategy(resource: str) -> None:
    strategy = strategy_of(KINDS[resource])
    assert isinstance(strategy, Strategy)
    assert type(strategy).__name__ == _STRATEGIES[resource][1]


def test_kinds_without_a_row_have_the_generic_one() -> None:
    assert type(strategy_of(KINDS["componentstatuses"])) is Strategy


GenericKindsObj = dict[str, Any]


def create(api: SimulatedCluster, resource: str, name: str = "a", **fields: Any) -> GenericKindsObj:
    namespace = "default" if api.kind_of(resource).namespaced else ""
    return api.create(resource, {"metadata": {"name": name}, **fields}, namespace)


def change(
    api: SimulatedCluster, resource: str, obj: GenericKindsObj, **metadata: Any
) -> GenericKindsObj:
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
def test_network_policy_defaults_to_ingress(
    api: SimulatedCluster, spec: GenericKindsObj, types: list[str]
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


_STAMP = "2026-01-01T00:00:00Z"


def _condition(kind: str, status: str = "False", **more: object) -> Obj:
    return {"type": kind, "status": status, "lastTransitionTime": _STAMP, **more}


@pytest.fixture
def stored(api: SimulatedCluster) -> Obj:
    made = api.create("pods", pod(), "default")
    conditions = [_condition("Ready"), _condition("Initialized", "True")]
    status = {**made["status"], "conditions": conditions, "hostIP": "10.0.0.1"}
    return api.update_status("pods", {**made, "status": status})


def _change(api: SimulatedCluster, old: Obj, **status: object) -> Obj:
    strategy = api.strategy(api.kinds["pods"])
    new = {**old, "status": {**clone(old["status"]), **status}}
    return decode_change(strategy, new, old, "status")


def test_unchanged_fields_share_the_stored_object(api: SimulatedCluster, stored: Obj) -> None:
    new = _change(api, stored, message="m")
    assert new["status"]["message"] == "m"
    assert new["status"]["conditions"] is stored["status"]["conditions"]
    assert new["spec"] is stored["spec"]
    assert new["status"] is not stored["status"]


def test_only_changed_list_items_are_decoded(api: SimulatedCluster, stored: Obj) -> None:
    before = stored["status"]["conditions"]
    new = _change(api, stored, conditions=[_condition("Ready", "True"), clone(before[1])])
    changed, kept = new["status"]["conditions"]
    assert kept is before[1]
    assert changed == {**_condition("Ready", "True"), "lastProbeTime": None}


def test_extended_and_reordered_lists_are_decoded(api: SimulatedCluster, stored: Obj) -> None:
    turned = [*reversed(clone(stored["status"]["conditions"])), _condition("New")]
    new = _change(api, stored, conditions=turned)
    strategy = api.strategy(api.kinds["pods"])
    whole = decode(
        strategy,
        {**stored, "status": {**stored["status"], "conditions": turned}},
        internal_caller(),
    )
    assert new["status"] == whole["status"]
    assert [one["type"] for one in new["status"]["conditions"]] == ["Initialized", "Ready", "New"]


def test_a_wrong_type_is_refused_where_the_rest_is_the_same(
    api: SimulatedCluster, stored: Obj
) -> None:
    conditions = [{**stored["status"]["conditions"][0], "status": 1}]
    with pytest.raises(StatusError, match="cannot unmarshal number into Go struct field"):
        _change(api, stored, conditions=conditions)


def test_shared_parts_are_not_mutated(api: SimulatedCluster, stored: Obj) -> None:
    generation = [_condition("Ready", observedGeneration=1), stored["status"]["conditions"][1]]
    first = api.update_status(
        "pods", {**stored, "status": {**stored["status"], "conditions": generation}}
    )
    before = clone(first)
    # Who forgets the generation gets it back in the new object, not in the one that is stored.
    forgotten = [_condition("Ready"), first["status"]["conditions"][1]]
    second = api.update_status(
        "pods", {**first, "status": {**first["status"], "conditions": forgotten, "message": "m"}}
    )
    assert second["status"]["conditions"][0]["observedGeneration"] == 1
    assert first == before
