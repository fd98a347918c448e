"""The services of a cluster: one object of each class, made when it is first used."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.apiserver.handlers.watch import LatestChunk
from pytest_kwait.simulator.busybox.os.machine import Machine
from pytest_kwait.simulator.history import Recordings, get_recordings
from pytest_kwait.simulator.kubelet.logs import ClusterLogs, get_cluster_logs
from pytest_kwait.simulator.kubelet.volumes import PersistentFolders, get_persistent_folders
from pytest_kwait.simulator.network.egress_proxy import EgressReporter, get_egress_reporter
from pytest_kwait.simulator.network.pod_network import PodNetworks, get_pod_networks
from pytest_kwait.simulator.runtimes.processes.program_container import (
    ClusterPrograms,
    get_cluster_programs,
)
from pytest_kwait.simulator.services import get_machine
from tests.simulator.cluster import Cluster, new_cluster, pod_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_kwait.simulator.cluster import SimulatedCluster

GETTERS: dict[type, Callable[[SimulatedCluster], object]] = {
    ClusterLogs: get_cluster_logs,
    ClusterPrograms: get_cluster_programs,
    EgressReporter: get_egress_reporter,
    LatestChunk: lambda cluster: cluster.services.get(LatestChunk, LatestChunk),
    Machine: lambda cluster: get_machine(cluster.services, cluster.clock),
    PersistentFolders: get_persistent_folders,
    PodNetworks: get_pod_networks,
    Recordings: get_recordings,
}


def made(cluster: SimulatedCluster) -> set[type]:
    """Return the classes of the services that were made."""
    asked: set[type] = set()

    def note(kind: type) -> object:
        asked.add(kind)
        raise LookupError

    for kind in GETTERS:
        try:
            cluster.services.get(kind, partial(note, kind))
        except LookupError:
            continue
    return {*GETTERS} - asked


@pytest.mark.parametrize("kind", GETTERS)
def test_each_cluster_has_one(kind: type) -> None:
    one, other = new_cluster(), new_cluster()
    get = GETTERS[kind]
    assert isinstance(get(one), kind)
    assert get(one) is get(one)
    assert get(one) is not get(other)


def test_a_cluster_without_pods_has_none() -> None:
    cluster = Cluster()
    cluster.run(5)
    assert made(cluster.api) == set()


def test_a_simulated_pod_needs_no_programs() -> None:
    cluster = Cluster()
    cluster.create("pods", "p", pod_spec("sleep", "600"))
    cluster.run(5)
    assert made(cluster.api) == {ClusterLogs, Machine, PersistentFolders, PodNetworks}


def test_close_makes_no_service(api: SimulatedCluster) -> None:
    asyncio.run(api.services.close())
    assert made(api) == set()


def test_close_completes_recordings_and_ends_programs(
    api: SimulatedCluster, tmp_path: Path
) -> None:
    async def run() -> None:
        journals = get_recordings(api).record(tmp_path)
        programs = get_cluster_programs(api)
        assert get_recordings(api).record(tmp_path) is journals
        await api.services.close()
        assert programs.is_closed
        # A recording that was completed is not active any more.
        assert get_recordings(api).record(tmp_path) is not journals
        get_recordings(api).stop()

    asyncio.run(run())


def test_programs_are_not_started_after_close(api: SimulatedCluster) -> None:
    asyncio.run(api.services.close())
    assert get_cluster_programs(api).is_closed
