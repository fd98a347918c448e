from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.selectors import format_go_selector
from tests.simulator.cluster import Cluster, conditions, pod_spec, set_spec, template

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_BUDGETS = "poddisruptionbudgets.policy"
_SELECTOR = {"matchLabels": {"app": "web"}}


def _add_budget(cluster: Cluster, **spec: Any) -> None:
    cluster.create(_BUDGETS, "b", {"selector": _SELECTOR, **spec})


def _add_deployment(cluster: Cluster, replicas: int = 3) -> None:
    cluster.create("deployments.apps", "d", set_spec(replicas=replicas))


def _told(obj: Obj) -> tuple[int, ...]:
    status = obj.get("status") or {}
    names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return tuple(status.get(name, 0) for name in names)


def test_allowed_disruptions_follow_healthy_pods(cluster: Cluster) -> None:
    _add_budget(cluster, minAvailable=1)
    _add_deployment(cluster)
    cluster.run(5)
    seen = cluster.states(_BUDGETS, "b", lambda one: (_told(one), conditions(one)))
    insufficient = {"DisruptionAllowed": "False InsufficientPods"}
    assert seen[0] == ((0, 0, 0, 0), {})
    assert seen[1] == ((0, 0, 1, 0), insufficient)
    assert ((0, 0, 1, 3), insufficient) in seen
    assert seen[-1] == ((2, 3, 1, 3), {"DisruptionAllowed": "True SufficientPods"})
    assert cluster.get(_BUDGETS, "b")["status"] == {
        "observedGeneration": 1,
        "disruptionsAllowed": 2,
        "currentHealthy": 3,
        "desiredHealthy": 1,
        "expectedPods": 3,
        "conditions": [
            {
                "type": "DisruptionAllowed",
                "status": "True",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:01Z",
                "reason": "SufficientPods",
                "message": "",
            }
        ],
    }
    assert cluster.events("b")[0].partition(": ")[2] == "No matching pods found"
    cluster.delete("pods", cluster.every("pods")[0]["metadata"]["name"])
    cluster.run(0.1)
    assert _told(cluster.get(_BUDGETS, "b"))[1] == 2


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"minAvailable": 2}, (1, 3, 2, 3)),
        ({"minAvailable": "50%"}, (1, 3, 2, 3)),
        ({"maxUnavailable": 1}, (1, 3, 2, 3)),
        ({"maxUnavailable": "30%"}, (1, 3, 2, 3)),
        ({"maxUnavailable": 9}, (3, 3, 0, 3)),
        ({"maxUnavailable": 0}, (0, 3, 3, 3)),
    ],
)
def test_budgets_take_numbers_and_percentages(
    cluster: Cluster, spec: Obj, told: tuple[int, ...]
) -> None:
    _add_deployment(cluster)
    _add_budget(cluster, **spec)
    cluster.run(5)
    assert _told(cluster.get(_BUDGETS, "b")) == told


def test_pods_without_controller_are_not_expected(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "99"), labels={"app": "web"})
    _add_budget(cluster, maxUnavailable=1)
    cluster.run(3)
    assert _told(cluster.get(_BUDGETS, "b")) == (0, 1, 0, 0)
    (event,) = {one.partition(": ")[2] for one in cluster.events("b")}
    assert event == (
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:"
        "map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) were found"
        " to be unmanaged. As a result, the status of the PDB cannot be calculated correctly,"
        ' which may result in undefined behavior. To account for these pods please set ".spec.'
        'minAvailable" field of the PDB to an integer value.'
    )


def test_controller_without_scale_allows_no_disruptions(cluster: Cluster) -> None:
    cluster.create("jobs.batch", "j", {"template": template("sleep", "9", restartPolicy="Never")})
    _add_budget(cluster, maxUnavailable=1)
    cluster.run(3)
    budget = cluster.get(_BUDGETS, "b")
    (condition,) = budget["status"]["conditions"]
    why = "jobs.batch does not implement the scale subresource"
    assert (condition["reason"], condition["message"]) == ("SyncFailed", why)
    assert budget["status"]["disruptionsAllowed"] == 0
    told = f"Failed to calculate the number of expected pods: {why}"
    assert told in {one.partition(": ")[2] for one in cluster.events("b")}


def test_eviction_counts_until_deletion_or_timeout(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "99"), labels={"app": "web"})
    cluster.create("pods", "q", pod_spec("sleep", "99"), labels={"app": "web"})
    _add_budget(cluster, minAvailable=1)
    cluster.run(3)
    budget = cluster.get(_BUDGETS, "b")
    stamp = cluster.clock.stamp()
    status = {**budget["status"], "disruptedPods": {"p": stamp}, "disruptionsAllowed": 0}
    cluster.api.update_status(_BUDGETS, {**budget, "status": status})
    cluster.run(1)
    assert _told(cluster.get(_BUDGETS, "b")) == (0, 1, 1, 2)
    assert cluster.get(_BUDGETS, "b")["status"]["disruptedPods"] == {"p": stamp}
    cluster.run(125)
    assert _told(cluster.get(_BUDGETS, "b"))[1] == 2
    assert "disruptedPods" not in cluster.get(_BUDGETS, "b")["status"]
    assert "Pod was expected by PDB t/t to be deleted but it wasn't" in {
        one.partition(": ")[2] for one in cluster.events("p")
    }


def test_stale_disruption_condition_is_reset(cluster: Cluster) -> None:
    gated = pod_spec("sleep", "99", schedulingGates=[{"name": "x/never"}])
    pod = cluster.create("pods", "p", gated)
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": cluster.clock.stamp(),
        "reason": "EvictionByEvictionAPI",
    }
    cluster.api.update_status("pods", {**pod, "status": {"conditions": [condition]}})
    cluster.run(119)
    assert conditions(cluster.get("pods", "p")) == {
        "DisruptionTarget": "True EvictionByEvictionAPI"
    }
    cluster.run(3)
    assert conditions(cluster.get("pods", "p")) == {"DisruptionTarget": "False"}


def test_pod_with_two_budgets_is_reported(cluster: Cluster) -> None:
    _add_budget(cluster, minAvailable=1)
    cluster.create(_BUDGETS, "c", {"selector": _SELECTOR, "minAvailable": 1})
    cluster.create("pods", "p", pod_spec("sleep", "99"), labels={"app": "web"})
    cluster.run(3)
    message = 'Pod "t"/"p" matches multiple PodDisruptionBudgets.  Chose "b" arbitrarily.'
    assert message in {one.partition(": ")[2] for one in cluster.events("p")}


def test_selectors_as_go_prints_them() -> None:
    expression = {"key": "k", "operator": "In", "values": ["a", "b"]}
    assert format_go_selector(None) == "nil"
    assert format_go_selector({"matchExpressions": [expression]}) == (
        "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement"
        "{LabelSelectorRequirement{Key:k,Operator:In,Values:[a b],},},}"
    )
