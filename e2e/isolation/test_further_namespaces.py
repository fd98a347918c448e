"""Further namespaces of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait import ApiError

if TYPE_CHECKING:
    from pytest_kwait import Kwait

NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}}


def test_further_namespaces(kwait: Kwait) -> None:
    """Each is a `Kwait` object, deleted with the test."""
    peer = kwait.create_namespace("peer", labels={"team": "b"})
    kwait.create(NOTE)
    peer.create(NOTE)

    assert peer.namespace != kwait.namespace
    assert kwait.get(f"namespace/{peer.namespace}")["metadata"]["labels"]["team"] == "b"
    assert peer.get("serviceaccount/default")
    assert peer.get("cm/note")["metadata"]["namespace"] == peer.namespace


def test_pod_security_of_further_namespaces(kwait: Kwait) -> None:
    """The server enforces the requested level."""
    strict = kwait.create_namespace("strict", pod_security="restricted:latest")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}]},
    }
    with pytest.raises(ApiError, match='violates PodSecurity "restricted:latest"'):
        strict.create(pod)


def test_a_level_that_is_none(kwait: Kwait) -> None:
    """Invalid arguments are refused before anything is created."""
    with pytest.raises(ValueError, match="pod_security='tight' is not valid: use privileged"):
        kwait.create_namespace("peer", pod_security="tight")
