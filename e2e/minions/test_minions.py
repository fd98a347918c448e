"""Waiting until every selected pod has a host whose kubelet lists the pod.

Kubernetes' early end-to-end tests meant this by waiting for the completion of an action: not that
the API server says so, but that the kubelet does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait

pytestmark = pytest.mark.manifests("controllers.yaml")


@pytest.mark.parametrize(("controller", "count"), [("rc/web", 3), ("deployment/api", 2)])
def test_pods_of_a_controller(
    kwait: Kwait, wait_for_pods_on_minions: Callable[..., Any], controller: str, count: int
) -> None:
    """The controller's selector is read from the server; each of its pods is known by its host."""
    pods = wait_for_pods_on_minions(controller)

    assert len(pods) == count
    assert {pod["spec"]["nodeName"] for pod in pods} <= set(kwait.cluster.nodes)


def test_pods_of_a_selector(wait_for_pods_on_minions: Callable[..., Any]) -> None:
    """A label selector does as well, as text or mapping; it cannot know how many will come."""
    wait_for_pods_on_minions("rc/web")

    assert len(wait_for_pods_on_minions(selector="app=web")) == 3
    assert len(wait_for_pods_on_minions(selector={"app": "web"})) == 3


@pytest.mark.wait_for_pods_on_minions("rc/web")
def test_minions_marker(kwait: Kwait) -> None:
    """As a precondition."""
    assert all(pod["spec"]["nodeName"] for pod in kwait.list("pods", selector="app=web"))


def test_pods_as_a_list(kwait: Kwait) -> None:
    """The function takes pods at hand, and any source of what a host's agent knows."""
    pytest_kwait.wait_for_pods_on_minions(kwait.client, kwait.namespace, "rc/web")
    pods = kwait.list("pods", selector="app=web")
    hosts: set[str] = set()

    def pod_info(host: str, pod: dict[str, Any]) -> dict[str, Any]:
        hosts.add(host)
        return pod

    known = pytest_kwait.wait_for_pods_on_minions(
        kwait.client, kwait.namespace, pods=pods, pod_info=pod_info, timeout="4m"
    )

    assert len(known) == 3
    assert hosts <= set(kwait.cluster.nodes)
