"""The provider of the embedded cluster: a process of our own, on this machine, for this run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.clusters.connection import ConnectedCluster
from pytest_kwait.clusters.kubeconfig import read_kubeconfig
from pytest_kwait.clusters.private_folder import PrivateFolder
from pytest_kwait.clusters.simulator_process import SimulatorProcess, Time
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait.clusters.request import ClusterRequest

__all__ = ["TIME_SCALES", "EmbeddedCluster", "EmbeddedProvider"]

TIME_SCALES: dict[Time, float] = {"fast": 0.1, "real": 1.0}
"""How long its controllers take for each kind of time, as a part of what a real cluster's take."""


class EmbeddedCluster(ConnectedCluster):
    """An embedded cluster of our own, which ends with us.

    Args:
        process: the cluster.
        folder: holds its kubeconfig.
        time: the kind of time that it runs on.
        clock: the time that answers are awaited in.
    """

    def __init__(
        self, process: SimulatorProcess, folder: PrivateFolder, time: Time, clock: Clock
    ) -> None:
        target = read_kubeconfig(folder.path / "kubeconfig").target()
        super().__init__(
            target, provider=EmbeddedProvider.name, time_scale=TIME_SCALES[time], clock=clock
        )
        self._process = process
        self._folder = folder

    @property
    def pid(self) -> int:
        """The id of the cluster's process."""
        return self._process.pid

    def stop(self) -> None:
        """End the process and remove its kubeconfig; nothing to do the second time."""
        self._process.stop()
        self._folder.remove()


class EmbeddedProvider:
    """Starts an embedded cluster.

    Args:
        nodes: how many nodes it has.
        time: `fast` for controllers ten times as fast as real ones, `real` for the real times.
        port: the port that it serves on; 0 for any that is free.
        clock: the time that it is awaited in.
    """

    name = "embedded"
    context = None
    """A cluster of our own is led to by no context that was there before."""

    def __init__(
        self, *, nodes: int = 2, time: Time = "fast", port: int = 0, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._nodes = nodes
        self._time = time
        self._port = port
        self._clock = clock

    @classmethod
    def requested(cls, request: ClusterRequest) -> EmbeddedProvider:
        """Make the provider for a run.

        Raises:
            InvalidArgument: a kubeconfig or context is given, which it has no use for.
        """
        why = "the embedded cluster brings its own; use --kwait-cluster=existing with it"
        if request.kubeconfig is not None:
            given = str(request.kubeconfig)
            raise InvalidArgument("kubeconfig", given, why, request.kubeconfig_source)
        if request.context is not None:
            raise InvalidArgument("context", request.context, why, request.context_source)
        return cls()

    def start(self) -> EmbeddedCluster:
        """Start the cluster and return it once its nodes are ready.

        Raises:
            ClusterError: it did not become ready; with the last lines of what it said.
        """
        folder = PrivateFolder()
        process: SimulatorProcess | None = None
        try:
            process = SimulatorProcess(
                folder.path / "kubeconfig",
                folder.path / "log",
                nodes=self._nodes,
                time=self._time,
                port=self._port,
                folder=folder.path,
                clock=self._clock,
            )
            return EmbeddedCluster(process, folder, self._time, self._clock)
        except BaseException:  # an interrupt too must leave nothing behind
            if process is not None:
                process.stop()
            folder.remove()
            raise
