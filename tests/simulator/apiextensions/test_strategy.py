"""Conflicting names of two definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.objects import definition
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

CRDS = "customresourcedefinitions.apiextensions.k8s.io"


def cluster_scoped(plural: str, kind: str, **names: Any) -> dict[str, Any]:
    return definition(plural, kind, "e.com", scope="Cluster", names=names)


@pytest.fixture
def api() -> SimulatedCluster:
    api = new_cluster()
    api.create(CRDS, cluster_scoped("things", "Thing", shortNames=["th", "ti"]))
    return api


def conditions(api: SimulatedCluster, plural: str) -> dict[str, tuple[str, str, str]]:
    found = api.get(CRDS, f"{plural}.e.com")["status"]["conditions"]
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in found}


@pytest.mark.parametrize(
    ("wanted", "reason", "text"),
    [
        (
            ("others", "Thing", {"listKind": "Others"}),
            "KindConflict",
            '"Thing" is already in use',
        ),
        (
            ("others", "Other", {"listKind": "ThingList"}),
            "ListKindConflict",
            '"ThingList" is already in use',
        ),
        (
            ("others", "Other", {"singular": "thing"}),
            "SingularConflict",
            '"thing" is already in use',
        ),
        (("th", "Other", {}), "PluralConflict", '"th" is already in use'),
        (
            ("others", "Other", {"shortNames": ["th", "ti"]}),
            "ShortNamesConflict",
            '["th" is already in use, "ti" is already in use]',
        ),
    ],
)
def test_conflicting_name_prevents_serving(
    api: SimulatedCluster, wanted: tuple[str, str, dict[str, Any]], reason: str, text: str
) -> None:
    plural, kind, names = wanted
    api.create(CRDS, cluster_scoped(plural, kind, **names))
    assert conditions(api, plural) == {
        "NamesAccepted": ("False", reason, text),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    assert api.kinds.find(f"{plural}.e.com") is None


def test_freed_name_goes_to_the_waiting_definition(api: SimulatedCluster) -> None:
    api.create(CRDS, cluster_scoped("others", "Other", shortNames=["th"]))
    assert api.kinds.find("others.e.com") is None
    api.delete(CRDS, "things.e.com")
    assert conditions(api, "others")["Established"][0] == "True"
    kind = api.kinds.find("others.e.com")
    assert kind is not None
    assert kind.short_names == ("th",)


def test_definition_is_served_under_its_accepted_names(api: SimulatedCluster) -> None:
    api.create(CRDS, cluster_scoped("others", "Other", shortNames=["o"]))

    def want(obj: dict[str, Any]) -> None:
        obj["spec"]["names"]["shortNames"] = ["o", "th"]

    api.modify(CRDS, "others.e.com", "", want)
    assert conditions(api, "others")["NamesAccepted"][:2] == ("False", "ShortNamesConflict")
    assert conditions(api, "others")["Established"][0] == "True"
    assert api.kinds["others.e.com"].short_names == ("o",)
