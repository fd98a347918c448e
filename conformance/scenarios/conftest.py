"""Play scenarios first and compare them last, so that other tests run meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.scenarios.scenario import list_names
from conformance.scenarios.stage import Stage, get_stage

if TYPE_CHECKING:
    from pytest_kwait.clusters import Cluster

_FIRST = "test_timelines_equal_recordings"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the test that plays the scenarios first, and those that compare them last."""
    folder = Path(__file__).parent
    ours = [item for item in items if item.path.parent == folder]
    first = [item for item in ours if item.name == _FIRST]
    late = set(ours) - set(first)
    others = [item for item in items if item not in late and item not in first]
    items[:] = [*first, *others, *(item for item in ours if item in late)]


@pytest.fixture(scope="session")
def stage(
    kwait_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Stage:
    """The observed timelines of all scenarios."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder if worker_id == "master" else folder.parent
    return get_stage(shared, kwait_cluster.kubeconfig, list_names())
