"""Waiting for the endpoints of a service, and for its reachability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from e2e.kubelet_nodes import first_kubelet_node
from e2e.objects import container, pod, service
from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait, Mode


WEB = {"app": "web"}
SERVER = "mkdir -p /tmp/www; hostname > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"


def server(name: str, script: str = SERVER, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "web", "containerPort": 8080}]
    return pod(name, container(script=script, ports=ports), labels=WEB, **spec)


def test_endpoint_count(kwait: Kwait) -> None:
    """An exact number; 0 if the slices exist and are empty."""
    kwait.create(service("web"))
    assert kwait.wait_for_endpoint_count("web", 0)[0]["kind"] == "EndpointSlice"
    times_out(
        "0 of 1 endpoints: the service's selector app=web matches no pod",
        kwait.wait_for_endpoint_count,
        "web",
        1,
    )
    kwait.create(server("a"), server("b"))

    (found,) = kwait.wait_for_endpoint_count("web", 2)

    assert len(found["endpoints"]) == 2
    times_out("2 endpoints, 1 more than awaited", kwait.wait_for_endpoint_count, "web", 1)


def test_endpoints_by_pods_and_ports(kwait: Kwait) -> None:
    """Pods, ports and addresses of a service."""
    node = first_kubelet_node(kwait)
    here = [server(name, nodeName=node) for name in ("a", "b")]
    pods = kwait.create(service("web"), *here)[1:]

    kwait.wait_for_endpoint_pods("web", pods)
    kwait.wait_for_endpoint_ports("web", {"a": ["http:8080"], "b": [8080]})
    kwait.wait_for_endpoint_on_node("web", node)
    kwait.wait_for_endpoint_slices("web", lambda slices: all(each["ports"] for each in slices))
    times_out("missing c, not awaited b", kwait.wait_for_endpoint_pods, "web", ["a", "c"])
    times_out(
        "missing a:8080/UDP, not awaited a:http:8080, b:http:8080",
        kwait.wait_for_endpoint_ports,
        "web",
        {"a": ["8080/UDP"]},
    )
    kwait.delete("pod/b")
    kwait.wait_for_endpoint_pods("web", pods[:1])


def test_a_misconfigured_service_is_explained(kwait: Kwait) -> None:
    """No selector, a port that no pod has, pods that are not ready."""
    unready = container(readinessProbe={"exec": {"command": ["false"]}})
    kwait.create(
        server("a"),
        pod("b", unready, labels={"app": "late"}),
        service("typo", selector=WEB, ports=[{"port": 80, "targetPort": "wbe"}]),
        service("bare", selector=None),
        service("late", selector={"app": "late"}),
        service("elsewhere", selector=WEB, type="ExternalName", externalName="kwait.example"),
    )
    kwait.wait_for_pod_ready("a")
    kwait.wait_for_pod_running("b")

    times_out(
        "missing a:8080: no pod has a port named wbe, which the service wants",
        kwait.wait_for_endpoint_ports,
        "typo",
        {"a": [8080]},
    )
    times_out(
        "the service has no selector, so its EndpointSlices must be created by hand",
        kwait.wait_for_endpoint_count,
        "bare",
        1,
    )
    times_out(
        "0 of 1 endpoints ready: 1 Running, not ready",
        kwait.wait_for_endpoint_on_node,
        "late",
        first_kubelet_node(kwait),
    )
    times_out("there is no service of that name", kwait.wait_for_endpoint_count, "nowhere", 1)
    with raises(WaitFailed, "the service is of type ExternalName"):
        kwait.wait_for_endpoint_count("elsewhere", 1, grace="500ms")


def test_a_pod_that_no_node_takes(kwait: Kwait) -> None:
    """An endpoint that cannot become ready fails the wait early."""
    huge = container(resources={"requests": {"cpu": "1000"}})
    kwait.create(service("web"), pod("huge", huge, labels=WEB))

    with raises(WaitFailed, "pod huge: Unschedulable: .*Insufficient cpu"):
        kwait.wait_for_endpoint_count("web", 1, timeout="4m", grace="1s")


def test_service_reachable_and_responding(kwait: Kwait) -> None:
    """Requests go through the API server; an error of the pods is not a response."""
    kwait.create(service("web"), server("a", f"sleep 1; {SERVER}"))

    (found,) = kwait.wait_for_service_responding("web", timeout="4m", poll="200ms")
    kwait.wait_for_service_responding("web", "http", "/index.html", timeout="4m")
    kwait.wait_for_service_reachable("web", 80, "nothing/here", timeout="4m")

    assert found["endpoints"][0]["targetRef"]["name"] == "a"
    times_out("it answered 404", kwait.wait_for_service_responding, "web", 80, "nothing/here")
    times_out(
        "it answered 503: no service port 81 found", kwait.wait_for_service_reachable, "web", 81
    )


def test_a_service_that_does_not_answer(kwait: Kwait) -> None:
    """Pods that do not listen, and pods that cannot start."""
    hopeless = pod("b", container(image="Busybox:not a tag"), labels={"app": "hopeless"})
    kwait.create(
        server("a", "sleep 300"),
        hopeless,
        service("deaf", selector=WEB),
        service("hopeless", selector={"app": "hopeless"}),
    )
    # Without an endpoint the response differs.
    kwait.wait_for_endpoint_count("deaf", 1)

    times_out(
        "it answered 503: .*connection refused",
        kwait.wait_for_service_reachable,
        "deaf",
        poll="200ms",
    )
    with raises(WaitFailed, "pod b: InvalidImageName"):
        kwait.wait_for_service_reachable("hopeless", timeout="4m", grace="1s")


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_endpoint_waits_in_watch_and_poll_mode(kwait: Kwait, mode: Mode) -> None:
    kwait.create(service("web"), server("a"))

    assert kwait.wait_for_endpoint_pods("web", ["a"], mode=mode, poll="200ms")


def test_slices_made_by_hand(kwait: Kwait) -> None:
    """EndpointSlices of a service without selector are created by hand."""
    made = service("web", selector=None)
    target = {"kind": "Pod", "name": "a", "namespace": kwait.namespace}
    hand = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "by-hand", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["192.0.2.7"], "targetRef": target, "nodeName": "somewhere"},
            {"addresses": ["192.0.2.8"], "nodeName": "somewhere"},
        ],
        "ports": [{"name": "http", "port": 8080}],
    }
    kwait.create(made, hand)

    kwait.wait_for_endpoint_count("web", 2)
    kwait.wait_for_endpoint_pods("web", ["a"])
    kwait.wait_for_endpoint_ports("web", {"a": ["http:8080"]})
    kwait.wait_for_endpoint_on_node("web", "somewhere")
    kwait.wait_for_endpoint_slices("web", lambda slices: len(slices) == 1)
    times_out(
        "2 of 3 endpoints: the service has no selector", kwait.wait_for_endpoint_count, "web", 3
    )
