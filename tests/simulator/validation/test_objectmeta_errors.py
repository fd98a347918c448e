from __future__ import annotations

from typing import Any

from pytest_kwait.simulator.registry.strategy import strategy_of
from pytest_kwait.simulator.scheme import Scheme
from pytest_kwait.simulator.validation.objectmeta import (
    validate_common_fields_update,
    validate_delete_options,
    validate_label_selector,
    validate_object_meta_update,
)

KINDS = Scheme()


def errors(resource: str, metadata: dict[str, Any]) -> list[str]:
    strategy = strategy_of(KINDS[resource])
    return [str(error) for error in strategy.validate_metadata({"metadata": metadata})]


def test_an_object_needs_a_name() -> None:
    assert errors("nodes", {}) == [
        "metadata.name: Required value: name or generateName is required"
    ]


def test_roles_may_be_named_as_paths_allow() -> None:
    assert errors("clusterroles.rbac.authorization.k8s.io", {"name": "system:a"}) == []
    assert errors("clusterroles.rbac.authorization.k8s.io", {"name": "a/b"}) == [
        "metadata.name: Invalid value: \"a/b\": may not contain '/'"
    ]


def test_owner_references_are_whole() -> None:
    assert errors("nodes", {"name": "a", "ownerReferences": [{"kind": "Pod"}]}) == [
        'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
        'metadata.ownerReferences.name: Invalid value: "": must not be empty',
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ]


def test_second_controller_owner_is_refused() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "controller": True}
    found = errors("nodes", {"name": "a", "ownerReferences": [owner, {**owner, "name": "b"}]})
    assert len(found) == 1
    assert found[0].endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Pod/a '
        "and Pod/b"
    )


def test_a_name_to_be_completed_may_end_in_a_dash() -> None:
    metadata = {"name": "a-x", "generateName": "a-"}
    assert errors("nodes", metadata) == []
    found = errors("nodes", {**metadata, "generateName": "a."})
    assert len(found) == 1
    assert found[0].startswith('metadata.generateName: Invalid value: "a.": a lowercase RFC 1123')


def test_names_are_subdomains_or_labels_by_kind() -> None:
    assert errors("pods", {"name": "a.b", "namespace": "n"}) == []
    assert errors("statefulsets.apps", {"name": "a.b", "namespace": "n"}) == [
        'metadata.name: Invalid value: "a.b": must not contain dots'
    ]


def test_finalizers_are_standard_or_qualified() -> None:
    unqualified = (
        'metadata.finalizers[0]: Invalid value: "foo": name is neither a standard finalizer name '
        "nor is it fully qualified"
    )
    assert errors("nodes", {"name": "a", "finalizers": ["foo", "e/a"]}) == [unqualified]
    assert errors("nodes", {"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}) == [
        'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and '
        "foregroundDeletion cannot be both set"
    ]


def test_new_finalizer_of_a_terminating_object_is_refused() -> None:
    old = {"metadata": {"name": "a", "uid": "u", "deletionTimestamp": "t", "finalizers": ["e/a"]}}
    new = {"metadata": {**old["metadata"], "finalizers": ["e/a", "e/b"]}}
    for errors_of in (validate_object_meta_update, validate_common_fields_update):
        assert [str(error) for error in errors_of(new, old, KINDS["nodes"])] == [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
            'deleted, found new finalizers []string{"e/b"}'
        ]


def test_the_identity_of_an_object_is_fixed() -> None:
    old = {"metadata": {"name": "a", "uid": "u"}}
    new = {"metadata": {"name": "b", "uid": "v"}}
    assert [str(error) for error in validate_object_meta_update(new, old, KINDS["nodes"])] == [
        'metadata.name: Invalid value: "b": field is immutable',
        'metadata.uid: Invalid value: "v": field is immutable',
    ]


def test_selectors_are_whole() -> None:
    selector = {
        "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "b", "operator": "Exists", "values": ["x"]},
            {"key": "c", "operator": "Nope"},
            {"key": "d", "operator": "In", "values": ["a" * 64]},
        ]
    }
    assert [str(error) for error in validate_label_selector(selector, "s")] == [
        "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' "
        "or 'NotIn'",
        "s.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' "
        "or 'DoesNotExist'",
        's.matchExpressions[2].operator: Invalid value: "Nope": not a valid selector operator',
        f's.matchExpressions[3].values[0]: Invalid value: "{"a" * 64}": must be no more than 63 '
        "bytes",
    ]


def test_delete_options_do_not_contradict_themselves() -> None:
    assert validate_delete_options({"propagationPolicy": "Orphan"}) == []
    both = validate_delete_options({"propagationPolicy": "Orphan", "orphanDependents": True})
    assert [str(error) for error in both] == [
        'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation '
        "cannot be both set"
    ]
    unknown = validate_delete_options({"propagationPolicy": "Nope"})
    assert [str(error) for error in unknown] == [
        'propagationPolicy: Unsupported value: "Nope": supported values: "Foreground", '
        '"Background", "Orphan", "nil"'
    ]
