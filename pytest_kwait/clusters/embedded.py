"""The provider of the embedded cluster: a process on this machine, for this run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.clusters.connected_cluster import ConnectedCluster
from pytest_kwait.clusters.kubeconfig import TempDir, read_kubeconfig
from pytest_kwait.clusters.simulator_process import SimulatorProcess, Timing
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait.clusters.connected_cluster import ClusterRequest

__all__ = ["TIME_SCALES", "EmbeddedCluster", "EmbeddedProvider"]

TIME_SCALES: dict[Timing, float] = {"fast": 0.1, "real": 1.0}
"""Maximum delay of its controllers by timing, as a fraction of a real cluster's.

Fast pauses are a twentieth; computing time does not shrink, and grace periods leave room for as
much again.
"""


class EmbeddedCluster(ConnectedCluster):
    """An embedded cluster, which ends with this process.

    Args:
        folder: the folder of its kubeconfig.
    """

    def __init__(
        self, process: SimulatorProcess, folder: TempDir, timing: Timing, clock: Clock
    ) -> None:
        target = read_kubeconfig(folder.path / "kubeconfig").target()
        super().__init__(
            target, provider=EmbeddedProvider.name, time_scale=TIME_SCALES[timing], clock=clock
        )
        self._process = process
        self._folder = folder

    @property
    def pid(self) -> int:
        """The id of the cluster's process."""
        return self._process.pid

    def stop(self) -> None:
        """End the process and remove its kubeconfig; may be called again."""
        self._process.stop()
        self._folder.remove()


class EmbeddedProvider:
    """Starts an embedded cluster.

    Args:
        nodes: the number of nodes.
        timing: `fast` for pauses twenty times shorter than upstream's, or `real`.
        port: 0 for any free port.
    """

    name = "embedded"
    context = None
    """None: a new cluster has no existing context."""

    def __init__(
        self,
        *,
        nodes: int = 2,
        timing: Timing = "fast",
        port: int = 0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._nodes = nodes
        self._timing: Timing = timing
        self._port = port
        self._clock = clock

    @classmethod
    def requested(cls, request: ClusterRequest) -> EmbeddedProvider:
        """Create the provider for a run.

        Raises:
            InvalidArgument: a kubeconfig or context is given.
        """
        why = "the embedded cluster brings its own; use --kwait-cluster=existing with it"
        if request.kubeconfig is not None:
            given = str(request.kubeconfig)
            raise InvalidArgument("kubeconfig", given, why, request.kubeconfig_source)
        if request.context is not None:
            raise InvalidArgument("context", request.context, why, request.context_source)
        return cls(timing=request.timing)

    def start(self) -> EmbeddedCluster:
        """Start the cluster and return it once its nodes are ready.

        Raises:
            ClusterError: it did not become ready; with the last lines of its log.
        """
        folder = TempDir()
        process: SimulatorProcess | None = None
        try:
            process = SimulatorProcess(
                folder.path / "kubeconfig",
                folder.path / "log",
                nodes=self._nodes,
                timing=self._timing,
                port=self._port,
                folder=folder.path,
                clock=self._clock,
            )
            return EmbeddedCluster(process, folder, self._timing, self._clock)
        except BaseException:  # leave nothing behind on an interrupt
            if process is not None:
                process.stop()
            folder.remove()
            raise
