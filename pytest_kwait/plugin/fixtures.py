"""The fixtures; each can be overridden in a conftest, and the others then use what it gives."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_kwait.plugin.deadlines import allowance_of
from pytest_kwait.plugin.distributed import cluster_of, run_of
from pytest_kwait.plugin.markers import manifest_folders, settings_of
from pytest_kwait.plugin.outcomes import Placement, is_kept, placements, report_kept
from pytest_kwait.plugin.running import running_item
from pytest_kwait.plugin.settings import run_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.provider import Cluster
    from pytest_kwait.engine.timeouts import Timeouts
    from pytest_kwait.resources.catalogue import Wait
    from pytest_kwait.suite.bench import Bench
    from pytest_kwait.suite.bound_wait import BoundWait, Terms
    from pytest_kwait.suite.namespaces import Namespaces, Owner

__all__ = ["bench_owner", "bind"]

_attempts_key = pytest.StashKey[dict[str, int]]()

_EMBEDDED_ENDS = (
    "the embedded cluster ends with the run, though: start one with `kwait up` and give its "
    "kubeconfig with --kwait-kubeconfig"
)


def _scope(
    fixture_name: str, config: pytest.Config
) -> Literal["session", "module", "class", "function"]:
    scope = run_settings(config).namespace_scope
    if scope == "session":
        return "session"
    if scope == "module":
        return "module"
    return "class" if scope == "class" else "function"


@pytest.fixture(scope="session")
def kwait_cluster(request: pytest.FixtureRequest) -> Cluster:
    """Give the cluster of the run, the same for all workers: .kubeconfig, .provider, .nodes."""
    return cluster_of(request.config)


@pytest.fixture(scope="session")
def kwait_client(kwait_cluster: Cluster) -> Iterator[ApiClient]:
    """Give a kubernetes.client.ApiClient for the cluster of the run."""
    client = kwait_cluster.client()
    yield client
    client.close()  # type: ignore[no-untyped-call] # the official client has no types here


@pytest.fixture
def kwait_timeouts(request: pytest.FixtureRequest) -> Timeouts:
    """Give the timeout table of this test: seconds by name, as items and as attributes."""
    return settings_of(request.node).timeouts()


@pytest.fixture(scope="session")
def _kwait_namespaces(request: pytest.FixtureRequest, kwait_client: ApiClient) -> Namespaces:
    """Keep the namespaces that this process made (internal)."""
    from pytest_kwait.suite.namespaces import Namespaces

    return Namespaces(kwait_client, run_settings(request.config).timeouts())


@pytest.fixture(scope=_scope)
def kwait_namespace(
    request: pytest.FixtureRequest, kwait_cluster: Cluster, _kwait_namespaces: Namespaces
) -> Iterator[str]:
    """Give the name of a namespace of this test's own, or of its scope's by option."""
    owner = _owner(request.config, request.node.nodeid or "session", request.node.name)
    with _namespace(request.config, request.node, owner, _kwait_namespaces, kwait_cluster) as name:
        yield name


@pytest.fixture(scope=_scope)
def kwait(
    request: pytest.FixtureRequest,
    kwait_cluster: Cluster,
    kwait_client: ApiClient,
    kwait_namespace: str,
    _kwait_namespaces: Namespaces,
) -> Iterator[Bench]:
    """Give the bench of this test: apply, create, get, list, delete, logs, events, wait_for."""
    timeouts = None
    if request.scope == "function":
        timeouts = request.getfixturevalue("kwait_timeouts")
    owner = _owner(request.config, request.node.nodeid or "session", request.node.name, again=True)
    with _bench(
        request.config,
        request.node,
        owner,
        kwait_namespace,
        kwait_cluster,
        kwait_client,
        _kwait_namespaces,
        timeouts,
    ) as bench:
        for _, mark in reversed(list(request.node.iter_markers_with_node("manifests"))):
            bench.apply(*mark.args)
        yield bench


@pytest.fixture(scope="session")
def kwait_factory(
    request: pytest.FixtureRequest,
    kwait_cluster: Cluster,
    kwait_client: ApiClient,
    _kwait_namespaces: Namespaces,
) -> Callable[[str], AbstractContextManager[Bench]]:
    """Make further benches, of any scope, each for a `with` block that names it."""

    @contextmanager
    def factory(name: str) -> Iterator[Bench]:
        owner = _owner(request.config, f"factory {name}", name)
        with (
            _namespace(
                request.config, request.session, owner, _kwait_namespaces, kwait_cluster
            ) as namespace,
            _bench(
                request.config,
                request.session,
                owner,
                namespace,
                kwait_cluster,
                kwait_client,
                _kwait_namespaces,
            ) as bench,
        ):
            yield bench

    return factory


def bind(wait: Wait, request: pytest.FixtureRequest) -> BoundWait:
    """Give a wait with the test's client, namespace and settings filled in."""
    from pytest_kwait.suite.bound_wait import BoundCacheSync, BoundWait

    namespace = request.getfixturevalue("kwait_namespace") if wait.namespaced else None
    terms = _terms(
        request.config,
        request.node,
        request.getfixturevalue("kwait_client"),
        namespace,
        request.getfixturevalue("kwait_timeouts"),
    )
    if wait.bound:
        return BoundWait(wait, terms)
    return BoundCacheSync(wait, terms, lambda: request.getfixturevalue("kwait").informers)


