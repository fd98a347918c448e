from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.apiextensions.controller import version_priority
from pytest_kwait.simulator.cluster import SimulatedCluster, StatusError
from pytest_kwait.simulator.conversion import to_version_without_webhook
from pytest_kwait.simulator.request_info import Caller
from tests.simulator.cluster import new_cluster

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
THINGS = "things.example.com"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "string", "enum": ["S", "M"]},
                "replicas": {"type": "integer", "default": 1, "minimum": 0},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
                "list": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {
                        "type": "object",
                        "required": ["k"],
                        "properties": {"k": {"type": "string"}},
                    },
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "port": {"x-kubernetes-int-or-string": True},
                "time": {"type": "string", "format": "date-time"},
                "half": {"type": "number", "multipleOf": 0.5},
            },
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    },
}


def definition(**spec: Any) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": SCHEMA},
    }
    return {
        "metadata": {"name": THINGS},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
            **spec,
        },
    }


@pytest.fixture
def api() -> SimulatedCluster:
    api = new_cluster()
    api.create(CRDS, definition())
    return api


def thing(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": {"size": "S", **spec},
    }


def test_definition_is_established_and_served(api: SimulatedCluster) -> None:
    stored = api.get(CRDS, THINGS)
    assert [(one["type"], one["status"]) for one in stored["status"]["conditions"]] == [
        ("NamesAccepted", "True"),
        ("Established", "True"),
    ]
    assert stored["status"]["storedVersions"] == ["v1"]
    assert stored["spec"]["names"] == {
        "plural": "things",
        "kind": "Thing",
        "singular": "thing",
        "listKind": "ThingList",
    }
    kind = api.kinds.of_kind("example.com/v1", "Thing")
    assert kind is not None
    assert kind.bucket == THINGS
    assert list(kind.subresources) == ["status"]


def test_objects_are_pruned_and_defaulted(api: SimulatedCluster) -> None:
    caller = Caller(field_validation="Warn")
    sent = thing(bogus=1, free={"x": {"y": 1}}, list=[{"k": "a", "z": 1}])
    stored = api.create(THINGS, sent, "default", caller=caller)
    assert stored["spec"] == {
        "size": "S",
        "free": {"x": {"y": 1}},
        "list": [{"k": "a"}],
        "replicas": 1,
    }
    assert caller.warnings == ['unknown field "spec.bogus"', 'unknown field "spec.list[0].z"']


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"size": "L"}, 'spec.size: Unsupported value: "L": supported values: "S", "M"'),
        (
            {"replicas": -1},
            "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or "
            "equal to 0",
        ),
        (
            {"replicas": "x"},
            'spec.replicas: Invalid value: "string": spec.replicas in body must be of type '
            'integer: "string"',
        ),
        ({"name": "abcd"}, "spec.name: Too long: may not be more than 3 bytes"),
        (
            {"name": "A"},
            "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'",
        ),
        ({"list": [{"k": "a"}, {"k": "a"}]}, 'spec.list[1]: Duplicate value: {"k":"a"}'),
        (
            {"port": True},
            'spec.port: Invalid value: "boolean": spec.port in body must be of type '
            'integer,string: "boolean"',
        ),
        (
            {"time": "now"},
            'spec.time: Invalid value: "now": spec.time in body must be of type date-time: "now"',
        ),
        (
            {"half": 0.3},
            "spec.half: Invalid value: 0.3: spec.half in body should be a multiple of 0.5",
        ),
    ],
)
def test_objects_are_validated_by_the_schema(
    api: SimulatedCluster, spec: dict[str, Any], text: str
) -> None:
    with pytest.raises(StatusError) as refused:
        api.create(THINGS, thing(**spec), "default")
    assert refused.value.code == 422
    assert refused.value.message == f'Thing.example.com "a" is invalid: {text}'


def test_required_fields_are_enforced(api: SimulatedCluster) -> None:
    with pytest.raises(StatusError, match=r"spec\.size: Required value"):
        api.create(THINGS, {**thing(), "spec": {}}, "default")


def test_generation_counts_spec_changes_only(api: SimulatedCluster) -> None:
    api.create(THINGS, thing(), "default")
    changed = api.modify(THINGS, "a", "default", lambda obj: obj["spec"].update(replicas=2))
    assert changed["metadata"]["generation"] == 2

    def status(obj: dict[str, Any]) -> None:
        obj["status"] = {"replicas": 2}
        obj["spec"]["replicas"] = 5

    changed = api.modify(THINGS, "a", "default", status, subresource="status")
    assert changed["metadata"]["generation"] == 2
    assert changed["status"] == {"replicas": 2}
    assert changed["spec"]["replicas"] == 2


def test_deleted_definition_deletes_its_objects(api: SimulatedCluster) -> None:
    api.create(THINGS, thing(), "default")
    api.delete(CRDS, THINGS)
    assert api.find(CRDS, THINGS) is None
    assert api.kinds.find(THINGS) is None
    assert api.store.count(THINGS) == 0


