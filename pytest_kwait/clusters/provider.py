"""Providers of clusters, and the choice of one by the settings.

`ExistingProvider` finds a cluster by kubeconfig, `EmbeddedProvider` starts one for this run, a
process on this machine; `binaries` and `local_clusters` have the others. Plugins add theirs.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.client.availability import reset_availability
from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.clusters.binaries import BinariesProvider
from pytest_kwait.clusters.cluster import (
    Cluster,
    ClusterRequest,
    refuse_kubeconfig,
    refuse_nodes,
)
from pytest_kwait.clusters.kubeconfig import (
    SERVICE_ACCOUNT,
    Kubeconfig,
    KubeconfigFile,
    home_folder,
    in_cluster,
    merge,
    read_kubeconfig,
    standard_paths,
)
from pytest_kwait.clusters.local_clusters import K3D, KIND, MINIKUBE, LocalProvider
from pytest_kwait.clusters.node_table import nodes_of
from pytest_kwait.clusters.simulator_process import ProcessMonitor, SimulatorProcess
from pytest_kwait.errors import ClusterError, InvalidArgument
from pytest_kwait.simulator import find_isolation_refusal
from pytest_kwait.simulator.protocol.options import TIME_SCALES, EmbeddedOptions, Timing
from pytest_kwait.temp_dir import TempDir

if TYPE_CHECKING:
    from pytest_kwait.clusters.kubeconfig import RestConfig

_USED = {
    "nodes": ("embedded", "binaries"),
    "timing": ("embedded",),
    "api_only": ("embedded", "binaries"),
    "isolation": ("embedded",),
    "load_balancers": ("embedded",),
    "controllers": ("binaries",),
    "assets": ("binaries",),
    "cluster_name": ("kind", "k3d", "minikube"),
    "keep_cluster": ("kind", "k3d", "minikube"),
    "node_image": ("kind", "k3d", "minikube"),
    "cluster_config": ("kind", "k3d"),
    "cluster_args": ("kind", "k3d", "minikube"),
    "load_image": ("kind", "k3d", "minikube"),
}
"""The providers that use a setting."""

_CHECKED = {"existing": ("timing", "api_only")}
"""Settings that a provider refuses by itself."""


class ExistingCluster(Cluster):
    """A cluster that was not started by the run.

    Args:
        target: its context.
        merged: the kubeconfig merged for the run; None without one.
    """

    def __init__(self, target: RestConfig, merged: KubeconfigFile | None, clock: Clock) -> None:
        super().__init__(target, provider=ExistingProvider.name, clock=clock)
        self._merged = merged

    def stop(self) -> None:
        """Remove the kubeconfig that was merged for the run."""
        if self._merged is not None:
            self._merged.remove()


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
        InvalidArgument: `fast` timing or `api_only`, which only an embedded cluster has.
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
        if request.timing == "fast" and request.source("timing") is not None:
            why = "an existing cluster has its own time; leave it out, or use the embedded one"
            request.refuse("timing", why)
        if request.api_only:
            why = "an existing cluster has its components; leave it out, or use the embedded one"
            request.refuse("api_only", why)
        self._clock = clock
        self._file: KubeconfigFile | None = None
        if request.kubeconfig is not None:
            kubeconfig = read_kubeconfig(request.kubeconfig, request.source("kubeconfig"))
        else:
            kubeconfig = self._standard(
                os.environ if environ is None else environ,
                home_folder() if home is None else home,
                service_account,
                request.source("kubeconfig"),
            )
        self._target = kubeconfig.target(request.context, request.source("context"))

    @property
    def context(self) -> str:
        """The context of the cluster."""
        return self._target.context

    def start(self) -> ExistingCluster:
        """Return the cluster once it has answered.

        Raises:
            ClusterError: it cannot be reached, or refuses the credentials.
        """
        cluster = ExistingCluster(self._target, self._file, self._clock)
        cluster.check()
        return cluster

    def _standard(
        self,
        environ: Mapping[str, str],
        home: Path,
        service_account: Path,
        given_source: str | None,
    ) -> Kubeconfig:
        """Source: client-go tools/clientcmd/client_config.go DeferredLoadingClientConfig."""
        paths, source = standard_paths(environ, home)
        kubeconfigs = [read_kubeconfig(path, source) for path in paths if path.exists()]
        filled = [kubeconfig for kubeconfig in kubeconfigs if kubeconfig.contents]
        if len(filled) == 1:
            return filled[0]
        if filled:
            return self._written(merge(filled), source)
        pod = in_cluster(environ, service_account)
        if pod is not None:
            return self._written(pod, "the pod's service account")
        looked = ", ".join(str(path) for path in paths)
        # The commands of `kwait` name their option; they have no embedded cluster to choose.
        advice = (
            "--kubeconfig"
            if given_source == "option --kubeconfig"
            else "--kwait-kubeconfig, or run on the embedded cluster by leaving out "
            "--kwait-cluster=existing"
        )
        raise ClusterError(
            f"there is no kubeconfig: {looked} ({source}) is not there or empty, and this is no "
            f"pod; give one with {advice}"
        )

    def _written(self, contents: dict[str, Any], source: str) -> Kubeconfig:
        """Write merged files to one kubeconfig, for workers, kubectl and clients alike."""
        self._file = KubeconfigFile(contents)
        return Kubeconfig(self._file.path, source, contents)


class EmbeddedCluster(Cluster):
    """An embedded cluster, which ends with this process.

    Args:
        folder: the folder of its kubeconfig.
        has_controllers: False for an API server alone.
    """

    def __init__(
        self,
        process: SimulatorProcess,
        folder: TempDir,
        timing: Timing,
        clock: Clock,
        *,
        has_controllers: bool = True,
    ) -> None:
        target = read_kubeconfig(folder.path / "kubeconfig").target()
        super().__init__(
            target,
            provider=EmbeddedProvider.name,
            time_scale=TIME_SCALES[timing],
            has_controllers=has_controllers,
            ends_with_run=True,
            clock=clock,
        )
        self._process = process
        self._folder = folder
        self.is_monitored = True
        availability = reset_availability(target.server)
        availability.is_watched = True
        self._monitor = ProcessMonitor(process, target.server, availability.report_problem)
        self._monitor.start()

    @property
    def pid(self) -> int:
        """The id of the cluster's process."""
        return self._process.pid

    def _credentials_folder(self) -> str:
        # Its process removes this folder also if ours is killed.
        return str(self._folder.path)

    def stop(self) -> None:
        """End the process and remove its kubeconfig; may be called again."""
        self._monitor.stop()
        self._process.stop()
        self._folder.remove()


