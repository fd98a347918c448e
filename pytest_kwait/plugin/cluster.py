"""The cluster of the run: checked at the start, shared by all workers; faults end with tests.

The controller owns the cluster and never collects tests: it starts the cluster when a worker first
requests it. Without pytest-xdist the process owns it. While exploring, each worker owns one: the
perturbations of one test do not reach those of another worker.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.errors import ClusterError, KwaitError
from pytest_kwait.framework.wait_names import WAIT_NAMES
from pytest_kwait.plugin.run import (
    Run,
    has_marker,
    marker_names,
    run_key,
    run_of,
    running_item,
)
from pytest_kwait.plugin.settings import run_settings
from pytest_kwait.suite.config.settings import DEFAULT_SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.clusters.faults import FaultScope
    from pytest_kwait.plugin.cluster_source import ClusterServer, ClusterSource
    from pytest_kwait.simulator.image_mapping import ImageMapping
    from pytest_kwait.simulator.network.egress import EgressTarget
    from pytest_kwait.suite.cleanup.owned_objects import RunRegistration
    from pytest_kwait.suite.config.settings import Settings

_server_key: pytest.StashKey[ClusterServer] = pytest.StashKey()
_faults_key = pytest.StashKey[Any]()
_in_header_key = pytest.StashKey[bool]()
_mapped_key: pytest.StashKey[dict[str, ImageMapping]] = pytest.StashKey()
_allowed_key: pytest.StashKey[set[EgressTarget]] = pytest.StashKey()
_NOT_OF_EMBEDDED = (
    "controllers", "assets", "cluster_name", "keep_cluster", "node_image", "cluster_config",
    "cluster_args", "load_image",
)  # fmt: skip
"""Settings that the embedded cluster refuses as options."""
_ADDED_FIXTURES = ("kwait_images", "kwait_egress")
"""Fixtures whose values are added to the cluster by a fixture of their name with `_`."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the run and the source of its cluster; nothing is started."""
    settings = run_settings(config)
    handed: dict[str, Any] | None = getattr(config, "workerinput", {}).get("kwait")

    def make_remote_source() -> ClusterSource:
        from pytest_kwait.plugin.cluster_source import RemoteSource

        assert handed is not None  # noqa: S101 - only a worker asks
        return RemoteSource(handed["port"], handed["secret"], worker)

    def make_owned_source() -> ClusterSource:
        from pytest_kwait.plugin.cluster_source import OwnedSource, plugin_providers

        return OwnedSource(settings, run_of(config).id, lambda: plugin_providers(config))

    if handed is not None:
        worker: str = config.workerinput["workerid"]  # type: ignore[attr-defined] # pytest-xdist's own way to hand things to a worker
        source = make_remote_source if settings.explore is None else make_owned_source
        config.stash[run_key] = Run(handed["run"], worker, source)
    else:
        name = settings.run_id or os.urandom(3).hex()
        config.stash[run_key] = Run(name, "", make_owned_source)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass a worker of pytest-xdist the run and the address of the controller's cluster server."""
    config: pytest.Config = node.config
    run = run_of(config)
    if _server_key not in config.stash:
        from pytest_kwait.plugin.cluster_source import ClusterServer

        def registration(cluster: Cluster) -> RunRegistration | None:
            from pytest_kwait.plugin.cleanup import registration_of

            return registration_of(config, cluster)

        def show_line(worker: str, line: str) -> None:
            from pytest_kwait.plugin.live_status import show_worker_status

            show_worker_status(config, worker, line)

        config.stash[_server_key] = ClusterServer(run.source, registration, show_line)
    server = config.stash[_server_key]
    node.workerinput["kwait"] = {"run": run.id, "port": server.port, "secret": server.secret}


def serve_workers(config: pytest.Config, topic: str, reply: Callable[..., dict[str, Any]]) -> None:
    """Answer requests of workers on a topic; the first worker is configured by now."""
    config.stash[_server_key].serve(topic, reply)


