"""Providers of clusters: by kubeconfig, embedded, of envtest's binaries, of kind, k3d and minikube.

Contents: finding, starting, connecting to and ending clusters, kubeconfigs, and the client
of the embedded cluster's faults and pod scripts. Nothing here imports `kubernetes` before a
client is requested.
"""

from __future__ import annotations

from pytest_kwait.clusters.cluster import Cluster, ClusterRequest
from pytest_kwait.clusters.provider import (
    PROVIDERS,
    Provider,
    ProviderFactory,
    choose_provider,
    connect,
)

__all__ = [
    "PROVIDERS",
    "Cluster",
    "ClusterRequest",
    "Provider",
    "ProviderFactory",
    "choose_provider",
    "connect",
]
