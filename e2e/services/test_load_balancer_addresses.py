"""Services of type LoadBalancer have an address that a test connects to."""

from __future__ import annotations

import socket
from http.client import RemoteDisconnected
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import kubernetes.client
import pytest

from e2e.conftest import has_load_balancers
from e2e.objects import container, pod, service
from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed, wait

if TYPE_CHECKING:
    from pytest_kwait import Kwait, KwaitFactory

PORT = 18080
BALANCED: dict[str, Any] = {
    "type": "LoadBalancer",
    "ports": [{"name": "http", "port": PORT, "targetPort": 8080}],
}
_OPENER = build_opener(ProxyHandler({}))


def create_web(kwait: Kwait, name: str = "web", **spec: Any) -> None:
    """Create a pod that serves its name, and a service with a load balancer."""
    script = f"mkdir /www; echo {name} > /www/index.html; httpd -f -p 8080 -h /www"
    probe = {"httpGet": {"port": 8080}, "periodSeconds": 1}
    kwait.create(
        pod(name, container(script=script, readinessProbe=probe), labels={"app": name}),
        service(name, **{**BALANCED, **spec}),
    )


def find_address(kwait: Kwait, name: str = "web") -> str:
    """Return the address of a load balancer, or its name."""
    (ingress,) = kwait.wait_for_load_balancer(name)["status"]["loadBalancer"]["ingress"]
    return str(ingress.get("ip") or ingress["hostname"])


def request(address: str, port: int = PORT) -> str:
    """Return the answer; load balancers may need a while until they know their pods."""
    answers: list[str] = []

    def ask() -> bool:
        try:
            with _OPENER.open(f"http://{address}:{port}/", timeout=5) as answer:
                answers.append(answer.read().decode().strip())
        except (URLError, RemoteDisconnected, ConnectionError, TimeoutError):
            return False
        return True

    wait.poll_immediate("200ms", "1m", ask)
    return answers[-1]


def list_reasons(kwait: Kwait) -> list[str]:
    return [event["reason"] for event in kwait.events("service/web")]


def test_service_is_reached_until_it_is_deleted(balanced: Kwait) -> None:
    """At its own port, by the test and by pods."""
    create_web(balanced)
    address = find_address(balanced)
    balanced.wait_for_service_updated_with_finalizer("web")
    balanced.wait_for_pod_ready("web")
    assert request(address) == "web"
    script = f"until wget -qO- http://{address}:{PORT}/; do sleep 0.2; done"
    balanced.create(pod("customer", container(script=script)))
    balanced.wait_for_pod_success("customer")
    assert balanced.logs("customer").strip().endswith("web")
    assert list_reasons(balanced)[:2] == ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]

    balanced.delete("service/web")
    balanced.wait_for_service_deleted_with_finalizer("web")
    with pytest.raises((ConnectionError, TimeoutError)):
        socket.create_connection((address, PORT), timeout=5)
    assert list_reasons(balanced)[2:] == ["DeletingLoadBalancer", "DeletedLoadBalancer"]


def test_two_services_have_one_port(balanced: Kwait) -> None:
    names = ("first", "second")
    for name in names:
        create_web(balanced, name)
    addresses = [find_address(balanced, name) for name in names]
    assert addresses[0] != addresses[1]
    for name in names:
        balanced.wait_for_pod_ready(name)
    assert [request(address) for address in addresses] == ["first", "second"]


def test_service_of_another_type_loses_its_load_balancer(balanced: Kwait) -> None:
    create_web(balanced)
    find_address(balanced)
    change_service(balanced, type="ClusterIP")
    balanced.wait_for_load_balancer_destroy("web")
    balanced.wait_for_service_updated_with_finalizer("web", present=False)
    change_service(balanced, type="LoadBalancer")
    balanced.wait_for_pod_ready("web")
    assert request(find_address(balanced)) == "web"


