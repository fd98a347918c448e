from __future__ import annotations

import re
from typing import Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.codec.decode import Decoder, canonicalize_time
from pytest_kwait.simulator.codec.json_yaml import write_yaml
from pytest_kwait.simulator.codec.schema import shape_of, struct_of
from pytest_kwait.simulator.objects import DuplicateKeysObj, clone, emptied_fields
from pytest_kwait.simulator.request_info import Caller
from pytest_kwait.simulator.scheme import Scheme
from pytest_kwait.simulator.validation.internal_types import format_internal
from tests.simulator.cluster import new_cluster

KINDS = Scheme()


def decode(resource: str, obj: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    kind = KINDS[resource]
    decoded = Decoder(kind)
    clean = decoded.struct(obj, struct_of(kind.group, kind.version, kind.kind))
    return clean, decoded.unknown


def test_unknown_fields_are_dropped_and_named_with_their_place() -> None:
    clean, unknown = decode(
        "pods", {"bogus": 1, "spec": {"containers": [{"name": "c", "nope": 2}], "x": {}}}
    )
    assert unknown == ["bogus", "spec.containers[0].nope", "spec.x"]
    assert "bogus" not in clean


def test_fields_that_are_always_written_are_filled() -> None:
    clean, _ = decode("pods", {"status": {"containerStatuses": [{"name": "c"}]}})
    state = clean["status"]["containerStatuses"][0]
    assert state["imageID"] == ""
    assert state["ready"] is False
    assert state["restartCount"] == 0


def test_empty_values_that_are_never_written_are_dropped() -> None:
    clean, _ = decode(
        "pods",
        {
            "metadata": {"labels": {}, "finalizers": [], "generateName": "", "annotations": None},
            "spec": {
                "nodeName": "",
                "hostNetwork": False,
                "containers": [{"env": [{"name": "A", "value": ""}]}],
            },
        },
    )
    assert clean["metadata"] == {}
    assert "nodeName" not in clean["spec"]
    assert "hostNetwork" not in clean["spec"]
    assert clean["spec"]["containers"][0]["env"] == [{"name": "A"}]


def test_what_was_given_empty_is_known_until_it_is_stored() -> None:
    container = {
        "name": "c",
        "image": "x:1",
        "args": [],
        "securityContext": {"capabilities": {"drop": []}},
    }
    clean, _ = decode("pods", {"spec": {"containers": [container], "nodeSelector": {}}})
    spec = clone(clean["spec"])
    capabilities = spec["containers"][0]["securityContext"]["capabilities"]
    assert capabilities == {}
    assert str(format_internal("core.Capabilities", capabilities)) == '{"Add":null,"Drop":[]}'
    assert emptied_fields(spec) == {"nodeSelector": {}}
    api = new_cluster()
    sent = {"containers": [container], "nodeSelector": {}}
    api.create("pods", {"metadata": {"name": "a"}, "spec": sent}, "default")
    stored = api.get("pods", "a", "default")["spec"]
    assert emptied_fields(stored) == emptied_fields(stored["containers"][0]) == {}
    assert write_yaml(stored["containers"][0]["securityContext"]) == b"capabilities: {}\n"
    manager = Caller(manager="m")
    changed = api.modify("pods", "a", "default", _label, caller=manager)
    (own,) = [one for one in changed["metadata"]["managedFields"] if one["manager"] == "m"]
    assert own["fieldsV1"] == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}


def _label(obj: dict[str, Any]) -> None:
    obj["metadata"]["labels"] = {"a": "b"}


def test_meaningful_empty_values_are_kept() -> None:
    clean, _ = decode("persistentvolumeclaims", {"spec": {"storageClassName": ""}})
    assert clean["spec"]["storageClassName"] == ""
    clean, _ = decode("deployments.apps", {"spec": {"replicas": 0}})
    assert clean["spec"]["replicas"] == 0


