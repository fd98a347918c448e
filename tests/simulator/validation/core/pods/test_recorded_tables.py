"""Recorded tables: each row is a pod with one peculiarity, and a real server's answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.simulator.cluster import new_cluster
from tests.simulator.recorded_tables import check_table, tables

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster


@pytest.fixture(scope="module")
def api() -> SimulatedCluster:
    return new_cluster()


@pytest.mark.parametrize("table", tables(Path(__file__).parent))
def test_recorded_rows(api: SimulatedCluster, table: Path) -> None:
    check_table(api, table)
