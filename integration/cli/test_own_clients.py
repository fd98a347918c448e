"""Functions with a client of their own, on a cluster of `kwait up`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api
from kubernetes.config import new_client_from_config

from pytest_kwait import ApiError, WaitFailed, wait_for_pod_ready
from pytest_kwait.cli import main
from pytest_kwait.client.session import ApiSession

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POD: Any = {
    "metadata": {"name": "typo"},
    "spec": {"containers": [{"name": "main", "image": "Busybox:not a tag"}]},
}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "kubeconfig"
    assert main(["up", "--detach", "--kubeconfig", str(file), "--user", "dev"]) == 0
    yield file
    assert main(["down", "--kubeconfig", str(file)]) == 0


def client(kubeconfig: Path, context: str | None = None) -> Any:
    """Return a client as a user makes it."""
    read: Any = new_client_from_config
    return read(str(kubeconfig), context=context)


def test_a_client_of_the_user_has_the_grace_of_fast_time(kubeconfig: Path) -> None:
    CoreV1Api(client(kubeconfig)).create_namespaced_pod("default", POD)

    with pytest.raises(WaitFailed) as caught:
        wait_for_pod_ready(client(kubeconfig), "default", "typo", timeout="4m")

    texts = [change["text"] for change in caught.value.evidence["timeline"]]
    assert any(text.startswith("final if it holds for 500ms: ") for text in texts)


def test_a_refused_user_knows_the_time_of_the_cluster_too(kubeconfig: Path) -> None:
    refused = client(kubeconfig, "dev")

    with pytest.raises(ApiError, match="forbidden"):
        wait_for_pod_ready(refused, "default", "typo", timeout="4m")

    assert ApiSession.of(refused).time_scale == 0.1
