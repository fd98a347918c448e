from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.codec.schema import shape_of
from pytest_kwait.simulator.objects import EmptiedObj
from pytest_kwait.simulator.patch import (
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_merge,
    from_unstructured_error,
    read_patch,
)

POD = shape_of("", "v1", "Pod")


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def test_a_merge_patch_sets_removes_and_replaces_lists() -> None:
    target = {"a": {"b": 1, "c": 2}, "l": [1, 2], "k": 0}
    assert apply_merge_patch(
        target, {"a": {"b": None, "d": 3}, "l": [9], "k": {"x": {"y": None}}}
    ) == {
        "a": {"c": 2, "d": 3},
        "l": [9],
        "k": {"x": {}},
    }
    assert target == {"a": {"b": 1, "c": 2}, "l": [1, 2], "k": 0}


def test_a_strategic_merge_keeps_fields_of_objects_that_had_empty_ones() -> None:
    target = {
        "metadata": EmptiedObj({"name": "a"}, {"labels": {}}),
        "spec": {"containers": [EmptiedObj({"name": "main", "image": "a"}, {"env": []})]},
    }
    patch = {"metadata": {"uid": "1"}, "spec": {"containers": [{"name": "main", "image": "b"}]}}

    assert apply_strategic_merge(target, patch, POD) == {
        "metadata": {"name": "a", "uid": "1"},
        "spec": {"containers": [{"name": "main", "image": "b"}]},
    }
    assert from_unstructured_error(target, POD) == ""


def test_a_json_patch_does_its_operations_in_order() -> None:
    operations = [
        {"op": "test", "path": "/a", "value": 1},
        {"op": "add", "path": "/b", "value": 2},
        {"op": "remove", "path": "/a"},
    ]
    assert apply_json_patch({"a": 1}, operations) == {"b": 2}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/none"},
        {"op": "nope", "path": "/a"},
        {"path": "/a"},
    ],
)
def test_an_operation_that_cannot_be_done_is_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as refused:
        apply_json_patch({"a": 1}, [operation])
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert refused.value.message == (
        "the server rejected our request due to an error in our request"
    )


def test_invalid_patches_are_bad_requests() -> None:
    with pytest.raises(StatusError) as refused:
        apply_json_patch({}, {"op": "add"})
    assert refused.value.message == (
        "error decoding patch: json: cannot unmarshal object into Go value of type "
        "[]handlers.jsonPatchOp"
    )
    with pytest.raises(StatusError, match="error decoding patch"):
        read_patch(b"nope")


def test_items_are_merged_by_their_key_and_new_ones_come_first() -> None:
    target = spec(containers=[{"name": "a", "image": "x", "tty": True}, {"name": "b"}])
    patch = spec(containers=[{"name": "a", "image": "y"}, {"name": "n"}])
    assert apply_strategic_merge(target, patch, POD) == spec(
        containers=[{"name": "a", "image": "y", "tty": True}, {"name": "n"}, {"name": "b"}]
    )


def test_items_are_deleted_by_directive() -> None:
    target = spec(containers=[{"name": "a"}, {"name": "b"}])
    patch = spec(containers=[{"name": "a", "$patch": "delete"}])
    assert apply_strategic_merge(target, patch, POD) == spec(containers=[{"name": "b"}])


def test_lists_without_a_key_are_replaced() -> None:
    target = spec(tolerations=[{"key": "a"}])
    patch = spec(tolerations=[{"key": "b"}])
    assert apply_strategic_merge(target, patch, POD) == patch


def test_a_whole_list_is_replaced_by_directive() -> None:
    target = spec(containers=[{"name": "a"}, {"name": "b"}])
    patch = spec(containers=[{"$patch": "replace"}, {"name": "c"}])
    assert apply_strategic_merge(target, patch, POD) == spec(containers=[{"name": "c"}])