def bench_owner(item: pytest.Item) -> Any:
    """Give the node whose bench a test works at: the test itself, or what shares it by option."""
    scope = run_settings(item.config).namespace_scope
    shared = {"class": pytest.Class, "module": pytest.Module, "session": pytest.Session}
    # A function outside of a class has a class-scoped bench of its own.
    return (item.getparent(shared[scope]) if scope in shared else None) or item


def _terms(
    config: pytest.Config,
    node: Any,
    client: ApiClient,
    namespace: str | None,
    timeouts: Mapping[str, float] | None,
) -> Terms:
    from pytest_kwait.suite.bound_wait import Terms

    item = running_item(config)
    settings = settings_of(item if item is not None else node)
    return Terms(
        client,
        namespace,
        settings,
        timeouts if timeouts is not None else settings.timeouts(),
        lambda: allowance_of(item),
    )


def _owner(config: pytest.Config, test: str, title: str, *, again: bool = False) -> Owner:
    """Whom a namespace is for; `again` for what belongs to the one that was asked for last."""
    from pytest_kwait.suite.namespaces import Owner

    run = run_of(config)
    attempts = config.stash.setdefault(_attempts_key, {})
    if not again:
        attempts[test] = attempts.get(test, 0) + 1
    return Owner(
        run.id,
        test,
        title,
        worker=run.worker,
        attempt=attempts.get(test, 1),
        nonce=run.nonce,
    )


@contextmanager
def _namespace(
    config: pytest.Config, node: Any, owner: Owner, namespaces: Namespaces, cluster: Cluster
) -> Iterator[str]:
    """Give a namespace that goes away at the end unless it is to be kept, or is somebody else's."""
    given = run_settings(config).setting("namespace")
    if given.value is not None:
        yield namespaces.existing(given.value, given.source)
        return
    settings = run_settings(config)
    name = namespaces.make(owner, {"poll": settings.poll, "mode": settings.mode})
    advice = _EMBEDDED_ENDS if cluster.provider == "embedded" else f"look: {namespaces.hint(name)}"
    placement = Placement(node, name, advice)
    placements(config).append(placement)
    failed = False
    try:
        yield name
    except BaseException:
        failed = True
        raise
    finally:
        placements(config).remove(placement)
        own = settings_of(node)
        if is_kept(config, node, own) or (failed and own.keep == "failed"):
            namespaces.keep(name)
            report_kept(config, str(placement))
        elif (problem := namespaces.delete(name)) is not None:
            pytest.fail(problem, pytrace=False)


@contextmanager
def _bench(
    config: pytest.Config,
    node: Any,
    owner: Owner,
    namespace: str,
    cluster: Cluster,
    client: ApiClient,
    namespaces: Namespaces,
    timeouts: Mapping[str, float] | None = None,
) -> Iterator[Bench]:
    """Give a bench whose belongings go away at the end unless its namespace is to be kept."""
    from pytest_kwait.suite.bench import Bench

    def folders() -> list[Any]:
        return manifest_folders(running_item(config) or node)

    bench = Bench(
        cluster,
        client,
        namespace,
        owner=owner,
        terms=lambda: _terms(config, node, client, namespace, timeouts),
        folders=folders,
        owned=namespaces.owns(namespace),
    )
    try:
        yield bench
    finally:
        problems = bench.close(keep=is_kept(config, node, settings_of(node)))
        if problems:
            pytest.fail(
                "left in the cluster, as it could not be deleted:\n" + "\n".join(problems),
                pytrace=False,
            )
