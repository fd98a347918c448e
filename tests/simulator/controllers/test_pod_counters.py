"""Pod counters equal a full count after any changes."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager
from pytest_kwait.simulator.controllers.replicaset import PodCounter, PodCounters, PodCounts
from tests.objects import pod
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_OWNERS = ("one", "two", "")
_SELECTOR = {"matchLabels": {"app": "web"}}
_LABELS = {"app": "web", "version": "2"}


def _owned(number: int, random: Random) -> Obj:
    made = pod(f"p{number}")
    made["metadata"]["labels"] = _labels(random)
    made["metadata"]["ownerReferences"] = _references(random)
    if number % 2:
        made["metadata"]["finalizers"] = ["example.com/held"]
    return made


def _labels(random: Random) -> dict[str, str]:
    return {"app": random.choice(("web", "web", "db")), "version": random.choice("12")}


def _references(random: Random) -> list[Obj]:
    uid = random.choice(_OWNERS)
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": True}
    return [{**reference, "uid": uid}] if uid else []


def _status(random: Random) -> Obj:
    ready = {"type": "Ready", "status": random.choice(("True", "False"))}
    return {"phase": random.choice(("Pending", "Running", "Failed")), "conditions": [ready]}


def _update(part: str, fields: Obj, obj: Obj) -> None:
    obj[part].update(fields)


@pytest.mark.parametrize("seed", range(8))
def test_counter_equals_a_full_count(seed: int) -> None:
    random, api = Random(seed), new_cluster()
    pods = ControllerRefManager(api, "pods")
    tallies = PodCounters(pods)
    seen: set[PodCounts] = set()
    for number in range(200):
        there = [one["metadata"]["name"] for one in api.list("pods", "default")]
        choice, name = random.random(), random.choice(there) if there else ""
        if choice < 0.4 or not name:
            api.create("pods", _owned(number, random), "default")
        elif choice < 0.6:
            change = partial(_update, "status", _status(random))
            api.modify("pods", name, "default", change, subresource="status")
        elif choice < 0.75:
            metadata = {"labels": _labels(random), "ownerReferences": _references(random)}
            api.modify("pods", name, "default", partial(_update, "metadata", metadata))
        else:
            api.delete("pods", name, "default")
        for uid in ("one", "two"):
            known = tallies.of(uid, _SELECTOR, _LABELS)
            anew = PodCounter(_SELECTOR, _LABELS, pods.of(uid))
            assert known.counts == anew.counts
            assert known.active() == anew.active()
            seen.add(known.counts)
    assert all(any(one[at] for one in seen) for at in range(len(PodCounts._fields)))


@pytest.mark.parametrize("other", [{"selector": {"matchLabels": {"app": "db"}}}, {"labels": {}}])
def test_counter_is_rebuilt_for_another_selector_or_template(other: dict[str, Any]) -> None:
    random, api = Random(2), new_cluster()
    pods = ControllerRefManager(api, "pods")
    tallies = PodCounters(pods)
    for number in range(20):
        api.create("pods", _owned(number, random), "default")
    before = tallies.of("one", _SELECTOR, _LABELS).counts
    asked = {"selector": _SELECTOR, "labels": _LABELS, **other}
    after = tallies.of("one", **asked).counts
    assert after == PodCounter(pods=pods.of("one"), **asked).counts
    assert after != before


def test_forgotten_owner_is_recounted() -> None:
    api = new_cluster()
    pods = ControllerRefManager(api, "pods")
    tallies = PodCounters(pods)
    first = tallies.of("one", _SELECTOR, _LABELS)
    assert tallies.of("one", _SELECTOR, _LABELS) is first
    tallies.forget("one")
    assert tallies.of("one", _SELECTOR, _LABELS) is not first
