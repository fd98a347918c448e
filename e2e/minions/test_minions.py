"""Waiting until the kubelet of every selected pod lists it.

Kubernetes' early end-to-end tests meant this by waiting for the completion of an action: not that
the API server reports it, but that the kubelet does.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api

import pytest_kwait
from e2e import objects
from pytest_kwait import wait

if TYPE_CHECKING:
    from pytest_kwait import Kwait
    from pytest_kwait.typing import WaitForPodsOnMinions

pytestmark = pytest.mark.kwait_manifests("controllers.yaml")


@pytest.mark.parametrize(("controller", "count"), [("rc/web", 3), ("deployment/api", 2)])
def test_pods_of_a_controller(kwait: Kwait, controller: str, count: int) -> None:
    """The selector is read from the controller; the kubelet of each pod lists it."""
    pods = kwait.wait_for_pods_on_minions(controller)

    assert len(pods) == count
    assert {pod["spec"]["nodeName"] for pod in pods} <= set(kwait.cluster.nodes)


def test_pods_of_a_selector(wait_for_pods_on_minions: WaitForPodsOnMinions) -> None:
    """A label selector is allowed, as text or mapping; it does not know the number of pods."""
    wait_for_pods_on_minions("rc/web")

    assert len(wait_for_pods_on_minions(selector="app=web")) == 3
    assert len(wait_for_pods_on_minions(selector={"app": "web"})) == 3


@pytest.mark.wait_for_pods_on_minions("rc/web")
def test_minions_marker(kwait: Kwait) -> None:
    """As a precondition."""
    assert all(pod["spec"]["nodeName"] for pod in kwait.list("pods", selector="app=web"))


def test_a_condition_for_a_loop(kwait: Kwait) -> None:
    """As in `Poll(1s, 10, podsOnMinions(…))`."""
    arrived = pytest_kwait.pods_on_minions(kwait.client, kwait.namespace, "rc/web")

    wait.poll_immediate("200ms", "4m", arrived)

    assert arrived()
    kwait.delete_and_wait("rc/web", grace_period=0)
    with pytest.raises(pytest_kwait.WaitFailed):
        wait.poll_immediate("200ms", "1m", arrived)


def test_pods_as_a_list(kwait: Kwait) -> None:
    """The function takes a list of pods, and any source of a host's pods."""
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


def test_a_pod_info_may_fail_or_hang(kwait: Kwait) -> None:
    """Any error means that the pod is not known yet; the limit is hard."""
    pytest_kwait.wait_for_pods_on_minions(kwait.client, kwait.namespace, "rc/web")
    released, over = threading.Event(), threading.Event()

    def failing(host: str, pod: dict[str, Any]) -> dict[str, Any]:
        raise ConnectionError("refused")

    def hanging(host: str, pod: dict[str, Any]) -> dict[str, Any]:
        released.wait(240)
        over.set()
        return pod

    try:
        for pod_info in (failing, hanging):
            with pytest.raises(pytest_kwait.WaitTimeout):
                pytest_kwait.wait_for_pods_on_minions(
                    kwait.client, kwait.namespace, "rc/web", pod_info=pod_info, timeout="1s"
                )
            assert not over.is_set(), "the wait lasted as long as the call"
    finally:
        released.set()


def test_a_pod_info_answers_with_the_pod(kwait: Kwait) -> None:
    """None, as of a lookup that finds nothing, does not count as known."""
    kwait.wait_for_pods_on_minions("rc/web")
    found: dict[str, Any] = {}

    def pod_info(host: str, pod: dict[str, Any]) -> Any:
        return found.get(pod["metadata"]["name"])

    with pytest.raises(pytest_kwait.InvalidArgument, match=r"^result of pod_info=None is not"):
        kwait.wait_for_pods_on_minions("rc/web", pod_info=pod_info)


def test_pods_of_the_official_client(kwait: Kwait) -> None:
    """Lists and models of it, one of them, and a list as the API returns it are taken too."""
    kwait.wait_for_pods_on_minions("rc/web")
    api = CoreV1Api(kwait.client)
    listed: Any = api.list_namespaced_pod(kwait.namespace, label_selector="app=web")
    names = sorted(pod.metadata.name for pod in listed.items)

    client: Any = kwait.client
    for pods in (listed, listed.items, client.sanitize_for_serialization(listed)):
        found = kwait.wait_for_pods_on_minions(pods=pods)
        assert [pod["metadata"]["name"] for pod in found] == names
    for pod in (listed.items[0], listed.items[0].metadata.name):
        (one,) = kwait.wait_for_pods_on_minions(pods=pod)
        assert one["metadata"]["name"] == listed.items[0].metadata.name


def test_pods_that_are_created_anew(kwait: Kwait) -> None:
    """A given pod is its UID; with `follow_name` it is its name."""
    (old,) = kwait.create(objects.pod("ship", terminationGracePeriodSeconds=0))
    kwait.wait_for_pods_on_minions(pods=[old])
    kwait.delete_and_wait(old)
    (new,) = kwait.create(objects.pod("ship", terminationGracePeriodSeconds=0))

    with pytest.raises(pytest_kwait.WaitFailed, match="pod ship was deleted and created anew"):
        kwait.wait_for_pods_on_minions(pods=[old])
    (found,) = kwait.wait_for_pods_on_minions(pods=[old], follow_name=True)

    assert found["metadata"]["uid"] == new["metadata"]["uid"]
