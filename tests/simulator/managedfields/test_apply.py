from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.codec.schema import Shape, shape_of
from pytest_kwait.simulator.managedfields.apply import apply_object, read_apply
from pytest_kwait.simulator.managedfields.field_manager import (
    compare_fields,
    decode_set,
    encode_set,
    field_set_of,
    format_path,
)
from pytest_kwait.simulator.request_info import Caller
from tests.objects import config_map

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

POD = shape_of("", "v1", "Pod")


def apply(
    api: SimulatedCluster,
    manager: str,
    resource: str = "configmaps",
    force: bool = False,
    **fields: Any,
) -> tuple[dict[str, Any], bool]:
    kind = api.kinds[resource]
    configuration = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "a", "namespace": "default"},
        **fields,
    }
    return apply_object(api, kind, configuration, None, Caller(manager=manager), force=force)


def owners(obj: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {
        (entry["manager"], entry["operation"]): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", [])
    }


def test_field_sets_are_written_down_as_upstream_does() -> None:
    pod = {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["x/y"]},
        "spec": {
            "containers": [{"name": "c", "args": ["a"], "ports": [{"containerPort": 80}]}],
            "nodeSelector": {"a": "b"},
        },
    }
    written = encode_set(frozenset(field_set_of(pod, POD)))
    assert written == {
        "f:metadata": {"f:finalizers": {'v:"x/y"': {}}, "f:labels": {"f:a": {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:args": {},
                    "f:name": {},
                    "f:ports": {
                        'k:{"containerPort":80,"protocol":"TCP"}': {
                            ".": {},
                            "f:containerPort": {},
                        }
                    },
                }
            },
            "f:nodeSelector": {},
        },
    }
    assert decode_set(written) == field_set_of(pod, POD)


def test_differences_are_added_modified_and_removed_fields() -> None:
    old = {"metadata": {"labels": {"a": "1", "b": "1"}}}
    new = {"metadata": {"labels": {"a": "2", "c": "1"}, "annotations": {"x": "y"}}}
    changes = compare_fields(old, new, POD)
    labels = ("f:metadata", "f:labels")
    assert changes.modified == {(*labels, "f:a")}
    assert changes.removed == {(*labels, "f:b")}
    assert changes.added == {
        (*labels, "f:c"),
        ("f:metadata", "f:annotations"),
        ("f:metadata", "f:annotations", "f:x"),
    }


def test_paths_are_printed_like_upstream() -> None:
    path = ("f:spec", "f:containers", 'k:{"name":"c"}', "f:args")
    assert format_path(path) == '.spec.containers[name="c"].args'
    assert format_path(("f:metadata", "f:finalizers", 'v:"x"')) == '.metadata.finalizers[="x"]'


def test_applying_creates_and_owns(api: SimulatedCluster) -> None:
    stored, created = apply(api, "m", data={"k": "v"})
    assert created
    assert owners(stored) == {("m", "Apply"): {"f:data": {"f:k": {}}}}


def test_applying_the_same_again_writes_nothing(api: SimulatedCluster) -> None:
    apply(api, "m", data={"k": "v"})
    before = api.store.revision
    _, created = apply(api, "m", data={"k": "v"})
    assert not created
    assert api.store.revision == before


def test_fields_no_longer_applied_are_removed(api: SimulatedCluster) -> None:
    apply(api, "m", data={"k": "v", "l": "w"})
    stored, _ = apply(api, "m", data={"k": "v"})
    assert stored["data"] == {"k": "v"}


def test_fields_applied_by_another_manager_are_kept(api: SimulatedCluster) -> None:
    apply(api, "m", data={"k": "v"})
    apply(api, "n", data={"k": "v"})
    stored, _ = apply(api, "m")
    assert stored["data"] == {"k": "v"}
    assert list(owners(stored)) == [("n", "Apply")]


def test_another_owners_field_is_a_conflict(api: SimulatedCluster) -> None:
    apply(api, "m", data={"k": "v"})
    with pytest.raises(StatusError) as refused:
        apply(api, "n", data={"k": "w"})
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert refused.value.message == ('Apply failed with 1 conflict: conflict with "m": .data.k')
    assert refused.value.details == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "m"',
                "field": ".data.k",
            }
        ]
    }


def test_conflicts_of_several_owners_are_listed(api: SimulatedCluster) -> None:
    api.create("configmaps", config_map(k="v"), "default", caller=Caller(manager="up"))
    apply(api, "m", data={"l": "v"})
    with pytest.raises(StatusError) as refused:
        apply(api, "n", data={"k": "w", "l": "w"})
    assert refused.value.message == (
        'Apply failed with 2 conflicts: conflicts with "m":\n- .data.l\n'
        'conflicts with "up" using v1:\n- .data.k'
    )


