from __future__ import annotations

import sys

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.request_info import Caller
from pytest_kwait.simulator.validation.objectmeta import dedup_owner_references
from tests.simulator.cluster import new_cluster
from tests.simulator.validation.field_causes import Obj, get_create_causes, get_update_causes

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
AT = "metadata.ownerReferences"


@pytest.mark.parametrize(
    ("owners", "texts"),
    [
        (
            [{}],
            [
                f'{AT}.apiVersion: Invalid value: "": version must not be empty',
                f'{AT}.kind: Invalid value: "": must not be empty',
                f'{AT}.name: Invalid value: "": must not be empty',
                f'{AT}.uid: Invalid value: "": must not be empty',
            ],
        ),
        (
            [{**OWNER, "apiVersion": "a/b/c"}],
            [f'{AT}.apiVersion: Invalid value: "a/b/c": version must not be empty'],
        ),
        (
            [{**OWNER, "kind": "Event"}],
            [
                f'{AT}: Invalid value: {{"apiVersion":"v1","kind":"Event","name":"p","uid":"u"}}: '
                "/v1, Kind=Event is disallowed from being an owner"
            ],
        ),
        (
            [{**OWNER, "controller": True}, {**OWNER, "name": "q", "controller": True}],
            [
                f'{AT}: Invalid value: [{{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u",'
                '"controller":true},{"apiVersion":"v1","kind":"Pod","name":"q","uid":"u",'
                '"controller":true}]: Only one reference can have Controller set to true. Found '
                '"true" in references for Pod/p and Pod/q'
            ],
        ),
    ],
)
def test_owner_references(owners: list[Obj], texts: list[str]) -> None:
    body = {"metadata": {"name": "a", "ownerReferences": owners}}
    assert get_create_causes(new_cluster(), "configmaps", body) == texts


def test_a_duplicate_owner_reference_is_dropped_with_a_warning() -> None:
    caller = Caller(dry_run=True)
    body = {"metadata": {"name": "a", "ownerReferences": [OWNER, OWNER, {**OWNER, "uid": "v"}]}}
    made = new_cluster().create("configmaps", body, "default", caller=caller)
    assert made["metadata"]["ownerReferences"] == [OWNER, {**OWNER, "uid": "v"}]
    assert caller.warnings == [
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references "
        "in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
        "duplicate UID(s) observed: u"
    ]


def test_generation_is_incremented() -> None:
    body = {"metadata": {"name": "a", "generation": -1}}
    assert get_create_causes(new_cluster(), "configmaps", body) == [
        "metadata.generation: Invalid value: -1: must be greater than or equal to 0"
    ]


def test_an_update_cannot_set_the_deletion_timestamp() -> None:
    api = new_cluster()
    old = api.create("configmaps", {"metadata": {"name": "a"}}, "default")
    stamp = "2020-01-01T00:00:00Z"
    assert (
        get_update_causes(api, "configmaps", old, {"metadata": {"deletionTimestamp": stamp}})
        == [f'metadata.deletionTimestamp: Invalid value: "{stamp}": field is immutable'] * 2
    )


def test_a_dry_run_returns_no_resource_version() -> None:
    api = new_cluster()
    body = {"metadata": {"name": "a", "resourceVersion": "5"}}
    dry = Caller(dry_run=True)
    made = api.create("configmaps", body, "default", caller=dry)
    assert made["metadata"]["resourceVersion"] == "5"
    with pytest.raises(StatusError, match="resourceVersion should not be set on objects to be"):
        api.create("configmaps", body, "default")


def test_many_owner_references_are_little_work() -> None:
    metadata = {"ownerReferences": [{"uid": str(number)} for number in range(10_000)]}
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        text = dedup_owner_references(metadata)
    finally:
        sys.setprofile(before)
    assert not text
    assert calls < 100
