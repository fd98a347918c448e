"""The run of this process: its settings, its id, and the plugin objects that it needs."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.plugin.cluster_source import ClusterSource
    from pytest_kwait.suite.config.settings import Settings

_Plugin = TypeVar("_Plugin")

run_key: pytest.StashKey[Run] = pytest.StashKey()


class Run:
    """One run of pytest: its settings and id, this worker, and the source of its cluster.

    Args:
        settings: those of the ini file, the environment and the command line.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.config = config
        self.settings = settings
        self.handed: dict[str, Any] | None = getattr(config, "workerinput", None)
        """What the controller of pytest-xdist passes to this worker; None in other processes."""
        # A controller without this plugin, as with `-p no:` there alone, passes nothing.
        given: dict[str, str] = (self.handed or {}).get("kwait", {})
        self.id: str = given.get("run") or settings.run_id or os.urandom(3).hex()
        """Its name, the same in all workers."""
        self.worker = str((self.handed or {}).get("workerid", "")) if given else ""
        """The name of this worker; empty without pytest-xdist."""
        self.shard = ""
        """The shard of this run as `I/N`; empty without shards."""
        self.nonce = os.urandom(4).hex()
        self._sources: dict[str, ClusterSource] = {}
        """By name; that of the run's own cluster is empty."""
        self._lock = threading.Lock()
        self._plugins: dict[type, object] = {}

    def add(self, plugin: object) -> None:
        """Add a plugin object."""
        self._plugins[type(plugin)] = plugin

    def find(self, kind: type[_Plugin]) -> _Plugin | None:
        """Return the plugin object of a class; None if the run does not need it."""
        plugin = self._plugins.get(kind)
        return plugin if isinstance(plugin, kind) else None

    def get(self, kind: type[_Plugin]) -> _Plugin:
        """Return the plugin object of a class that every run has."""
        plugin = self._plugins[kind]
        assert isinstance(plugin, kind)  # noqa: S101 - `add` has stored it by its class
        return plugin

    @property
    def is_worker(self) -> bool:
        """Return whether this process is a worker of pytest-xdist."""
        return self.handed is not None

    @property
    def output(self) -> dict[str, Any] | None:
        """What this worker passes to its controller at its end; None in other processes."""
        output: dict[str, Any] | None = getattr(self.config, "workeroutput", None)
        return output

    @property
    def cluster_name(self) -> str:
        """The provider of its cluster, with the given context."""
        settings = self.settings
        provider = settings.cluster
        if provider == "auto":
            is_named = settings.kubeconfig is not None or settings.context is not None
            provider = "existing" if is_named else "embedded"
        return " ".join(filter(None, (provider, settings.context)))

    @property
    def source(self) -> ClusterSource:
        """The source of the cluster, made on first use; nothing is started."""
        return self.find_source("")

    def find_source(self, name: str) -> ClusterSource:
        """Return the source of a further cluster, or of the run's own for an empty name.

        Raises:
            InvalidArgument: no further cluster has this name, or its settings are invalid.
        """
        # Workers ask for it at the same time, each in a thread of the controller.
        with self._lock:
            if name not in self._sources:
                self._sources[name] = self._make_source(name)
            return self._sources[name]

    def source_of(self, cluster: Cluster) -> ClusterSource:
        """Return the source of a cluster; that of the run's own for one of a suite's fixture."""
        for source in self._sources.values():
            if source.started is cluster:
                return source
        return self.source

    def name_of(self, cluster: Cluster) -> str:
        """Return the name of a further cluster; empty for the run's own or a suite's fixture's."""
        named = (name for name, source in self._sources.items() if source.started is cluster)
        return next(named, "")

    @property
    def sources(self) -> tuple[ClusterSource, ...]:
        """The sources of all clusters that may have been used."""
        return tuple(self._sources.values())

    @property
    def has_source(self) -> bool:
        """Return whether the cluster may have been used."""
        return bool(self._sources)

    @property
    def outage(self) -> str:
        """Why the running cluster cannot be used any more; empty if it can, or none was started."""
        own = self._sources.get("")
        return own.outage() if own is not None else ""

    def mask_secrets(self) -> None:
        """Mask the values of Secrets in all namespaces of the run, once a test has failed."""
        from pytest_kwait.engine.failure.redaction import SECRET_VALUES
        from pytest_kwait.plugin.timeout import running_item
        from pytest_kwait.suite.cleanup.owned_objects import LABEL_RUN, run_label_value

        def find_source() -> Path | None:
            item = running_item(self.config)
            return item.path if item is not None else None

        SECRET_VALUES.run_selector = f"{LABEL_RUN}={run_label_value(self.id)}"
        SECRET_VALUES.readable_keys = self.settings.readable_secrets or ()
        SECRET_VALUES.find_source = find_source

    def finish(self, *, failed: bool) -> None:
        """Export logs of clusters that were started here, and keep them if asked to."""
        for source in self.sources:
            source.finish(failed=failed)

    def end(self) -> None:
        """Stop the clusters that were started here."""
        with ExitStack() as stopping:
            for source in self.sources:
                stopping.callback(source.stop)

    def _make_source(self, name: str) -> ClusterSource:
        from pytest_kwait.plugin.cluster_source import OwnedSource, RemoteSource, plugin_providers

        settings = self.further_settings(name) if name else self.settings
        # While exploring, each worker has a cluster of its own.
        given = (self.handed or {}).get("kwait")
        if given is not None and self.settings.explore is None:
            return RemoteSource(given["port"], given["secret"], self.worker, name)
        return OwnedSource(settings, self.id, lambda: plugin_providers(self.config), name)

    def further_settings(self, name: str) -> Settings:
        """Return the settings of a further cluster.

        Raises:
            InvalidArgument: there is none of this name, or its settings are invalid.
        """
        from pytest_kwait.errors import InvalidArgument
        from pytest_kwait.suite.config.cluster_settings import settings_of_cluster

        for cluster in self.settings.clusters:
            if cluster.name == name:
                file = self.config.inipath if cluster.source.startswith("ini ") else None
                folder = self.config.invocation_params.dir if file is None else file.parent
                return settings_of_cluster(cluster, self.settings, folder)
        names = ", ".join(cluster.name for cluster in self.settings.clusters)
        known = f"the clusters are {names}" if names else "there are none"
        raise InvalidArgument("cluster", name, f"{known}; kwait_clusters names further ones")


def run_of(config: pytest.Config) -> Run:
    """Return the run of this process."""
    return config.stash[run_key]


def run_settings(config: pytest.Config) -> Settings:
    """Return the settings of the run; markers of a test may override some of them."""
    return config.stash[run_key].settings


def is_active(config: pytest.Config) -> bool:
    """Return whether the plugin objects of the run are registered."""
    return run_key in config.stash


def worker_output(node: Any) -> dict[str, Any]:
    """Return what a worker of pytest-xdist has passed at its end; nothing if it crashed."""
    output: dict[str, Any] | None = getattr(node, "workeroutput", None)
    return output or {}
