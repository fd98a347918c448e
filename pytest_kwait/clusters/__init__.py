"""Providers of clusters: existing ones by kubeconfig, and the embedded one.

Contents: finding, starting, connecting to and ending clusters, kubeconfigs, and the client
of the embedded cluster's faults and pod scripts. Nothing here imports `kubernetes` before a
client is requested.
"""

from __future__ import annotations

from pytest_kwait.clusters.cluster import Cluster
from pytest_kwait.clusters.provider import PROVIDERS, Provider, choose_provider, connect

__all__ = ["PROVIDERS", "Cluster", "Provider", "choose_provider", "connect"]
