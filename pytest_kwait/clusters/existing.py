"""The provider of existing clusters, found by kubeconfig."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.clusters.connected_cluster import ConnectedCluster
from pytest_kwait.clusters.kubeconfig import (
    SERVICE_ACCOUNT,
    Kubeconfig,
    TempDir,
    in_cluster,
    merge,
    read_kubeconfig,
    standard_paths,
)
from pytest_kwait.errors import ClusterError, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.clusters.connected_cluster import ClusterRequest
    from pytest_kwait.clusters.kubeconfig import Target

__all__ = ["ExistingCluster", "ExistingProvider"]


class ExistingCluster(ConnectedCluster):
    """A cluster that was not started by the run.

    Args:
        target: its context.
        folder: the folder of a kubeconfig merged for the run; None without one.
    """

    def __init__(self, target: Target, folder: TempDir | None, clock: Clock) -> None:
        super().__init__(target, provider=ExistingProvider.name, clock=clock)
        self._folder = folder

    def stop(self) -> None:
        """Remove the kubeconfig that was merged for the run."""
        if self._folder is not None:
            self._folder.remove()


class ExistingProvider:
    """Finds the cluster by the given kubeconfig, else by the standard loading rules.

    These are: the files listed in KUBECONFIG, merged, else `~/.kube/config`, else the service
    account of the pod in which this runs.

    Args:
        request: the given kubeconfig and context.
        environ: the environment; the process's own by default.
        home: the home folder; the user's own by default.
        service_account: the folder of a pod's credentials.

    Raises:
        InvalidArgument: `fast` timing, which only an embedded cluster has.
        ClusterError: no usable kubeconfig; lists the existing contexts.
    """

    name = "existing"

    def __init__(
        self,
        request: ClusterRequest,
        *,
        environ: Mapping[str, str] | None = None,
        home: Path | None = None,
        service_account: Path = SERVICE_ACCOUNT,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if request.timing == "fast" and request.timing_source is not None:
            why = "an existing cluster has its own time; leave it out, or use the embedded one"
            raise InvalidArgument("timing", request.timing, why, request.timing_source)
        self._clock = clock
        self._folder: TempDir | None = None
        if request.kubeconfig is not None:
            kubeconfig = read_kubeconfig(request.kubeconfig, request.kubeconfig_source)
        else:
            kubeconfig = self._standard(
                os.environ if environ is None else environ,
                Path.home() if home is None else home,
                service_account,
            )
        self._target = kubeconfig.target(request.context, request.context_source)

    @property
    def context(self) -> str:
        """The context of the cluster."""
        return self._target.context

    def start(self) -> ExistingCluster:
        """Return the cluster once it has answered.

        Raises:
            ClusterError: it cannot be reached, or refuses the credentials.
        """
        cluster = ExistingCluster(self._target, self._folder, self._clock)
        cluster.check()
        return cluster

    def _standard(
        self, environ: Mapping[str, str], home: Path, service_account: Path
    ) -> Kubeconfig:
        """Source: client-go tools/clientcmd/client_config.go DeferredLoadingClientConfig."""
        paths, source = standard_paths(environ, home)
        found = [read_kubeconfig(path, source) for path in paths if path.exists()]
        filled = [kubeconfig for kubeconfig in found if kubeconfig.contents]
        if len(filled) == 1:
            return filled[0]
        if filled:
            return self._written(merge(filled), source)
        pod = in_cluster(environ, service_account)
        if pod is not None:
            return self._written(pod, "the pod's service account")
        looked = ", ".join(str(path) for path in paths)
        raise ClusterError(
            f"there is no kubeconfig: {looked} ({source}) is not there or empty, and this is no "
            "pod; give one with --kwait-kubeconfig, or run on the embedded cluster by leaving out "
            "--kwait-cluster=existing"
        )

    def _written(self, contents: dict[str, Any], source: str) -> Kubeconfig:
        """Write merged files to one kubeconfig, for workers, kubectl and clients alike."""
        self._folder = TempDir()
        path = self._folder.path / "kubeconfig"
        path.write_text(yaml.safe_dump(contents), encoding="utf-8")
        return Kubeconfig(path, source, contents)