class EmbeddedProvider:
    """Starts an embedded cluster.

    Args:
        options: the options of the cluster; None for the default ones.
    """

    name = "embedded"
    context = None
    """None: a new cluster has no existing context."""

    def __init__(
        self, options: EmbeddedOptions | None = None, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._options = options or EmbeddedOptions()
        self._clock = clock

    @classmethod
    def requested(cls, request: ClusterRequest) -> EmbeddedProvider:
        """Create the provider for a run.

        Raises:
            InvalidArgument: a kubeconfig or context is given, nodes or load balancers of an API
                server alone, or an isolation that this machine refuses.
        """
        refuse_kubeconfig(request, "the embedded cluster")
        refusal = find_isolation_refusal(request.isolation)
        if refusal:
            request.refuse("isolation", refusal)
        if request.api_only:
            why = "with --kwait-api-only there are none; leave one of both out"
            refuse_nodes(request, why)
            if request.load_balancers:
                request.refuse("load_balancers", why)
        return cls(
            EmbeddedOptions(
                nodes=nodes_of(request.nodes),
                timing=request.timing,
                api_only=request.api_only,
                isolation=request.isolation,
                load_balancers=request.load_balancers,
            )
        )

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
                self._options,
                folder=folder.path,
                clock=self._clock,
            )
            return EmbeddedCluster(
                process,
                folder,
                self._options.timing,
                self._clock,
                has_controllers=not self._options.api_only,
            )
        except BaseException:  # leave nothing behind on an interrupt
            if process is not None:
                process.stop()
            folder.remove()
            raise


