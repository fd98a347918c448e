"""Manifests of a folder, and differences between outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.api.manifests import Manifest, find_differences, load_manifests
from conformance.api.mutations import is_same_outcome

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n# none\n---\nkind: X\n",
    "more/b.yml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    "more/list.yaml": """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: b}}
- {apiVersion: v1, kind: Secret}
- 5
""",
    "template.yaml": "apiVersion: {{ .version }}\nkind: Pod\n",
    "dates.yaml": "{apiVersion: v1, kind: Event, metadata: {name: c}, eventTime: 2026-01-01}",
    "notes.txt": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d}\n",
}


def test_manifests_are_the_objects_of_all_files_each_once(tmp_path: Path) -> None:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    tmp_path.joinpath("folder.yaml").mkdir()
    assert [(one.source, one.obj["metadata"]["name"]) for one in load_manifests(tmp_path)] == [
        ("a.yaml", "a"),
        ("dates.yaml", "c"),
        ("more/list.yaml", "b"),
    ]


@pytest.mark.parametrize(
    ("version", "kind", "category"),
    [
        ("v1", "Pod", "built-in objects"),
        ("networking.k8s.io/v1", "Ingress", "built-in objects"),
        ("gateway.networking.k8s.io/v1", "Gateway", "custom objects"),
        ("example.com/v1", "Thing", "custom objects"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "definitions"),
    ],
)
def test_category(version: str, kind: str, category: str) -> None:
    assert Manifest("a.yaml", {"apiVersion": version, "kind": kind}).category == category


def test_differences_have_their_paths() -> None:
    one = {"status": 201, "body": {"spec": {"a": [1, {"b": 2}], "c": [1]}, "x": None}}
    other = {"status": 422, "body": {"spec": {"a": [1, {"b": 3}], "c": [1, 2]}}}
    assert [*find_differences(one, other)] == [
        ".body.spec.a[1].b: 2 instead of 3",
        ".body.spec.c: [1] instead of [1, 2]",
        ".body.x: null instead of absent",
        ".status: 201 instead of 422",
    ]


def test_type_errors_of_applied_objects_are_equal_in_any_order_and_in_part() -> None:
    def refusal(errors: str) -> dict[str, Any]:
        text = f"failed to create typed patch object (/a; v1, Kind=Pod): {errors}"
        return {"status": 500, "body": {"message": text}, "Warning": ""}

    both = refusal("errors:\n  .a: not declared\n  .b: expected string")
    assert is_same_outcome(both, refusal("errors:\n  .b: expected string\n  .a: not declared"))
    assert is_same_outcome(refusal(".a: not declared"), both)
    assert not is_same_outcome(refusal(".c: not declared"), both)
    assert not is_same_outcome(refusal(".a: not declared"), {**both, "body": {"message": ""}})
