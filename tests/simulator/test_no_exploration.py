"""The hooks of a cluster that is not explored: they hold, delay and refuse nothing."""

from __future__ import annotations

from pytest_kwait.simulator.no_exploration import NoExploration

POD = {"metadata": {"name": "p", "namespace": "t"}}


def never() -> None:
    raise AssertionError("nothing was held")


def test_kubelets_hold_nothing() -> None:
    hooks = NoExploration()
    assert not hooks.hold_renewal("node-1", never)
    assert not hooks.hold_sync(POD, never)
    assert hooks.hold_status(POD, never) is None
    assert [*hooks.delay_sandbox(POD, never)] == []
    assert [*hooks.delay_pull("app:1", POD, never)] == []
