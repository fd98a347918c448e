"""The cluster of the run: checked at the start, shared by all workers; faults end with tests.

The controller owns the cluster and never collects tests: it starts the cluster when a worker first
requests it. Without pytest-xdist the process owns it. While exploring, each worker owns one: the
perturbations of one test do not reach those of another worker.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.errors import ClusterError, InvalidArgument, KwaitError
from pytest_kwait.framework.wait_names import WAIT_NAMES
from pytest_kwait.plugin.internals import find_fixtures, has_own_fixture
from pytest_kwait.plugin.run import run_of
from pytest_kwait.plugin.timeout import running_item
from pytest_kwait.plugin.usage import has_marker, marker_names
from pytest_kwait.suite.config.settings import DEFAULT_SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.clusters.faults import FaultScope
    from pytest_kwait.plugin.cluster_source import ClusterServer
    from pytest_kwait.plugin.kubeconfig_export import KubeconfigExport
    from pytest_kwait.plugin.run import Run
    from pytest_kwait.simulator.protocol.egress import EgressTarget
    from pytest_kwait.simulator.protocol.image_mapping import ImageMapping
    from pytest_kwait.suite.cleanup.owned_objects import RunRegistration
    from pytest_kwait.suite.config.settings import Settings

_NOT_OF_EMBEDDED = (
    "nodes", "controllers", "assets", "cluster_name", "keep_cluster", "node_image",
    "cluster_config", "cluster_args", "load_image",
)  # fmt: skip
"""Settings that the embedded cluster refuses as options, nodes as an API server alone."""
_WITH_OWN_NODES = ("kind", "k3d", "minikube")
_ADDED_FIXTURES = ("kwait_images", "kwait_egress")
"""Fixtures whose values are added to the cluster by a fixture of their name with `_`."""


class RunCluster:
    """The cluster of the run: checked, shared with workers, freed of faults, and stopped."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._config = run.config
        self._settings = run.settings
        self._server: ClusterServer | None = None
        self._faulty: list[Any] = []
        """The clusters whose faults end with each test."""
        self._is_in_header = False
        self._kubeconfig: KubeconfigExport | None = None
        self._mapped: dict[tuple[str, str], ImageMapping] = {}
        """By server and pattern."""
        self._allowed: set[tuple[str, EgressTarget]] = set()
        """With the server."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass a worker of pytest-xdist the run and the address of the cluster server."""
        if self._server is None:
            self._server = self._make_server()
        node.workerinput["kwait"] = {
            "run": self._run.id,
            "port": self._server.port,
            "secret": self._server.secret,
        }

    def _make_server(self) -> ClusterServer:
        from pytest_kwait.plugin.cleanup import registration_of
        from pytest_kwait.plugin.cluster_source import ClusterServer
        from pytest_kwait.plugin.live_status import show_worker_status

        def registration(cluster: Cluster) -> RunRegistration | None:
            return registration_of(self._config, cluster)

        def show_line(worker: str, line: str) -> None:
            show_worker_status(self._config, worker, line)

        return ClusterServer(self._run.find_source, registration, show_line)

    def serve_workers(self, topic: str, reply: Callable[..., dict[str, Any]]) -> None:
        """Answer requests of workers on a topic; the first worker is configured by now."""
        assert self._server is not None  # noqa: S101 - made for the first worker
        self._server.serve(topic, reply)

    # Last: lines of the plugin that is called last are shown first.
    @pytest.hookimpl(trylast=True)
    def pytest_report_header(self) -> list[str]:
        """List the cluster, its nodes, what programs in pods reach, and their isolation."""
        self._is_in_header = True
        return [
            *self._describe_clusters(),
            *self._list_nodes(),
            *self._list_egress(),
            *self._list_isolation(),
        ]

    def pytest_report_collectionfinish(self) -> list[str]:
        """Name the cluster, if no setting had made this a plugin of the run before its header."""
        option = self._config.option
        has_header = option.verbose >= 0 and not option.no_header
        runs_tests = not (option.collectonly or self._config.getoption("showfixtures", False))
        if self._is_in_header or not has_header or not runs_tests:
            return []
        return self._describe_clusters()

    def _describe_clusters(self) -> list[str]:
        further = ", ".join(map(str, self._settings.clusters))
        lines = [f"kwait: further clusters, started when a test asks: {further}"] if further else []
        return [_describe_run(self._settings), *lines]

    def _list_nodes(self) -> list[str]:
        """Return lines on nodes that were asked for: their names, or why they are not made."""
        settings = self._settings
        source = settings.given_source("nodes")
        if source is None:
            return []
        if settings.is_existing or settings.cluster in _WITH_OWN_NODES:
            return [f"kwait: {source} is not used: the cluster has its own nodes"]
        is_plain = settings.cluster == "binaries" and not settings.controllers
        if settings.api_only or is_plain:
            return [f"kwait: {source} is not used: an API server alone has no nodes"]
        nodes = settings.nodes
        is_ours = settings.is_embedded or settings.cluster == "binaries"
        if isinstance(nodes, int) or not is_ours:  # a plugin's cluster may have them, or not
            return []
        notes = [f"kwait: {nodes.note}"] if nodes.note else []
        return [f"kwait: nodes {nodes}", *notes]

    def _list_egress(self) -> list[str]:
        if not self._settings.egress or not self._settings.is_embedded:
            return []
        targets = ", ".join(map(str, self._settings.egress))
        return [f"kwait: programs in pods: outside of the cluster they reach {targets}"]

    def _list_isolation(self) -> list[str]:
        if not self._shows_isolation_in_header():
            return []
        from pytest_kwait.simulator import describe_isolation

        try:
            lines = describe_isolation(self._settings.isolation)
        except OSError:
            return []  # events of pods say why programs cannot be run
        return [f"kwait: programs in pods: {line}" for line in lines]

    def _shows_isolation_in_header(self) -> bool:
        """Return whether the header says what is not isolated; else lines at the end do."""
        option, settings = self._config.option, self._settings
        has_header = option.verbose >= 0 and not option.no_header
        is_shown = bool(settings.image) or self._asks_for_isolation()
        return is_shown and settings.is_embedded and has_header

    # First: before pytest-xdist starts workers in its hook.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Refuse invalid cluster settings before any test or worker is started.

        A cluster whose kubeconfig is exported is started here.
        """
        is_asked = self._has_cluster_option() or self._asks_for_isolation()
        if self._names_cluster() or (is_asked and not self._has_own_cluster()):
            try:
                self._run.source.check()
            except KwaitError as error:
                raise pytest.UsageError(str(error)) from None
        self._check_further_clusters()
        if self._settings.export_kubeconfig and self._owns_or_uses_cluster():
            self._export_kubeconfig()

    def _check_further_clusters(self) -> None:
        for cluster in self._settings.clusters:
            try:
                self._run.find_source(cluster.name).check()
            except KwaitError as error:
                raise pytest.UsageError(str(error)) from None

    def _owns_or_uses_cluster(self) -> bool:
        """Return False for the controller of workers that have clusters of their own."""
        is_single = self._run.is_worker or self._config.getoption("dist", "no") == "no"
        return is_single or self._settings.explore is None

    def _export_kubeconfig(self) -> None:
        from pytest_kwait.plugin.kubeconfig_export import KubeconfigExport

        try:
            if fixture := self._find_own_fixture():
                raise InvalidArgument(
                    "export_kubeconfig",
                    True,
                    f"the cluster of {fixture} is made with the first test; set KUBECONFIG there",
                    self._settings.given_source("export_kubeconfig"),
                )
            self._kubeconfig = KubeconfigExport(self._run.source.cluster())
        except KwaitError as error:
            raise pytest.UsageError(str(error)) from None

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """End the run if its cluster does not answer, unless no test would use it.

        Under pytest-xdist the controller does not know the tests: each worker checks before its
        first test and reports the result to the controller, which ends the run.
        """
        if (
            session.testsfailed
            or self._config.getoption("collectonly")
            or not self._names_cluster()
            or self._settings.cluster == "embedded"
            or not any(uses_cluster(item) for item in getattr(session, "items", ()))
        ):
            return None
        try:
            cluster = self._run.source.cluster()
            # A fixture of that name in a conftest may not use the plugin's.
            if any(has_own_fixture(item, "kwait_namespace") for item in session.items):
                check_rights(self._config, cluster)
        except KwaitError as error:
            if not self._run.is_worker:
                raise pytest.UsageError(str(error)) from None
            session.shouldstop = str(error)
            return True
        return None

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Fail a test at once if its cluster has ended."""
        outage = self._run.outage
        if outage and uses_cluster(item) and not is_cluster_overridden(item):
            pytest.fail(outage, pytrace=False)
        for name in _ADDED_FIXTURES:
            if uses_cluster(item) and len(find_fixtures(item, name)) > 1:
                # Of a conftest below the first one that the cluster was used from.
                function = cast("pytest.Function", item)
                function.fixturenames = list(dict.fromkeys((f"_{name}", *function.fixturenames)))

    # First: other wrappers of a teardown, which may use the cluster, are inside.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """End the faults of the test, before and after its fixtures are torn down."""
        trouble = self._undo_faults()
        try:
            return (yield)
        finally:
            trouble = self._undo_faults() or trouble
            if trouble is not None:
                raise trouble

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Export the logs of the cluster if a test failed, and keep the cluster if asked to."""
        self._run.finish(failed=session.testsfailed > 0)

    # First: these lines stand above those on the tests of the run.
    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print notes on the cluster, and checks that have not stopped a test."""
        for source in self._run.sources or (self._run.source,):
            for line in source.notes():
                terminalreporter.line(line if line.startswith(" ") else f"kwait: {line}")

    def pytest_unconfigure(self) -> None:
        """Stop the cluster that was started for the run, after the last worker has ended."""
        if self._server is not None:
            self._server.close()
        if self._kubeconfig is not None:
            self._kubeconfig.end()
        try:
            self._run.end()
        except KwaitError as error:
            sys.stderr.write(f"kwait: {error}\n")
        except Exception as error:  # of a plugin's cluster, or of the system
            problem = f"{type(error).__name__}: {error}"
            sys.stderr.write(f"kwait: the cluster could not be stopped: {problem}\n")
        finally:
            if self._server is not None or self._run.has_source:
                from pytest_kwait.temp_dir import remove_abandoned_folders

                # Those of workers that were killed, and of a cluster that had to be.
                remove_abandoned_folders()

    @contextmanager
    def mapped_images(self, cluster: Cluster, given: object) -> Iterator[None]:
        """Map the images of the run until its end.

        Args:
            given: the value of the fixture as the first test sees it.

        Raises:
            InvalidArgument: the fixture's value is invalid.
            ApiError: another process maps a pattern to another program.
        """
        self.map_images(cluster, given)
        try:
            yield
        finally:
            images = vars(cluster).get("images")
            if images is not None:
                self._note_images(cluster, images)
                images.close()

    def _note_images(self, cluster: Cluster, images: Any) -> None:
        """Add lines to the end of the run on mappings that the cluster does not use, or runs."""
        if images.ignored:
            from pytest_kwait.clusters.images import describe_ignored_images

            self._run.source_of(cluster).add_note(
                describe_ignored_images(images.ignored, cluster.server)
            )
        elif not self._shows_isolation_in_header():
            # A cluster that has ended has no restrictions to report.
            with suppress(KwaitError):
                for line in images.list_missing_isolation():
                    self._run.source_of(cluster).add_note(f"programs in pods: {line}")

    def map_images(self, cluster: Cluster, given: object) -> None:
        """Map the images of a fixture's value; a setting replaces its mapping of the same pattern.

        Raises:
            InvalidArgument: the value is invalid.
            ApiError: a pattern is mapped to another program, by another process or conftest.
        """
        settings = self._settings.image
        if not given and not settings:
            return
        from pytest_kwait.clusters.images import read_image_mappings

        own = read_image_mappings(given, "fixture kwait_images")
        mappings = {mapping.pattern: mapping for mapping in (*own, *settings)}
        for pattern, mapping in mappings.items():
            if self._mapped.get((cluster.server, pattern)) != mapping:
                cluster.images.add(mapping)
                self._mapped[cluster.server, pattern] = mapping

    def mappings_of(self, cluster: Cluster) -> list[ImageMapping]:
        """Return the mappings of the run in a cluster that uses them."""
        images = vars(cluster).get("images")
        ignored = images.ignored if images is not None else ()
        return [
            mapping
            for (server, pattern), mapping in self._mapped.items()
            if server == cluster.server and pattern not in ignored
        ]

    @contextmanager
    def allowed_egress(self, cluster: Cluster, given: object) -> Iterator[None]:
        """Allow the egress of the run until its end.

        Args:
            given: the value of the fixture as the first test sees it.

        Raises:
            InvalidArgument: the fixture's value is invalid.
        """
        self.allow_egress(cluster, given)
        try:
            yield
        finally:
            egress = vars(cluster).get("egress")
            if egress is not None and egress.ignored:
                from pytest_kwait.clusters.egress import describe_ignored_egress

                line = describe_ignored_egress(egress.ignored, cluster.server)
                self._run.source_of(cluster).add_note(line)
            if egress is not None:
                egress.close()

    def allow_egress(self, cluster: Cluster, given: object) -> None:
        """Allow the egress of a fixture's value and of the settings.

        Raises:
            InvalidArgument: the value is invalid.
        """
        settings = self._settings.egress
        if given == [] and not settings:
            return
        from pytest_kwait.clusters.egress import read_egress_fixture

        for target in (*read_egress_fixture(given), *settings):
            if (cluster.server, target) not in self._allowed:
                cluster.egress.add(target)
                self._allowed.add((cluster.server, target))

    def bind_to_tests(
        self, cluster: Cluster, place: Callable[[pytest.Function], tuple[str, Any]]
    ) -> None:
        """End the faults of `cluster` with each test, and name its artifacts in failures.

        Args:
            place: returns namespace and client of a running test, for its faults.
        """
        if not hasattr(cluster, "fault_place"):  # a conftest may return any object
            return
        if self._settings.artifacts is not None:
            from pytest_kwait.plugin.failures import relative_path

            cluster.artifacts = relative_path(self._config, str(self._settings.artifacts))
        cluster.fault_place = lambda: _fault_scope(self._config, place)
        self._faulty.append(cluster)

    def _undo_faults(self) -> KwaitError | None:
        """End all faults; errors are reported if a cluster cannot end them by itself."""
        trouble = None
        for cluster in self._faulty:
            if "faults" in vars(cluster):
                try:
                    cluster.faults.undo_all()
                except KwaitError as error:
                    trouble = error
        return trouble

    def _names_cluster(self) -> bool:
        return any(
            self._settings.source(name) != DEFAULT_SOURCE
            for name in ("cluster", "kubeconfig", "context")
        )

    def _has_cluster_option(self) -> bool:
        """Return whether there is an option that may not fit the cluster used by default."""
        sources = map(self._settings.given_source, _NOT_OF_EMBEDDED)
        return any(source is not None and source.startswith("option ") for source in sources)

    def _asks_for_isolation(self) -> bool:
        return self._settings.given_source("isolation") is not None

    def _has_own_cluster(self) -> bool:
        """Return whether no test may use the default cluster: none runs, or a conftest has one."""
        return bool(self._config.getoption("collectonly") or self._find_own_fixture())

    def _find_own_fixture(self) -> str:
        """Return the place of a fixture `kwait_cluster` of a conftest or plugin; empty for none."""
        ours = "pytest_kwait.plugin.fixtures"
        for plugin in self._config.pluginmanager.get_plugins():
            is_other = isinstance(plugin, ModuleType) and plugin.__name__ != ours
            if is_other and "kwait_cluster" in vars(plugin):
                return f"the fixture kwait_cluster in {plugin.__file__}"
        return ""


