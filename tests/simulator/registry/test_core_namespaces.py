"""Namespaces are marked first; `finalize` writes their finalizers and removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.request_info import Caller

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

Obj = dict[str, Any]


@pytest.fixture
def namespace(api: SimulatedCluster) -> Obj:
    return api.create("namespaces", {"metadata": {"name": "n", "annotations": {"a": "b"}}})


def finalize(api: SimulatedCluster, namespace: Obj, *, dry_run: bool = False, **spec: Any) -> Obj:
    sent = {**clone(namespace), "spec": spec}
    caller = Caller(manager="kubectl", dry_run=dry_run)
    return api.update("namespaces", sent, subresource="finalize", caller=caller)


def test_deletion_marks_a_namespace(api: SimulatedCluster, namespace: Obj) -> None:
    marked = api.delete("namespaces", "n")
    assert marked["status"] == {"phase": "Terminating"}
    assert marked["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert "deletionGracePeriodSeconds" not in marked["metadata"]
    assert marked["spec"] == namespace["spec"]
    # A second one changes nothing.
    assert api.delete("namespaces", "n") is marked


def test_dry_runs_of_deletions_leave_a_namespace(api: SimulatedCluster, namespace: Obj) -> None:
    marked = api.delete("namespaces", "n", caller=Caller(dry_run=True))
    assert marked["status"] == {"phase": "Terminating"}
    assert api.get("namespaces", "n") is namespace
    api.delete("namespaces", "n")
    gone = finalize(api, api.get("namespaces", "n"), dry_run=True)
    assert "finalizers" not in gone["spec"]
    assert api.find("namespaces", "n") is not None


def test_namespace_without_finalizers_goes_with_its_second_deletion(
    api: SimulatedCluster, namespace: Obj
) -> None:
    finalize(api, namespace)
    marked = api.delete("namespaces", "n")
    assert api.get("namespaces", "n") is marked
    assert api.delete("namespaces", "n") is marked
    assert api.find("namespaces", "n") is None


def test_finalize_writes_finalizers_labels_and_annotations(
    api: SimulatedCluster, namespace: Obj
) -> None:
    sent = clone(namespace)
    sent["metadata"].update(labels={"c": "d"}, annotations={})
    sent["status"] = {"phase": "Terminating"}
    new = finalize(api, sent, finalizers=["kubernetes", "e.com/f"])
    assert new["spec"] == {"finalizers": ["kubernetes", "e.com/f"]}
    assert new["metadata"]["labels"] == {"c": "d", "kubernetes.io/metadata.name": "n"}
    assert "annotations" not in new["metadata"]
    assert new["status"] == {"phase": "Active"}
    # What changes nothing is not written.
    assert finalize(api, new, finalizers=["kubernetes", "e.com/f"]) is new


def test_finalize_by_an_old_object_conflicts(api: SimulatedCluster, namespace: Obj) -> None:
    finalize(api, namespace, finalizers=["e.com/f"])
    with pytest.raises(StatusError) as error:
        finalize(api, namespace)
    assert (error.value.code, error.value.reason) == (409, "Conflict")


def test_finalizers_must_be_qualified_names(api: SimulatedCluster, namespace: Obj) -> None:
    with pytest.raises(StatusError) as error:
        finalize(api, namespace, finalizers=["kubernetes", "f"])
    assert (error.value.code, error.value.message) == (
        422,
        'Namespace "n" is invalid: spec.finalizers[1]: Invalid value: "f": name is neither a '
        "standard finalizer name nor is it fully qualified",
    )


def test_the_last_finalizer_of_either_kind_removes(api: SimulatedCluster, namespace: Obj) -> None:
    sent = clone(namespace)
    sent["metadata"]["finalizers"] = ["e.com/f"]
    api.update("namespaces", sent)
    api.delete("namespaces", "n")
    left = finalize(api, api.get("namespaces", "n"))
    assert api.get("namespaces", "n") is left
    assert left["metadata"]["finalizers"] == ["e.com/f"]
    api.modify("namespaces", "n", "", lambda obj: obj["metadata"].pop("finalizers"))
    assert api.find("namespaces", "n") is None


def test_status_of_a_terminating_namespace_keeps_it(api: SimulatedCluster, namespace: Obj) -> None:
    marked = api.delete("namespaces", "n")
    condition = {"type": "NamespaceContentRemaining", "status": "True"}
    changed = api.update_status(
        "namespaces", {**marked, "status": {"phase": "Terminating", "conditions": [condition]}}
    )
    assert api.get("namespaces", "n") is changed
