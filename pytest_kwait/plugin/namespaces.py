"""Namespaces, `Kwait` objects and bound waits: created for a test, removed after it."""

from __future__ import annotations

import itertools
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.plugin.cleanup import Cleanup, NamespaceInUse, registration_of
from pytest_kwait.plugin.cluster import check_rights
from pytest_kwait.plugin.hook_calls import HookCalls, NamespaceHooks
from pytest_kwait.plugin.markers import manifest_folders, settings_in_force, settings_of
from pytest_kwait.plugin.run import run_of, run_settings
from pytest_kwait.plugin.timeout import running_item, running_test_of, time_budget_of
from pytest_kwait.plugin.usage import is_built_on_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.framework.registry import Wait
    from pytest_kwait.suite.bound_wait import BoundWait, WaitDefaults
    from pytest_kwait.suite.cleanup.owned_objects import Owner
    from pytest_kwait.suite.kwait import Kwait, NamespaceRequest
    from pytest_kwait.suite.namespaces.namespaces import Namespaces

_ENDS = "the {} ends with the run, though: {}"
_WAYS = {
    "embedded": "start one with `kwait up` and give its kubeconfig with --kwait-kubeconfig",
    "binaries": "--kwait-artifacts=DIR keeps objects, events and logs of failed tests",
}
_KEPT_CLUSTER = "--kwait-keep-cluster=failed keeps it"


def bind_wait(wait: Wait, request: pytest.FixtureRequest) -> BoundWait:
    """Return a wait with the test's client, namespace and settings filled in."""
    from pytest_kwait.suite.bound_wait import BoundCacheSync, BoundWait

    namespace = request.getfixturevalue("kwait_namespace") if wait.namespaced else None
    defaults = _wait_defaults(
        request.config,
        request.node,
        request.getfixturevalue("kwait_client"),
        namespace,
    )
    if wait.bound:
        return BoundWait(wait, defaults)
    return BoundCacheSync(wait, defaults, lambda: _kwait_of(request).informers)


def _kwait_of(request: pytest.FixtureRequest) -> Kwait:
    """Return the test's `Kwait`, also where a fixture of that name of the project returns other."""
    from pytest_kwait.suite.kwait import Kwait

    kwait = None
    if is_built_on_library(request.node, "kwait"):
        kwait = request.getfixturevalue("kwait")
    return kwait if isinstance(kwait, Kwait) else request.getfixturevalue("_kwait")


def _wait_defaults(
    config: pytest.Config,
    node: Any,
    client: ApiClient,
    namespace: str | None,
    cluster_title: str = "",
) -> WaitDefaults:
    from pytest_kwait.suite.bound_wait import WaitDefaults

    item = running_item(config)
    settings = settings_in_force(config, node)
    return WaitDefaults(
        client,
        namespace,
        settings,
        settings.timeouts(),
        lambda: time_budget_of(item),
        cluster=cluster_title,
    )


def make_owner(
    config: pytest.Config, cluster: Cluster, test: str, title: str, *, again: bool = False
) -> Owner:
    """Return the owner of a node's namespace; with `again` the one that was returned last."""
    from pytest_kwait.suite.cleanup.owned_objects import Owner

    run = run_of(config)
    attempt = run.get(Cleanup).count_attempt(test, again=again)
    return Owner(
        run.id,
        test,
        title,
        worker=run.worker,
        shard=run.shard,
        attempt=attempt,
        nonce=run.nonce,
        registration=registration_of(config, cluster),
    )


@contextmanager
def make_client(
    config: pytest.Config, session: pytest.Session, cluster: Cluster
) -> Iterator[ApiClient]:
    """Yield a client of a cluster whose waits have the settings and limits of the running test."""
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import TEST_CLOCK

    client = cluster.client()
    own = ApiSession.of(client)
    own.clock = TEST_CLOCK
    # Functions that are called in a test, or in the set-up of a fixture of any scope.
    own.time_budget = lambda: time_budget_of(running_item(config))
    own.default_options = lambda *names: settings_in_force(config, session).wait_options(*names)
    yield client
    client.close()  # type: ignore[no-untyped-call] # the official client has no types here


