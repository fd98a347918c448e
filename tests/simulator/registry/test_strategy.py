"""What controllers of the process write: only what differs is decoded, the rest is shared."""

from __future__ import annotations

import pytest

from pytest_kwait.simulator.cluster import SimulatedCluster, StatusError
from pytest_kwait.simulator.objects import Obj, clone
from pytest_kwait.simulator.registry.decoding import decode, decode_change
from pytest_kwait.simulator.request_info import internal_caller
from tests.simulator.cluster import new_cluster, pod

_STAMP = "2026-01-01T00:00:00Z"


def _condition(kind: str, status: str = "False", **more: object) -> Obj:
    return {"type": kind, "status": status, "lastTransitionTime": _STAMP, **more}


@pytest.fixture
def api() -> SimulatedCluster:
    return new_cluster()


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


def test_what_is_the_same_is_the_stored_object_itself(api: SimulatedCluster, stored: Obj) -> None:
    new = _change(api, stored, message="m")
    assert new["status"]["message"] == "m"
    assert new["status"]["conditions"] is stored["status"]["conditions"]
    assert new["spec"] is stored["spec"]
    assert new["status"] is not stored["status"]


def test_of_a_list_only_items_are_decoded_that_changed(api: SimulatedCluster, stored: Obj) -> None:
    before = stored["status"]["conditions"]
    new = _change(api, stored, conditions=[_condition("Ready", "True"), clone(before[1])])
    changed, kept = new["status"]["conditions"]
    assert kept is before[1]
    assert changed == {**_condition("Ready", "True"), "lastProbeTime": None}


def test_a_longer_list_and_one_in_another_order_come_out_right(
    api: SimulatedCluster, stored: Obj
) -> None:
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


def test_what_is_shared_is_not_changed_by_the_next_write(
    api: SimulatedCluster, stored: Obj
) -> None:
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
