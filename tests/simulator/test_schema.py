from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.decoded import Decoded
from pytest_kwait.simulator.registry import Registry
from pytest_kwait.simulator.schema import shape_of, struct_of
from pytest_kwait.simulator.status_error import StatusError

KINDS = Registry()


def decode(resource: str, obj: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    kind = KINDS[resource]
    decoded = Decoded(kind)
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


def test_empty_values_that_mean_something_stay() -> None:
    clean, _ = decode("persistentvolumeclaims", {"spec": {"storageClassName": ""}})
    assert clean["spec"]["storageClassName"] == ""
    clean, _ = decode("deployments.apps", {"spec": {"replicas": 0}})
    assert clean["spec"]["replicas"] == 0


def test_times_that_are_not_set_are_null_in_conditions() -> None:
    clean, _ = decode("pods", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    condition = clean["status"]["conditions"][0]
    assert condition["lastProbeTime"] is None
    assert condition["lastTransitionTime"] is None


def test_learned_defaults_fill_a_type_wherever_it_stands() -> None:
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


def test_merge_keys_and_list_types_come_from_the_document() -> None:
    spec = shape_of("", "v1", "Pod").struct.fields["spec"].struct
    assert spec.fields["containers"].merge_key == "name"
    assert spec.fields["containers"].map_keys == ["name"]
    assert spec.fields["tolerations"].list_type == "atomic"
    assert spec.fields["volumes"].patch_strategy == "merge,retainKeys"