def test_times_that_are_not_set_are_null_in_conditions() -> None:
    clean, _ = decode("pods", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    condition = clean["status"]["conditions"][0]
    assert condition["lastProbeTime"] is None
    assert condition["lastTransitionTime"] is None


def test_learned_defaults_apply_at_every_path() -> None:
    clean, _ = decode(
        "cronjobs.batch", {"spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}}
    )
    spec = clean["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert clean["spec"]["concurrencyPolicy"] == "Allow"


@pytest.mark.parametrize(
    ("resource", "obj", "why"),
    [
        (
            "configmaps",
            {"metadata": {"name": 5}},
            "json: cannot unmarshal number into Go struct field "
            "ObjectMeta.metadata.name of type string",
        ),
        (
            "deployments.apps",
            {"spec": {"replicas": "2"}},
            "json: cannot unmarshal string into Go struct field "
            "DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "configmaps",
            {"metadata": 1},
            "json: cannot unmarshal number into Go struct field "
            "ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            "configmaps",
            {"metadata": {"creationTimestamp": True}},
            "json: cannot unmarshal bool into Go struct field "
            "ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            "configmaps",
            {"binaryData": {"k": 1}},
            "json: cannot unmarshal number into Go struct field "
            "ConfigMap.binaryData of type []uint8",
        ),
        ("configmaps", {"binaryData": {"k": "!!"}}, "illegal base64 data at input byte 0"),
        (
            "pods",
            {"spec": {"activeDeadlineSeconds": 1.5}},
            "json: cannot unmarshal number 1.5 into Go struct field "
            "PodSpec.spec.activeDeadlineSeconds of type int64",
        ),
        (
            "pods",
            {"spec": {"containers": [{"ports": [{"containerPort": 99999999999}]}]}},
            "json: cannot unmarshal number 99999999999 into Go struct field "
            "ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            "pods",
            {"spec": {"restartPolicy": 1}},
            "json: cannot unmarshal number into Go struct field "
            "PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            "pods",
            {"spec": {"volumes": [{"hostPath": []}]}},
            "json: cannot unmarshal array into Go struct field "
            "Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        (
            "pods",
            {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": True}}}]}},
            "json: cannot unmarshal bool into Go struct field "
            "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
        (
            "pods",
            {"spec": {"containers": [{"resources": {"limits": 5}}]}},
            "json: cannot unmarshal number into Go struct field "
            "ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
        ),
        (
            "pods",
            {"spec": {"containers": {}}},
            "json: cannot unmarshal object into Go struct field "
            "PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "pods",
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}},
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_refused(resource: str, obj: dict[str, Any], why: str) -> None:
    kind = KINDS[resource]
    with pytest.raises(StatusError) as refused:
        decode(resource, obj)
    assert refused.value.code == 400
    assert refused.value.message == (
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'
    )


def test_duplicate_fields_are_merged_and_reported() -> None:
    kind = KINDS["configmaps"]
    decoded = Decoder(kind)
    data = DuplicateKeysObj([("a", "1"), ("a", "2")])
    obj = DuplicateKeysObj([("bogus", 1), ("data", data), ("data", {"b": "3"})])
    clean = decoded.struct(obj, struct_of(kind.group, kind.version, kind.kind))
    assert clean["data"] == {"a": "2", "b": "3"}
    assert list(decoded.strict_errors) == [
        'unknown field "bogus"',
        'duplicate field "data.a"',
        'duplicate field "data"',
    ]


def test_no_more_than_a_hundred_complaints_are_named() -> None:
    kind = KINDS["configmaps"]
    decoded = Decoder(kind)
    decoded.struct(
        {f"f{number}": 1 for number in range(120)},
        struct_of(kind.group, kind.version, kind.kind),
    )
    assert len(decoded.strict_errors) == 100


def test_empty_lists_that_are_always_written_are_null_as_stored() -> None:
    clean, _ = decode("roles.rbac.authorization.k8s.io", {"rules": []})
    assert clean["rules"] is None
    clean, _ = decode("endpointslices.discovery.k8s.io", {"addressType": "IPv4"})
    assert (clean["endpoints"], clean["ports"]) == (None, None)


def test_merge_keys_and_list_types_come_from_the_document() -> None:
    spec = shape_of("", "v1", "Pod").struct.fields["spec"].struct
    assert spec.fields["containers"].merge_key == "name"
    assert spec.fields["containers"].map_keys == ["name"]
    assert spec.fields["tolerations"].list_type == "atomic"
    assert spec.fields["volumes"].patch_strategy == "merge,retainKeys"


LAYOUT = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.75Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:30:00+02:00", "2025-12-31T22:30:00Z"),
        ("2026-01-01T00:30:00-00:30", "2026-01-01T01:00:00Z"),
    ],
)
def test_times_are_written_in_utc_to_the_second(given: str, written: str) -> None:
    assert canonicalize_time(given) == written


def test_micro_times_keep_microseconds() -> None:
    given = "2026-01-01T00:00:00.123456+01:00"
    assert canonicalize_time(given, micro=True) == "2025-12-31T23:00:00.123456Z"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", f'parsing time "" as "{LAYOUT}": cannot parse "" as "2006"'),
        ("2020", f'parsing time "2020" as "{LAYOUT}": cannot parse "" as "-"'),
        ("2020-01-01", f'parsing time "2020-01-01" as "{LAYOUT}": cannot parse "" as "T"'),
        (
            "2020-01-01T00:00:00",
            f'parsing time "2020-01-01T00:00:00" as "{LAYOUT}": cannot parse "" as "Z07:00"',
        ),
        ("2020-13-01T00:00:00Z", 'parsing time "2020-13-01T00:00:00Z": month out of range'),
        ("2021-02-29T00:00:00Z", 'parsing time "2021-02-29T00:00:00Z": day out of range'),
        ("2021-02-20T24:00:00Z", 'parsing time "2021-02-20T24:00:00Z": hour out of range'),
        ("2021-02-20T20:00:00Zx", 'parsing time "2021-02-20T20:00:00Zx": extra text: "x"'),
    ],
)
def test_invalid_times_are_refused(given: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        canonicalize_time(given)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("0001-01-01T00:00:02Z", "0001-01-01T00:00:02Z"),
        ("0999-12-31T23:59:59+01:00", "0999-12-31T22:59:59Z"),
        ("0000-02-29T00:00:00Z", "0000-02-29T00:00:00Z"),
        ("0001-01-01T00:30:00+01:00", "0000-12-31T23:30:00Z"),
    ],
)
def test_times_of_early_years(given: str, shown: str) -> None:
    assert canonicalize_time(given) == shown


def test_zero_time_is_null() -> None:
    kind = KINDS["leases.coordination.k8s.io"]
    sent = {
        "metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"},
        "spec": {"renewTime": "0001-01-01T01:00:00.000000+01:00"},
    }
    clean = Decoder(kind).struct(sent, struct_of(kind.group, kind.version, kind.kind))
    assert clean["spec"] == {"renewTime": None}
    assert "creationTimestamp" not in clean["metadata"]


