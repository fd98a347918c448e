"""`Cluster` and `Provider`, and the choice of a provider by the settings."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_kwait.clusters.connected_cluster import ClusterRequest, ConnectedCluster
from pytest_kwait.clusters.embedded import EmbeddedProvider
from pytest_kwait.clusters.existing import ExistingProvider
from pytest_kwait.clusters.kubeconfig import read_kubeconfig
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.faults import Faults
    from pytest_kwait.clusters.scripted_pods import ScriptedPods
    from pytest_kwait.clusters.simulator_process import Timing

__all__ = ["PROVIDERS", "Cluster", "Provider", "choose_provider", "connect"]


class Cluster(Protocol):
    """A cluster that answers, and how to reach it."""

    @property
    def provider(self) -> str:
        """The name of the provider that it comes from."""
        ...

    @property
    def kubeconfig(self) -> Path:
        """The one file that any client can reach it with."""
        ...

    @property
    def context(self) -> str | None:
        """The context of the kubeconfig; None for its current one."""
        ...

    @property
    def time_scale(self) -> float:
        """How long its controllers take, as a part of what a real cluster's take."""
        ...

    @property
    def version(self) -> str:
        """What its API server calls its version, for example `v1.36.2`; asked for once."""
        ...

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of its nodes, sorted; asked for once."""
        ...

    @property
    def faults(self) -> Faults:
        """What can be broken in it, where it is an embedded one."""
        ...

    def pods(
        self,
        *,
        label: str = "",
        name: str = "",
        container: str = "",
        namespace: str | None = None,
    ) -> ScriptedPods:
        """Say what containers do instead of their commands, where it is an embedded one."""
        ...

    def client(self) -> ApiClient:
        """Make a new official client for it.

        Raises:
            ClusterError: the kubeconfig's credentials or certificates cannot be used.
        """
        ...

    def stop(self) -> None:
        """End it, if it was started for this run, and let go of what was made for it."""
        ...


class Provider(Protocol):
    """A way to come by a cluster: made from a request that it has found to be sound."""

    @property
    def name(self) -> str:
        """What the provider is called in `--kwait-cluster`."""
        ...

    @property
    def context(self) -> str | None:
        """The context that leads to a cluster that is there already; None for a new one."""
        ...

    def start(self) -> Cluster:
        """Find or start the cluster and return it once it answers.

        Raises:
            ClusterError: there is none to be had; the message says what to do.
        """
        ...


PROVIDERS: Mapping[str, Callable[[ClusterRequest], Provider]] = {
    "existing": ExistingProvider,
    "embedded": EmbeddedProvider.requested,
}
"""Every provider by name. Making one checks its request, without any network."""


def choose_provider(
    cluster: str = "auto",
    *,
    kubeconfig: Path | str | None = None,
    context: str | None = None,
    cluster_source: str | None = None,
    kubeconfig_source: str | None = None,
    context_source: str | None = None,
    timing: Timing = "fast",
    timing_source: str | None = None,
) -> Provider:
    """Return the provider that the settings mean; nothing is started and nobody asked yet.

    `auto` is `existing` where a kubeconfig or a context is given, else `embedded`: a kubeconfig
    that merely lies around, KUBECONFIG included, is not touched unless `existing` is named.

    Args:
        cluster: `auto` or one of `PROVIDERS`.
        kubeconfig: the file to use.
        context: the context to use.
        cluster_source: where `cluster` came from, for messages.
        kubeconfig_source: where `kubeconfig` came from.
        context_source: where `context` came from.
        timing: how long the pauses of an embedded cluster are.
        timing_source: where `timing` came from; None for the default.

    Raises:
        InvalidArgument: there is no such provider, or it has no use for what is given.
        ClusterError: the kubeconfig or context that was given cannot be used.
    """
    request = ClusterRequest(
        None if kubeconfig is None else Path(kubeconfig),
        context,
        kubeconfig_source,
        context_source,
        timing,
        timing_source,
    )
    given = request.kubeconfig is not None or request.context is not None
    name = ("existing" if given else "embedded") if cluster == "auto" else cluster
    if name not in PROVIDERS:
        names = ["auto", *PROVIDERS]
        near = difflib.get_close_matches(str(name), names, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InvalidArgument("cluster", cluster, f"{hint}use {', '.join(names)}", cluster_source)
    return PROVIDERS[name](request)


def connect(
    kubeconfig: Path | str,
    context: str | None = None,
    provider: str = "existing",
    time_scale: float = 1.0,
) -> Cluster:
    """Return a cluster that somebody else has chosen or started, once it has answered.

    Args:
        kubeconfig: its kubeconfig.
        context: the context to use; None for the current one.
        provider: the name of the provider that it comes from.
        time_scale: how long its controllers take, as a part of what a real cluster's take.

    Raises:
        ClusterError: the kubeconfig cannot be used, or the server does not let us in.
    """
    target = read_kubeconfig(Path(kubeconfig)).target(context)
    cluster = ConnectedCluster(target, provider=provider, time_scale=time_scale)
    cluster.check()
    return cluster
