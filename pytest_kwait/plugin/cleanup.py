"""Registrations of a run in its clusters, kept namespaces, and cleanup at the end of the run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.plugin.markers import InvalidMarker, settings_of
from pytest_kwait.plugin.run import format_shard, run_of
from pytest_kwait.plugin.settings import run_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.suite.cleanup.owned_objects import RunRegistration
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.run_registration import OwnedRegistration

_registrations_key = pytest.StashKey[dict[int, "OwnedRegistration"]]()
_lines_key = pytest.StashKey[list[str]]()
_untidy_key = pytest.StashKey[bool]()
_remaining_key = pytest.StashKey[list[str]]()
_shared_key = pytest.StashKey[bool]()
_terminating_key = pytest.StashKey[dict[int, dict[str, str]]]()
_kept_nodes_key = pytest.StashKey[set[Any]]()
_kept_lines_key = pytest.StashKey[list[str]]()
_removals_key = pytest.StashKey[dict[str, None]]()
_namespaces_in_use_key = pytest.StashKey[list["NamespaceInUse"]]()

_CONTROLLER = 0
"""The controller's cluster in messages of its workers."""

_lock = threading.Lock()
"""Held while the registrations of a run change."""


class NamespaceInUse:
    """A namespace that was created for a node and still exists.

    Args:
        node: the test, class, module or session that owns it.
        namespace: its name.
        advice: the command to inspect it if it is kept.
        client: the client that created it.
    """

    def __init__(self, node: Any, namespace: str, advice: str, client: Any) -> None:
        self.client = client
        self.node = node
        self.namespace = namespace
        self.advice = advice

    def __str__(self) -> str:
        return f"namespace {self.namespace} is kept; {self.advice}"


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Collect what a worker reports about its namespaces; a crashed worker reports nothing."""
    config: pytest.Config = node.config
    output = getattr(node, "workeroutput", None)
    if error is not None or output is None:
        record_untidy(config)
    output = output or {}
    if output.get("kwait_untidy"):
        record_untidy(config)
    if output.get("kwait_shared"):
        record_shared(config)
    record_terminating(config, _CONTROLLER, output.get("kwait_going", {}))
    config.stash.setdefault(_remaining_key, []).extend(output.get("kwait_stayed", []))
    config.stash.setdefault(_kept_lines_key, []).extend(output.get("kwait_kept", []))
    removals = dict.fromkeys(output.get("kwait_removals", []))
    config.stash.setdefault(_removals_key, {}).update(removals)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End the run's Leases after all workers and fixtures have ended."""
    config = session.config
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output["kwait_going"] = config.stash.get(_terminating_key, {}).pop(_CONTROLLER, {})
        output["kwait_untidy"] = config.stash.get(_untidy_key, False)
        output["kwait_shared"] = config.stash.get(_shared_key, False)
        output["kwait_stayed"] = config.stash.get(_remaining_key, [])
        output["kwait_kept"] = config.stash.get(_kept_lines_key, [])
        removals: dict[str, None] = config.stash.get(_removals_key, {})
        output["kwait_removals"] = list(removals)
    # An interrupted run does not wait for deletions.
    patient = exitstatus != pytest.ExitCode.INTERRUPTED
    config.stash.setdefault(_lines_key, []).extend(_end(config, patient=patient))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print remaining objects of tests, and the result of the janitor."""
    for line in (*config.stash.get(_remaining_key, []), *config.stash.get(_lines_key, [])):
        terminalreporter.line(line)


@pytest.hookimpl(trylast=True, specname="pytest_terminal_summary")
def pytest_terminal_summary_kept(terminalreporter: Any, config: pytest.Config) -> None:
    """List the kept namespaces, in a section of their own."""
    lines = config.stash.get(_kept_lines_key, [])
    if lines:
        terminalreporter.section("kwait: kept namespaces")
        for line in lines:
            terminalreporter.line(line)
        for command in config.stash.get(_removals_key, {}):
            terminalreporter.line(f"to remove them before they expire, in 24 hours: {command}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the run's Leases if the session did not finish."""
    for _ in _end(config, patient=False):
        pass


