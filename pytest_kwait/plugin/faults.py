"""Faults of tests: their scope, and their end with the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import KwaitError
from pytest_kwait.plugin.run import running_item

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.clusters.faults import FaultScope

__all__ = ["end_faults_with_tests"]

_cluster_key = pytest.StashKey[Any]()


def end_faults_with_tests(config: pytest.Config, cluster: Cluster) -> None:
    """End the faults of `cluster` at the end of each test."""
    if hasattr(cluster, "fault_place"):  # a conftest may return any object
        cluster.fault_place = lambda: _fault_scope(config)
        config.stash[_cluster_key] = cluster


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """End the faults of the test, before and after its fixtures are torn down."""
    trouble = _undo_faults(item.config)
    try:
        return (yield)
    finally:
        trouble = _undo_faults(item.config) or trouble
        if trouble is not None:
            raise trouble


def _undo_faults(config: pytest.Config) -> KwaitError | None:
    """End all faults; errors are reported if the cluster cannot end them by itself."""
    cluster = config.stash.get(_cluster_key, None)
    if cluster is None or "faults" not in vars(cluster):
        return None
    try:
        cluster.faults.undo_all()
    except KwaitError as error:
        return error
    return None


def _fault_scope(config: pytest.Config) -> FaultScope:
    from pytest_kwait.clusters.faults import FaultScope

    item = running_item(config)
    if not isinstance(item, pytest.Function):
        return FaultScope(alone=False)
    alone = any(map(item.get_closest_marker, ("serial", "disruptive")))
    given: dict[str, Any] = item.funcargs
    return FaultScope(given.get("kwait_namespace", ""), given.get("kwait_client"), alone)
