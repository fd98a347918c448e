"""Bounds of a rolling update: how they are computed, and checked at every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.engine.condition import Failed, Met, Pending, Verdict
from pytest_kwait.framework.deployment import wait_for_deployment_complete_and_check_rolling
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.framework.workload.fields import Bounds, rolling_bounds
from tests.framework.sources import enter
from tests.objects import deployment, replica_set

if TYPE_CHECKING:
    from pytest_kwait.engine.condition import Condition


def strategy(surge: Any, unavailable: Any, kind: str | None = "RollingUpdate") -> Any:
    return {
        "type": kind,
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "most", "least"),
    [
        (4, 1, 1, 5, 3),
        (4, 0, 0, 4, 3),
        (4, "25%", "25%", 5, 3),
        (3, "25%", "25%", 4, 3),
        (1, "25%", "25%", 2, 1),
        (10, "39%", "39%", 14, 7),
        (10, None, "39%", 10, 7),
        (10, "39%", None, 14, 10),
        (10, "1%", "1%", 11, 10),
        (1, "0%", "10%", 1, 0),
        (7, "100%", "100%", 14, 0),
        (2, 0, 5, 2, 0),
        (0, 1, 1, 1, 0),
        (0, "50%", "50%", 0, 0),
        (5, None, None, 5, 4),
        (5, "many", "%", 5, 4),
    ],
)
def test_bounds(replicas: int, surge: Any, unavailable: Any, most: int, least: int) -> None:
    made = deployment(replicas=replicas, strategy=strategy(surge, unavailable))

    assert rolling_bounds(made) == Bounds(most, least)


@pytest.mark.parametrize("given", [strategy(1, 1, "Recreate"), None, {}])
def test_other_strategies_may_have_all_pods_gone(given: Any) -> None:
    assert rolling_bounds(deployment(replicas=3, strategy=given)) == Bounds(3, 0)


ONE_MORE = strategy(1, 0)


def web(there: int, updated: int, available: int, replicas: int = 2, **more: Any) -> Any:
    return deployment(
        there, updated, available, **{"strategy": ONE_MORE, **more}, replicas=replicas
    )


def made(name: str, replicas: int, most: int | None = 3) -> Any:
    notes = {} if most is None else {"deployment.kubernetes.io/max-replicas": str(most)}
    return replica_set(name, name[-1], replicas=replicas, annotations=notes)


def step(awaited: Condition, web: Any | None, *sets: Any) -> Verdict:
    if web is not None:
        enter(awaited, web)
    if sets:
        enter(awaited, *sets, position=1)
    return awaited.verdict()


@pytest.fixture
def rolling() -> Any:
    return condition_of(wait_for_deployment_complete_and_check_rolling)("ci-1", "web")


def test_a_rollout_within_its_bounds(rolling: Condition) -> None:
    assert step(rolling, web(2, 2, 2, generation=2), made("web-1", 2)) == Pending(
        "generation 2 is not observed yet, its status is of generation 1"
    )
    new: dict[str, Any] = {"generation": 2, "observed": 2, "revision": "2"}
    assert isinstance(step(rolling, web(2, 0, 2, **new), made("web-2", 1)), Pending)
    assert isinstance(step(rolling, web(3, 1, 3, **new), made("web-1", 1)), Pending)
    assert isinstance(step(rolling, web(2, 1, 2, **new), made("web-2", 2)), Pending)
    assert isinstance(step(rolling, web(3, 2, 3, **new), made("web-1", 0)), Pending)
    assert step(rolling, web(2, 2, 2, **new)) == Met()


def test_too_few_available_at_one_step_stays_a_failure(rolling: Condition) -> None:
    few = Failed("1 pod is available, 2 must be at every step")
    step(rolling, web(3, 1, 2), made("web-1", 2))

    assert step(rolling, web(3, 1, 1)) == few
    assert step(rolling, web(2, 2, 2)) == few


def test_too_many_made(rolling: Condition) -> None:
    step(rolling, web(3, 1, 2), made("web-1", 2), made("web-0", 1))

    assert step(rolling, None, made("web-0", 2)) == Failed(
        "4 pods are made, 3 may be at every step"
    )


def test_none_is_available_at_once(rolling: Condition) -> None:
    """A new Deployment has not broken bounds that it has not reached yet."""
    assert isinstance(step(rolling, web(2, 2, 0), made("web-1", 2)), Pending)
    assert isinstance(step(rolling, web(2, 2, 1)), Pending)
    assert step(rolling, web(2, 2, 2)) == Met()


def test_scaled_up(rolling: Condition) -> None:
    step(rolling, web(3, 1, 3), made("web-1", 2))

    # Only its replica set is seen to be scaled yet.
    assert isinstance(step(rolling, None, made("web-1", 6, 7)), Pending)
    grown: dict[str, Any] = {"replicas": 6, "generation": 2, "observed": 2}
    assert isinstance(step(rolling, web(3, 1, 3, **grown)), Pending)
    assert isinstance(step(rolling, web(6, 6, 6, **grown), made("web-1", 6, 7)), Met)
    assert step(rolling, web(6, 6, 5, **grown)) == Failed(
        "5 pods are available, 6 must be at every step"
    )


def test_scaled_down(rolling: Condition) -> None:
    step(rolling, web(6, 1, 6, replicas=6), made("web-1", 5, 7), made("web-2", 1, 7))

    down: dict[str, Any] = {"generation": 2, "observed": 2}
    assert isinstance(step(rolling, web(6, 1, 6, **down)), Pending)
    assert isinstance(step(rolling, None, made("web-1", 1)), Pending)
    assert isinstance(step(rolling, None, made("web-2", 1)), Pending)
    assert step(rolling, None, made("web-1", 4)) == Failed(
        "5 pods are made, 3 may be at every step"
    )


def test_another_strategy_seen_on_the_replica_set_first(rolling: Condition) -> None:
    step(rolling, web(2, 2, 1), made("web-1", 2))

    assert isinstance(step(rolling, None, made("web-2", 2, 4)), Pending)


def test_a_replica_set_without_notes(rolling: Condition) -> None:
    step(rolling, web(6, 6, 1, replicas=6), made("web-1", 6, None))

    # Its controller has not come to it yet.
    assert isinstance(step(rolling, web(6, 6, 6, generation=2, observed=2)), Pending)
    assert isinstance(step(rolling, None, made("web-1", 2, None)), Pending)
    assert step(rolling, None, made("web-1", 4, None)) == Failed(
        "4 pods are made, 3 may be at every step"
    )


def test_one_that_is_gone(rolling: Condition) -> None:
    assert rolling.verdict() == Pending("not found yet")
    step(rolling, web(2, 2, 2), made("web-1", 2))
    step(rolling, web(2, 2, 1))
    rolling.sources()[0].sink.drop("uid-web")

    assert rolling.verdict() == Failed("the deployment was deleted")
