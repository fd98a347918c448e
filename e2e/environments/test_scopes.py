"""Scopes of environments, each used by several tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Kwait

pytestmark = pytest.mark.kwait(timeouts={"pod": "4m"})

_SERVER = """
apiVersion: v1
kind: Pod
metadata: {name: server}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: busybox:1.36, command: [sleep, "3600"]}
"""


@pytest_kwait.environment(scope="module")
def server(kwait: Kwait) -> Iterator[Kwait]:
    """Start a pod, with the settings of this module."""
    assert kwait.timeouts["pod"] == 240
    kwait.create_and_wait(_SERVER)
    yield kwait


@pytest_kwait.environment(scope="class")
def client_settings(kwait: Kwait, server: Kwait) -> Iterator[str]:
    """Give the name of a namespace beside the server's."""
    assert kwait.namespace != server.namespace
    yield kwait.namespace


class TestTheSameServer:
    """Tests that share a pod and a class's own namespace."""

    def test_runs(self, server: Kwait, client_settings: str) -> None:
        """The pod is in the environment's namespace."""
        assert server.get("pod/server")["status"]["phase"] == "Running"
        assert server.get(f"namespace/{client_settings}")

    def test_own_namespace_differs(self, server: Kwait, kwait: Kwait) -> None:
        """A test has its own namespace beside the environment's."""
        assert kwait.namespace != server.namespace
        assert server.wait_for("pod/server", "condition=Ready")


@pytest.mark.parametrize("number", range(4))
def test_all_workers_share_one(settings: tuple[Kwait, dict[str, Any]], number: int) -> None:
    """Every worker finds the object that one of them made."""
    shared, published = settings
    assert shared.get("configmap/settings")["metadata"]["uid"] == published["uid"]
