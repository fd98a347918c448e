"""The services of a cluster: what its components share, each made when it is first used.

A component finds them at its cluster, so that it neither makes nor passes them on.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.handlers.watch import LatestChunk
    from pytest_kwait.simulator.busybox.os.machine import Machine
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.history import Recordings
    from pytest_kwait.simulator.kubelet.logs import ClusterLogs
    from pytest_kwait.simulator.kubelet.volumes import PersistentFolders
    from pytest_kwait.simulator.network.egress_proxy import EgressReporter
    from pytest_kwait.simulator.network.pod_network import PodNetworks
    from pytest_kwait.simulator.runtimes.processes.program_container import ClusterPrograms


class Services:
    """The services of one cluster.

    Modules are imported with the service that they define: a cluster starts without them.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._is_closed = False

    async def close(self) -> None:
        """Complete recordings and end programs, if there are any."""
        self._is_closed = True
        if "recordings" in vars(self):
            self.recordings.stop()
        if "programs" in vars(self):
            await self.programs.close()

    @cached_property
    def machine(self) -> Machine:
        """The machine of all simulated containers."""
        from pytest_kwait.simulator.busybox.os.machine import Machine

        return Machine(self._cluster.clock)

    @cached_property
    def logs(self) -> ClusterLogs:
        """The logs of all containers."""
        from pytest_kwait.simulator.kubelet.logs import ClusterLogs

        return ClusterLogs()

    @cached_property
    def persistent_folders(self) -> PersistentFolders:
        """The folders that outlive pods."""
        from pytest_kwait.simulator.kubelet.volumes import PersistentFolders

        return PersistentFolders(self._cluster, self.machine)

    @cached_property
    def programs(self) -> ClusterPrograms:
        """The programs of mapped images."""
        from pytest_kwait.simulator.runtimes.processes.program_container import ClusterPrograms

        programs = ClusterPrograms(self._cluster)
        programs.is_closed = self._is_closed
        return programs

    @cached_property
    def pod_networks(self) -> PodNetworks:
        """The network of programs."""
        from pytest_kwait.simulator.network.pod_network import PodNetworks

        return PodNetworks()

    @cached_property
    def egress_reporter(self) -> EgressReporter:
        """The reporter of refused and failed connections out of the cluster."""
        from pytest_kwait.simulator.network.egress_proxy import EgressReporter

        return EgressReporter(self._cluster)

    @cached_property
    def recordings(self) -> Recordings:
        """The recordings of the cluster's history."""
        from pytest_kwait.simulator.history import Recordings

        return Recordings(self._cluster)

    @cached_property
    def latest_chunk(self) -> LatestChunk:
        """The latest change, as watches send it."""
        from pytest_kwait.simulator.apiserver.handlers.watch import LatestChunk

        return LatestChunk()
