"""Hooks that other plugins and conftests implement; pytest refuses unknown ones by their name.

They are called in the process that runs the test: with pytest-xdist in its worker. An
implementation in a conftest is called for the tests of its own folder and those below. It takes
the arguments that it needs, by name.

No hook is called for what an implementation does itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from pytest_kwait.clusters import ProviderFactory
    from pytest_kwait.suite.kwait import Kwait
    from pytest_kwait.suite.observers import WaitInfo


def pytest_kwait_cluster_providers(config: pytest.Config) -> Mapping[str, ProviderFactory] | None:
    """Return further providers for `--kwait-cluster`.

    Called when a run first needs its cluster, in the process that owns it.

    Args:
        config: pytest's configuration.

    Returns:
        functions by name that take a `ClusterRequest` and return a `Provider`, both of
        `pytest_kwait.clusters`.
    """


def pytest_kwait_namespace_created(
    kwait: Kwait, namespace: str, node: pytest.Item | pytest.Collector
) -> None:
    """Prepare a namespace that the run has created, before anything else is in it.

    Called once pods can start in it: for the namespaces of tests, environments, `kwait_factory`
    and `kwait.create_namespace`; in the thread that creates it. Not for one that
    `--kwait-namespace` names, and not where a process joins an environment of the run.

    An error is one of the setup, or of the call that created it; the namespace is deleted.

    Args:
        kwait: a `Kwait` of the namespace. What it creates outside of the namespace is deleted with
            it.
        namespace: its name.
        node: the test, class, module or session that owns it. A conftest sees the namespaces of
            the nodes in its folder; those of the session belong to the folder of rootdir.
    """


def pytest_kwait_namespace_deleting(
    kwait: Kwait, namespace: str, node: pytest.Item | pytest.Collector
) -> None:
    """Look at a namespace for the last time, before its deletion is requested.

    Called if `pytest_kwait_namespace_created` was and has raised nothing, with the same arguments,
    after the fixtures that use it; in the thread that deletes it. Not for one that is kept, and not
    for one that is left to the end of the run since other processes may use it.

    An error is one of the teardown; the namespace is deleted nevertheless, unless a failed test
    keeps it.

    Args:
        kwait: a `Kwait` of the namespace.
        namespace: its name.
        node: the test, class, module or session that owns it.
    """


def pytest_kwait_applied(
    kwait: Kwait, namespace: str, objects: list[dict[str, Any]], item: pytest.Item
) -> None:
    """Look at objects that a test or its fixtures have applied or created.

    Called after all objects of a call of `kwait.apply`, `kwait.create`, `kwait.create_and_wait`
    (before it waits) or the marker `kwait_manifests` are stored, in the thread of the call. Not
    after a dry run, a refusal, `kwait.kubectl` and Helm's commands.

    An error is raised by the call, and fails the test even if it is caught.

    Args:
        kwait: the `Kwait` that was called.
        namespace: its namespace; objects may be in others.
        objects: the objects as the server returned them, which are also the call's result.
        item: the running test, also where a fixture of a wider scope applies them.
    """


def pytest_kwait_wait_started(wait: WaitInfo, item: pytest.Item) -> None:
    """Observe the start of a wait of a test or its fixtures.

    Called in the thread of the wait: that of `kwait.aio` is one beside the event loop. The time
    that it takes counts towards the wait's limit. Not for waits that are part of another one, in
    its predicate, and not for those of the plugin between tests.

    An error is raised by the wait, which then does not begin, and fails the test even if it is
    caught.

    Args:
        wait: the wait, without outcome.
        item: the running test.
    """


def pytest_kwait_wait_ended(wait: WaitInfo, item: pytest.Item) -> None:
    """Observe the end of a wait of a test or its fixtures.

    Called where `pytest_kwait_wait_started` was, before the wait returns or raises, and after the
    evidence of its failure is gathered.

    An error is raised by a wait that was met. One that was not met raises its own error, with this
    one in a note. It fails the test even if it is caught, or raised in a thread of the test's own.

    Args:
        wait: the wait, with outcome, duration and headline.
        item: the running test.
    """