def cluster_of(config: pytest.Config) -> Cluster:
    """Return the cluster of the run, started if needed."""
    return run_of(config).source.cluster()


def check_rights(config: pytest.Config, cluster: Cluster) -> None:
    """Check that the server does not deny the run the rights to create namespaces.

    Raises:
        ClusterError: the run's identity lacks a needed right, or another run has its id.
    """
    missing = run_of(config).source_of(cluster).missing(cluster)
    if missing:
        raise ClusterError(missing)
    from pytest_kwait.plugin.cleanup import registration_of

    registration = registration_of(config, cluster)
    if registration is not None:
        registration.place()


def _describe_run(settings: Settings) -> str:
    """Return the line of the header that says what runs: the cluster and the namespaces."""
    if settings.is_existing:
        names = {"context": settings.context, "kubeconfig": settings.kubeconfig}
        given = [f"{name} {value}" for name, value in names.items() if value is not None]
        cluster = f"existing cluster ({', '.join(given) or 'current context'})"
    elif settings.cluster in ("auto", "embedded"):
        cluster = "embedded API server" if settings.api_only else "embedded cluster"
    else:
        cluster = f"{settings.cluster} cluster"
    if settings.namespace is not None:
        return f"kwait: {cluster}, namespace {settings.namespace}"
    scope = "the session" if settings.namespace_scope == "session" else settings.namespace_scope
    article = "a namespace for" if scope == "the session" else "a namespace for each"
    return f"kwait: {cluster}, {article} {scope}"


