"""Modules that most runs need, imported once: a run inside of a test forgets its own imports."""

from __future__ import annotations

import importlib

from pytest_kwait.simulator.components import COMPONENTS, SERVER_COMPONENTS

_MODULES = (
    "cryptography.hazmat.backends.openssl.backend",
    "kubernetes.client",
    "multiprocessing.popen_forkserver",
    "pytest_kwait.clusters.exploration",
    "pytest_kwait.clusters.provider",
    "pytest_kwait.framework.cluster.namespaces",
    "pytest_kwait.framework.daemonset",
    "pytest_kwait.framework.job.wait",
    "pytest_kwait.framework.node.minions",
    "pytest_kwait.framework.node.wait",
    "pytest_kwait.framework.pod.list_wait",
    "pytest_kwait.plugin.artifacts",
    "pytest_kwait.plugin.debugging",
    "pytest_kwait.plugin.environments",
    "pytest_kwait.plugin.explore.loop",
    "pytest_kwait.plugin.further_clusters",
    "pytest_kwait.plugin.github",
    "pytest_kwait.plugin.junit",
    "pytest_kwait.plugin.lock",
    "pytest_kwait.plugin.namespaces",
    "pytest_kwait.plugin.readiness",
    "pytest_kwait.plugin.recording",
    "pytest_kwait.plugin.report",
    "pytest_kwait.plugin.shards",
    "pytest_kwait.simulator.apiserver.faults_api",
    "pytest_kwait.simulator.history",
    "pytest_kwait.simulator.registry.certificates",
    "pytest_kwait.simulator.registry.core",
    "pytest_kwait.simulator.registry.core_namespaces",
    "pytest_kwait.simulator.registry.networking",
    "pytest_kwait.simulator.registry.storage",
    "pytest_kwait.simulator.runtimes.table",
    "pytest_kwait.simulator.server_main",
    "pytest_kwait.simulator.validation.core.config",
    "pytest_kwait.simulator.validation.core.limit_ranges",
    "pytest_kwait.simulator.validation.core.nodes",
    "pytest_kwait.simulator.validation.core.resource_quotas",
    "pytest_kwait.simulator.validation.node",
    "pytest_kwait.suite.artifacts.dump",
    "pytest_kwait.suite.artifacts.failures_file",
    "pytest_kwait.suite.artifacts.recording",
    "pytest_kwait.suite.audit.call_sites",
    "pytest_kwait.suite.cleanup.janitor",
    "pytest_kwait.suite.cleanup.run_lease",
    "pytest_kwait.suite.environments",
    "pytest_kwait.suite.kwait",
    "pytest_kwait.suite.namespaces.namespaces",
    "pytest_kwait.suite.namespaces.permissions",
    "pytest_kwait.suite.readiness",
    "pytest_kwait.suite.report.commit",
    "pytest_kwait.suite.report.files",
    "pytest_kwait.suite.report.playback",
    "pytest_kwait.suite.report.run_report",
    "pytest_kwait.suite.run_registration",
    "trustme",
    "xdist.dsession",
    "xdist.remote",
    "xdist.scheduler",
    "xdist.workermanage",
)
_COMPONENTS = {
    f"pytest_kwait.simulator.{factory.module}"
    for component in (*COMPONENTS, *SERVER_COMPONENTS)
    for factory in component.factories
    if not component.first_objects
}
"""The modules of what starts with a cluster."""

for _name in (*_MODULES, *sorted(_COMPONENTS)):
    importlib.import_module(_name)
