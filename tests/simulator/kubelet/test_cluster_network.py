"""The cluster's network from a pod: names, services, other pods, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.simulator.kubelet.cluster_network import ClusterNetwork
from tests.simulator.kubelet.container_harness import ContainerHarness, take_output
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster


def service(name: str, namespace: str = "default", **spec: object) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


OBJECTS: dict[str, list[dict[str, Any]]] = {
    "nodes": [
        {
            "metadata": {"name": "node-1"},
            "status": {"addresses": [{"type": "InternalIP", "address": "172.18.0.2"}]},
        }
    ],
    "services": [
        service("web", clusterIP="10.96.0.9", clusterIPs=["10.96.0.9"], ports=[{"port": 80}]),
        service("empty", clusterIP="10.96.0.8", clusterIPs=["10.96.0.8"], ports=[{"port": 80}]),
        service("peers", clusterIP="None", ports=[{"port": 80}]),
        service("alias", type="ExternalName", externalName="web.default.svc.cluster.local"),
        service("round", type="ExternalName", externalName="round.default.svc.cluster.local"),
        service("far", "other", clusterIP="10.96.0.7", clusterIPs=["10.96.0.7"]),
    ],
    "endpointslices": [
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": name},
            },
            "ports": [{"port": 8080}],
            "endpoints": [
                {"addresses": ["10.244.0.5"], "hostname": "peers-0"},
                {"addresses": ["10.244.0.6"], "conditions": {"ready": False}},
            ],
        }
        for name in ("web", "peers")
    ],
}


class Api:
    """The objects of a cluster."""

    def find(self, plural: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        for one in OBJECTS[plural]:
            metadata = one["metadata"]
            if metadata["name"] == name and metadata.get("namespace", "") == namespace:
                return one
        return None

    def list(self, plural: str, namespace: str = "") -> list[dict[str, Any]]:
        return [
            one
            for one in OBJECTS[plural]
            if not namespace or one["metadata"]["namespace"] == namespace
        ]


@pytest.fixture
def harness() -> ContainerHarness:
    clock = ManualClock()
    server = ContainerHarness(
        "sh", "-c", "echo hello > /index.html; httpd -f -p 8080 -h /", clock=clock
    )
    networks = {"10.244.0.5": server.network, "172.18.0.2": ContainerHarness().network}
    external = ClusterNetwork(cast("SimulatedCluster", Api()), networks.get, "default")
    clock.advance(1)
    return ContainerHarness(external=external, clock=clock)


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("web", ["10.96.0.9"]),
        ("web.default", ["10.96.0.9"]),
        ("WEB.default.svc", ["10.96.0.9"]),
        ("web.default.svc.cluster.local.", ["10.96.0.9"]),
        ("peers", ["10.244.0.5"]),
        ("peers-0.peers", ["10.244.0.5"]),
        ("alias", ["10.96.0.9"]),
        ("node-1", ["172.18.0.2"]),
        ("far.other", ["10.96.0.7"]),
        ("10.244.0.5", ["10.244.0.5"]),
        ("localhost", ["127.0.0.1"]),
        ("far", []),
        ("x.web", []),
        ("peers-1.peers", []),
        ("round", []),
        ("nobody", []),
    ],
)
def test_names_resolve_through_search_domains(
    harness: ContainerHarness, name: str, addresses: list[str]
) -> None:
    assert harness.network.resolve(name) == addresses


@pytest.mark.parametrize(
    ("script", "code", "err"),
    [
        ("wget -qO- nobody", 1, b"wget: bad address 'nobody'\n"),
        (
            "wget -qO- 10.244.0.5:81",
            1,
            b"wget: can't connect to remote host (10.244.0.5): Connection refused\n",
        ),
        (
            "wget -qO- empty",
            1,
            b"wget: can't connect to remote host (10.96.0.8): Connection refused\n",
        ),
        ("nc nobody 80", 1, b"nc: bad address 'nobody'\n"),
        (
            "nc 10.244.0.5 81",
            1,
            b"nc: can't connect to remote host (10.244.0.5): Connection refused\n",
        ),
        ("nc -z web 80", 0, b""),
        ("nc -z 10.244.0.5 8080", 0, b""),
    ],
)
def test_connections_to_pods_and_services(
    harness: ContainerHarness, script: str, code: int, err: bytes
) -> None:
    session = harness.run("sh", "-c", script)
    harness.clock.advance(1)
    assert (session.output.code, take_output(session)[2]) == (code, err)


def test_nslookup_ignores_search_domains(harness: ContainerHarness) -> None:
    assert "server can't find web: NXDOMAIN" in harness.sh("nslookup web")
    found = harness.sh("nslookup web.default.svc.cluster.local")
    assert "Name:\tweb.default.svc.cluster.local\nAddress: 10.96.0.9\n" in found


@pytest.mark.parametrize("host", ["web", "alias", "peers:8080", "10.244.0.5:8080", "10.96.0.9"])
def test_a_page_is_fetched_from_another_pod(harness: ContainerHarness, host: str) -> None:
    session = harness.run("wget", "-qO-", f"http://{host}/index.html")
    harness.clock.advance(1)
    assert take_output(session)[1] == b"hello\n"
