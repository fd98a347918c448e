"""Affinity, anti-affinity and topology spread, and messages about unschedulable pods."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from e2e.objects import pod

if TYPE_CHECKING:
    from pytest_kwait import Kwait

_HOST = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def near(app: str, topology: str = _HOST) -> dict[str, Any]:
    """Return a term that means the pods of an app."""
    return {_REQUIRED: [{"topologyKey": topology, "labelSelector": {"matchLabels": {"app": app}}}]}


def open_nodes(kwait: Kwait) -> int:
    """Return how many nodes take any pod."""
    return sum(not node["spec"].get("taints") for node in kwait.list("nodes"))


def refused(kwait: Kwait, name: str, text: str) -> None:
    """Wait until the scheduler says that no node takes the pod, in these words."""

    def says_so(found: dict[str, Any]) -> bool:
        conditions = found["status"].get("conditions", ())
        return any(re.fullmatch(text, each.get("message", "")) for each in conditions)

    kwait.wait_for(f"pod/{name}", says_so, timeout="4m", fail_fast=False)


def message(reason: str, way_out: str) -> str:
    """Return the message's pattern; nodes with taints have reasons of their own."""
    return (
        rf"0/(\d+) nodes are available: (.*, )?[1-9]\d* {reason}(, .*)?\. no new claims to "
        rf"deallocate, preemption: 0/\1 nodes are available: (.*, )?[1-9]\d* {way_out}(, .*)?\."
    )


_NO_VICTIMS = "No preemption victims found for incoming pod"
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


def node_of(kwait: Kwait, name: str) -> str:
    """Wait until the pod has a node."""
    found = kwait.wait_for(
        f"pod/{name}", lambda one: bool(one["spec"].get("nodeName")), timeout="4m", fail_fast=False
    )
    return str(found["spec"]["nodeName"])


def test_pod_anti_affinity(kwait: Kwait) -> None:
    """One on each node, and the one too many waits until another leaves."""
    names = [f"web-{number}" for number in range(open_nodes(kwait))]
    affinity = {"podAntiAffinity": near("web")}
    for name in names:
        kwait.create(pod(name, labels={"app": "web"}, affinity=affinity))
    assert len({node_of(kwait, name) for name in names}) == len(names)

    kwait.create(pod("late", labels={"app": "web"}, affinity=affinity))
    refused(kwait, "late", message(r"node\(s\) didn't match pod anti-affinity rules", _NO_VICTIMS))
    where = node_of(kwait, names[0])
    kwait.delete(f"pod/{names[0]}")
    assert node_of(kwait, "late") == where


def test_anti_affinity_of_existing_pods(kwait: Kwait) -> None:
    names = [f"shy-{number}" for number in range(open_nodes(kwait))]
    for name in names:
        terms = [*near("loud")[_REQUIRED], *near("shy")[_REQUIRED]]
        affinity = {"podAntiAffinity": {_REQUIRED: terms}}
        kwait.create(pod(name, labels={"app": "shy"}, affinity=affinity))
    for name in names:
        node_of(kwait, name)

    kwait.create(pod("loud", labels={"app": "loud"}))
    refused(
        kwait,
        "loud",
        message(r"node\(s\) didn't satisfy existing pods anti-affinity rules", _NO_VICTIMS),
    )


def test_pod_affinity(kwait: Kwait) -> None:
    """A pod waits for the one that it wants to be beside."""
    kwait.create(pod("web", affinity={"podAffinity": near("db")}))
    refused(kwait, "web", message(r"node\(s\) didn't match pod affinity rules", _NOT_HELPFUL))
    kwait.create(pod("db", labels={"app": "db"}))

    assert node_of(kwait, "web") == node_of(kwait, "db")


def test_topology_spread(kwait: Kwait) -> None:
    """As many on each node; where the nodes lack the label, nowhere."""
    names = [f"web-{number}" for number in range(2 * open_nodes(kwait))]
    constraint = {
        "maxSkew": 1,
        "topologyKey": _HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    for name in names:
        kwait.create(pod(name, labels={"app": "web"}, topologySpreadConstraints=[constraint]))
    nodes = [node_of(kwait, name) for name in names]
    assert {nodes.count(node) for node in nodes} == {2}

    by_rack = {**constraint, "topologyKey": "example.com/rack"}
    kwait.create(pod("lost", labels={"app": "web"}, topologySpreadConstraints=[by_rack]))
    refused(
        kwait,
        "lost",
        message(
            r"node\(s\) didn't match pod topology spread constraints \(missing required label\)",
            _NOT_HELPFUL,
        ),
    )


def test_contradictory_node_affinity(kwait: Kwait) -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in "ab"]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    kwait.create(pod("torn", affinity={"nodeAffinity": {_REQUIRED: terms}}))
    refused(kwait, "torn", r"0/\d+ nodes are available: pod affinity terms conflict\. not found")