def test_force_takes_the_field_over(api: SimulatedCluster) -> None:
    apply(api, "m", data={"k": "v", "l": "v"})
    stored, _ = apply(api, "n", force=True, data={"k": "w"})
    assert stored["data"] == {"k": "w", "l": "v"}
    assert owners(stored) == {
        ("m", "Apply"): {"f:data": {"f:l": {}}},
        ("n", "Apply"): {"f:data": {"f:k": {}}},
    }


def test_updates_own_what_they_change(api: SimulatedCluster) -> None:
    caller = Caller(manager="up")
    stored = api.create("configmaps", config_map(k="v", l="w"), "default", caller=caller)
    assert owners(stored) == {("up", "Update"): {"f:data": {".": {}, "f:k": {}, "f:l": {}}}}
    changed = {**stored, "data": {"k": "v", "l": "x"}}
    stored = api.update("configmaps", changed, caller=Caller(manager="other"))
    assert owners(stored) == {
        ("other", "Update"): {"f:data": {"f:l": {}}},
        ("up", "Update"): {"f:data": {".": {}, "f:k": {}}},
    }


def test_items_of_lists_are_merged_by_their_keys(api: SimulatedCluster) -> None:
    first = {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}
    apply(api, "m", "services", spec=first)
    stored, _ = apply(api, "n", "services", spec={"ports": [{"port": 82, "name": "c"}]})
    assert [port["port"] for port in stored["spec"]["ports"]] == [80, 81, 82]
    stored, _ = apply(api, "m", "services", spec={"ports": [{"port": 80, "name": "a"}]})
    assert [port["port"] for port in stored["spec"]["ports"]] == [80, 82]


def test_a_field_that_the_kind_has_not_is_refused(api: SimulatedCluster) -> None:
    body = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "bogus": 1}'
    with pytest.raises(StatusError) as refused:
        read_apply(body, api.kinds["configmaps"], "a", "default", Caller())
    assert refused.value.code == 500
    assert refused.value.message == (
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .bogus: field not "
        "declared in schema"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b"- a",
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            "unmarshal array into Go value of type map[string]interface {}",
        ),
        (b"kind: ConfigMap", "invalid object type: /, Kind=ConfigMap"),
        (
            b"{apiVersion: v2, kind: ConfigMap}",
            "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
        ),
        (
            b"{apiVersion: v1, kind: ConfigMap, metadata: {managedFields: []}}",
            "metadata.managedFields must be nil",
        ),
        (
            b"{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}",
            "the name of the object (b) does not match the name on the URL (a)",
        ),
    ],
)
def test_invalid_configurations_are_refused(
    api: SimulatedCluster, body: bytes, message: str
) -> None:
    with pytest.raises(StatusError) as refused:
        read_apply(body, api.kinds["configmaps"], "a", "default", Caller())
    assert (refused.value.code, refused.value.message) == (400, message)


