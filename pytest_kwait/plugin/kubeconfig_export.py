"""KUBECONFIG of this process and those that it starts: the cluster of the run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pytest_kwait.clusters.kubeconfig import KubeconfigFile, read_kubeconfig

if TYPE_CHECKING:
    from pytest_kwait.clusters.cluster import Cluster

_NAME = "KUBECONFIG"
_CONSTANT = "KUBE_CONFIG_DEFAULT_LOCATION"
_READERS = tuple(
    f"{client}.config{module}"
    for client in ("kubernetes", "kubernetes_asyncio")
    for module in ("", ".kube_config")
)
"""Modules that have read the environment when they were imported: maybe already."""


class KubeconfigExport:
    """KUBECONFIG in the environment, until `end`.

    Args:
        cluster: the cluster that it names. If a context was given for it, a copy of its kubeconfig
            has that context alone.

    Raises:
        ClusterError: its kubeconfig cannot be read.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._copy: KubeconfigFile | None = None
        path = cluster.kubeconfig
        if cluster.context is not None:
            self._copy = KubeconfigFile(read_kubeconfig(path).select(cluster.context))
            path = self._copy.path
        self._before = os.environ.get(_NAME)
        os.environ[_NAME] = str(path)
        self._constants: dict[str, object] = {}
        for name in _READERS:
            module = sys.modules.get(name)
            if hasattr(module, _CONSTANT):
                self._constants[name] = getattr(module, _CONSTANT)
                setattr(module, _CONSTANT, str(path))

    def end(self) -> None:
        """Restore the environment, and remove the copy."""
        if self._before is None:
            os.environ.pop(_NAME, None)
        else:
            os.environ[_NAME] = self._before
        for name, value in self._constants.items():
            setattr(sys.modules[name], _CONSTANT, value)
        if self._copy is not None:
            self._copy.remove()
