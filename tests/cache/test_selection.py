from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.cache.selection import EventFilter, ResourceCollection, SharedEvent
from pytest_kwait.client.resource import JOBS, NODES, PODS
from tests.cache.fakes import pod, raw

EVERYTHING = ResourceCollection.of(PODS, None, None, None)
CI = ResourceCollection.of(PODS, "ci", None, None)
WEB = ResourceCollection.of(PODS, "ci", "app=web", None)
ONE = ResourceCollection.of(PODS, "ci", None, "metadata.name=a")


def shown(type: str, name: str = "a", namespace: str = "ci", **labels: str) -> SharedEvent:
    obj = pod(name, 5, namespace=namespace)
    obj["metadata"]["labels"] = labels
    bare = {"metadata": {key: obj["metadata"][key] for key in ("name", "namespace", "uid")}}
    return SharedEvent(type, bare, raw(obj), 5)


def passing(
    narrow: ResourceCollection, wide: ResourceCollection, *, by_labels: bool = True
) -> EventFilter:
    passing = narrow.within(wide, by_labels=by_labels)
    assert passing is not None
    return passing


def test_the_same_collection_passes_whole_however_it_was_written() -> None:
    written = ResourceCollection.of(PODS, "ci", {"app": "web"}, {"metadata.name": "a"})
    same = ResourceCollection.of(PODS, "ci", "app=web", "metadata.name=a")
    assert written == same
    assert passing(written, same)(shown("ADDED", "other")) == "ADDED"


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (CI, ResourceCollection.of(PODS, "other", None, None)),
        (EVERYTHING, CI),
        (CI, WEB),
        (ONE, ResourceCollection.of(PODS, "ci", None, "metadata.name=b")),
        (CI, ONE),
        (CI, ResourceCollection.of(JOBS, "ci", None, None)),
        (ResourceCollection.of(PODS, "ci", None, "spec.nodeName=n"), CI),
        (ResourceCollection.of(PODS, "ci", None, "metadata.name=a,spec.nodeName=n"), CI),
        (ResourceCollection.of(PODS, "ci", None, "metadata.name!=a"), CI),
        (ResourceCollection.of(PODS, "ci", "app=db", None), WEB),
    ],
)
def test_what_does_not_come_whole_by_the_other_is_not_shared(
    narrow: ResourceCollection, wide: ResourceCollection
) -> None:
    assert narrow.within(wide, by_labels=True) is None


def test_namespace_and_name_are_told_from_the_object() -> None:
    in_ci = passing(CI, EVERYTHING)
    assert in_ci(shown("ADDED")) == "ADDED"
    assert in_ci(shown("DELETED", namespace="other")) is None
    one = passing(ONE, EVERYTHING)
    assert one(shown("MODIFIED")) == "MODIFIED"
    assert one(shown("MODIFIED", "b")) is None
    node = ResourceCollection.of(NODES, None, None, "metadata.name=n")
    assert (
        passing(node, ResourceCollection.of(NODES, None, None, None))(shown("ADDED", "n"))
        == "ADDED"
    )


def test_labels_are_judged_only_where_that_is_asked_for() -> None:
    assert WEB.within(CI, by_labels=False) is None
    web = passing(WEB, EVERYTHING)
    assert web(shown("ADDED", app="web")) == "ADDED"
    assert web(shown("ADDED", "b", app="db")) is None
    assert web(shown("ADDED", app="web", namespace="other")) is None


def test_what_ceases_to_be_selected_is_gone_once() -> None:
    web = passing(WEB, CI)
    told: list[Any] = [
        web(shown(type, app=app))
        for type, app in (
            ("MODIFIED", "web"),
            ("MODIFIED", "db"),
            ("MODIFIED", "db"),
            ("MODIFIED", "web"),
            ("MODIFIED", "db"),
            ("DELETED", "db"),
        )
    ]
    assert told == ["MODIFIED", "DELETED", None, "MODIFIED", "DELETED", None]
    assert web._told_gone == set()  # type: ignore[attr-defined] # what it remembers must not grow


def test_what_may_have_been_selected_before_is_told_as_gone() -> None:
    web = passing(WEB, CI)
    assert web(shown("DELETED", "x", app="web")) == "DELETED"
    # Its deletion is in another state than that in which it was listed.
    assert web(shown("DELETED", "y", app="db")) == "DELETED"
    assert web(shown("ADDED", "z", app="db")) is None
    assert web(shown("DELETED", "z", app="db")) is None
