from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiextensions.controller import version_priority
from pytest_kwait.simulator.conversion import to_version_without_webhook
from pytest_kwait.simulator.request_info import Caller
from tests.objects import definition, served_version
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

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


def things(**fields: Any) -> dict[str, Any]:
    versions = [served_version(subresources={"status": {}}, schema={"openAPIV3Schema": SCHEMA})]
    return definition("things", "Thing", **{"versions": versions, **fields})


@pytest.fixture
def api() -> SimulatedCluster:
    api = new_cluster()
    api.create(CRDS, things())
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
        new_cluster().create(CRDS, things(**spec))
    assert refused.value.message == (
        f'CustomResourceDefinition.apiextensions.k8s.io "things.example.com" is invalid: {text}'
    )


def versions() -> list[dict[str, Any]]:
    def pruning_version(name: str, field: str, **more: Any) -> dict[str, Any]:
        fields = {"both": {"type": "string"}, field: {"type": "string", "default": name}}
        spec = {"type": "object", "properties": fields}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        return {"name": name, "served": True, "storage": False, "schema": schema, **more}

    return [
        pruning_version("v1beta1", "old", deprecated=True),
        pruning_version("v1", "one", storage=True),
        pruning_version("v2", "two", deprecated=True, deprecationWarning="not yet"),
    ]


def test_each_version_prunes_stored_objects() -> None:
    api = new_cluster()
    api.create(CRDS, things(versions=versions()))
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
    api.create(CRDS, things(versions=[old, {**stored, "served": False}, new]))
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
    api.create(CRDS, things(versions=versions()))
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
    api.create(CRDS, things(versions=versions()))
    served = [name for group, name in api.kinds.group_versions() if group == "example.com"]
    assert served == ["v2", "v1", "v1beta1"]
    texts = []
    for name in served:
        structure = (api.kinds.served("example.com", name) or {})["things"].structure
        texts.append(structure.deprecation if structure is not None else None)
    newer = "; use example.com/v1 Thing"
    assert texts == ["not yet", "", f"example.com/v1beta1 Thing is deprecated{newer}"]


def test_deprecation_warning_names_no_version_if_none_is_newer() -> None:
    api = new_cluster()
    old, stored, new = versions()
    api.create(CRDS, things(versions=[old, {**stored, "deprecated": True}, new]))
    for name in ("v1", "v1beta1"):
        structure = (api.kinds.served("example.com", name) or {})["things"].structure
        assert structure is not None
        assert structure.deprecation == f"example.com/{name} Thing is deprecated"


@pytest.mark.parametrize(
    ("annotation", "status", "reason", "message"),
    [
        ("unapproved, of a test", "False", "UnapprovedAnnotation", 'not approved: "{}"'),
        ("https://example.com/1", "True", "ApprovedAnnotation", "approved in {}"),
    ],
)
def test_definition_of_a_community_group_has_an_approval_condition(
    annotation: str, status: str, reason: str, message: str
) -> None:
    api = new_cluster()
    new = things(group="a.k8s.io")
    annotations = {"api-approved.kubernetes.io": annotation}
    new["metadata"] = {"name": "things.a.k8s.io", "annotations": annotations}
    api.create(CRDS, new)
    conditions = api.get(CRDS, "things.a.k8s.io")["status"]["conditions"]
    assert [one["type"] for one in conditions] == [
        "KubernetesAPIApprovalPolicyConformant",
        "NamesAccepted",
        "Established",
    ]
    assert {key: conditions[0][key] for key in ("status", "reason", "message")} == {
        "status": status,
        "reason": reason,
        "message": message.format(annotation),
    }


def test_approval_condition_follows_the_annotation() -> None:
    api = new_cluster()
    new = things(group="a.k8s.io")
    new["metadata"] = {
        "name": "things.a.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved"},
    }
    api.create(CRDS, new)

    def annotate(text: str) -> dict[str, Any]:
        def change(obj: dict[str, Any]) -> None:
            obj["metadata"]["annotations"]["api-approved.kubernetes.io"] = text

        api.modify(CRDS, "things.a.k8s.io", "", change)
        condition: dict[str, Any] = api.get(CRDS, "things.a.k8s.io")["status"]["conditions"][0]
        return condition

    assert annotate("https://example.com/1")["status"] == "True"
    assert annotate("unapproved again")["message"] == 'not approved: "unapproved again"'


def with_schema(**properties: Any) -> list[dict[str, Any]]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": schema,
        }
    ]


WAITING = {"phase": "Waiting"}
STATUS = {
    "type": "object",
    "default": WAITING,
    "properties": {"phase": {"type": "string"}, "count": {"type": "integer", "default": 1}},
}