def test_dates_in_yaml_are_the_text_that_json_has(api: SimulatedCluster) -> None:
    body = (
        b"{apiVersion: coordination.k8s.io/v1, kind: Lease, "
        b"spec: {renewTime: 2026-01-01T00:00:00.000000Z}}"
    )
    read = read_apply(body, api.kinds["leases.coordination.k8s.io"], "a", "default", Caller())
    assert read["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"


TYPED = "failed to create typed patch object (/a; apps/v1, Kind=Deployment): "
CONVERTED = (
    "failed to convert new object (/a; apps/v1, Kind=Deployment) to proper version: unable to "
    "convert unstructured object to apps/v1, Kind=Deployment: "
)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            '{"replicas": "2"}',
            TYPED + ".spec.replicas: expected numeric (int or float), got string",
        ),
        ('{"paused": "x"}', TYPED + ".spec.paused: expected boolean, got &{x}"),
        ("5", TYPED + ".spec: expected map, got &{5}"),
        (
            '{"template": {"spec": {"containers": {}}}}',
            TYPED + ".spec.template.spec.containers: expected list, got &{map[]}",
        ),
        (
            '{"template": {"spec": {"containers": ["x"]}}}',
            TYPED + ".spec.template.spec.containers: element 0: associative list with keys may not "
            "have non-map elements",
        ),
        (
            '{"template": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}}',
            TYPED + '.spec.template.spec.containers: duplicate entries for key [name="a"]',
        ),
        (
            '{"template": {"spec": {"containers": '
            '[{"name": "a", "tty": 1}, {"name": "a", "x": 1}]}}}',
            TYPED
            + 'errors:\n  .spec.template.spec.containers[name="a"].tty: expected boolean, got '
            '&{1}\n  .spec.template.spec.containers: duplicate entries for key [name="a"]\n'
            '  .spec.template.spec.containers[name="a"].x: field not declared in schema',
        ),
        (
            '{"template": {"spec": {"containers": [null]}}}',
            TYPED + ".spec.template.spec.containers: element 0: associative list with keys may not "
            "have a null element",
        ),
        (
            '{"template": {"spec": {"containers": [{"name": 1, "image": {"b": [true]}}]}}}',
            TYPED + "errors:\n  .spec.template.spec.containers[name=1].image: expected string, got "
            '&value.valueUnstructured{Value:map[string]interface {}{"b":[]interface {}{true}}}\n'
            "  .spec.template.spec.containers[name=1].name: expected string, got "
            "&value.valueUnstructured{Value:1}",
        ),
        ('{"replicas": 1.5}', CONVERTED + "cannot convert float64 to int32"),
        (
            '{"strategy": {"rollingUpdate": {"maxSurge": true}}}',
            CONVERTED + "json: cannot unmarshal bool into Go value of type int32",
        ),
    ],
)
def test_values_of_other_types_are_refused(api: SimulatedCluster, spec: str, message: str) -> None:
    head = '{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": '
    with pytest.raises(StatusError) as refused:
        read_apply(f"{head}{spec}}}".encode(), api.kinds["deployments.apps"], "a", "", Caller())
    assert (refused.value.code, refused.value.message) == (500, message)


THING = "failed to create typed patch object (/a; example.com/v1, Kind=Thing): "


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{odd: 1}", ".spec.odd: field not declared in schema"),
        ("{number: x}", ".spec.number: expected numeric (int or float), got string"),
        ("{free: 5}", ".spec.free: expected map, got &{5}"),
        ("{time: []}", ".spec.time: expected any scalar, got &{[]}"),
        ("{one: {metadata: {odd: 1}}}", ".spec.one.metadata.odd: field not declared in schema"),
        ("{list: [{v: a}]}", ".spec.list: element 0: associative list with keys has an element "
         "that omits all key fields [\"k\"] (and doesn't have default values for any key fields)"),
        ("{one: {odd: 1}}", ".spec.one.odd: field not declared in schema"),
        ("{open: {known: 1, odd: 1}}", ".spec.open.known: expected string, got "
         "&value.valueUnstructured{Value:1}"),
        ("{any: {a: [1]}, free: {a: 1}, time: 5, open: {odd: 1}, one: {kind: A}}", ""),
    ],
)  # fmt: skip
def test_custom_objects_are_held_to_their_schema(
    api: SimulatedCluster, spec: str, message: str
) -> None:
    text = {"type": "string"}
    properties = {
        "number": {"type": "integer"},
        "free": {"type": "object"},
        "list": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {"k": text, "v": text},
            },
        },
        "time": {"type": "string", "format": "date-time"},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "one": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object"}},
        },
        "open": {
            "type": "object",
            "properties": {"known": text},
            "x-kubernetes-preserve-unknown-fields": True,
        },
    }
    content = {"type": "object", "properties": properties}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": content}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "kind": "Thing"}
    api.create(
        "customresourcedefinitions.apiextensions.k8s.io",
        {
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": names,
                "versions": [version],
            },
        },
    )
    body = f"{{apiVersion: example.com/v1, kind: Thing, metadata: {{name: a}}, spec: {spec}}}"
    kind = api.kinds["things.example.com"]
    if not message:
        assert read_apply(body.encode(), kind, "a", "", Caller())["kind"] == "Thing"
        return
    with pytest.raises(StatusError) as refused:
        read_apply(body.encode(), kind, "a", "", Caller())
    assert (refused.value.code, refused.value.message) == (500, THING + message)


def test_a_null_of_an_applied_custom_object_stays_for_validation(api: SimulatedCluster) -> None:
    spec = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "kind": "Thing"}
    group = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    api.create(
        "customresourcedefinitions.apiextensions.k8s.io",
        {"metadata": {"name": "things.example.com"}, "spec": group},
    )
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"a": None}}
    with pytest.raises(StatusError) as refused:
        apply(api, "m", "things.example.com", spec={"a": None})
    assert refused.value.message == (
        'Thing.example.com "a" is invalid: spec.a: Invalid value: "null": spec.a in body must be '
        'of type string: "null"'
    )
    with pytest.raises(StatusError) as refused:
        api.create("things.example.com", {**thing, "metadata": {"name": "a"}}, "default")
    assert refused.value.message == 'Thing.example.com "a" is invalid: spec.a: Required value'


