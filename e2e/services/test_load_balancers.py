"""Waiting for a service's load balancer, its finalizer and its end.

Nothing makes load balancers here: the tests say what a cloud's controller would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kubernetes.client
import pytest

from e2e.objects import service
from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait, Mode


FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
FIRST, SECOND = {"ip": "192.0.2.7"}, {"hostname": "lb.kwait.example"}
BALANCED = service("web", type="LoadBalancer")


def balance(kwait: Kwait, *ingress: dict[str, Any]) -> None:
    """Write the status as a cloud controller does."""
    kubernetes.client.CoreV1Api(kwait.client).patch_namespaced_service_status(
        "web", kwait.namespace, {"status": {"loadBalancer": {"ingress": list(ingress) or None}}}
    )


def finalize(kwait: Kwait, *finalizers: str) -> None:
    kubernetes.client.CoreV1Api(kwait.client).patch_namespaced_service(
        "web", kwait.namespace, [{"op": "add", "path": "/metadata/finalizers", "value": finalizers}]
    )


def test_load_balancer(kwait: Kwait) -> None:
    """A first address, another one, then none."""
    kwait.create(BALANCED)
    times_out(
        "did not have a load balancer within LIMIT: no ingress yet",
        kwait.wait_for_load_balancer,
        "web",
    )
    balance(kwait, FIRST)

    (ingress,) = kwait.wait_for_load_balancer("web")["status"]["loadBalancer"]["ingress"]
    assert FIRST.items() <= ingress.items()
    times_out("ingress is 192.0.2.7 still", kwait.wait_for_new_ingress_ip, "web", "192.0.2.7")
    balance(kwait, SECOND)
    (ingress,) = kwait.wait_for_new_ingress_ip("web", "192.0.2.7")["status"]["loadBalancer"][
        "ingress"
    ]
    assert SECOND.items() <= ingress.items()
    times_out("still has ingress lb.kwait.example", kwait.wait_for_load_balancer_destroy, "web")
    balance(kwait)
    found = kwait.wait_for_load_balancer_destroy("web")
    assert found is not None
    assert found["metadata"]["name"] == "web"


def test_a_service_of_another_type(kwait: Kwait) -> None:
    kwait.create(service("web", type="ClusterIP"))

    with raises(WaitFailed, "the service is of type ClusterIP, which gets no load balancer"):
        kwait.wait_for_load_balancer("web", grace="500ms")


def test_load_balancer_finalizer(kwait: Kwait) -> None:
    """A finalizer keeps the service until its load balancer is deleted; the message names it."""
    uid = kwait.create(BALANCED)[0]["metadata"]["uid"]
    times_out(f"{FINALIZER} is not there", kwait.wait_for_service_updated_with_finalizer, "web")
    finalize(kwait, FINALIZER)
    balance(kwait, FIRST)
    kwait.wait_for_service_updated_with_finalizer("web")
    kwait.delete("service/web")

    times_out(
        r"held by service\S+ \(its load balancer 192.0.2.7 is there still\)",
        kwait.wait_for_service_deleted_with_finalizer,
        "web",
    )
    finalize(kwait)
    kwait.wait_for_service_deleted_with_finalizer("web", uid)
    kwait.create(BALANCED)
    kwait.wait_for_service_deleted_with_finalizer("web", uid)


def test_load_balancer_finalizer_removed(kwait: Kwait) -> None:
    metadata = {"name": "web", "finalizers": [FINALIZER]}
    kwait.create({**BALANCED, "metadata": metadata})
    times_out(
        f"{FINALIZER} is still there",
        kwait.wait_for_service_updated_with_finalizer,
        "web",
        present=False,
    )
    finalize(kwait)

    found = kwait.wait_for_service_updated_with_finalizer("web", present=False)

    assert found is not None
    assert not found["metadata"].get("finalizers")


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_service_created_and_deleted(kwait: Kwait, mode: Mode) -> None:
    kwait.create(BALANCED)

    found = kwait.wait_for_service("web", mode=mode)
    assert found is not None
    assert found["spec"]["type"] == "LoadBalancer"
    kwait.delete("service/web")
    assert kwait.wait_for_service("web", present=False, mode=mode) is None
