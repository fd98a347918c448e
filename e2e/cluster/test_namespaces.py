"""Waiting for namespaces: their default objects, and their deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait import Kwait

    Wait = Callable[..., Any]

NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"generateName": "kwait-e2e-cluster-"},
}
HELD = """
apiVersion: v1
kind: ConfigMap
metadata: {name: held, namespace: %s, finalizers: [example.com/hold]}
"""
LET_GO = """
apiVersion: v1
kind: ConfigMap
metadata: {name: held, namespace: %s, finalizers: []}
"""


@pytest.fixture
def namespace(kwait: Kwait) -> str:
    """The name of a further namespace; the bench removes it, too."""
    return str(kwait.create(NAMESPACE)[0]["metadata"]["name"])


@pytest.fixture
def held(kwait: Kwait, namespace: str) -> Iterator[str]:
    """The same, with an object in it that does not go before the test lets it."""
    kwait.apply(HELD % namespace)
    yield namespace
    if kwait.list("cm", namespace=namespace, field_selector="metadata.name=held"):
        kwait.apply(LET_GO % namespace)


def test_what_every_namespace_gets(
    namespace: str, wait_for_default_service_account: Wait, wait_for_kube_root_ca: Wait
) -> None:
    """Pods need both; a test's own namespace has them already."""
    account = wait_for_default_service_account(namespace=namespace, timeout="4m")
    trusted = wait_for_kube_root_ca(namespace=namespace, timeout="4m")

    assert account["metadata"]["namespace"] == namespace
    assert "ca.crt" in trusted["data"]


@pytest.mark.wait_for_default_service_account(timeout="4m")
@pytest.mark.wait_for_kube_root_ca(timeout="4m")
def test_marker(kwait: Kwait) -> None:
    """As a precondition."""
    assert kwait.get("serviceaccount/default")


def test_namespaces_that_go_and_one_that_is_kept(
    kwait: Kwait, held: str, wait_for: Wait, wait_for_namespaces_deleted: Wait
) -> None:
    """By name, or with the UIDs of those that are meant; the message says what keeps one."""
    first, second = kwait.create(NAMESPACE, NAMESPACE)
    names = [first["metadata"]["name"], second["metadata"]["name"]]
    for name in (held, *names):
        kwait.delete(f"namespace/{name}")

    wait_for_namespaces_deleted([first, names[1]], timeout="4m")

    assert not set(names) & {each["metadata"]["name"] for each in kwait.list("namespaces")}
    wait_for_namespaces_deleted(names[0], timeout="4m")
    wait_for(f"namespace/{held}", "condition=NamespaceFinalizersRemaining", timeout="4m")
    told = "being deleted: 1 configmaps left; held by example.com/hold on 1 object"
    times_out(told, wait_for_namespaces_deleted, [held])


def test_nothing_comes_into_a_namespace_that_goes(
    kwait: Kwait, held: str, wait_for_pod_running: Wait, wait_for: Wait
) -> None:
    """A wait for what is not there yet ends early: nobody can create it any more."""
    kwait.delete(f"namespace/{held}")

    told = f"namespace {held} is being deleted: nothing can be created in it"
    with raises(WaitFailed, f"pod {held}/late can no longer .*: {told}"):
        wait_for_pod_running("late", namespace=held, timeout="4m", grace="500ms")
    with raises(WaitFailed, told):
        wait_for(["cm/held", "job/late"], "create", namespace=held, timeout="4m", grace="500ms")


def test_a_namespace_that_nobody_deletes(namespace: str, wait_for_namespaces_deleted: Wait) -> None:
    times_out(
        "did not get deleted within LIMIT: still there, nobody is deleting it",
        wait_for_namespaces_deleted,
        namespace,
    )
