"""The fixtures, among them one for each wait.

Each can be overridden in a conftest; the others then use its value. Registered in every run, so
the code behind them is in other modules, imported when a test requests the fixture.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

from pytest_kwait.plugin.run import is_active, run_of, run_settings
from pytest_kwait.plugin.timeout import running_item, time_budget_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import TimeBudget
    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.engine.options import Timeouts
    from pytest_kwait.plugin.informers import InformersFactory
    from pytest_kwait.plugin.schedulers import SchedulerFactory
    from pytest_kwait.suite.bound_wait import BoundWait
    from pytest_kwait.suite.cleanup.owned_objects import Owner
    from pytest_kwait.suite.election.candidates import Candidates
    from pytest_kwait.suite.fixture_types import KwaitFactory, LeaderElectionFactory, RollingUpdate
    from pytest_kwait.suite.kwait import Kwait
    from pytest_kwait.suite.namespaces.namespaces import Namespaces

# Of each method below, which pytest need not inspect: all are equal.
_SIGNATURE = Signature(
    [
        Parameter("self", Parameter.POSITIONAL_OR_KEYWORD),
        Parameter("request", Parameter.POSITIONAL_OR_KEYWORD),
    ]
)


class WaitFixtures:
    """The fixtures of the waits: each gives a wait bound to the test's cluster and settings.

    Made by `make_wait_fixtures`, since there is one for each registered wait.
    """


def make_wait_fixtures(names: Iterable[str], *, lists_family: bool | None = None) -> WaitFixtures:
    """Return a plugin with the fixtures of some waits.

    Args:
        names: the waits.
        lists_family: None for fixtures without docstrings, which only `--fixtures` needs;
            otherwise whether that of `wait_for` says where the others are listed.
    """
    functions = {name: _make_wait_function(name) for name in names}
    if lists_family is not None:
        from pytest_kwait.framework.registry import WAITS

        for name, function in functions.items():
            wait = WAITS[name]
            function.__doc__ = f"Wait for {wait.summary}: {name}({wait.usage})."
            if lists_family and name == "wait_for":
                function.__doc__ += (
                    f"\nOne of {len(WAITS)} fixtures wait_for...: pytest --fixtures -v lists them."
                )
    fixture = pytest.fixture()
    kind = type(
        WaitFixtures.__name__, (WaitFixtures,), {n: fixture(f) for n, f in functions.items()}
    )
    return cast("WaitFixtures", kind())


def _make_wait_function(name: str) -> Callable[..., BoundWait]:
    def bind(_plugin: WaitFixtures, request: pytest.FixtureRequest) -> BoundWait:
        from pytest_kwait.framework.registry import WAITS
        from pytest_kwait.plugin.namespaces import bind_wait

        return bind_wait(WAITS[name], request)

    vars(bind)["__signature__"] = _SIGNATURE
    return bind


def _scope(
    fixture_name: str, config: pytest.Config
) -> Literal["session", "module", "class", "function"]:
    if not is_active(config):
        # No setting is given.
        return "function"
    scope = run_settings(config).namespace_scope
    if scope == "session":
        return "session"
    if scope == "module":
        return "module"
    return "class" if scope == "class" else "function"


@pytest.fixture(scope="session")
def kwait_images() -> Mapping[str, object]:
    """Give the programs that images are mapped to: override it; commands by pattern of an image."""
    return {}


@pytest.fixture(scope="session")
def kwait_egress() -> Iterable[str]:
    """Give what programs in pods may reach outside of the cluster: override it; HOST:PORT each."""
    return []


@pytest.fixture(scope="session")
def kwait_cluster(
    request: pytest.FixtureRequest,
    kwait_images: Mapping[str, object],
    kwait_egress: Iterable[str],
) -> Iterator[Cluster]:
    """Give the cluster of the run: .kubeconfig, .provider, .nodes, .faults, .images, .egress."""
    config = request.config
    from pytest_kwait.plugin.cluster import RunCluster, cluster_of, place_of_test
    from pytest_kwait.plugin.readiness import ReadinessGate
    from pytest_kwait.plugin.recording import RecordingWriter

    run = run_of(config)
    cluster = cluster_of(config)
    if (readiness := run.find(ReadinessGate)) is not None:
        # No collected test requested the cluster beforehand.
        item = running_item(config)
        readiness.check(item.nodeid if item is not None else "")
    run_cluster = run.get(RunCluster)
    run_cluster.bind_to_tests(cluster, place_of_test)
    if (recorder := run.find(RecordingWriter)) is not None:
        recorder.record_cluster(cluster)
    with (
        run_cluster.mapped_images(cluster, kwait_images),
        run_cluster.allowed_egress(cluster, kwait_egress),
    ):
        yield cluster


@pytest.fixture
def _kwait_images(
    request: pytest.FixtureRequest, kwait_cluster: Cluster, kwait_images: Mapping[str, object]
) -> None:
    """Map the images that a conftest or module overrides for its tests."""
    from pytest_kwait.plugin.cluster import RunCluster

    run_of(request.config).get(RunCluster).map_images(kwait_cluster, kwait_images)


@pytest.fixture
def _kwait_egress(
    request: pytest.FixtureRequest, kwait_cluster: Cluster, kwait_egress: Iterable[str]
) -> None:
    """Allow the egress that a conftest or module overrides for its tests."""
    from pytest_kwait.plugin.cluster import RunCluster

    run_of(request.config).get(RunCluster).allow_egress(kwait_cluster, kwait_egress)


@pytest.fixture(scope="session")
def kwait_client(request: pytest.FixtureRequest, kwait_cluster: Cluster) -> Iterator[ApiClient]:
    """Give a kubernetes.client.ApiClient for the cluster of the run."""
    from pytest_kwait.plugin.namespaces import make_client

    with make_client(request.config, request.session, kwait_cluster) as client:
        yield client


@pytest.fixture
def kwait_timeouts(request: pytest.FixtureRequest) -> Timeouts:
    """Give the timeout table of this test: seconds by name, as items and as attributes."""
    from pytest_kwait.plugin.internals import find_fixtures
    from pytest_kwait.plugin.markers import settings_of

    settings = settings_of(request.node)
    if len(find_fixtures(request.node, "kwait_timeouts")) > 1:
        # What a fixture of the suite makes of it is scaled afterwards.
        return settings.unscaled_timeouts()
    return settings.timeouts()


@pytest.fixture(scope="session")
def _kwait_namespaces(
    request: pytest.FixtureRequest, kwait_cluster: Cluster, kwait_client: ApiClient
) -> Iterator[Namespaces]:
    """Keep the namespaces that this process made (internal)."""
    from pytest_kwait.plugin.namespaces import make_namespaces

    with make_namespaces(request.config, kwait_cluster, kwait_client) as namespaces:
        yield namespaces


@pytest.fixture(scope=_scope)
def kwait_namespace(
    request: pytest.FixtureRequest, kwait_cluster: Cluster, _kwait_namespaces: Namespaces
) -> Iterator[str]:
    """Give the name of a namespace of this test's own, or of its scope's by option."""
    from pytest_kwait.plugin.markers import namespace_scope_of
    from pytest_kwait.plugin.namespaces import make_namespace, make_owner

    scope = namespace_scope_of(request)
    if scope:
        yield request.getfixturevalue(f"_kwait_of_{scope}").namespace
        return
    nodeid = request.node.nodeid or "session"
    owner = make_owner(request.config, kwait_cluster, nodeid, request.node.name)
    with make_namespace(
        request.config, request.node, owner, _kwait_namespaces, kwait_cluster
    ) as name:
        yield name


@pytest.fixture(scope=_scope)
def kwait(_kwait: Kwait) -> Kwait:
    """Return the `Kwait` of this test: apply, create, get, list, delete, logs, events, wait_for."""
    return _kwait


def _make_shared_fixture(scope: Literal["class", "module", "session"]) -> Any:
    """Return the fixture of a `Kwait` for tests whose marker names its scope."""

    def shared(
        request: pytest.FixtureRequest,
        kwait_cluster: Cluster,
        kwait_client: ApiClient,
        _kwait_namespaces: Namespaces,
    ) -> Iterator[Kwait]:
        from pytest_kwait.plugin.markers import manifest_markers
        from pytest_kwait.plugin.namespaces import make_kwait, make_namespace, make_owner

        config, node = request.config, request.node
        owner = make_owner(config, kwait_cluster, node.nodeid or "session", node.name)
        with (
            make_namespace(config, node, owner, _kwait_namespaces, kwait_cluster) as name,
            make_kwait(
                config, node, owner, name, kwait_cluster, kwait_client, _kwait_namespaces
            ) as kwait_object,
        ):
            for _, mark in reversed(manifest_markers(node)):
                kwait_object.apply(*mark.args, **mark.kwargs)
            yield kwait_object

    shared.__doc__ = f"Make the `Kwait` that the tests of a {scope} share (internal)."
    return pytest.fixture(scope=scope)(shared)


_kwait_of_class = _make_shared_fixture("class")
_kwait_of_module = _make_shared_fixture("module")
_kwait_of_session = _make_shared_fixture("session")


@pytest.fixture(scope=_scope)
def _kwait(
    request: pytest.FixtureRequest,
    kwait_cluster: Cluster,
    kwait_client: ApiClient,
    kwait_namespace: str,
    _kwait_namespaces: Namespaces,
) -> Iterator[Kwait]:
    """Make the `Kwait` of this test, which markers use whatever `kwait` is (internal)."""
    from pytest_kwait.plugin.markers import manifest_markers, namespace_scope_of
    from pytest_kwait.plugin.namespaces import make_kwait, make_owner

    scope = namespace_scope_of(request)
    if scope:
        yield request.getfixturevalue(f"_kwait_of_{scope}")
        return
    nodeid = request.node.nodeid or "session"
    owner = make_owner(request.config, kwait_cluster, nodeid, request.node.name, again=True)
    with make_kwait(
        request.config,
        request.node,
        owner,
        kwait_namespace,
        kwait_cluster,
        kwait_client,
        _kwait_namespaces,
    ) as kwait_object:
        for _, mark in reversed(manifest_markers(request.node)):
            kwait_object.apply(*mark.args, **mark.kwargs)
        yield kwait_object


@pytest.fixture
def _kwait_skip(
    request: pytest.FixtureRequest, kwait_cluster: Cluster, kwait_client: ApiClient
) -> None:
    """Skip the test if its markers say so for this cluster (internal)."""
    from pytest_kwait.suite.skippers import skip_reason

    marks = ((mark.name, mark.args, mark.kwargs) for mark in request.node.iter_markers())
    reason = skip_reason(marks, kwait_cluster, kwait_client)
    if reason:
        pytest.skip(reason)


@pytest.fixture
def _kwait_request(request: pytest.FixtureRequest) -> pytest.FixtureRequest:
    """Keep the request of a test, for what its markers request later (internal)."""
    return request


@pytest.fixture
def _kwait_waits(request: pytest.FixtureRequest) -> Callable[[str], BoundWait]:
    """Bind waits of markers, whatever the fixture of their name is (internal)."""
    from pytest_kwait.framework.registry import WAITS
    from pytest_kwait.plugin.namespaces import bind_wait

    return lambda name: bind_wait(WAITS[name], request)


@pytest.fixture(scope="session")
def kwait_factory(
    request: pytest.FixtureRequest,
    kwait_cluster: Cluster,
    kwait_client: ApiClient,
    kwait_images: Mapping[str, object],
    kwait_egress: Iterable[str],
    _kwait_namespaces: Namespaces,
) -> Iterator[KwaitFactory]:
    """Create further `Kwait` objects of any scope and cluster, each for a named `with` block."""
    from pytest_kwait.apimachinery.arguments import check_text
    from pytest_kwait.plugin.further_clusters import ClusterInUse, FurtherClusters
    from pytest_kwait.plugin.namespaces import make_owner

    own = ClusterInUse(kwait_cluster, kwait_client, _kwait_namespaces)
    with ExitStack() as closing:
        clusters = FurtherClusters(request.session, own, kwait_images, kwait_egress, closing)

        @contextmanager
        def factory(name: str, cluster: str | Cluster | None = None) -> Iterator[Kwait]:
            check_text("name", name)

            def owner_of(place: Cluster) -> Owner:
                return make_owner(request.config, place, f"factory {name}", name)

            with clusters.make_kwait(cluster, owner_of) as kwait_object:
                yield kwait_object

        yield factory


@pytest.fixture
def kwait_informers(request: pytest.FixtureRequest) -> Iterator[InformersFactory]:
    """Start informers for this test by the names of resources; they are synced and keep events."""
    from pytest_kwait.plugin.informers import InformersFactory

    with InformersFactory(request) as maker:
        yield maker


@pytest.fixture
def kwait_leader_election(
    request: pytest.FixtureRequest,
    kwait_cluster: Cluster,
    kwait_client: ApiClient,
    kwait_namespace: str,
) -> Iterator[LeaderElectionFactory]:
    """Hold elections among processes that can be paused, killed and cut off from the server."""
    from pytest_kwait.suite.election.candidates import Candidates

    def time_budget() -> TimeBudget | None:
        return time_budget_of(request.node)

    with ExitStack() as held:

        def election(
            number: int = 3, *, namespace: str | None = None, **options: Any
        ) -> Candidates:
            place = kwait_namespace if namespace is None else namespace
            candidates = Candidates(
                kwait_cluster, kwait_client, place, number, **options, time_budget=time_budget
            )
            held.callback(candidates.stop)
            return candidates

        yield election


@pytest.fixture
def kwait_rolling_update(kwait: Kwait) -> RollingUpdate:
    """Delete the pods of a controller one by one until all are others, as kwait.rolling_update."""
    return kwait.rolling_update


@pytest.fixture
def kwait_scheduler(request: pytest.FixtureRequest) -> Iterator[SchedulerFactory]:
    """Run a scheduler for this test under a name of its own, with an algorithm of your choice."""
    from pytest_kwait.plugin.schedulers import SchedulerFactory

    with SchedulerFactory(request) as maker:
        yield maker
