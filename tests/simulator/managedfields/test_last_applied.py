from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_kwait.simulator.cluster import SimulatedCluster, StatusError
from pytest_kwait.simulator.managedfields.apply import apply_object
from pytest_kwait.simulator.request_info import Caller
from tests.simulator.cluster import new_cluster

NOTE = "kubectl.kubernetes.io/last-applied-configuration"
CLIENT = Caller(manager="kubectl-client-side-apply")


@pytest.fixture
def api() -> SimulatedCluster:
    return new_cluster()


def configuration(**data: str) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def applied_on_the_client(api: SimulatedCluster, note: dict[str, Any], **data: str) -> None:
    obj = configuration(**data)
    obj["metadata"]["annotations"] = {NOTE: json.dumps(note)}
    api.create(api.kinds["configmaps"], obj, "default", caller=CLIENT)


def apply_as_kubectl(api: SimulatedCluster, manager: str, **data: str) -> dict[str, Any]:
    kind = api.kinds["configmaps"]
    caller = Caller(manager=manager)
    obj, _ = apply_object(api, kind, configuration(**data), None, caller, force=False)
    return obj


def test_kubectl_takes_over_what_it_applied_on_the_client(api: SimulatedCluster) -> None:
    applied_on_the_client(api, configuration(k="1"), k="1")
    obj = apply_as_kubectl(api, "kubectl", k="2")
    assert obj["data"] == {"k": "2"}
    note = '{"apiVersion":"v1","data":{"k":"2"},"kind":"ConfigMap","metadata":{"name":"a",'
    assert obj["metadata"]["annotations"] == {NOTE: note + '"namespace":"default"}}\n'}


def test_the_note_alone_is_worth_a_write(api: SimulatedCluster) -> None:
    applied_on_the_client(api, configuration(k="1"), k="1")
    first = apply_as_kubectl(api, "kubectl", k="1")
    first["metadata"]["annotations"] = {NOTE: "{}"}
    api.update("configmaps", first, caller=CLIENT)
    assert apply_as_kubectl(api, "kubectl", k="1")["metadata"]["annotations"] != {NOTE: "{}"}


@pytest.mark.parametrize(
    ("manager", "noted"),
    [
        ("other", configuration(k="1")),
        ("kubectl", configuration(k="other than it is")),
        ("kubectl", configuration()),
        ("kubectl", configuration(k="1") | {"apiVersion": "v2"}),
        ("kubectl", {}),
    ],
)
def test_whatever_else_is_a_conflict(
    api: SimulatedCluster, manager: str, noted: dict[str, Any]
) -> None:
    applied_on_the_client(api, noted, k="1")
    with pytest.raises(StatusError) as caught:
        apply_as_kubectl(api, manager, k="2")
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.k'
    )


def test_the_note_is_escaped_as_go_writes_json(api: SimulatedCluster) -> None:
    applied_on_the_client(api, configuration(k="1"), k="1")
    (note,) = apply_as_kubectl(api, "kubectl", k="<ü&>")["metadata"]["annotations"].values()
    assert r'"k":"\u003cü\u0026\u003e"' in note


def test_a_note_that_is_too_large_goes(api: SimulatedCluster) -> None:
    applied_on_the_client(api, configuration(k="1"), k="1")
    assert "annotations" not in apply_as_kubectl(api, "kubectl", k="x" * 300_000)["metadata"]


def test_without_a_note_none_is_made(api: SimulatedCluster) -> None:
    api.create(api.kinds["configmaps"], configuration(k="1"), "default", caller=CLIENT)
    assert "annotations" not in apply_as_kubectl(api, "kubectl", k="1")["metadata"]