def test_load_balancers_of_another_class_are_left_to_others(balanced: Kwait) -> None:
    create_web(balanced, loadBalancerClass="kwait.test/none")
    times_out(
        "no ingress yet, of load balancer class kwait.test/none",
        balanced.wait_for_load_balancer,
        "web",
    )
    assert list_reasons(balanced) == []


def test_service_stays_pending_without_load_balancers(
    kwait: Kwait, kwait_factory: KwaitFactory
) -> None:
    """Nothing touches it: no event, no finalizer, no address."""
    if kwait.cluster.provider != "embedded" and has_load_balancers(kwait_factory):
        pytest.skip("services of this cluster get load balancers")
    create_web(kwait)
    kwait.wait_for_pod_ready("web")
    times_out(
        "no ingress yet, and no controller works on one"
        r" \(on the embedded cluster: --kwait-load-balancers\)",
        kwait.wait_for_load_balancer,
        "web",
    )
    found = kwait.get("service/web")
    assert found["status"] == {"loadBalancer": {}}
    assert not found["metadata"].get("finalizers")
    assert list_reasons(kwait) == []


# -- on the loopback interface


@pytest.fixture
def on_loopback(balanced: Kwait) -> Kwait:
    """Return a namespace of an embedded cluster: only there the test chooses addresses."""
    if balanced.cluster.provider != "embedded":
        pytest.skip("about load balancers on the loopback interface")
    return balanced


def test_address_that_is_asked_for(on_loopback: Kwait) -> None:
    create_web(on_loopback)
    before = find_address(on_loopback)
    asked = f"{before.rpartition('.')[0]}.200"
    change_service(on_loopback, loadBalancerIP=asked)
    on_loopback.wait_for_new_ingress_ip("web", before)
    on_loopback.wait_for_pod_ready("web")
    assert request(asked) == "web"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((before, PORT), timeout=5)


def test_no_node_ports_are_needed(on_loopback: Kwait) -> None:
    create_web(on_loopback, allocateLoadBalancerNodePorts=False, externalTrafficPolicy="Local")
    assert "nodePort" not in on_loopback.get("service/web")["spec"]["ports"][0]
    on_loopback.wait_for_pod_ready("web")
    assert request(find_address(on_loopback)) == "web"


def test_machine_is_outside_of_the_source_ranges(on_loopback: Kwait) -> None:
    create_web(on_loopback, loadBalancerSourceRanges=["10.0.0.0/8"])
    address = find_address(on_loopback)
    on_loopback.wait_for_pod_ready("web")
    with pytest.raises(ConnectionResetError), socket.create_connection((address, PORT), 5) as made:
        made.recv(1)
    script = f"until wget -qO- http://{address}:{PORT}/; do sleep 0.2; done"
    on_loopback.create(pod("customer", container(script=script)))
    on_loopback.wait_for_pod_success("customer")
    change_service(on_loopback, loadBalancerSourceRanges=["127.0.0.0/8"])
    assert request(address) == "web"


def test_what_the_machine_refuses_ends_the_wait(on_loopback: Kwait) -> None:
    """Another process has the port; it is tried again until that has ended."""
    create_web(on_loopback)
    taken = f"{find_address(on_loopback).rpartition('.')[0]}.201"
    with socket.socket() as process:
        process.bind((taken, PORT))
        process.listen()
        on_loopback.create(service("late", **BALANCED, loadBalancerIP=taken))
        with raises(
            WaitFailed,
            match="can no longer have a load balancer: SyncLoadBalancerFailed: Error syncing load"
            f" balancer: .* listen on {taken}:{PORT}/TCP: Address already in use",
        ):
            on_loopback.wait_for_load_balancer("late", grace="1s")
    assert find_address(on_loopback, "late") == taken


def change_service(kwait: Kwait, **spec: Any) -> None:
    kubernetes.client.CoreV1Api(kwait.client).patch_namespaced_service(
        "web", kwait.namespace, {"spec": spec}
    )