def test_fields_that_only_pruning_removes_are_not_complained_of(api: SimulatedCluster) -> None:
    items = {"type": "array", "items": {"type": "object"}}
    content = {"type": "object", "properties": {"items": items}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": content}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Namespaced", "versions": [version]}
    names = {"plural": "things", "kind": "Thing"}
    definition = {"metadata": {"name": "things.example.com"}, "spec": {**spec, "names": names}}
    api.create("customresourcedefinitions.apiextensions.k8s.io", definition)
    kind = api.kinds["things.example.com"]
    body = (
        b"{apiVersion: example.com/v1, kind: Thing, metadata: {name: a}, spec: {items: [{b: 1}]}}"
    )
    for _ in range(2):
        caller = Caller(field_validation="Strict", manager="m")
        sent = read_apply(body, kind, "a", "default", caller)
        stored, _created = apply_object(api, kind, sent, None, caller, force=True)
        assert stored["spec"] == {"items": [{}]}
        assert caller.warnings == []
        body = body.replace(b"{b: 1}", b"{c: 1}")


def test_keys_of_maps_are_owned_besides_their_content() -> None:
    text = {"type": "string"}
    inner = {"type": "object", "properties": {"a": text}}
    preserved = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    shape = Shape(
        {
            "type": "object",
            "properties": {
                "struct": inner,
                "map": {"type": "object", "additionalProperties": inner},
                "free": preserved,
                "whole": {**preserved, "x-kubernetes-map-type": "atomic"},
            },
        }
    )
    value = {"a": "b"}
    found = field_set_of(
        {"struct": value, "map": {"k": value}, "free": {"k": value}, "whole": {"k": value}}, shape
    )
    assert found == {
        ("f:struct", "f:a"),
        ("f:map", "f:k"),
        ("f:map", "f:k", "f:a"),
        ("f:free", "f:k"),
        ("f:free", "f:k", "f:a"),
        ("f:whole",),
    }


def test_type_errors_precede_keys_given_twice(api: SimulatedCluster) -> None:
    body = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b, a: c}, odd: 1}"
    with pytest.raises(StatusError, match="odd: field not declared in schema"):
        read_apply(body, api.kinds["configmaps"], "a", "", Caller(field_validation="Strict"))


def test_keys_given_twice_are_refused_or_warned_of(api: SimulatedCluster) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: b\n  a: c\n"
    kind = api.kinds["configmaps"]
    with pytest.raises(StatusError) as refused:
        read_apply(body, kind, "a", "default", Caller(field_validation="Strict"))
    assert (refused.value.code, refused.value.message) == (
        400,
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 6: key "a" already set in map',
    )
    caller = Caller(field_validation="Warn")
    read_apply(body, kind, "a", "default", caller)
    assert caller.warnings == ['line 6: key "a" already set in map']


NOTE = "kubectl.kubernetes.io/last-applied-configuration"
CLIENT = Caller(manager="kubectl-client-side-apply")


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


def test_kubectl_adopts_client_side_applied_fields(api: SimulatedCluster) -> None:
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
def test_other_managers_fields_conflict(
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


def test_oversized_last_applied_annotation_is_dropped(api: SimulatedCluster) -> None:
    applied_on_the_client(api, configuration(k="1"), k="1")
    assert "annotations" not in apply_as_kubectl(api, "kubectl", k="x" * 300_000)["metadata"]


def test_without_a_note_none_is_made(api: SimulatedCluster) -> None:
    api.create(api.kinds["configmaps"], configuration(k="1"), "default", caller=CLIENT)
    assert "annotations" not in apply_as_kubectl(api, "kubectl", k="1")["metadata"]


@pytest.mark.parametrize(
    ("resource", "version", "kind", "group"),
    [
        ("configmaps", "v1", "ConfigMap", {}),
        ("jobs.batch", "batch/v1", "Job", {"group": "batch"}),
    ],
)
def test_uid_of_no_object_is_a_conflict(
    api: SimulatedCluster, resource: str, version: str, kind: str, group: dict[str, str]
) -> None:
    sent = {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "uid": "u"}}
    with pytest.raises(StatusError) as refused:
        apply_object(api, api.kinds[resource], sent, None, Caller(), force=True)
    plural = resource.partition(".")[0]
    assert refused.value.details == {"name": "a", **group, "kind": plural}