def test_definition_waits_for_objects_with_finalizers(api: SimulatedCluster) -> None:
    kept = thing()
    kept["metadata"]["finalizers"] = ["e.com/f"]
    api.create(THINGS, kept, "default")
    api.delete(CRDS, THINGS)
    assert api.find(CRDS, THINGS) is not None
    api.modify(THINGS, "a", "default", lambda obj: obj["metadata"].pop("finalizers"))
    assert api.find(CRDS, THINGS) is None


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"names": {"plural": "others", "kind": "Thing"}},
            'metadata.name: Invalid value: "things.example.com": must be '
            'spec.names.plural+"."+spec.group',
        ),
        (
            {"scope": "Nope"},
            'spec.scope: Unsupported value: "Nope": supported values: "Cluster", "Namespaced"',
        ),
        (
            {"versions": [{"name": "v1", "served": True, "storage": True}]},
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
    ],
)
def test_invalid_definitions_are_rejected(spec: dict[str, Any], text: str) -> None:
    with pytest.raises(StatusError) as refused:
        new_cluster().create(CRDS, definition(**spec))
    assert refused.value.message == (
        f'CustomResourceDefinition.apiextensions.k8s.io "things.example.com" is invalid: {text}'
    )


def versions() -> list[dict[str, Any]]:
    def version(name: str, field: str, **more: Any) -> dict[str, Any]:
        fields = {"both": {"type": "string"}, field: {"type": "string", "default": name}}
        spec = {"type": "object", "properties": fields}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        return {"name": name, "served": True, "storage": False, "schema": schema, **more}

    return [
        version("v1beta1", "old", deprecated=True),
        version("v1", "one", storage=True),
        version("v2", "two", deprecated=True, deprecationWarning="not yet"),
    ]


def test_each_version_prunes_stored_objects() -> None:
    api = new_cluster()
    api.create(CRDS, definition(versions=versions()))
    kind = api.kinds.of_kind("example.com/v2", "Thing")
    assert kind is not None
    assert not kind.stored
    sent = {
        "apiVersion": "example.com/v2",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": {"both": "x"},
    }
    stored = api.create(kind, sent, "default")
    assert stored["apiVersion"] == "example.com/v1"
    assert stored["spec"] == {"both": "x", "one": "v1"}
    shown = to_version_without_webhook(kind, stored)
    assert (shown["apiVersion"], shown["spec"]) == ("example.com/v2", {"both": "x"})


def test_storage_version_need_not_be_served() -> None:
    api = new_cluster()
    old, stored, new = versions()
    api.create(CRDS, definition(versions=[old, {**stored, "served": False}, new]))
    assert api.kinds.of_kind("example.com/v1", "Thing") is None
    kind = api.kinds.of_kind("example.com/v2", "Thing")
    assert kind is not None
    assert (kind.stored, kind.storage_version_hash) == (False, "")
    sent = {
        "apiVersion": "example.com/v2",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": {"both": "x"},
    }
    assert api.create(kind, sent, "default")["apiVersion"] == "example.com/v1"
    assert [to_version_without_webhook(kind, obj)["spec"] for obj in api.list(THINGS)] == [
        {"both": "x"}
    ]


def test_unserved_objects_are_deleted_with_their_definition() -> None:
    api = new_cluster()
    api.create(CRDS, definition(versions=versions()))
    kind = api.kinds.of_kind("example.com/v1", "Thing")
    assert kind is not None
    sent = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    api.create(kind, sent, "default")

    def hidden(changed: dict[str, Any]) -> None:
        for version in changed["spec"]["versions"]:
            version["served"] = False

    api.modify(CRDS, THINGS, "", hidden)
    assert api.kinds.served("example.com", "v1") is None
    assert api.store.count(THINGS) == 1
    api.delete(api.kind_of(CRDS), THINGS)
    assert api.store.count(THINGS) == 0
    assert api.find(CRDS, THINGS) is None


def test_deprecated_versions_warn_and_stable_versions_lead() -> None:
    api = new_cluster()
    api.create(CRDS, definition(versions=versions()))
    served = [name for group, name in api.kinds.group_versions() if group == "example.com"]
    assert served == ["v2", "v1", "v1beta1"]
    texts = []
    for name in served:
        structure = (api.kinds.served("example.com", name) or {})["things"].structure
        texts.append(structure.deprecation if structure is not None else None)
    assert texts == ["not yet", "", "example.com/v1beta1 Thing is deprecated"]


def test_terminating_definition_denies_new_objects(api: SimulatedCluster) -> None:
    kept = thing()
    kept["metadata"]["finalizers"] = ["e.com/f"]
    api.create(THINGS, kept, "default")
    api.delete(CRDS, THINGS)
    conditions = api.get(CRDS, THINGS)["status"]["conditions"]
    assert conditions[-1]["reason"] == "InstanceDeletionInProgress"
    with pytest.raises(StatusError) as refused:
        api.create(THINGS, {**thing(), "metadata": {"name": "b"}}, "default")
    assert refused.value.message == (
        'things.example.com "b" is forbidden: create not allowed while custom resource definition '
        "is terminating"
    )


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        (
            ["v1alpha2", "v2beta1", "odd", "v1", "v10", "v2beta2"],
            ["v10", "v1", "v2beta2", "v2beta1", "v1alpha2", "odd"],
        ),
    ],
)
def test_versions_are_sorted_by_priority(names: list[str], ordered: list[str]) -> None:
    assert sorted(names, key=version_priority) == ordered