def registration_of(config: pytest.Config, cluster: Cluster) -> RunRegistration | None:
    """Return the run's registration in a cluster; None if the cluster ends with the run."""
    if cluster.ends_with_run:
        return None
    run = run_of(config)
    shared = run.source.registration(cluster)
    if shared is not None:
        return shared
    # Imported on use: it loads the client.
    from pytest_kwait.suite.run_registration import OwnedRegistration

    known = registrations_of(config)
    if id(cluster) not in known:
        reporter = config.pluginmanager.getplugin("terminalreporter")

        def report(line: str) -> None:
            if reporter is not None and config.get_verbosity() > -2:
                reporter.ensure_newline()
                # Under pytest-xdist the terminal reporter does not know that a line is unfinished.
                if reporter._tw.width_of_current_line:
                    reporter.line("")
                reporter.write_line(f"kwait: {line}")

        registration = OwnedRegistration(
            run.id,
            run.nonce,
            cluster,
            run_settings(config),
            shard=format_shard(config),
            report=report,
        )
        # Workers ask at the same time, each in a thread.
        with _lock:
            return known.setdefault(id(cluster), registration)
    return known[id(cluster)]


def registrations_of(config: pytest.Config) -> dict[int, OwnedRegistration]:
    """Return the registrations of this process, by cluster."""
    with _lock:
        return config.stash.setdefault(_registrations_key, {})


def namespaces_in_use(config: pytest.Config) -> list[NamespaceInUse]:
    """Return the namespaces that this process created and has not deleted."""
    return config.stash.setdefault(_namespaces_in_use_key, [])


def keep_namespaces(item: pytest.Item, report: pytest.TestReport) -> None:
    """Keep the namespaces of a test if its settings say so; name them in a failed report."""
    try:
        keep = settings_of(item).keep
    except InvalidMarker:
        # Reported when the test was set up.
        return
    if keep == "always" or (keep == "failed" and report.failed):
        chain = item.listchain()
        item.config.stash.setdefault(_kept_nodes_key, set()).update(chain)
        if report.failed and report.when != "teardown":
            lines = [str(each) for each in namespaces_in_use(item.config) if each.node in chain]
            if lines:
                report.sections.append(("kwait", "\n".join(lines)))


def is_kept(config: pytest.Config, node: Any, settings: Settings) -> bool:
    """Return whether a node's namespace is kept, by its settings or those of its tests."""
    return settings.keep == "always" or node in config.stash.get(_kept_nodes_key, ())


def report_kept(config: pytest.Config, line: str, removal: str = "") -> None:
    """Add a kept namespace to the summary of the run.

    Args:
        line: its name, and how to inspect it.
        removal: the command that removes it; empty if it ends with its cluster.
    """
    config.stash.setdefault(_kept_lines_key, []).append(line)
    if removal:
        config.stash.setdefault(_removals_key, {})[removal] = None


def record_terminating(config: pytest.Config, place: int, going: Mapping[str, str]) -> None:
    """Record namespaces whose deletion was requested; the end of the run waits for them.

    Args:
        place: the identity of their cluster; 0 for the controller's, reported by a worker.
        going: their UIDs by name.
    """
    if going:
        config.stash.setdefault(_terminating_key, {}).setdefault(place, {}).update(going)


def record_shared(config: pytest.Config) -> None:
    """Record that objects of the session were left to the end of the run."""
    config.stash[_shared_key] = True


def record_untidy(config: pytest.Config) -> None:
    """Record that objects may be left, or changed: the end of the run looks for them."""
    config.stash[_untidy_key] = True


def record_remaining(config: pytest.Config, owner: str, left: Iterable[str]) -> None:
    """Record objects that remained after a test, for the summary.

    Args:
        owner: the test, or the node that shares the namespace.
        left: the message of each wait that timed out.
    """
    lines = [f"  {line}" for line in left]
    if lines:
        first = f"kwait: what {owner} has made is not gone; the server is still deleting:"
        config.stash.setdefault(_remaining_key, []).extend([first, *lines])


def _end(config: pytest.Config, *, patient: bool) -> Iterator[str]:
    untidy = config.stash.get(_untidy_key, False)
    terminating = config.stash.get(_terminating_key, {})
    for place, registration in registrations_of(config).items():
        going = {**terminating.get(place, {}), **terminating.get(_CONTROLLER, {})}
        yield from registration.end(
            untidy=untidy,
            kept=bool(config.stash.get(_kept_lines_key, [])),
            shared=config.stash.get(_shared_key, False) and not _is_worker(config),
            going=going,
            patient=patient,
        )


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")
