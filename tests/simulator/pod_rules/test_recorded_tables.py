"""Each row: a manifest with one thing of its own, and what a real server says of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.simulator.cluster import new_cluster
from tests.simulator.recorded_tables import check_row, rows

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_api import ClusterApi


@pytest.fixture(scope="module")
def api() -> ClusterApi:
    return new_cluster()


@pytest.mark.parametrize("row", rows(Path(__file__).parent))
def test_the_answer_is_that_of_a_real_server(api: ClusterApi, row: dict[str, Any]) -> None:
    check_row(api, row)
