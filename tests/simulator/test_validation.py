from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.registry import Registry
from pytest_kwait.simulator.validation import (
    delete_option_errors,
    label_value_texts,
    metadata_errors,
    metadata_update_errors,
    name_errors,
    qualified_name_texts,
    selector_errors,
)

KINDS = Registry()


@pytest.mark.parametrize("name", ["a", "a-b.c", "1", "a" * 253])
def test_subdomains(name: str) -> None:
    assert name_errors(name) == []


def test_what_is_no_subdomain_or_label_is_told_with_the_rule() -> None:
    assert name_errors("A" * 254) == [
        "must be no more than 253 bytes",
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex "
        "used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    ]
    assert name_errors("a.b", label=True) == [
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
        "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
        "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    ]


@pytest.mark.parametrize("name", ["a", "example.com/a", "A_b.c", "a" * 63])
def test_qualified_names(name: str) -> None:
    assert qualified_name_texts(name) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("/a", "prefix part must be non-empty"),
        ("a" * 64, "name part must be no more than 63 bytes"),
        ("x/", "name part must be non-empty"),
    ],
)
def test_what_is_no_qualified_name(name: str, text: str) -> None:
    assert qualified_name_texts(name)[0] == text


def test_label_values() -> None:
    assert label_value_texts("") == []
    assert label_value_texts("a" * 64)[0] == "must be no more than 63 bytes"
    assert len(label_value_texts("-")) == 1


def errors(resource: str, metadata: dict[str, Any]) -> list[str]:
    return [str(error) for error in metadata_errors({"metadata": metadata}, KINDS[resource])]


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


def test_only_one_owner_controls() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "controller": True}
    found = errors("nodes", {"name": "a", "ownerReferences": [owner, {**owner, "name": "b"}]})
    assert len(found) == 1
    assert found[0].endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Pod/a '
        "and Pod/b"
    )


def test_no_finalizer_is_added_to_what_is_being_deleted() -> None:
    old = {"metadata": {"name": "a", "uid": "u", "deletionTimestamp": "t", "finalizers": ["e/a"]}}
    new = {"metadata": {**old["metadata"], "finalizers": ["e/a", "e/b"]}}
    assert [str(error) for error in metadata_update_errors(new, old, KINDS["nodes"])] == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
        'deleted, found new finalizers []string{"e/b"}'
    ]


def test_selectors_are_whole() -> None:
    selector = {
        "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "b", "operator": "Exists", "values": ["x"]},
            {"key": "c", "operator": "Nope"},
        ]
    }
    assert [str(error) for error in selector_errors(selector, "s")] == [
        "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' "
        "or 'NotIn'",
        "s.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' "
        "or 'DoesNotExist'",
        's.matchExpressions[2].operator: Invalid value: "Nope": not a valid selector operator',
    ]


def test_delete_options_do_not_contradict_themselves() -> None:
    assert delete_option_errors({"propagationPolicy": "Orphan"}) == []
    both = delete_option_errors({"propagationPolicy": "Orphan", "orphanDependents": True})
    assert [str(error) for error in both] == [
        'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation '
        "cannot be both set"
    ]
    unknown = delete_option_errors({"propagationPolicy": "Nope"})
    assert [str(error) for error in unknown] == [
        'propagationPolicy: Unsupported value: "Nope": supported values: "Foreground", '
        '"Background", "Orphan", "nil"'
    ]
