from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.codec.schema import struct_of
from pytest_kwait.simulator.managedfields.apply import apply_object
from pytest_kwait.simulator.request_info import Caller
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

CONTAINERS = [{"name": "c", "image": "x"}]


@pytest.fixture(name="api")
def _api() -> SimulatedCluster:
    return new_cluster()


def owned_fields(obj: dict[str, Any], manager: str = "m") -> dict[str, Any]:
    """Return the `fieldsV1` of a manager's only entry."""
    (fields,) = (
        entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", ())
        if entry["manager"] == manager
    )
    return dict(fields)


def create(api: SimulatedCluster, resource: str, **fields: Any) -> dict[str, Any]:
    obj = {"metadata": {"name": "a"}, **fields}
    return api.create(resource, obj, "default", caller=Caller(manager="m"))


def test_defaults_are_owned_and_what_admission_sets_is_not(api: SimulatedCluster) -> None:
    pod = create(api, "pods", spec={"containers": CONTAINERS})
    assert {"priority", "tolerations", "serviceAccountName", "volumes"} <= pod["spec"].keys()
    assert set(owned_fields(pod)["f:spec"]) == {
        "f:containers",
        "f:dnsPolicy",
        "f:enableServiceLinks",
        "f:restartPolicy",
        "f:schedulerName",
        "f:securityContext",
        "f:terminationGracePeriodSeconds",
    }
    assert "f:volumeMounts" not in json.dumps(owned_fields(pod))


def test_allocated_addresses_of_a_service_belong_to_nobody(api: SimulatedCluster) -> None:
    service = create(api, "services", spec={"ports": [{"port": 80}]})
    assert set(owned_fields(service)["f:spec"]) == {
        "f:internalTrafficPolicy",
        "f:ports",
        "f:sessionAffinity",
        "f:type",
    }


@pytest.mark.parametrize(
    ("spec", "owned"),
    [({}, None), ({"limits": []}, {"f:spec": {"f:limits": {}}})],
    ids=["absent", "empty"],
)
def test_only_a_given_empty_list_is_owned(
    api: SimulatedCluster, spec: dict[str, Any], owned: dict[str, Any] | None
) -> None:
    limits = create(api, "limitranges", spec=spec)
    entries = limits["metadata"].get("managedFields", [])
    assert [entry["fieldsV1"] for entry in entries] == ([] if owned is None else [owned])


def test_keys_of_items_are_escaped_as_go_does(api: SimulatedCluster) -> None:
    containers = [{**CONTAINERS[0], "env": [{"name": "a<b>&c", "value": "x"}]}]
    pod = create(api, "pods", spec={"containers": containers})
    (container,) = owned_fields(pod)["f:spec"]["f:containers"].values()
    assert set(container["f:env"]) == {".", 'k:{"name":"a\\u003cb\\u003e\\u0026c"}'}


def test_items_with_the_same_key_are_one_field(api: SimulatedCluster) -> None:
    env = [{"name": "d", "value": "1"}, {"name": "d", "value": "2"}]
    pod = create(api, "pods", spec={"containers": [{**CONTAINERS[0], "env": env}]})
    (container,) = owned_fields(pod)["f:spec"]["f:containers"].values()
    assert container["f:env"] == {".": {}, 'k:{"name":"d"}': {}}


def test_an_item_without_key_leaves_the_object_without_owners(api: SimulatedCluster) -> None:
    account = create(api, "serviceaccounts", secrets=[{"namespace": "n"}])
    assert "managedFields" not in account["metadata"]


def test_status_writes_own_metadata_of_built_in_kinds(api: SimulatedCluster) -> None:
    node = api.create("nodes", {"metadata": {"name": "n", "labels": {"a": "b"}}})
    changed = {**node, "metadata": {**node["metadata"], "annotations": {"a": "b"}}}
    changed["spec"] = {"unschedulable": True}
    caller = Caller(manager="m")
    written = api.update("nodes", changed, subresource="status", caller=caller)
    assert owned_fields(written) == {"f:metadata": {"f:annotations": {".": {}, "f:a": {}}}}


def test_each_manager_has_the_version_it_wrote(api: SimulatedCluster) -> None:
    kind = (api.kinds.served("autoscaling", "v1") or {})["horizontalpodautoscalers"]
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    spec = {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50, "scaleTargetRef": target}
    obj = {"metadata": {"name": "a"}, "spec": spec}
    created = api.create(kind, obj, "default", caller=Caller(manager="m"))
    (entry,) = created["metadata"]["managedFields"]
    assert entry["apiVersion"] == "autoscaling/v1"
    assert "f:targetCPUUtilizationPercentage" in entry["fieldsV1"]["f:spec"]


def test_the_server_owns_what_it_makes(api: SimulatedCluster) -> None:
    for resource, name in (
        ("namespaces", "default"),
        ("clusterroles.rbac.authorization.k8s.io", "edit"),
        ("priorityclasses.scheduling.k8s.io", "system-node-critical"),
    ):
        assert owned_fields(api.get(resource, name), "kube-apiserver"), name


def test_zero_value_has_no_defaults() -> None:
    assert struct_of("", "v1", "LimitRange").zero == {"metadata": {}, "spec": {"limits": None}}
    assert struct_of("", "v1", "Service").zero["spec"] == {}


def change(api: SimulatedCluster, manager: str, **data: str) -> dict[str, Any]:
    """Add data to the config map `a`."""
    return api.modify(
        "configmaps",
        "a",
        "default",
        lambda obj: obj.setdefault("data", {}).update(data),
        caller=Caller(manager=manager),
    )


def test_the_oldest_of_many_updates_are_one_manager(api: SimulatedCluster) -> None:
    obj = {"metadata": {"name": "a"}, "data": {"m0": "1"}}
    api.create("configmaps", obj, "default", caller=Caller(manager="m0"))
    for number in range(1, 10):
        written = change(api, f"m{number}", **{f"m{number}": "1"})
    managers = [entry["manager"] for entry in written["metadata"]["managedFields"]]
    assert managers == [f"m{number}" for number in range(10)]
    for number in range(10, 13):
        written = change(api, f"m{number}", **{f"m{number}": "1"})
    managers = [entry["manager"] for entry in written["metadata"]["managedFields"]]
    assert managers == ["ancient-changes", "m12", *(f"m{number}" for number in range(2, 10))]
    ancient = {".", "f:m0", "f:m1", "f:m10", "f:m11"}
    assert owned_fields(written, "ancient-changes")["f:data"].keys() == ancient


def test_what_has_no_manager_has_one_from_its_first_apply(api: SimulatedCluster) -> None:
    api.create("configmaps", {"metadata": {"name": "a"}}, "default", caller=Caller(manager="m"))
    assert "managedFields" not in change(api, "m", a="1", b="1")["metadata"]
    kind, caller = api.kinds["configmaps"], Caller(manager="applier")
    applied = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default"},
    }
    conflict = 'conflict with "before-first-apply" using v1: .data.a'
    with pytest.raises(StatusError, match=conflict):
        apply_object(api, kind, {**applied, "data": {"a": "2"}}, None, caller, force=False)
    stored, _ = apply_object(api, kind, {**applied, "data": {"a": "1"}}, None, caller, force=False)
    assert owned_fields(stored, "before-first-apply") == {"f:data": {".": {}, "f:a": {}, "f:b": {}}}
