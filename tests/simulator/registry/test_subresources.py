from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.registry.subresources import (
    can_ignore_budgets,
    decrement_budget,
    find_disruption_budget,
    read_scale,
)
from pytest_kwait.simulator.scheme import Scheme
from tests.objects import condition, pod

Obj = dict[str, Any]


def running_pod(*, ready: bool = True, **status: Any) -> Obj:
    phase = status.pop("phase", "Running")
    conditions = [condition("Ready", "True" if ready else "False")]
    return pod("p", phase, conditions=conditions, status=status)


def budget(policy: str | None = None, **status: Any) -> Obj:
    found = {"observedGeneration": 1, "disruptionsAllowed": 0, **status}
    spec = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    return {"metadata": {"name": "b", "generation": 1}, "spec": spec, "status": found}


def failed_sync(reason: str) -> list[Obj]:
    return [
        {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": "no owner"}
    ]


@pytest.mark.parametrize(
    ("status", "deleted", "unguarded"),
    [
        ({"phase": "Pending"}, False, True),
        ({"phase": "Succeeded"}, False, True),
        ({"phase": "Failed"}, False, True),
        ({"phase": "Running"}, False, False),
        ({"phase": "Running"}, True, True),
        ({}, False, False),
    ],
)
def test_pods_that_no_budget_counts(status: Obj, deleted: bool, unguarded: bool) -> None:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    assert can_ignore_budgets({"metadata": metadata, "status": status}) is unguarded


@pytest.mark.parametrize(
    ("subject", "guard", "spends"),
    [
        (running_pod(), budget(disruptionsAllowed=1), True),
        (running_pod(ready=False), budget(disruptionsAllowed=1), True),
        (running_pod(ready=False), budget(currentHealthy=1, desiredHealthy=1), False),
        (running_pod(ready=False), budget("AlwaysAllow"), False),
        (running_pod(ready=False), budget("AlwaysAllow", observedGeneration=0), False),
    ],
)
def test_eviction_allowed_by_a_budget(subject: Obj, guard: Obj, spends: bool) -> None:
    assert find_disruption_budget(subject, [guard]) is (guard if spends else None)


def test_eviction_without_a_budget() -> None:
    assert find_disruption_budget(running_pod(), []) is None


@pytest.mark.parametrize(
    ("guard", "text"),
    [
        (
            budget(currentHealthy=1, desiredHealthy=2),
            "The disruption budget b needs 2 healthy pods and has 1 currently",
        ),
        (
            budget(conditions=failed_sync("SyncFailed")),
            "The disruption budget b does not allow evicting pods currently because it failed "
            "sync: no owner",
        ),
        (
            budget(currentHealthy=3, conditions=failed_sync("Odd")),
            "The disruption budget b does not allow evicting pods currently (Odd): no owner",
        ),
        (
            budget(currentHealthy=3),
            "The disruption budget b does not allow evicting pods currently",
        ),
    ],
)
def test_why_a_budget_keeps_a_pod(guard: Obj, text: str) -> None:
    with pytest.raises(StatusError) as error:
        find_disruption_budget(running_pod(), [guard])
    assert (error.value.code, error.value.reason) == (429, "TooManyRequests")
    assert error.value.details == {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    assert "Retry-After" not in error.value.headers


def test_eviction_with_an_unobserved_budget_is_retried_later() -> None:
    with pytest.raises(StatusError) as error:
        find_disruption_budget(running_pod(), [budget(observedGeneration=0)])
    assert error.value.headers["Retry-After"] == "10"
    assert error.value.details is not None
    assert error.value.details["retryAfterSeconds"] == 10
    assert error.value.details["causes"][0]["message"] == (
        "The disruption budget b is still being processed by the server."
    )


@pytest.mark.parametrize(
    ("guards", "code", "text"),
    [
        (
            [budget(), budget()],
            500,
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support.",
        ),
        (
            [budget(disruptionsAllowed=-1)],
            403,
            'poddisruptionbudget.policy "b" is forbidden: pdb disruptions allowed is negative',
        ),
        (
            [budget(disruptedPods=dict.fromkeys(map(str, range(2001)), "t"))],
            403,
            'poddisruptionbudget.policy "b" is forbidden: DisruptedPods map too big - too many '
            "evictions not confirmed by PDB controller",
        ),
    ],
)
def test_eviction_with_unusable_budgets(guards: list[Obj], code: int, text: str) -> None:
    with pytest.raises(StatusError) as error:
        find_disruption_budget(running_pod(), guards)
    assert (error.value.code, str(error.value)) == (code, text)


def test_a_disruption_is_noted() -> None:
    status = decrement_budget(budget(disruptionsAllowed=2), "p", "t")
    assert (status["disruptionsAllowed"], status["disruptedPods"]) == (1, {"p": "t"})
    assert "conditions" not in status
    status = decrement_budget({"status": status}, "q", "u")
    assert status["disruptedPods"] == {"p": "t", "q": "u"}
    assert [one["reason"] for one in status["conditions"]] == ["InsufficientPods"]


@pytest.mark.parametrize(
    ("resource", "selector", "text"),
    [
        ("replicationcontrollers", {"a": "b", "matchLabels": "c"}, "a=b,matchLabels=c"),
        ("replicasets.apps", {"matchLabels": {"a": "b", "c": "d"}}, "a=b,c=d"),
    ],
)
def test_scale_formats_selectors(resource: str, selector: Obj, text: str) -> None:
    obj = {"metadata": {"name": "w"}, "spec": {"replicas": 2, "selector": selector}}
    scale = read_scale(Scheme()[resource], obj)
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": text}
