"""The hooks of a running exploration override those of a cluster that is not explored."""

from __future__ import annotations

import inspect

import pytest

from pytest_kwait.simulator.exploration.cluster_exploration import ClusterExploration
from pytest_kwait.simulator.no_exploration import NoExploration

HOOKS = sorted(name for name in vars(NoExploration) if not name.startswith("_"))


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_overridden_with_the_same_arguments(name: str) -> None:
    hook = getattr(ClusterExploration, name)
    assert hook is not getattr(NoExploration, name)
    assert inspect.signature(hook) == inspect.signature(getattr(NoExploration, name))


def test_there_are_no_other_hooks() -> None:
    own = {name for name in vars(ClusterExploration) if not name.startswith("_")}
    assert own == {*HOOKS}