def test_status_that_creation_resets_has_its_defaults() -> None:
    api = new_cluster()
    api.create(CRDS, things(versions=with_schema(status=STATUS)))
    sent = {**thing(), "spec": {}, "status": {"phase": "Sent"}}
    for dry_run in (True, False):
        stored = api.create(THINGS, sent, "default", caller=Caller(dry_run=dry_run))
        assert stored["status"] == {"phase": "Waiting", "count": 1}
    assert api.get(THINGS, "a", "default")["status"] == {"phase": "Waiting", "count": 1}


def test_later_schema_is_that_of_stored_objects() -> None:
    api = new_cluster()
    text = {"type": "string"}
    spec = {"type": "object", "properties": {"old": text, "kept": text}}
    api.create(CRDS, things(versions=with_schema(spec=spec, status=STATUS)))
    sent = {**thing(), "spec": {"old": "x", "kept": "y"}}
    revision = api.create(THINGS, sent, "default")["metadata"]["resourceVersion"]
    seen: list[Any] = []
    api.store.watch(THINGS, seen.append)

    def change(**properties: Any) -> dict[str, Any]:
        def replace(obj: dict[str, Any]) -> None:
            obj["spec"]["versions"] = with_schema(**properties)

        api.modify(CRDS, THINGS, "", replace)
        return api.get(THINGS, "a", "default")

    new = {"type": "string", "default": "z"}
    later = change(
        spec={"type": "object", "properties": {"kept": text, "new": new}},
        status={"type": "object", "default": {"phase": "Later"}, "properties": {"phase": text}},
    )
    assert later["spec"] == {"kept": "y", "new": "z"}
    assert later["status"] == {"phase": "Later"}
    assert later["metadata"]["resourceVersion"] == revision
    assert change(spec=spec, status=STATUS)["spec"] == {"old": "x", "kept": "y"}
    assert seen == []


def test_definition_of_a_built_in_resource_leaves_it_alone() -> None:
    api = new_cluster()
    name = "deployments.apps"
    roles = api.kinds.find("roles.rbac.authorization.k8s.io")
    new = things(
        group="rbac.authorization.k8s.io",
        names={"plural": "roles", "kind": "Role"},
        versions=with_schema(spec={"type": "object"}),
    )
    new["metadata"] = {
        "name": "roles.rbac.authorization.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved"},
    }
    before = api.list("roles.rbac.authorization.k8s.io")
    assert before
    api.create(CRDS, new)
    assert api.kinds.find("roles.rbac.authorization.k8s.io") is roles
    assert (api.kinds.served("rbac.authorization.k8s.io", "v1") or {})["roles"] is roles
    api.delete(CRDS, new["metadata"]["name"])
    assert api.find(CRDS, new["metadata"]["name"]) is None
    assert api.kinds.find("roles.rbac.authorization.k8s.io") is roles
    assert api.list("roles.rbac.authorization.k8s.io") == before
    assert api.kinds.is_built_in(name)


def test_finalizers_without_a_domain_are_warned_of(api: SimulatedCluster) -> None:
    new = thing()
    new["metadata"]["finalizers"] = ["plain", "orphan", "a.example.com", "a.example.com/b"]
    caller = Caller()
    api.create(THINGS, new, "default", caller=caller)
    end = "to avoid accidental conflicts with other finalizer writers"
    assert caller.warnings == [
        'metadata.finalizers: "a.example.com": prefer a domain-qualified finalizer name '
        f"including a path (/) {end}",
        f'metadata.finalizers: "plain": prefer a domain-qualified finalizer name {end}',
    ]
    changed = api.get(THINGS, "a", "default")
    metadata = {**changed["metadata"], "finalizers": ["plain", "more"]}
    caller = Caller()
    api.update(THINGS, {**changed, "metadata": metadata}, caller=caller)
    assert caller.warnings == [
        f'metadata.finalizers: "more": prefer a domain-qualified finalizer name {end}'
    ]


EMBEDDED = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "properties": {"spec": {"type": "object", "properties": {"x": {"type": "string"}}}},
}


@pytest.fixture
def boxes() -> SimulatedCluster:
    api = new_cluster()
    spec = {
        "type": "object",
        "properties": {
            "one": EMBEDDED,
            "list": {"type": "array", "items": EMBEDDED},
            "map": {"type": "object", "additionalProperties": EMBEDDED},
        },
    }
    api.create(CRDS, things(versions=with_schema(spec=spec)))
    return api


def inner(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "A", "metadata": metadata}


def test_unknown_fields_are_those_of_metadata_then_of_content_then_of_embedded_objects(
    boxes: SimulatedCluster,
) -> None:
    new = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "zeta": 1, "ownerReferences": [{"odd": 1}]},
        "zzz": 1,
        "aaa": 1,
        "spec": {
            "map": {"k": inner(odd=1)},
            "one": {**inner(odd=1, name="b", even=1), "odd": 1, "spec": {"w": 1}},
            "list": [{**inner(ownerReferences=[{"odd": 1}]), "odd": 1}],
        },
    }
    with pytest.raises(StatusError) as refused:
        boxes.create(THINGS, new, "default", caller=Caller(field_validation="Strict"))
    assert refused.value.message.partition("strict decoding error: ")[2].split(", ") == [
        f'unknown field "{path}"'
        for path in (
            "metadata.ownerReferences[0].odd",
            "metadata.zeta",
            "aaa",
            "spec.list[0].odd",
            "spec.one.odd",
            "spec.one.spec.w",
            "zzz",
            "spec.list[0].metadata.ownerReferences[0].odd",
            "spec.map[k].metadata.odd",
            "spec.one.metadata.even",
            "spec.one.metadata.odd",
        )
    ]