def test_micro_times_need_six_digits() -> None:
    why = (
        'parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": '
        'cannot parse "Z" as ".000000"'
    )
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        canonicalize_time("2026-01-01T00:00:00Z", micro=True)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        *(("abcbase64==", 9), ("a", 0), ("ab", 0), ("abc", 0), ("ab=", 3), ("ab=c", 2)),
        *(("=", 0), ("YQ==YQ==", 4), ("YW\n?", 3), ("YQ=\n", 4), ("YWJj\n=", 5)),
        *(("YWJjYQ=\n=\nx", 10), ("abcd=", 4), ("a===", 1), ("abcd====", 4), ("é", 0)),
    ],
)
def test_invalid_base64_is_refused_at_its_byte(text: str, at: int) -> None:
    with pytest.raises(StatusError) as refused:
        decode("secrets", {"data": {"k": text}})
    assert refused.value.message == (
        f'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte '
        f"{at}"
    )


@pytest.mark.parametrize(("text", "clean"), [("YWJ\nj\r", "YWJj"), ("YQ=\n=", "YQ=="), ("", "")])
def test_base64_may_have_line_ends(text: str, clean: str) -> None:
    assert decode("secrets", {"data": {"k": text}})[0]["data"] == {"k": clean}


@pytest.mark.parametrize(
    ("resource", "given", "spec"),
    [
        (
            "persistentvolumes",
            {"azureFile": {"secretName": "a", "shareName": "b"}},
            {"azureFile": {"secretName": "a", "shareName": "b", "secretNamespace": None}},
        ),
        (
            "persistentvolumes",
            {"scaleIO": {"gateway": "a", "system": "b"}},
            {"scaleIO": {"gateway": "a", "system": "b", "secretRef": None}},
        ),
        (
            "persistentvolumeclaims",
            {"dataSource": {"kind": "A", "name": "b"}, "resources": {}},
            {"dataSource": {"apiGroup": None, "kind": "A", "name": "b"}, "resources": {}},
        ),
        (
            "ingresses.networking.k8s.io",
            {"defaultBackend": {"resource": {"kind": "A", "name": "b"}}},
            {"defaultBackend": {"resource": {"apiGroup": None, "kind": "A", "name": "b"}}},
        ),
        ("deployments.apps", {"strategy": {"type": "a"}}, {"strategy": {"type": "a"}}),
    ],
)
def test_optional_pointers_that_go_always_writes_are_null(
    resource: str, given: dict[str, Any], spec: dict[str, Any]
) -> None:
    decoded = decode(resource, {"spec": given})[0]["spec"]
    (field, value), *_ = spec.items()
    assert value.items() <= decoded[field].items()
    assert "selector" not in decoded


