"""Modules that most runs need, imported once: a run inside of a test forgets its own imports."""

from __future__ import annotations

import importlib

_MODULES = (
    "kubernetes.client",
    "pytest_kwait.clusters.provider",
    "pytest_kwait.framework.cluster.namespaces",
    "pytest_kwait.framework.job.wait",
    "pytest_kwait.framework.node.minions",
    "pytest_kwait.plugin.artifacts",
    "pytest_kwait.plugin.debugging",
    "pytest_kwait.plugin.environments",
    "pytest_kwait.plugin.explore.loop",
    "pytest_kwait.plugin.github",
    "pytest_kwait.plugin.junit",
    "pytest_kwait.plugin.lock",
    "pytest_kwait.plugin.namespaces",
    "pytest_kwait.plugin.readiness",
    "pytest_kwait.plugin.recording",
    "pytest_kwait.plugin.report",
    "pytest_kwait.plugin.shards",
    "pytest_kwait.simulator.server_main",
    "pytest_kwait.suite.cleanup.run_lease",
    "pytest_kwait.suite.kwait",
    "pytest_kwait.suite.namespaces.namespaces",
    "xdist.remote",
    "xdist.workermanage",
)

for _name in _MODULES:
    importlib.import_module(_name)