def test_metadata_of_embedded_objects_is_that_of_objects(boxes: SimulatedCluster) -> None:
    new = thing()
    new["spec"] = {
        "one": inner(name="b", labels={}, annotations={"a": None}, generation=0),
        "list": [
            inner(creationTimestamp="2020-01-01T00:00:00+01:00"),
            {**inner(), "metadata": None},
        ],
    }
    stored = boxes.create(THINGS, new, "default")
    assert stored["spec"]["one"] == inner(name="b", annotations={"a": ""})
    assert stored["spec"]["list"] == [inner(creationTimestamp="2019-12-31T23:00:00Z"), inner()]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"map": {"k": inner(labels={"a": 1})}},
            'spec.map[k].metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal '
            "number into Go struct field ObjectMeta.labels of type string",
        ),
        (
            {"one": {**inner(), "metadata": [1]}},
            "spec.one.metadata: Invalid value: [1]: json: cannot unmarshal array into Go value of "
            "type v1.ObjectMeta",
        ),
    ],
)
def test_malformed_metadata_of_embedded_objects(
    boxes: SimulatedCluster, spec: dict[str, Any], text: str
) -> None:
    with pytest.raises(StatusError) as refused:
        boxes.create(THINGS, {**thing(), "spec": spec}, "default")
    assert refused.value.message == (f'Thing in version "v1" cannot be handled as a Thing: {text}')


def test_stored_metadata_of_objects_that_become_embedded_is_repaired() -> None:
    api = new_cluster()
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    content = {"type": "object", "properties": {"one": free}}
    api.create(CRDS, things(versions=with_schema(spec=content)))
    sent = {**thing(), "spec": {"one": inner(name=1, labels={"a": "b"}, odd=1)}}
    api.create(THINGS, sent, "default")

    def embed(obj: dict[str, Any]) -> None:
        content = {"type": "object", "properties": {"one": EMBEDDED}}
        obj["spec"]["versions"] = with_schema(spec=content)

    api.modify(CRDS, THINGS, "", embed)
    assert api.get(THINGS, "a", "default")["spec"]["one"] == inner(labels={"a": "b"})


@pytest.mark.parametrize(
    "rule",
    [
        "!has(self.namespace) || self.namespace == 'a'",
        "!has(self.__namespace__) || self.__namespace__ == 'a'",
        "!has(self.package.k) || self.package.k == 'a'",
        "self.__package__.all(key, self.__package__[key] == 'a')",
        "self.list.all(one, !has(one.namespace) || one.namespace == 'a')",
    ],
)
def test_properties_that_are_reserved_words_have_two_names(rule: str) -> None:
    text = {"type": "string", "maxLength": 5}
    texts = {"type": "object", "maxProperties": 5, "additionalProperties": text}
    items = {"type": "object", "properties": {"namespace": text}}
    spec = {
        "type": "object",
        "required": ["list"],
        "properties": {
            "namespace": text,
            "package": texts,
            "list": {"type": "array", "maxItems": 5, "items": items},
        },
        "x-kubernetes-validations": [{"rule": rule}],
    }
    api = new_cluster()
    api.create(CRDS, things(versions=with_schema(spec=spec)))

    def create(name: str, value: str) -> None:
        fields = {"namespace": value, "package": {"k": value}, "list": [{"namespace": value}]}
        api.create(THINGS, {**thing(), "metadata": {"name": name}, "spec": fields}, "default")

    create("a", "a")
    api.create(
        THINGS,
        {**thing(), "metadata": {"name": "none"}, "spec": {"list": [{}], "package": {}}},
        "default",
    )
    with pytest.raises(StatusError, match="failed rule"):
        create("b", "b")


def test_properties_that_differ_in_form_alone_stand_side_by_side() -> None:
    text = {"type": "string"}
    rule = {"rule": "!(has(self.aB) && has(self.a_b))", "message": "only one"}
    spec = {
        "type": "object",
        "properties": {"aB": text, "a_b": text},
        "x-kubernetes-validations": [rule],
    }
    api = new_cluster()
    api.create(CRDS, things(versions=with_schema(spec=spec)))
    api.create(THINGS, {**thing(), "spec": {"aB": "x"}}, "default")
    with pytest.raises(StatusError, match="only one"):
        api.create(THINGS, {**thing(), "spec": {"aB": "x", "a_b": "y"}}, "default")


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