# Lines of the plugin that is called last are shown first.
@pytest.hookimpl(trylast=True)
def pytest_report_header(config: pytest.Config) -> list[str]:
    """List the cluster, what programs in pods reach outside, and what is not isolated of them."""
    config.stash[_in_header_key] = True
    return [
        _describe_run(run_settings(config)),
        *_list_egress(config),
        *_list_missing_isolation(config),
    ]


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Name the cluster, if no setting had made this a plugin of the run before its header."""
    has_header = config.option.verbose >= 0 and not config.option.no_header
    runs_tests = not (config.option.collectonly or config.getoption("showfixtures", False))
    if _in_header_key in config.stash or not has_header or not runs_tests:
        return []
    return [_describe_run(run_settings(config))]


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
    each = "the session" if settings.namespace_scope == "session" else settings.namespace_scope
    article = "a namespace for" if each == "the session" else "a namespace for each"
    return f"kwait: {cluster}, {article} {each}"


def _list_egress(config: pytest.Config) -> list[str]:
    settings = run_settings(config)
    if not settings.egress or not settings.is_embedded:
        return []
    targets = ", ".join(map(str, settings.egress))
    return [f"kwait: programs in pods: outside of the cluster they reach {targets}"]


def _list_missing_isolation(config: pytest.Config) -> list[str]:
    if not _is_isolation_in_header(config):
        return []
    import asyncio

    from pytest_kwait.simulator.container_runtime.runtime import detect_isolation

    try:
        missing = asyncio.run(detect_isolation()).missing
    except OSError:
        return []  # events of pods say why programs cannot be run
    return [f"kwait: programs in pods: {line}" for line in missing]


def _is_isolation_in_header(config: pytest.Config) -> bool:
    """Return whether the header says what is not isolated; else lines at the end do."""
    settings = run_settings(config)
    has_header = config.option.verbose >= 0 and not config.option.no_header
    return bool(settings.image) and settings.is_embedded and has_header


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse invalid cluster settings before any test or worker is started."""
    config = session.config
    if _names_cluster(config) or (_has_cluster_option(config) and not _has_own_cluster(config)):
        try:
            run_of(config).source.check()
        except KwaitError as error:
            raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """End the run if its cluster does not answer, unless no test would use it.

    Under pytest-xdist the controller does not know the tests: each worker checks before its first
    test and reports the result to the controller, which ends the run.
    """
    config = session.config
    if (
        session.testsfailed
        or config.getoption("collectonly")
        or not _names_cluster(config)
        or run_settings(config).cluster == "embedded"
        or not any(uses_cluster(item) for item in getattr(session, "items", ()))
    ):
        return None
    try:
        cluster = cluster_of(config)
        if any(_has_namespace(item) for item in session.items):
            check_rights(config, cluster)
    except KwaitError as error:
        if not _is_worker(config):
            raise pytest.UsageError(str(error)) from None
        session.shouldstop = str(error)
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test at once if its cluster has ended."""
    outage = run_of(item.config).outage
    if outage and uses_cluster(item) and not is_cluster_overridden(item):
        pytest.fail(outage, pytrace=False)
    for name in _ADDED_FIXTURES:
        if uses_cluster(item) and _is_overridden(item, name):
            # Of a conftest below the first one that the cluster was used from.
            function = cast("pytest.Function", item)
            function.fixturenames = list(dict.fromkeys((f"_{name}", *function.fixturenames)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """End the faults of the test, before and after its fixtures are torn down."""
    trouble = _undo_faults(item.config)
    try:
        return (yield)
    finally:
        trouble = _undo_faults(item.config) or trouble
        if trouble is not None:
            raise trouble


def _is_overridden(item: pytest.Item, fixture: str) -> bool:
    """Return whether a conftest or module overrides a fixture for a test."""
    manager = item.session._fixturemanager
    return len(manager.getfixturedefs(fixture, item) or ()) > 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Export the logs of the cluster if a test failed, and keep the cluster if asked to."""
    run_of(session.config).finish(failed=session.testsfailed > 0)


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print notes on the cluster, and checks that have not stopped a test."""
    for line in run_of(config).source.notes():
        terminalreporter.line(line if line.startswith(" ") else f"kwait: {line}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the cluster that was started for the run, after the last worker has ended."""
    if _server_key in config.stash:
        config.stash[_server_key].close()
    if run_key in config.stash:
        try:
            config.stash[run_key].end()
        except KwaitError as error:
            sys.stderr.write(f"kwait: {error}\n")
        except Exception as error:  # of a plugin's cluster, or of the system
            problem = f"{type(error).__name__}: {error}"
            sys.stderr.write(f"kwait: the cluster could not be stopped: {problem}\n")


def cluster_of(config: pytest.Config) -> Cluster:
    """Return the cluster of the run, started if needed."""
    return run_of(config).source.cluster()


def check_rights(config: pytest.Config, cluster: Cluster) -> None:
    """Check that the server does not deny the run the rights to create namespaces.

    Raises:
        ClusterError: the run's identity lacks a needed right, or another run has its id.
    """
    missing = run_of(config).source.missing(cluster)
    if missing:
        raise ClusterError(missing)
    from pytest_kwait.plugin.cleanup import registration_of

    registration = registration_of(config, cluster)
    if registration is not None:
        registration.place()


@contextmanager
def mapped_images(config: pytest.Config, cluster: Cluster, given: object) -> Iterator[None]:
    """Map the images of the run until its end.

    Args:
        given: the value of the fixture as the first test sees it.

    Raises:
        InvalidArgument: the fixture's value is invalid.
        ApiError: another process maps a pattern to another program.
    """
    map_images(config, cluster, given)
    try:
        yield
    finally:
        _note_ignored(config, cluster)
        images = vars(cluster).get("images")
        if images is not None and not images.ignored and not _is_isolation_in_header(config):
            # A cluster that has ended has no restrictions to report.
            with suppress(KwaitError):
                for line in images.list_missing_isolation():
                    run_of(config).source.add_note(f"programs in pods: {line}")
        if images is not None:
            images.close()


