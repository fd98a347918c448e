"""Nodes cache counts and never return outdated ones."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pytest_kwait.scheduler.algorithm import Algorithm, NodeInfo
from pytest_kwait.scheduler.framework.object_fields import read_label_selector
from tests.objects import node, pod
from tests.scheduler.nodes import Nodes

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_APPS = ("web", "db")
_TEAMS: tuple[dict[str, str], ...] = ({"team": "red"}, {"team": "blue"}, {})


def _term(random: Random) -> dict[str, Any]:
    term: dict[str, Any] = {
        "topologyKey": random.choice(("host", "zone")),
        "labelSelector": {"matchLabels": {"app": random.choice(_APPS)}},
    }
    if random.random() < 0.3:
        term["namespaceSelector"] = random.choice(({}, {"matchLabels": {"team": "red"}}))
    return term


def _random_pod(random: Random, number: int) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if random.random() < 0.15:
            affinity[kind] = {_REQUIRED: [_term(random)]}
        elif random.random() < 0.2:
            preferred = {"weight": random.randint(1, 9), "podAffinityTerm": _term(random)}
            affinity[kind] = {_PREFERRED: [preferred]}
    constraint = {
        "maxSkew": 2,
        "topologyKey": "host",
        "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": random.choice(_APPS)}},
    }
    return pod(
        f"p{number}",
        cpu=random.choice(("100m", "200m")),
        container={"ports": [{"hostPort": 80}] if random.random() < 0.1 else []},
        namespace=random.choice(("one", "two")),
        labels={"app": random.choice(_APPS)},
        generation=1,
        affinity=affinity,
        topologySpreadConstraints=[constraint] if random.random() < 0.3 else None,
    )


def _random_node(random: Random, number: int) -> dict[str, Any]:
    labels = {"host": f"n{number}", "zone": random.choice("ab")}
    return node(f"n{number}", labels=labels, cpu="3", pods="9")


@pytest.mark.parametrize("seed", range(12))
def test_cached_counts_equal_fresh_ones(seed: int) -> None:
    random = Random(seed)
    algorithm = Algorithm()
    namespaces = {name: random.choice(_TEAMS) for name in ("one", "two")}
    kept = [NodeInfo(_random_node(random, number)) for number in range(5)]
    pods: list[dict[str, dict[str, Any]]] = [{} for _ in kept]
    for number in range(60):
        place = random.randrange(len(kept))
        info, there = kept[place], pods[place]
        choice = random.random()
        if choice < 0.6 or not there:
            new = _random_pod(random, number)
            info.add(new)
            there[new["metadata"]["uid"]] = new
        elif choice < 0.75:
            assert info.remove(there.pop(random.choice(list(there))))
        elif choice < 0.9:
            uid = random.choice(list(there))
            old = there[uid]
            change = random.choice(({"labels": {"app": "db"}}, {"deletionTimestamp": "now"}))
            there[uid] = {**old, "metadata": {**old["metadata"], **change}}
            info.add(there[uid])
        elif choice < 0.95:
            info.set_node(_random_node(random, place))
        else:
            namespaces["one"] = random.choice(_TEAMS)
        fresh = [NodeInfo(one.node) for one in kept]
        for one, on in zip(fresh, pods, strict=True):
            for there_now in on.values():
                one.add(there_now)
        for _ in range(3):
            wanted = _random_pod(random, -1)
            asked = algorithm.scores(wanted, Nodes(*kept, namespaces=namespaces))
            assert asked == algorithm.scores(wanted, Nodes(*fresh, namespaces=namespaces))


def test_counts_are_right_beyond_the_selector_limit() -> None:
    random, info = Random(1), NodeInfo(node("n", pods="200"))
    pods = []
    for number in range(60):
        made = _random_pod(random, number)
        made["metadata"]["namespace"] = f"space-{number % 20}"
        made["metadata"]["labels"] = {"app": f"a-{number % 25}"}
        info.add(made)
        pods.append(made["metadata"])
        for _ in range(30):
            space, app = f"space-{random.randrange(20)}", f"a-{random.randrange(25)}"
            selector = read_label_selector({"matchLabels": {"app": app}})
            expected = [
                one for one in pods if one["namespace"] == space and one["labels"]["app"] == app
            ]
            assert info.selected(space, selector) == len(expected)