def test_values_are_joined_and_taken_out_of_lists_of_values() -> None:
    target = {"metadata": {"finalizers": ["a/a", "b/b"]}}
    added = apply_strategic_merge(target, {"metadata": {"finalizers": ["c/c"]}}, POD)
    assert sorted(added["metadata"]["finalizers"]) == ["a/a", "b/b", "c/c"]
    taken = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"]}}
    assert apply_strategic_merge(target, taken, POD) == {"metadata": {"finalizers": ["b/b"]}}


def test_retained_keys_drop_the_others() -> None:
    target = spec(volumes=[{"name": "v", "emptyDir": {}}])
    patch = spec(
        volumes=[{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "m"}}]
    )
    assert apply_strategic_merge(target, patch, POD) == spec(
        volumes=[{"name": "v", "configMap": {"name": "m"}}]
    )


def test_the_order_of_items_can_be_set() -> None:
    target = spec(containers=[{"name": "a"}, {"name": "b"}])
    patch = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}
    assert apply_strategic_merge(target, patch, POD) == spec(
        containers=[{"name": "b"}, {"name": "a"}]
    )


def test_an_item_without_its_key_is_refused() -> None:
    with pytest.raises(StatusError) as refused:
        apply_strategic_merge(spec(containers=[]), spec(containers=[{"image": "z"}]), POD)
    assert refused.value.code == 500
    assert refused.value.message == "map: map[image:z] does not contain declared merge key: name"


def test_an_unknown_directive_is_refused() -> None:
    with pytest.raises(StatusError, match=r"unknown patch type: nope in map: map\[\$patch:nope\]"):
        apply_strategic_merge({}, {"$patch": "nope"}, POD)


def test_items_of_several_types_are_refused() -> None:
    with pytest.raises(StatusError) as refused:
        apply_strategic_merge(spec(containers=[{"name": "a"}]), spec(containers=["z"]), POD)
    assert refused.value.message == ("list element types are not identical: [[map[name:a]] [z]]")


def test_order_of_unnamed_items_is_refused() -> None:
    patch = {"spec": {"$setElementOrder/containers": ["b"]}}
    with pytest.raises(StatusError) as refused:
        apply_strategic_merge(spec(containers=[{"name": "a"}]), patch, POD)
    assert refused.value.message == "value for key 0 is not a map"


def test_value_without_a_counterpart_replaces() -> None:
    volumes = [{"emptyDir": {"medium": None}}, {"$patch": "replace"}]
    patch = {"metadata": {"annotations": {"$patch": "delete"}}, "spec": {"volumes": volumes}}
    assert apply_strategic_merge({"metadata": {}}, patch, POD) == {
        "metadata": {},
        "spec": {"volumes": [{"emptyDir": {}}]},
    }


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        ({"spec": "x"}, "cannot restore struct from: string"),
        ({"spec": []}, "cannot restore struct from: slice"),
        ({"spec": {"containers": {}}}, "cannot restore slice from map"),
        ({"spec": {"nodeSelector": 1}}, "cannot restore map from int64"),
        ({"spec": {"nodeSelector": {"a": 1}}}, "cannot convert int64 to string"),
        ({"spec": {"nodeSelector": {"a": 1.5}}}, "unrecognized type: string"),
        ({"spec": {"restartPolicy": 1}}, "cannot convert int64 to v1.RestartPolicy"),
        ({"spec": {"priority": "x"}}, "unrecognized type: int32"),
        ({"spec": {"priority": 1.5}}, "cannot convert float64 to int32"),
        ({"spec": {"priority": 2.0}}, ""),
        ({"spec": {"hostNetwork": 1}}, "unrecognized type: bool"),
        # In the order of the Go type, in which volumes stand first.
        ({"spec": {"containers": 1, "volumes": True}}, "cannot restore slice from bool"),
        ({"spec": None, "odd": 1}, ""),
    ],
)
def test_why_a_patched_object_is_none_of_its_kind(obj: dict[str, Any], why: str) -> None:
    assert from_unstructured_error(obj, POD) == why