def map_images(config: pytest.Config, cluster: Cluster, given: object) -> None:
    """Map the images of a fixture's value; a setting replaces its mapping of the same pattern.

    Raises:
        InvalidArgument: the value is invalid.
        ApiError: a pattern is mapped to another program, by another process or conftest.
    """
    settings = run_settings(config).image
    if not given and not settings:
        return
    from pytest_kwait.clusters.images import read_fixture

    mapped = config.stash.setdefault(_mapped_key, {})
    mappings = {mapping.pattern: mapping for mapping in (*read_fixture(given), *settings)}
    for pattern, mapping in mappings.items():
        if mapped.get(pattern) != mapping:
            cluster.images.add(mapping)
            mapped[pattern] = mapping


@contextmanager
def allowed_egress(config: pytest.Config, cluster: Cluster, given: object) -> Iterator[None]:
    """Allow the egress of the run until its end.

    Args:
        given: the value of the fixture as the first test sees it.

    Raises:
        InvalidArgument: the fixture's value is invalid.
    """
    allow_egress(config, cluster, given)
    try:
        yield
    finally:
        egress = vars(cluster).get("egress")
        if egress is not None and egress.ignored:
            from pytest_kwait.clusters.egress import describe_ignored_egress

            line = describe_ignored_egress(egress.ignored, cluster.server)
            run_of(config).source.add_note(line)
        if egress is not None:
            egress.close()


def allow_egress(config: pytest.Config, cluster: Cluster, given: object) -> None:
    """Allow the egress of a fixture's value and of the settings.

    Raises:
        InvalidArgument: the value is invalid.
    """
    settings = run_settings(config).egress
    if given == [] and not settings:
        return
    from pytest_kwait.clusters.egress import read_egress_fixture

    allowed = config.stash.setdefault(_allowed_key, set())
    for target in (*read_egress_fixture(given), *settings):
        if target not in allowed:
            cluster.egress.add(target)
            allowed.add(target)


def _note_ignored(config: pytest.Config, cluster: Cluster) -> None:
    """Add a line to the end of the run if the cluster does not use mappings."""
    images = vars(cluster).get("images")
    if images is not None and images.ignored:
        from pytest_kwait.clusters.images import describe_ignored_images

        line = describe_ignored_images(images.ignored, cluster.server)
        run_of(config).source.add_note(line)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _names_cluster(config: pytest.Config) -> bool:
    settings = run_settings(config)
    return any(
        settings.source(name) != DEFAULT_SOURCE for name in ("cluster", "kubeconfig", "context")
    )


def _has_cluster_option(config: pytest.Config) -> bool:
    """Return whether there is an option that may not fit the cluster which is used by default."""
    sources = map(run_settings(config).given_source, _NOT_OF_EMBEDDED)
    return any(source is not None and source.startswith("option ") for source in sources)


def _has_own_cluster(config: pytest.Config) -> bool:
    """Return whether no test may use the default cluster: none runs, or a conftest has another."""
    return config.getoption("collectonly") or any(
        "kwait_cluster" in vars(each)
        for each in config.pluginmanager.get_plugins()
        if isinstance(each, ModuleType) and each.__name__ != "pytest_kwait.plugin.fixtures"
    )


def is_cluster_overridden(item: pytest.Item) -> bool:
    """Return whether a conftest overrides the cluster fixture; its cluster is not yet known."""
    fixtures: Any = item.session._fixturemanager
    return len(fixtures.getfixturedefs("kwait_cluster", item) or ()) != 1


def _has_namespace(item: pytest.Item) -> bool:
    """Return whether a test certainly uses a namespace of the run; others check on use."""
    definitions = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    found = definitions.get("kwait_namespace")
    # A fixture of that name in a conftest may not use the plugin's.
    return found is not None and len(found) == 1


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


def bind_to_tests(config: pytest.Config, cluster: Cluster, artifacts: str) -> None:
    """End the faults of `cluster` with each test, and name its artifacts in failures.

    Args:
        artifacts: the folder for artifacts as messages show it; empty for none.
    """
    if hasattr(cluster, "fault_place"):  # a conftest may return any object
        cluster.artifacts = artifacts
        cluster.fault_place = lambda: _fault_scope(config)
        config.stash[_faults_key] = cluster


def _undo_faults(config: pytest.Config) -> KwaitError | None:
    """End all faults; errors are reported if the cluster cannot end them by itself."""
    cluster = config.stash.get(_faults_key, None)
    if cluster is None or "faults" not in vars(cluster):
        return None
    try:
        cluster.faults.undo_all()
    except KwaitError as error:
        return error
    return None


def _fault_scope(config: pytest.Config) -> FaultScope:
    from pytest_kwait.clusters.faults import FaultScope

    item = running_item(config)
    if not isinstance(item, pytest.Function):
        return FaultScope(alone=False)
    alone = has_marker(item, "serial", "disruptive")
    given: dict[str, Any] = item.funcargs
    return FaultScope(given.get("kwait_namespace", ""), given.get("kwait_client"), alone)