def decode_schema(schema: dict[str, Any]) -> tuple[Any, list[str]]:
    kind = KINDS["customresourcedefinitions.apiextensions.k8s.io"]
    decoder = Decoder(kind)
    spec = {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}
    clean = decoder.struct({"spec": spec}, struct_of(kind.group, kind.version, kind.kind))
    return clean["spec"]["versions"][0]["schema"]["openAPIV3Schema"], list(decoder.strict_errors)


def test_unknown_fields_below_items_of_a_definition_are_dropped_unreported() -> None:
    odd = {"type": "string", "odd": 1, "maxLength": None}
    schema, strict_errors = decode_schema(
        {
            "odd": 1,
            "items": {"properties": {"a": odd}},
            "additionalProperties": odd,
            "additionalItems": False,
            "dependencies": {"a": odd, "b": ["c", None], "c": 5},
        }
    )
    assert schema == {
        "items": {"properties": {"a": {"type": "string"}}},
        "additionalProperties": {"type": "string"},
        "additionalItems": False,
        "dependencies": {"a": {"type": "string"}, "b": ["c", ""], "c": None},
    }
    assert strict_errors == [
        'unknown field "spec.versions[0].schema.openAPIV3Schema.odd"',
    ]


def test_items_of_a_definition_that_are_no_schema_count_as_missing() -> None:
    assert decode_schema({"items": 5})[0] == {"items": None}
    assert decode_schema({"items": [{"type": "string", "odd": 1}]})[0] == {
        "items": [{"type": "string"}]
    }


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (
            {"items": {"type": 5}},
            "json: cannot unmarshal number into Go struct field "
            "JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.type of type string",
        ),
        (
            {"properties": {"a": {"additionalProperties": {"maxLength": "a"}}}},
            "json: cannot unmarshal string into Go struct field JSONSchemaProps.spec.versions."
            "schema.openAPIV3Schema.properties.additionalProperties.maxLength of type int64",
        ),
        ({"additionalProperties": "x"}, "boolean or JSON schema expected"),
    ],
)
def test_a_wrong_type_below_items_of_a_definition_is_refused(
    schema: dict[str, Any], why: str
) -> None:
    with pytest.raises(StatusError) as refused:
        decode_schema(schema)
    assert refused.value.message.partition(": ")[2] == why
