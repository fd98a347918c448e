"""The services of a cluster: one of each, made when it is first used."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.services import Services
from tests.simulator.cluster import Cluster, new_cluster, pod_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.simulator.cluster import SimulatedCluster

NAMES = sorted(name for name, item in vars(Services).items() if isinstance(item, cached_property))


@pytest.mark.parametrize("name", NAMES)
def test_each_cluster_has_one(name: str) -> None:
    one, other = new_cluster().services, new_cluster().services
    assert getattr(one, name) is getattr(one, name)
    assert getattr(one, name) is not getattr(other, name)


def test_a_cluster_without_pods_has_none() -> None:
    cluster = Cluster()
    cluster.run(5)
    assert not {*NAMES} & {*vars(cluster.api.services)}


def test_a_simulated_pod_needs_no_programs() -> None:
    cluster = Cluster()
    cluster.create("pods", "p", pod_spec("sleep", "600"))
    cluster.run(5)
    made = {*NAMES} & {*vars(cluster.api.services)}
    assert made == {"logs", "machine", "persistent_folders", "pod_networks"}


def test_close_makes_no_service(api: SimulatedCluster) -> None:
    asyncio.run(api.services.close())
    assert not {*NAMES} & {*vars(api.services)}


def test_close_completes_recordings_and_ends_programs(
    api: SimulatedCluster, tmp_path: Path
) -> None:
    async def run() -> None:
        journals = api.services.recordings.record(tmp_path)
        programs = api.services.programs
        assert api.services.recordings.record(tmp_path) is journals
        await api.services.close()
        assert programs.is_closed
        # A recording that was completed is not active any more.
        assert api.services.recordings.record(tmp_path) is not journals
        api.services.recordings.stop()

    asyncio.run(run())


def test_programs_are_not_started_after_close(api: SimulatedCluster) -> None:
    asyncio.run(api.services.close())
    assert api.services.programs.is_closed