class Provider(Protocol):
    """A source of clusters, created from a checked request."""

    @property
    def name(self) -> str:
        """The provider's name in `--kwait-cluster`."""
        ...

    @property
    def context(self) -> str | None:
        """The context of an existing cluster; None for a new one."""
        ...

    def start(self) -> Cluster:
        """Find or start the cluster and return it once it answers.

        Raises:
            ClusterError: it cannot be found or started; the message has a way out.
        """
        ...


ProviderFactory = Callable[[ClusterRequest], Provider]
"""Creates a provider; checks its request without network access."""

PROVIDERS: dict[str, ProviderFactory] = {
    "existing": ExistingProvider,
    "embedded": EmbeddedProvider.requested,
    "binaries": BinariesProvider,
    "kind": partial(LocalProvider, KIND),
    "k3d": partial(LocalProvider, K3D),
    "minikube": partial(LocalProvider, MINIKUBE),
}
"""The providers of this package by name."""


def choose_provider(
    cluster: str = "auto",
    request: ClusterRequest = ClusterRequest(),  # noqa: B008 - frozen
    providers: Mapping[str, ProviderFactory] = PROVIDERS,
) -> Provider:
    """Return the provider for the settings; starts nothing and sends no request.

    `auto` is `existing` if a kubeconfig or a context is given, else `embedded`: KUBECONFIG and the
    default kubeconfig are used only with `existing`.

    Args:
        cluster: `auto` or one of `providers`.
        request: the other settings.
        providers: this package's, and those of plugins.

    Raises:
        InvalidArgument: no such provider, or one that does not support an argument.
        ClusterError: the given kubeconfig or context cannot be used.
    """
    is_explicit = request.kubeconfig is not None or request.context is not None
    name = ("existing" if is_explicit else "embedded") if cluster == "auto" else cluster
    if name not in providers:
        names = ["auto", *providers]
        near = difflib.get_close_matches(str(name), names, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        valid = f"{hint}use {', '.join(names)}"
        raise InvalidArgument("cluster", cluster, valid, request.source("cluster"))
    if name in PROVIDERS:
        _refuse_unused(name, request)
    return providers[name](request)


def _refuse_unused(name: str, request: ClusterRequest) -> None:
    """Refuse options that the provider does not use; environment and ini serve several providers.

    `existing` checks its own: a default on the command line asks for nothing.
    """
    for setting, users in _USED.items():
        source = request.source(setting) or ""
        if name in users or not source.startswith("option ") or setting in _CHECKED.get(name, ()):
            continue
        request.refuse(setting, f"cluster {name} has no use for it, only {', '.join(users)}")


def connect(
    kubeconfig: Path | str,
    context: str | None = None,
    provider: str = "existing",
    time_scale: float = 1.0,
    *,
    has_controllers: bool = True,
    ends_with_run: bool = False,
) -> Cluster:
    """Return a cluster that was chosen or started elsewhere, once it has answered.

    Providers of plugins connect to the cluster that they have found or created by it.

    Args:
        context: None for the current one.
        provider: the name of its provider.
        time_scale: the duration of its controllers' work relative to a real cluster's.
        has_controllers: False for an API server alone.
        ends_with_run: whether it is this run's alone, and nothing of it outlives the run.

    Raises:
        ClusterError: the kubeconfig cannot be used, or the server refuses the credentials.
    """
    target = read_kubeconfig(Path(kubeconfig)).target(context)
    cluster = Cluster(
        target,
        provider=provider,
        time_scale=time_scale,
        has_controllers=has_controllers,
        ends_with_run=ends_with_run,
    )
    cluster.check()
    return cluster
