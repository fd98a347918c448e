"""The plugin objects of a run, and when each of them is needed.

An object has its state in itself; others find it by its class: `run_of(config).get(Cleanup)`. It is
registered as `pytest_kwait.plugin.<module>`, which `-p no:` switches off. Hooks of the same kind
are called in the reverse order of the table, as pluggy does; where that does not decide, a hook
says `tryfirst` or `trylast`, with the reason beside it.

They are registered at the first of these moments, each a hook of `startup`. One moment would be
plainer, but at the first one they would cost each run more than the whole plugin may
(`benchmarks.plugin_load`), and each later one misses what happens before it.

- `pytest_configure`: a setting is given, or the run has workers. Header and session start follow.
- `pytest_make_collect_report`: a collected test uses a fixture or marker. One with an invalid
  marker becomes an error of the collection, so the settings must be known by then.
- `pytest_collection_finish`: a test module imports a wait, or a hook has added a marker. This is
  the last moment before the hooks around tests.
- `pytest_runtest_setup`: an earlier test has imported a wait in its body.
- `pytest_fixture_setup`: a test requests a fixture by `getfixturevalue`, of which nothing is known
  before.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.plugin.run import Run, is_active, run_key

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class PluginObject(NamedTuple):
    """A row of the table.

    Args:
        module: where its class is, below this package; imported if it is needed.
        factory: the name of its class, which takes the run.
        is_needed: returns whether a run needs it.
    """

    module: str
    factory: str
    is_needed: Callable[[Run], bool]


def _always(_run: Run) -> bool:
    return True


def _has_shard(run: Run) -> bool:
    return run.settings.shard is not None or "kwait_shard" in (run.handed or {})


def _has_artifacts(run: Run) -> bool:
    return run.settings.artifacts is not None


def _records(run: Run) -> bool:
    # A given option may have to be refused.
    return run.settings.recorded != "never" or run.settings.record is not None


def _writes_junit(run: Run) -> bool:
    return bool(run.config.getoption("xmlpath", None))


def _runs_on_github(run: Run) -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true" and not run.is_worker


def _reports(run: Run) -> bool:
    return bool(run.settings.report) if run.handed is None else "kwait_report" in run.handed


def _shares_cluster(run: Run) -> bool:
    """Return whether other processes may use the cluster of this one."""
    # While exploring, each worker has a cluster of its own.
    is_single = not run.is_worker and run.config.getoption("dist", "no") == "no"
    return not (run.settings.is_alone and (is_single or run.settings.explore is not None))


def _uses_existing_cluster(run: Run) -> bool:
    return not run.settings.is_alone


def _explores(run: Run) -> bool:
    # A given option may have to be refused.
    names = ("explore", "seed", "explore_level", "perturbations")
    return any(map(run.settings.given_source, names))


PLUGINS = (
    PluginObject("settings", "SettingsHeader", _always),
    PluginObject("shards", "ShardSelector", _has_shard),
    PluginObject("cluster", "RunCluster", _always),
    PluginObject("live_status", "LiveStatusControl", _always),
    PluginObject("failures", "FailureReporter", _always),
    PluginObject("artifacts", "ArtifactCollector", _has_artifacts),
    PluginObject("recording", "RecordingWriter", _records),
    PluginObject("junit", "JUnitProperties", _writes_junit),
    PluginObject("github", "FailureCollector", _runs_on_github),
    PluginObject("summary", "WaitSummary", _always),
    PluginObject("report", "ReportWriter", _reports),
    PluginObject("markers", "MarkerExecutor", _always),
    PluginObject("lock", "LockHolder", _shares_cluster),
    PluginObject("cleanup", "Cleanup", _always),
    PluginObject("readiness", "ReadinessGate", _uses_existing_cluster),
    PluginObject("debugging", "DebuggerClock", _always),
    PluginObject("explore.loop", "ExplorationLoop", _explores),
    PluginObject("environments", "EnvironmentFailures", _always),
    PluginObject("tracing", "Tracing", _always),
    PluginObject("hook_calls", "HookCalls", _always),
)


def activate(config: pytest.Config) -> None:
    """Register the plugin objects that the run needs, once.

    Raises:
        pytest.UsageError: a setting is invalid.
    """
    if is_active(config):
        return
    from pytest_kwait.plugin.settings import read_settings

    run = config.stash[run_key] = Run(config, read_settings(config, os.environ))
    for row in PLUGINS:
        if row.is_needed(run):
            name = f"{__package__}.{row.module}"
            plugin = getattr(import_module(name), row.factory)(run)
            run.add(plugin)
            # Calls its `pytest_configure` as well.
            config.pluginmanager.register(plugin, name)
