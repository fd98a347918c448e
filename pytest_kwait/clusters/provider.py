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
    """A running cluster and its kubeconfig."""

    @property
    def provider(self) -> str:
        """The name of its provider."""
        ...

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the cluster."""
        ...

    @property
    def context(self) -> str | None:
        """The context of the kubeconfig; None for its current one."""
        ...

    @property
    def time_scale(self) -> float:
        """The duration of its controllers' work relative to a real cluster's."""
        ...

    @property
    def version(self) -> str:
        """The API server's version, for example `v1.36.2`; requested once."""
        ...

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of its nodes, sorted; requested once."""
        ...

    @property
    def faults(self) -> Faults:
        """Faults to inject, on an embedded cluster."""
        ...

    def pods(
        self,
        *,
        label: str = "",
        name: str = "",
        container: str = "",
        namespace: str | None = None,
    ) -> ScriptedPods:
        """Script what containers do instead of their commands, on an embedded cluster."""
        ...

    def client(self) -> ApiClient:
        """Return a new official client for it.

        Raises:
            ClusterError: the kubeconfig's credentials or certificates cannot be used.
        """
        ...

    def stop(self) -> None:
        """Stop it if it was started for this run, and remove temporary files."""
        ...


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


PROVIDERS: Mapping[str, Callable[[ClusterRequest], Provider]] = {
    "existing": ExistingProvider,
    "embedded": EmbeddedProvider.requested,
}
"""The providers by name; creating one checks its request without network access."""


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
    """Return the provider for the settings; starts nothing and sends no request.

    `auto` is `existing` if a kubeconfig or a context is given, else `embedded`: KUBECONFIG and the
    default kubeconfig are used only with `existing`.

    Args:
        cluster: `auto` or one of `PROVIDERS`.
        cluster_source: the source of `cluster`, for messages.
        kubeconfig_source: the source of `kubeconfig`.
        context_source: the source of `context`.
        timing: the timing of an embedded cluster.
        timing_source: the source of `timing`; None for the default.

    Raises:
        InvalidArgument: no such provider, or one that does not support an argument.
        ClusterError: the given kubeconfig or context cannot be used.
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
    """Return a cluster that was chosen or started elsewhere, once it has answered.

    Args:
        context: None for the current one.
        provider: the name of its provider.
        time_scale: the duration of its controllers' work relative to a real cluster's.

    Raises:
        ClusterError: the kubeconfig cannot be used, or the server refuses the credentials.
    """
    target = read_kubeconfig(Path(kubeconfig)).target(context)
    cluster = ConnectedCluster(target, provider=provider, time_scale=time_scale)
    cluster.check()
    return cluster