@contextmanager
def make_namespaces(
    config: pytest.Config, cluster: Cluster, client: ApiClient
) -> Iterator[Namespaces]:
    """Return the namespace manager of this process; its deletions are awaited at the end."""
    from pytest_kwait.suite.namespaces.namespaces import Namespaces

    run_of(config).mask_secrets()
    settings = run_settings(config)
    session = config.pluginmanager.getplugin("session")
    has_controllers = getattr(cluster, "has_controllers", True)
    namespaces = Namespaces(
        client,
        lambda: settings_in_force(config, session).timeouts(),
        settings.pod_security,
        lambda: time_budget_of(running_item(config)),
        has_controllers=has_controllers,
    )
    yield namespaces
    if not has_controllers:
        # No controller removes what is in them, nor their finalizer.
        return
    cleanup = run_of(config).get(Cleanup)
    place = id(cluster) if id(cluster) in cleanup.registrations else 0
    cleanup.record_terminating(place, namespaces.going)


@contextmanager
def make_namespace(
    config: pytest.Config,
    node: Any,
    owner: Owner,
    namespaces: Namespaces,
    cluster: Cluster,
    request: NamespaceRequest | None = None,
    *,
    adopted: tuple[str, str] | None = None,
    is_left: Callable[[], bool] = lambda: False,
    stays: Callable[[], bool] = lambda: False,
) -> Iterator[str]:
    """Yield a namespace, deleted at the end unless kept or not created here.

    Args:
        node: the test, class, module or session that owns it.
        owner: the same, as it is recorded in the cluster.
        namespaces: the namespace manager of this process.
        request: the arguments of `create_namespace`, for a further namespace.
        adopted: name and UID of a namespace that another process of the run created; None to
            create one.
        is_left: returns whether other processes of the run may still use it at the end.
        stays: returns whether it is of an environment that stays after the run.
    """
    check_rights(config, cluster)
    given = run_settings(config).setting("namespace")
    if given.value is not None:
        name = namespaces.existing(given.value, given.source)
        with recorded_use(config, name, cluster, is_made=False):
            yield name
        return
    settings = run_settings(config)
    if adopted is not None:
        name = namespaces.adopt(*adopted)
    else:
        name = ""
        _record(config, owner.name, cluster, is_new=True)
        try:
            name = namespaces.make(
                owner,
                {"poll": settings.poll, "mode": settings.mode, "stable_for": 0},
                labels=request.labels if request is not None else None,
                pod_security=request.pod_security if request is not None else None,
            )
        finally:
            if name != owner.name:
                # Refused, or its name was taken.
                _stop_recording(config, owner.name, cluster)
    advice = (
        _ENDS.format(cluster.title, _WAYS.get(cluster.provider, _KEPT_CLUSTER))
        if cluster.ends_with_run
        else f"look: {namespaces.hint(name)}"
    )
    placement = NamespaceInUse(node, name, advice, namespaces.client, cluster)
    cleanup = run_of(config).get(Cleanup)
    cleanup.namespaces.append(placement)
    hooks = NamespaceHooks(
        run_of(config).get(HookCalls),
        node,
        name,
        lambda: make_kwait(
            config,
            node,
            owner,
            name,
            cluster,
            namespaces.client,
            namespaces,
            is_left=is_left,
            stays=stays,
        ),
    )

    def end(_kind: object, failure: BaseException | None, _traceback: object) -> None:
        cleanup.namespaces.remove(placement)
        own = settings_of(node)
        keeps_failed = own.keep == "failed"
        if stays():
            try:
                if (trouble := hooks.end(failure, deletes=False)) is not None:
                    raise trouble
            finally:
                namespaces.release(name)
            return
        kept = cleanup.is_kept(node, own) or (failure is not None and keeps_failed)
        left = not kept and (is_left() or _is_left_to_run(config, node, owner, cluster))
        trouble = None
        try:
            trouble = hooks.end(failure, deletes=not (kept or left))
            if trouble is not None:
                raise trouble
        finally:
            if kept or (trouble is not None and keeps_failed):
                namespaces.keep(name)
                removal = "" if cluster.ends_with_run else namespaces.removal_command(owner.run)
                cleanup.report_kept(str(placement), removal)
            elif left:
                cleanup.record_shared()
                namespaces.release(name)
            elif (problem := namespaces.delete(name)) is not None:
                pytest.fail(problem, pytrace=False)

    with ExitStack() as stack:
        stack.push(end)
        with recorded_use(config, name, cluster):
            if adopted is None:
                hooks.call_created()
            yield name


