from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulator.cluster import Cluster, new_cluster

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster


@pytest.fixture
def api() -> SimulatedCluster:
    return new_cluster()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()
