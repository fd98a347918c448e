"""Waiting for namespaces: their default objects, and their deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Kwait
    from pytest_kwait.typing import (
        WaitForDefaultServiceAccount,
        WaitForKubeRootCa,
        WaitForNamespacesDeleted,
    )


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
    """The name of a further namespace, deleted with the test."""
    return str(kwait.create(NAMESPACE)[0]["metadata"]["name"])


@pytest.fixture
def held(kwait: Kwait, namespace: str) -> Iterator[str]:
    """The same, with an object whose finalizer the test removes."""
    kwait.apply(HELD % namespace)
    yield namespace
    if kwait.list("cm", namespace=namespace, field_selector="metadata.name=held"):
        kwait.apply(LET_GO % namespace)


def test_default_objects_of_a_namespace(
    namespace: str,
    wait_for_default_service_account: WaitForDefaultServiceAccount,
    wait_for_kube_root_ca: WaitForKubeRootCa,
) -> None:
    """Pods need the service account and the root CA."""
    account = wait_for_default_service_account(namespace=namespace, timeout="4m")
    trusted = wait_for_kube_root_ca(namespace=namespace, timeout="4m")

    assert account["metadata"]["namespace"] == namespace
    assert "ca.crt" in trusted["data"]


@pytest.mark.wait_for_default_service_account(timeout="4m")
@pytest.mark.wait_for_kube_root_ca(timeout="4m")
def test_marker(kwait: Kwait) -> None:
    """As a precondition."""
    assert kwait.get("serviceaccount/default")


def test_deleted_and_kept_namespaces(kwait: Kwait, held: str) -> None:
    """By name, or with UIDs; the message names the finalizers."""
    first, second = kwait.create(NAMESPACE, NAMESPACE)
    names = [first["metadata"]["name"], second["metadata"]["name"]]
    for name in (held, *names):
        kwait.delete(f"namespace/{name}")

    kwait.wait_for_namespaces_deleted([first, names[1]], timeout="4m")

    assert not set(names) & {each["metadata"]["name"] for each in kwait.list("namespaces")}
    kwait.wait_for_namespaces_deleted(names[0], timeout="4m")
    kwait.wait_for(f"namespace/{held}", "condition=NamespaceFinalizersRemaining", timeout="4m")
    reason = "being deleted: 1 configmaps left; held by example.com/hold on 1 object"
    times_out(reason, kwait.wait_for_namespaces_deleted, [held])


def test_terminating_namespace_fails_waits_early(kwait: Kwait, held: str) -> None:
    """Waits for objects that do not exist fail early."""
    kwait.delete(f"namespace/{held}")

    reason = f"namespace {held} is being deleted: nothing can be created in it"
    with raises(WaitFailed, f"pod late can no longer .*: {reason}"):
        kwait.wait_for_pod_running("late", namespace=held, timeout="4m", grace="500ms")
    with raises(WaitFailed, reason):
        kwait.wait_for(
            ["cm/held", "job/late"], "create", namespace=held, timeout="4m", grace="500ms"
        )


def test_namespace_without_a_deletion(
    namespace: str, wait_for_namespaces_deleted: WaitForNamespacesDeleted
) -> None:
    times_out(
        "did not get deleted within LIMIT: still there, not being deleted",
        wait_for_namespaces_deleted,
        namespace,
    )
