from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager, OwnerIndex
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from tests.simulator.manual_clock import ManualClock

SETS = "replicasets.apps"
LABELS = {"app": "web"}
CONTAINERS = [{"name": "c", "image": "busybox"}]


class Place:
    """A cluster without controllers, and the owners that were queued."""

    def __init__(self, pause: float = 0.0) -> None:
        self.clock = ManualClock()
        self.api = SimulatedCluster(self.clock)
        self.api.root_ca = "CERTIFICATE"
        self.api.bootstrap()
        for namespace in ("one", "two"):
            self.api.create("namespaces", {"metadata": {"name": namespace}})
            self.api.create("serviceaccounts", {"metadata": {"name": "default"}}, namespace)
        self.looks: list[str] = []
        queue: Workqueue[str] = Workqueue(self.api, self.looks.append, "test")
        self.owners = OwnerIndex(
            self.api, SETS, ControllerRefManager(self.api, "pods"), queue, pause
        )

    def owner(self, name: str, namespace: str = "one") -> dict[str, Any]:
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}}
        spec = {"selector": {"matchLabels": LABELS}, "template": template}
        return self.api.create(SETS, {"metadata": {"name": name}, "spec": spec}, namespace)

    def pod(self, owner: dict[str, Any] | None, name: str = "p") -> None:
        metadata: dict[str, Any] = {"name": name, "labels": LABELS}
        if owner is not None:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ]
        self.api.create("pods", {"metadata": metadata, "spec": {"containers": CONTAINERS}}, "one")

    def looked_at(self, seconds: float = 0.0) -> list[str]:
        """Return the owners that were queued since the last call."""
        self.clock.advance(seconds)
        looks, self.looks[:] = list(self.looks), []
        return looks


@pytest.fixture
def place() -> Place:
    return Place()


def test_owner_is_queued_on_change_and_dropped_on_deletion(place: Place) -> None:
    place.owner("a")
    assert place.looked_at() == ["one/a"]

    place.owner("b")
    place.api.delete(SETS, "b", "one")
    assert place.looked_at() == []
    assert list(place.owners.keys) == ["one/a"]


def test_pod_change_queues_old_and_new_owner(place: Place) -> None:
    first = place.owner("a")
    second = place.owner("b")
    place.owner("c")
    place.looked_at()

    place.pod(first)
    assert place.looked_at() == ["one/a"]

    def give(pod: dict[str, Any]) -> None:
        reference = pod["metadata"]["ownerReferences"][0]
        reference.update(name="b", uid=second["metadata"]["uid"])

    place.api.modify("pods", "p", "one", give)
    assert sorted(place.looked_at()) == ["one/a", "one/b"]


def test_orphan_queues_all_owners_of_its_namespace(place: Place) -> None:
    place.owner("a")
    place.owner("b")
    place.owner("elsewhere", "two")
    place.looked_at()

    place.pod(None)

    assert sorted(place.looked_at()) == ["one/a", "one/b"]


def test_owner_of_many_pods_is_queued_with_delay() -> None:
    place = Place(pause=0.1)
    owner = place.owner("a")
    for number in range(21):
        place.pod(owner, f"p{number}")
    place.looked_at(10)

    place.pod(owner, "p")
    place.pod(owner, "q")

    assert place.looked_at(2.1) == []
    assert place.looked_at(0.2) == ["one/a"]


def test_own_status_change_is_delayed_and_spec_change_is_not() -> None:
    place = Place(pause=0.1)
    owner = place.owner("a")
    for number in range(21):
        place.pod(owner, f"p{number}")
    place.looked_at(10)

    place.api.update_status(SETS, {**owner, "status": {"replicas": 21}})
    assert place.looked_at(2.0) == []
    assert place.looked_at(0.2) == ["one/a"]

    def grow(obj: dict[str, Any]) -> None:
        obj["spec"]["replicas"] = 22

    place.api.modify(SETS, "a", "one", grow)
    assert place.looked_at() == ["one/a"]


def test_owner_of_few_pods_is_queued_at_once() -> None:
    place = Place(pause=1.0)
    owner = place.owner("a")
    place.looked_at()

    place.pod(owner)

    assert place.looked_at() == ["one/a"]