def is_cluster_overridden(item: pytest.Item) -> bool:
    """Return whether a conftest overrides the cluster fixture; its cluster is not yet known."""
    return len(find_fixtures(item, "kwait_cluster")) != 1


def uses_cluster(item: pytest.Item) -> bool:
    """Return whether a test uses a fixture or marker that needs the run's cluster.

    Tests skipped by a marker use nothing. Fixtures of a conftest with the prefix of the plugin's
    count too, since most are built on those.
    """
    if item.get_closest_marker("skip") is not None:
        return False
    fixtures = set(getattr(item, "fixturenames", ()))
    marks = {mark.name for mark in item.iter_markers()}
    ours = {name for name in fixtures if name == "kwait" or name.startswith("kwait_")}
    return bool(
        ours - {*_ADDED_FIXTURES, "kwait_timeouts"}
        or (fixtures | marks) & {*marker_names(item.config, "manifests"), *WAIT_NAMES}
    )


def place_of_test(item: pytest.Function) -> tuple[str, Any]:
    """Return namespace and client of a test on the run's own cluster."""
    given: dict[str, Any] = item.funcargs
    return given.get("kwait_namespace", ""), given.get("kwait_client")


def _fault_scope(
    config: pytest.Config, place: Callable[[pytest.Function], tuple[str, Any]]
) -> FaultScope:
    from pytest_kwait.clusters.faults import FaultScope

    item = running_item(config)
    if not isinstance(item, pytest.Function):
        return FaultScope(alone=False)
    alone = has_marker(item, "serial", "disruptive")
    namespace, client = place(item)
    return FaultScope(namespace, client, alone)
