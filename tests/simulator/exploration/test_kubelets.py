"""What an exploration does to kubelets: one perturbation at a time, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.apimachinery.conditions import get_condition, is_condition_true
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.exploration.exploration import Exploration
from pytest_kwait.simulator.exploration.kubelets import merge_conditions
from tests.simulator.cluster import Cluster, pod_spec
from tests.simulator.exploration.seeds import (
    decide_always,
    explore,
    find_seed,
    hold_for,
    running_exploration,
)

Obj = dict[str, Any]


def explored(name: str, *events: str, unwanted: tuple[str, ...] = ()) -> Cluster:
    """Return a cluster in which the perturbation happens at the events."""
    seed = find_seed(
        "harsh", [(name, event) for event in events], [(name, event) for event in unwanted]
    )
    cluster = Cluster()
    only = [f"{name}@{event}" for event in events]
    explore(cluster.api, Exploration(cluster.clock, seed, "harsh", only))
    return cluster


def applied_size(cluster: Cluster) -> float:
    (decision,) = running_exploration(cluster.api).applied
    return decision.size


def sandbox_after(cluster: Cluster) -> float:
    """Return the virtual seconds until the sandbox of the new pod `p` is up."""
    cluster.create("pods", "p", pod_spec("sleep", "600"))
    start = cluster.clock.monotonic()
    while not is_condition_true(cluster.get("pods", "p"), "PodReadyToStartContainers"):
        cluster.run(0.01)
        assert cluster.clock.monotonic() < start + 30
    return cluster.clock.monotonic() - start


def test_sandbox_is_ready_later() -> None:
    cluster = explored("sandbox-delay", "sandbox p 1")
    delay = sandbox_after(cluster) - sandbox_after(Cluster())
    assert delay == pytest.approx(applied_size(cluster), abs=0.02)


def test_pull_takes_longer_and_says_so() -> None:
    cluster = explored("pull-delay", "pull registry.example/app:1 p 1")
    spec = pod_spec("sleep", "600", container={"image": "registry.example/app:1"})
    cluster.create("pods", "p", spec)
    cluster.run(10)
    (pulled,) = (event for event in cluster.events("p") if event.startswith("Pulled"))
    took = round((1.0 + applied_size(cluster)) * 1000)
    assert f"in {took}ms ({took}ms including waiting)" in pulled


@pytest.mark.parametrize(
    ("name", "event"),
    [("sandbox-delay", "sandbox p 1"), ("pull-delay", "pull registry.example/app:1 p 1")],
)
def test_deletion_interrupts_a_delayed_step(name: str, event: str) -> None:
    cluster = explored(name, event)
    spec = pod_spec("sleep", "600", container={"image": "registry.example/app:1"})
    cluster.create("pods", "p", spec)
    hold_for(running_exploration(cluster.api), 600)
    cluster.run(3)
    assert get_condition(cluster.get("pods", "p"), "Ready") is not None
    cluster.delete("pods", "p")
    cluster.run(5)
    assert cluster.find("pods", "p") is None


def test_step_goes_on_when_the_exploration_ends() -> None:
    cluster = explored("sandbox-delay", "sandbox p 1")
    hold_for(running_exploration(cluster.api), 600)
    cluster.create("pods", "p", pod_spec("sleep", "600"))
    cluster.run(5)
    assert not is_condition_true(cluster.get("pods", "p"), "Ready")
    running_exploration(cluster.api).end()
    cluster.run(5)
    assert is_condition_true(cluster.get("pods", "p"), "Ready")


def phases(cluster: Cluster) -> list[str]:
    return cluster.states("pods", "p", lambda pod: pod["status"].get("phase"))


def test_status_is_batched_and_skips_states() -> None:
    cluster = explored("status-batch", "status p 1")
    hold_for(running_exploration(cluster.api), 20)
    cluster.create("pods", "p", pod_spec("sh", "-c", "sleep 3", restartPolicy="Never"))
    cluster.run(10)
    assert not (cluster.get("pods", "p")["status"].get("containerStatuses"))
    cluster.run(15)
    assert phases(cluster) == ["Pending", "Succeeded"]


def test_deleted_pod_shows_its_last_status_before_it_is_removed() -> None:
    cluster = explored("status-batch", "status p 1")
    hold_for(running_exploration(cluster.api), 600)
    cluster.create("pods", "p", pod_spec("sleep", "600"))
    cluster.run(5)
    cluster.delete("pods", "p", grace=1)
    cluster.run(10)
    last = [obj for kind, _, obj in cluster.history if kind == "pods"][-2]
    state = last["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 137
    assert cluster.find("pods", "p") is None


def test_late_status_keeps_conditions_that_others_wrote() -> None:
    cluster = explored("status-batch", "status p 1")
    hold_for(running_exploration(cluster.api), 5)
    cluster.create("pods", "p", pod_spec("sleep", "600"))
    cluster.run(4)
    pod = cluster.get("pods", "p")
    assert not is_condition_true(pod, "Ready")
    other = {"type": "example.com/other", "status": "True"}
    conditions = [*pod["status"].get("conditions", ()), other]
    cluster.api.update_status(
        "pods", {**pod, "status": {**pod["status"], "conditions": conditions}}
    )
    cluster.run(20)
    written = cluster.get("pods", "p")
    assert is_condition_true(written, "example.com/other")
    assert is_condition_true(written, "Ready")


def test_conditions_of_a_late_status_are_merged() -> None:
    def condition(name: str, status: str, reason: str = "") -> Obj:
        return {"type": name, "status": status, "reason": reason}

    late = [
        condition("gone", "True"),
        condition("gate", "False"),
        condition("DisruptionTarget", "True", "TerminationByKubelet"),
        condition("Ready", "True"),
    ]
    present = [
        condition("gate", "True"),
        condition("new", "True"),
        condition("DisruptionTarget", "True", "EvictionByEvictionAPI"),
        condition("Ready", "False"),
    ]
    assert merge_conditions(late, present, ("Ready",)) == [
        condition("gate", "True"),
        condition("new", "True"),
        condition("DisruptionTarget", "True", "TerminationByKubelet"),
        condition("Ready", "True"),
    ]


def test_sync_begins_later() -> None:
    cluster = explored("sync-delay", "sync p 1")
    cluster.create("pods", "p", pod_spec("sleep", "600"))
    cluster.run(applied_size_soon(cluster) * 0.9)
    assert not cluster.get("pods", "p")["status"].get("startTime")
    cluster.run(5)
    assert is_condition_true(cluster.get("pods", "p"), "Ready")


def applied_size_soon(cluster: Cluster) -> float:
    cluster.run(0)
    return applied_size(cluster)


def test_late_heartbeats_never_make_a_node_unknown() -> None:
    cluster = Cluster()
    cluster.run(2)
    exploration = Exploration(cluster.clock, 1, "harsh", ["heartbeat-delay"])
    # Every renewal is as late as it can be.
    longest = 15.0
    decide_always(exploration, longest)
    explore(cluster.api, exploration)
    gaps = []
    for _ in range(240):
        cluster.run(0.5)
        lease = cluster.api.get("leases.coordination.k8s.io", "kwait-node-1", "kube-node-lease")
        renewed = parse_time(lease["spec"]["renewTime"])
        gaps.append(cluster.clock.time() - renewed)
        (node,) = cluster.api.list("nodes")
        assert is_condition_true(node, "Ready")
    assert 10 < max(gaps) < 40
