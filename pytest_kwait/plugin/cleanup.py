"""Registrations of a run in its clusters, kept namespaces, and cleanup at the end of the run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.plugin.markers import InvalidMarker, settings_of
from pytest_kwait.plugin.run import run_of, worker_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.plugin.run import Run
    from pytest_kwait.suite.cleanup.owned_objects import RunRegistration
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.run_registration import OwnedRegistration

_CONTROLLER = 0
"""The controller's cluster in messages of its workers."""


class NamespaceInUse:
    """A namespace that was created for a node and still exists.

    Args:
        node: the test, class, module or session that owns it.
        namespace: its name.
        advice: the command to inspect it if it is kept.
        client: the client that created it.
        cluster: its cluster.
    """

    def __init__(
        self, node: Any, namespace: str, advice: str, client: Any, cluster: Cluster
    ) -> None:
        self.client = client
        self.cluster = cluster
        self.node = node
        self.namespace = namespace
        self.advice = advice

    def __str__(self) -> str:
        return f"namespace {self.namespace} is kept; {self.advice}"


class Cleanup:
    """What tests leave in clusters: registrations, kept namespaces, and the end-of-run cleanup."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._config = run.config
        self._lock = threading.Lock()
        """Held while the registrations change."""
        self.registrations: dict[int, OwnedRegistration] = {}
        """The registrations of this process, by the identity of their cluster."""
        self.namespaces: list[NamespaceInUse] = []
        """The namespaces that this process created and has not deleted."""
        self._kept_nodes: set[Any] = set()
        self._kept_lines: list[str] = []
        self._removals: dict[str, None] = {}
        self._terminating: dict[int, dict[str, str]] = {}
        self._remaining: list[str] = []
        self._lines: list[str] = []
        self._is_untidy = False
        self._has_shared = False
        self._attempts: dict[str, int] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Collect what a worker reports about its namespaces; a crashed worker reports nothing."""
        output = worker_output(node)
        has_output = getattr(node, "workeroutput", None) is not None
        if error is not None or not has_output or output.get("kwait_untidy"):
            self.record_untidy()
        if output.get("kwait_shared"):
            self.record_shared()
        self.record_terminating(_CONTROLLER, output.get("kwait_going", {}))
        self._remaining += output.get("kwait_stayed", [])
        self._kept_lines += output.get("kwait_kept", [])
        self._removals.update(dict.fromkeys(output.get("kwait_removals", [])))

    # Last: all workers and fixtures have ended.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """End the run's Leases."""
        output = self._run.output
        if output is not None:
            output["kwait_going"] = self._terminating.pop(_CONTROLLER, {})
            output["kwait_untidy"] = self._is_untidy
            output["kwait_shared"] = self._has_shared
            output["kwait_stayed"] = self._remaining
            output["kwait_kept"] = self._kept_lines
            output["kwait_removals"] = list(self._removals)
        # An interrupted run does not wait for deletions.
        patient = exitstatus != pytest.ExitCode.INTERRUPTED
        self._lines += self._end(patient=patient)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print remaining objects of tests, and the result of the janitor."""
        for line in (*self._remaining, *self._lines):
            terminalreporter.line(line)

    # Last: a section of its own, below the lines of all other plugins.
    @pytest.hookimpl(trylast=True, specname="pytest_terminal_summary")
    def pytest_terminal_summary_kept(self, terminalreporter: Any) -> None:
        """List the kept namespaces."""
        if self._kept_lines:
            terminalreporter.section("kwait: kept namespaces")
            for line in self._kept_lines:
                terminalreporter.line(line)
            for command in self._removals:
                terminalreporter.line(f"to remove them before they expire, in 24 hours: {command}")

    def pytest_unconfigure(self) -> None:
        """End the run's Leases if the session did not finish."""
        for _ in self._end(patient=False):
            pass

    def registration_of(self, cluster: Cluster) -> RunRegistration | None:
        """Return the run's registration in a cluster; None if the cluster ends with the run."""
        if cluster.ends_with_run:
            return None
        run = self._run
        shared = run.source_of(cluster).registration(cluster)
        if shared is not None:
            return shared
        # Workers ask at the same time, each in a thread.
        with self._lock:
            # Imported on use: it loads the client.
            from pytest_kwait.suite.run_registration import OwnedRegistration

            if id(cluster) not in self.registrations:
                self.registrations[id(cluster)] = OwnedRegistration(
                    run.id,
                    run.nonce,
                    cluster,
                    run.settings,
                    shard=run.shard,
                    report=self._write_line,
                )
            return self.registrations[id(cluster)]

    def _write_line(self, line: str) -> None:
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and self._config.get_verbosity() > -2:
            reporter.ensure_newline()
            # Under pytest-xdist the terminal reporter does not know that a line is unfinished.
            if self._config.get_terminal_writer().width_of_current_line:
                reporter.line("")
            reporter.write_line(f"kwait: {line}")

    def count_attempt(self, test: str, *, again: bool) -> int:
        """Return which attempt at a test, or other owner of namespaces, this is.

        Args:
            again: whether it is the attempt that was returned last.
        """
        if not again:
            self._attempts[test] = self._attempts.get(test, 0) + 1
        return self._attempts.get(test, 1)

    def keep_namespaces(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Keep the namespaces of a test if its settings say so; name them in a failed report."""
        try:
            keep = settings_of(item).keep
        except InvalidMarker:
            # Reported when the test was set up.
            return
        if keep == "always" or (keep == "failed" and report.failed):
            chain = item.listchain()
            self._kept_nodes.update(chain)
            if report.failed and report.when != "teardown":
                lines = [str(namespace) for namespace in self.namespaces if namespace.node in chain]
                if lines:
                    report.sections.append(("kwait", "\n".join(lines)))

    def is_kept(self, node: Any, settings: Settings) -> bool:
        """Return whether a node's namespace is kept, by its settings or those of its tests."""
        return settings.keep == "always" or node in self._kept_nodes

    def report_kept(self, line: str, removal: str = "") -> None:
        """Add a kept namespace to the summary of the run.

        Args:
            line: its name, and how to inspect it.
            removal: the command that removes it; empty if it ends with its cluster.
        """
        self._kept_lines.append(line)
        if removal:
            self._removals[removal] = None

    def record_terminating(self, place: int, going: Mapping[str, str]) -> None:
        """Record namespaces whose deletion was requested; the end of the run waits for them.

        Args:
            place: the identity of their cluster; 0 for the controller's, reported by a worker.
            going: their UIDs by name.
        """
        if going:
            self._terminating.setdefault(place, {}).update(going)

    def record_shared(self) -> None:
        """Record that objects of the session were left to the end of the run."""
        self._has_shared = True

    def record_untidy(self) -> None:
        """Record that objects may be left, or changed: the end of the run looks for them."""
        self._is_untidy = True

    def record_remaining(self, owner: str, left: Iterable[str]) -> None:
        """Record objects that remained after a test, for the summary.

        Args:
            owner: the test, or the node that shares the namespace.
            left: the message of each wait that timed out.
        """
        lines = [f"  {line}" for line in left]
        if lines:
            first = f"kwait: what {owner} has made is not gone; the server is still deleting:"
            self._remaining += [first, *lines]

    def _end(self, *, patient: bool) -> Iterator[str]:
        for place, registration in self.registrations.items():
            terminating = self._terminating
            going = {**terminating.get(place, {}), **terminating.get(_CONTROLLER, {})}
            yield from registration.end(
                untidy=self._is_untidy,
                kept=bool(self._kept_lines),
                shared=self._has_shared and not self._run.is_worker,
                going=going,
                patient=patient,
            )


def registration_of(config: pytest.Config, cluster: Cluster) -> RunRegistration | None:
    """Return the run's registration in a cluster; None if the cluster ends with the run."""
    return run_of(config).get(Cleanup).registration_of(cluster)


def namespaces_in_use(config: pytest.Config) -> list[NamespaceInUse]:
    """Return the namespaces that this process created and has not deleted."""
    return run_of(config).get(Cleanup).namespaces
