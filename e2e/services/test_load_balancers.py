"""Waiting for a service's load balancer, its finalizer and its end.

Nothing makes load balancers here: the tests say what a cloud's controller would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kubernetes.client
import pytest

from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait

    Wait = Callable[..., Any]

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
FIRST, SECOND = {"ip": "192.0.2.7"}, {"hostname": "lb.kwait.example"}


def service(kind: str = "LoadBalancer", *finalizers: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "finalizers": list(finalizers)},
        "spec": {"type": kind, "ports": [{"port": 80}]},
    }


def balance(kwait: Kwait, *ingress: dict[str, Any]) -> None:
    """Write the status as a cloud controller does."""
    kubernetes.client.CoreV1Api(kwait.client).patch_namespaced_service_status(
        "web", kwait.namespace, {"status": {"loadBalancer": {"ingress": list(ingress) or None}}}
    )


def finalize(kwait: Kwait, *finalizers: str) -> None:
    kubernetes.client.CoreV1Api(kwait.client).patch_namespaced_service(
        "web", kwait.namespace, [{"op": "add", "path": "/metadata/finalizers", "value": finalizers}]
    )


def test_load_balancer(
    kwait: Kwait,
    wait_for_load_balancer: Wait,
    wait_for_new_ingress_ip: Wait,
    wait_for_load_balancer_destroy: Wait,
) -> None:
    """A first address, another one, then none."""
    kwait.create(service())
    times_out(
        "did not have a load balancer within LIMIT: no ingress yet", wait_for_load_balancer, "web"
    )
    balance(kwait, FIRST)

    (ingress,) = wait_for_load_balancer("web")["status"]["loadBalancer"]["ingress"]
    assert FIRST.items() <= ingress.items()
    times_out("ingress is 192.0.2.7 still", wait_for_new_ingress_ip, "web", "192.0.2.7")
    balance(kwait, SECOND)
    (ingress,) = wait_for_new_ingress_ip("web", "192.0.2.7")["status"]["loadBalancer"]["ingress"]
    assert SECOND.items() <= ingress.items()
    times_out("still has ingress lb.kwait.example", wait_for_load_balancer_destroy, "web")
    balance(kwait)
    assert wait_for_load_balancer_destroy("web")["metadata"]["name"] == "web"


def test_a_service_of_another_type(kwait: Kwait, wait_for_load_balancer: Wait) -> None:
    kwait.create(service("ClusterIP"))

    with raises(WaitFailed, "the service is of type ClusterIP, which gets no load balancer"):
        wait_for_load_balancer("web", grace="500ms")


def test_load_balancer_finalizer(
    kwait: Kwait,
    wait_for_service_updated_with_finalizer: Wait,
    wait_for_service_deleted_with_finalizer: Wait,
) -> None:
    """A finalizer keeps the service until its load balancer is deleted; the message names it."""
    uid = kwait.create(service())[0]["metadata"]["uid"]
    times_out(f"{FINALIZER} is not there", wait_for_service_updated_with_finalizer, "web")
    finalize(kwait, FINALIZER)
    balance(kwait, FIRST)
    wait_for_service_updated_with_finalizer("web")
    kwait.delete("service/web")

    times_out(
        r"held by service\S+ \(its load balancer 192.0.2.7 is there still\)",
        wait_for_service_deleted_with_finalizer,
        "web",
    )
    finalize(kwait)
    assert wait_for_service_deleted_with_finalizer("web", uid) is None
    kwait.create(service())
    assert wait_for_service_deleted_with_finalizer("web", uid) is None


def test_load_balancer_finalizer_removed(
    kwait: Kwait, wait_for_service_updated_with_finalizer: Wait
) -> None:
    kwait.create(service("LoadBalancer", FINALIZER))
    times_out(
        f"{FINALIZER} is still there",
        wait_for_service_updated_with_finalizer,
        "web",
        has_finalizer=False,
    )
    finalize(kwait)

    found = wait_for_service_updated_with_finalizer("web", has_finalizer=False)

    assert not found["metadata"].get("finalizers")


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_service_created_and_deleted(kwait: Kwait, wait_for_service: Wait, mode: str) -> None:
    kwait.create(service())

    assert wait_for_service("web", mode=mode)["spec"]["type"] == "LoadBalancer"
    kwait.delete("service/web")
    assert wait_for_service("web", exist=False, mode=mode) is None
