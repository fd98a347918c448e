"""Late work of controllers on names that belong to other objects by then."""

from __future__ import annotations

import pytest

from pytest_kwait.simulator.exploration.exploration import Exploration
from tests.simulator.cluster import Cluster, pod_spec
from tests.simulator.exploration.seeds import explore, find_seed, hold_for, running_exploration

EVICTION = "work taint-eviction-controller p 1"
TAINT = {"key": "example.com/out", "effect": "NoExecute"}


@pytest.fixture
def evicting() -> Cluster:
    """A cluster that evicts the pod `p` ten seconds late."""
    cluster = Cluster()
    cluster.run(2)  # its own controllers start with a delay
    cluster.create("pods", "p", pod_spec("sleep", "600"))
    cluster.run(5)
    seed = find_seed("harsh", [("work-delay", EVICTION)])
    explore(cluster.api, Exploration(cluster.clock, seed, "harsh", [f"work-delay@{EVICTION}"]))
    hold_for(running_exploration(cluster.api), 10)
    cluster.api.modify(
        "nodes", "kwait-node-1", "", lambda node: node["spec"].update(taints=[TAINT])
    )
    cluster.run(1)
    assert "deletionTimestamp" not in cluster.get("pods", "p")["metadata"]
    return cluster


def test_late_eviction_deletes_its_pod(evicting: Cluster) -> None:
    evicting.run(10)
    assert "deletionTimestamp" in evicting.get("pods", "p")["metadata"]


def test_late_eviction_spares_another_pod_of_that_name(evicting: Cluster) -> None:
    evicting.delete("pods", "p", grace=0)
    toleration = {"key": TAINT["key"], "operator": "Exists"}
    evicting.create("pods", "p", pod_spec("sleep", "600", tolerations=[toleration]))
    evicting.run(20)
    assert "deletionTimestamp" not in evicting.get("pods", "p")["metadata"]
