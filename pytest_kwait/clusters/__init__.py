"""Where a cluster comes from: one module per provider, all behind the protocol in `provider.py`.

What may enter: finding, starting, reaching and ending clusters, and reading kubeconfigs. What is
done in a cluster is none of its business. Nothing here imports `kubernetes` before a client is
asked for.
"""

from __future__ import annotations

from pytest_kwait.clusters.provider import PROVIDERS, Cluster, Provider, choose_provider, connect

__all__ = ["PROVIDERS", "Cluster", "Provider", "choose_provider", "connect"]
