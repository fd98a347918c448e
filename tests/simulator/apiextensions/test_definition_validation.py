"""Errors of invalid definitions, as a server of version 1.36 reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from tests.objects import served_version
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

CRDS = "customresourcedefinitions.apiextensions.k8s.io"


@pytest.fixture(scope="module")
def api() -> SimulatedCluster:
    return new_cluster()


def things(**spec: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "group": "crdt.example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        **spec,
    }
    name = f"{whole['names'].get('plural', '')}.{whole['group']}"
    return {"metadata": {"name": name}, "spec": whole}


def refusals(api: SimulatedCluster, obj: dict[str, Any]) -> list[str]:
    with pytest.raises(StatusError) as refused:
        api.create(CRDS, obj)
    assert refused.value.code == 422
    details = refused.value.details or {}
    return [f"{cause['field']}: {cause['message']}" for cause in details["causes"]]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "array"}, "items: Required value: must be specified"),
        (
            {"type": "array", "items": {}},
            "items.type: Required value: must not be empty for specified array items",
        ),
        (
            {"type": "array", "items": [{"type": "string"}]},
            "items: Forbidden: items must be a schema object and not an array",
        ),
        ({"$ref": "#/x"}, "$ref: Forbidden: $ref is not supported"),
        (
            {"type": "string", "x-kubernetes-map-type": "atomic"},
            'type: Invalid value: "string": must be object if x-kubernetes-map-type is specified',
        ),
        (
            {"type": "string", "x-kubernetes-list-type": "atomic"},
            'type: Invalid value: "string": must be array if x-kubernetes-list-type is specified',
        ),
        (
            {"type": "string", "default": 1},
            'default: Invalid value: "integer":  in body must be of type string: "integer"',
        ),
        (
            {"type": "integer", "default": -1, "minimum": 0},
            "default: Invalid value: -1:  in body should be greater than or equal to 0",
        ),
        (
            {"type": "object", "default": {"x": 1}, "properties": {"y": {"type": "string"}}},
            'default: Invalid value: {"x":1}: must not have unknown fields',
        ),
        (
            {"type": "string", "default": "c", "enum": ["a", "b"]},
            'default: Unsupported value: "c": supported values: "a", "b"',
        ),
        (
            {"type": "integer", "x-kubernetes-validations": [{"rule": " "}]},
            "x-kubernetes-validations[0].rule: Required value: rule is not specified",
        ),
    ],
)
def test_invalid_schema_is_rejected(
    api: SimulatedCluster, schema: dict[str, Any], text: str
) -> None:
    spec = {"type": "object", "properties": {"a": schema}}
    inner = {"type": "object", "properties": {"spec": spec}}
    whole = things(versions=[served_version(schema={"openAPIV3Schema": inner})])
    at = "spec.validation.openAPIV3Schema.properties[spec].properties[a]."
    assert refusals(api, whole) == [at + text]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"versions": [{"name": "v1", "served": True, "storage": True, "schema": None}]},
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            {
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {}},
                    }
                ]
            },
            "spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root",
        ),
        (
            {"group": "nodot"},
            'spec.group: Invalid value: "nodot": should be a domain with at least one dot',
        ),
        (
            {"scope": "odd"},
            'spec.scope: Unsupported value: "odd": supported values: "Cluster", "Namespaced"',
        ),
        ({"scope": ""}, "spec.scope: Required value"),
        (
            {"names": {"plural": "things", "kind": "Thing", "listKind": "Thing"}},
            'spec.names.listKind: Invalid value: "Thing": kind and listKind may not be the same',
        ),
        (
            {
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object"}},
                        "deprecated": True,
                        "deprecationWarning": "",
                    }
                ]
            },
            'spec.versions[0].deprecationWarning: Invalid value: "": must not be an empty string',
        ),
        ({"conversion": {"strategy": ""}}, "spec.conversion.strategy: Required value"),
    ],
)
def test_invalid_definition_is_rejected(
    api: SimulatedCluster, spec: dict[str, Any], text: str
) -> None:
    whole = things(**{"versions": [served_version()], **spec})
    assert refusals(api, whole) == [text]


def test_definition_name_is_plural_and_group(api: SimulatedCluster) -> None:
    whole = things(versions=[served_version()])
    whole["metadata"]["name"] = "odd"
    assert refusals(api, whole) == [
        'metadata.name: Invalid value: "odd": must be spec.names.plural+"."+spec.group'
    ]


def test_community_group_requires_an_approval(
    api: SimulatedCluster,
) -> None:
    whole = things(group="foo.k8s.io", versions=[served_version()])
    whole["metadata"]["annotations"] = {"api-approved.kubernetes.io": "odd"}
    assert refusals(api, whole) == [
        'metadata.annotations[api-approved.kubernetes.io]: Invalid value: "odd": protected groups '
        'must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason '
        'starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111'
    ]
    for given in ("unapproved, a trial", "https://example.com/1"):
        whole["metadata"]["annotations"] = {"api-approved.kubernetes.io": given}
        api.create(CRDS, whole)
        api.delete(CRDS, "things.foo.k8s.io")