@contextmanager
def recorded_use(
    config: pytest.Config, namespace: str, cluster: Cluster, *, is_made: bool = True
) -> Iterator[None]:
    """Record for artifacts that tests of this process use a namespace during the block.

    Args:
        is_made: whether it was made for them, so that they are the only ones.
    """
    from pytest_kwait.plugin.artifacts import ArtifactCollector

    artifacts = run_of(config).find(ArtifactCollector)
    if artifacts is None:
        yield
        return
    artifacts.record_namespace_entered(namespace, cluster)
    _record(config, namespace, cluster, is_new=False)
    try:
        yield
    except BaseException as error:
        if is_made:
            artifacts.record_failed_use(namespace, error)
        raise
    finally:
        artifacts.record_namespace_left(namespace)
        if is_made:
            _stop_recording(config, namespace, cluster)


def _record(config: pytest.Config, namespace: str, cluster: Cluster, *, is_new: bool) -> None:
    from pytest_kwait.plugin.recording import RecordingWriter

    if (recorder := run_of(config).find(RecordingWriter)) is not None:
        recorder.record_namespace(namespace, cluster, is_new=is_new)


def _stop_recording(config: pytest.Config, namespace: str, cluster: Cluster) -> None:
    from pytest_kwait.plugin.recording import RecordingWriter

    if (recorder := run_of(config).find(RecordingWriter)) is not None:
        recorder.stop_recording_namespace(namespace, cluster)


def _is_left_to_run(config: pytest.Config, node: Any, owner: Owner, cluster: Cluster) -> bool:
    """Return whether objects of the session stay until the run ends; records that if so.

    Other workers or shards may still use them.
    """
    if not (isinstance(node, pytest.Session) and running_test_of(config).is_ending):
        return False
    run = run_of(config)
    if run.is_worker:
        if cluster.ends_with_run:
            return True
        if run.source_of(cluster).registration(cluster) is None:
            # A cluster of a conftest, which this worker alone knows.
            return False
    elif not run.shard:
        return False
    if owner.registration is None or not owner.registration.place():
        # Without a Lease the run cannot be recognised as alive.
        return False
    run.get(Cleanup).record_shared()
    return True


@contextmanager
def make_kwait(
    config: pytest.Config,
    node: Any,
    owner: Owner,
    namespace: str,
    cluster: Cluster,
    client: ApiClient,
    namespaces: Namespaces,
    *,
    is_left: Callable[[], bool] = lambda: False,
    stays: Callable[[], bool] = lambda: False,
    cluster_title: str = "",
) -> Iterator[Kwait]:
    """Yield a `Kwait` whose objects are deleted at the end, unless its namespace is kept.

    Args:
        is_left: returns whether other processes of the run may still use them at the end.
        stays: returns whether they are of an environment that stays after the run.
        cluster_title: the name of a further cluster, for messages; empty for the run's own.
    """
    from pytest_kwait.suite.kwait import Kwait

    def folders() -> list[Any]:
        return manifest_folders(running_item(config) or node)

    owned = namespaces.owns(namespace)
    number = itertools.count(1)

    def further(request: NamespaceRequest) -> Kwait:
        beside = owner.derive(request.name, next(number))
        name = benches.enter_context(
            make_namespace(config, node, beside, namespaces, cluster, request, stays=stays)
        )
        return benches.enter_context(
            make_kwait(
                config,
                node,
                beside,
                name,
                cluster,
                client,
                namespaces,
                stays=stays,
                cluster_title=cluster_title,
            )
        )

    kwait = Kwait(
        cluster,
        client,
        namespace,
        owner=owner,
        defaults=lambda: _wait_defaults(config, node, client, namespace, cluster_title),
        folders=folders,
        owned=owned,
        namespace_maker=further if run_settings(config).namespace is None else None,
    )
    benches = ExitStack()
    try:
        with benches:
            yield kwait
    finally:
        cleanup = run_of(config).get(Cleanup)
        kept = cleanup.is_kept(node, settings_of(node)) and not stays()
        leave = stays() or (
            not kept and (is_left() or _is_left_to_run(config, node, owner, cluster))
        )
        problems = kwait.close(keep=kept, leave=leave)
        cleanup.record_remaining(owner.test, kwait.left)
        outage = run_of(config).outage
        if outage and all(problem.endswith(outage) for problem in problems):
            # It is gone with its cluster.
            problems = [outage] if problems else []
        if problems == [outage]:
            pytest.fail(outage, pytrace=False)
        if problems:
            cleanup.record_untidy()
            left = (
                "kept, though the cluster does not say for how long"
                if kept
                else "left in the cluster, as it could not be deleted"
            )
            pytest.fail(f"{left}:\n" + "\n".join(problems), pytrace=False)
