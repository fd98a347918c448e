"""The cluster's network from a pod: names, services, other pods, refusals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.busybox.programs.inetutils import PipeSink
from pytest_kwait.simulator.network.cluster_network import ClusterNetwork
from pytest_kwait.simulator.protocol.addresses import CLUSTER_DNS_ADDRESS
from pytest_kwait.simulator.protocol.egress import EgressTarget
from tests.simulator.cluster import new_cluster
from tests.simulator.network.test_egress_proxy import CLIENT, add_pod, list_events, serving
from tests.simulator.network.test_service_proxy import deny_connections
from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness, take_output

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from tests.simulator.manual_clock import ManualClock

NODE, OTHER_NODE = "172.18.0.2", "172.18.0.3"
SLICES = "endpointslices.discovery.k8s.io"
READY = {"conditions": {"ready": True, "serving": True, "terminating": False}}
UNREADY = {"conditions": {"ready": False, "serving": False, "terminating": False}}
LEAVING = {"conditions": {"ready": False, "serving": True, "terminating": True}}


def add_service(api: SimulatedCluster, name: str, namespace: str = "default", **spec: Any) -> None:
    ports = [{"name": "web", "port": 80}, {"name": "other", "port": 81}]
    selector = {"app": name}
    content = {"metadata": {"name": name}, "spec": {"ports": ports, "selector": selector, **spec}}
    api.create("services", content, namespace)


def add_slice(api: SimulatedCluster, name: str, *endpoints: dict[str, Any]) -> None:
    content = {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [{"name": "web", "port": 8080}],
        "endpoints": list(endpoints),
    }
    api.create(SLICES, content, "default")


def make_api() -> SimulatedCluster:
    api = new_cluster()
    api.create("namespaces", {"metadata": {"name": "other"}})
    for name, address in (("node-1", NODE), ("node-2", OTHER_NODE)):
        node = api.create("nodes", {"metadata": {"name": name}})
        status = {"addresses": [{"type": "InternalIP", "address": address}]}
        api.update_status("nodes", {**node, "status": status})
    ports = [{"name": "web", "port": 80, "nodePort": 30080}, {"name": "x", "port": 82}]
    addresses: dict[str, Any] = {"clusterIP": "10.0.0.9", "externalIPs": ["192.0.2.9"]}
    add_service(api, "web", type="NodePort", ports=ports, **addresses)
    add_service(api, "empty", clusterIP="10.0.0.8")
    add_service(api, "peers", clusterIP="None")
    add_service(api, "leaving", clusterIP="10.0.0.6")
    add_service(api, "local", clusterIP="10.0.0.5", internalTrafficPolicy="Local")
    add_service(api, "sticky", clusterIP="10.0.0.4", sessionAffinity="ClientIP")
    target = "web.default.svc.cluster.local"
    add_service(api, "alias", type="ExternalName", externalName=target)
    target = "round.default.svc.cluster.local"
    add_service(api, "round", type="ExternalName", externalName=target)
    add_service(api, "far", "other", clusterIP="10.0.0.7")
    add_slice(api, "web", {"addresses": ["10.244.0.5"], **READY})
    add_slice(
        api, "peers", {"addresses": ["10.244.0.5"], "hostname": "peers-0", **READY},
        {"addresses": ["10.244.0.6"], **UNREADY}, {"addresses": ["10.244.0.7"], **READY},
    )  # fmt: skip
    add_slice(
        api, "leaving", {"addresses": ["10.244.0.6"], **UNREADY},
        {"addresses": ["10.244.0.5"], **LEAVING},
    )  # fmt: skip
    add_slice(api, "local", {"addresses": ["10.244.0.5"], "nodeName": "node-2", **READY})
    sticky = [{"addresses": [f"10.244.0.{last}"], **READY} for last in (5, 6, 7, 8)]
    add_slice(api, "sticky", *sticky)
    return api


@pytest.fixture
def api() -> SimulatedCluster:
    return make_api()


def make_server(clock: ManualClock) -> ContainerHarness:
    script = "hostname > /index.html; httpd -f -p 8080 -h /"
    return ContainerHarness("sh", "-c", script, clock=clock)


def make_client(
    api: SimulatedCluster, clock: ManualClock, servers: tuple[int, ...] = (5,), node: str = "node-1"
) -> ContainerHarness:
    networks = {f"10.244.0.{last}": make_server(clock).network for last in servers}
    networks[NODE] = ContainerHarness(clock=clock).network
    external = ClusterNetwork(api, networks.get, node)
    clock.advance(1)
    return ContainerHarness(external=external, clock=clock)


@pytest.fixture
def harness(api: SimulatedCluster) -> ContainerHarness:
    clock: Any = api.clock
    return make_client(api, clock)


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("web.default.svc.cluster.local", ["10.0.0.9"]),
        ("WEB.default.svc.cluster.local.", ["10.0.0.9"]),
        ("10-244-0-5.web.default.svc.cluster.local", ["10.244.0.5"]),
        ("peers.default.svc.cluster.local", ["10.244.0.5", "10.244.0.7"]),
        ("peers-0.peers.default.svc.cluster.local", ["10.244.0.5"]),
        ("10-244-0-7.peers.default.svc.cluster.local", ["10.244.0.7"]),
        ("10-244-0-6.peers.default.svc.cluster.local", []),
        ("10-244-0-6.default.pod.cluster.local", ["10.244.0.6"]),
        ("10-244-0-6.nowhere.pod.cluster.local", []),
        ("10-244-0.default.pod.cluster.local", []),
        ("alias.default.svc.cluster.local", ["10.0.0.9"]),
        ("x.alias.default.svc.cluster.local", []),
        ("round.default.svc.cluster.local", []),
        ("far.other.svc.cluster.local", ["10.0.0.7"]),
        ("far.default.svc.cluster.local", []),
        ("default.svc.cluster.local", []),
        ("cluster.local", []),
        ("web", []),
        ("node-1", [NODE]),
    ],
)
def test_dns_resolves_qualified_names(
    harness: ContainerHarness, name: str, addresses: list[str]
) -> None:
    assert sorted(harness.network.resolve(name, CLUSTER_DNS_ADDRESS)) == addresses


def test_other_servers_do_not_know_services(harness: ContainerHarness) -> None:
    name = "web.default.svc.cluster.local"
    assert harness.network.resolve(name, "172.30.0.1") == []
    assert harness.network.resolve("node-1", "172.30.0.1") == [NODE]


@pytest.mark.parametrize(
    "host",
    [
        "web",
        "web.default",
        "web.default.svc",
        "web.default.svc.cluster.local",
        "WEB.default.svc.cluster.local.",
        "alias",
        "leaving",
        "10.0.0.9",
        "192.0.2.9",
        f"{NODE}:30080",
        f"{OTHER_NODE}:30080",
        "peers-0.peers:8080",
        "10-244-0-5.default.pod:8080",
        "10.244.0.5:8080",
    ],
)
def test_a_page_is_fetched_through_a_service(harness: ContainerHarness, host: str) -> None:
    session = harness.run("wget", "-qO-", f"http://{host}/")
    harness.clock.advance(1)
    output = take_output(session)
    assert (session.output.code, output) == (0, {1: b"host\n", 2: b""})


@pytest.mark.parametrize(
    ("script", "err"),
    [
        ("wget -qO- missing", b"wget: bad address 'missing'\n"),
        ("wget -qO- far", b"wget: bad address 'far'\n"),
        ("wget -qO- round", b"wget: bad address 'round'\n"),
        (
            "wget -qO- 10.244.0.5:81",
            b"wget: can't connect to remote host (10.244.0.5): Connection refused\n",
        ),
        ("wget -qO- empty", b"wget: can't connect to remote host (10.0.0.8): Connection refused\n"),
        (
            "wget -qO- web:82",
            b"wget: can't connect to remote host (10.0.0.9): Connection refused\n",
        ),
        (
            "wget -qO- peers-0.peers",
            b"wget: can't connect to remote host (10.244.0.5): Connection refused\n",
        ),
        (
            f"wget -qO- {NODE}:30081",
            f"wget: can't connect to remote host ({NODE}): Connection refused\n".encode(),
        ),
        (
            "wget -T 3 -qO- web:8080",
            b"wget: can't connect to remote host (10.0.0.9): Connection timed out\n",
        ),
        (
            "wget -T 3 -qO- local",
            b"wget: can't connect to remote host (10.0.0.5): Connection timed out\n",
        ),
        ("nc missing 80", b"nc: bad address 'missing'\n"),
        (
            "nc 10.244.0.5 81",
            b"nc: can't connect to remote host (10.244.0.5): Connection refused\n",
        ),
    ],
)
def test_refused_connections(harness: ContainerHarness, script: str, err: bytes) -> None:
    session = harness.run("sh", "-c", script)
    harness.clock.advance(4)
    assert (session.output.code, take_output(session)) == (1, {1: b"", 2: err})


def test_allowed_egress_is_reached_from_the_machine(harness: ContainerHarness) -> None:
    """By name and address; other ports are refused, and other names are events of the pod."""
    external: Any = harness.network.external
    api: SimulatedCluster = external._cluster
    sink = PipeSink()

    async def run() -> bytes:
        async with serving() as port:
            api.egress.add(EgressTarget("host.kwait.internal", port))
            [address] = external.resolve("host.kwait.internal", CLUSTER_DNS_ADDRESS)
            assert external.resolve("host.kwait.internal", "172.30.0.1") == [address]
            assert external.connect(address, port + 1, sink) == "Connection refused"
            connecting = external.connect(address, port, sink)
            while connecting.result is None:
                await async_sleep(0)
            connecting.result.stdin.send(b"hello")
            connecting.result.stdin.close()
            while not len(sink.pipe):
                await async_sleep(0)
            connecting.result.stop()
            await async_sleep(0)
        return sink.pipe.take(100)

    assert asyncio.run(run()) == b"read hello"
    add_pod(api)
    for server in (CLUSTER_DNS_ADDRESS, "172.30.0.1"):
        assert external.resolve("pypi.org", server, CLIENT) == []
    assert [reason for _, reason, _ in list_events(api)] == ["EgressNotAllowed"]


def test_local_traffic_policy_selects_endpoints_of_the_node(api: SimulatedCluster) -> None:
    clock: Any = api.clock
    client = make_client(api, clock, node="node-2")
    session = client.run("nc", "-z", "local", "80")
    client.clock.advance(1)
    assert session.output.code == 0


def test_load_balancer_takes_connections_from_its_source_ranges(api: SimulatedCluster) -> None:
    """Others are dropped, as by kube-proxy; externalIPs and cluster IPs have no ranges."""
    service = api.modify(
        "services", "web", "default",
        lambda obj: obj["spec"].update(
            type="LoadBalancer", loadBalancerSourceRanges=["10.244.9.0/24", "10.244.8.1/32"]
        ),
    )  # fmt: skip
    status = {"loadBalancer": {"ingress": [{"ip": "127.5.0.1", "ipMode": "VIP"}]}}
    api.update_status("services", {**service, "status": status})
    network = Network()
    external = ClusterNetwork(api, lambda _: network, "node-1")
    answers = [
        external.connect(address, 80, PipeSink(), source)
        for address, source in (
            ("127.5.0.1", "10.244.7.1"), ("127.5.0.1", "10.244.9.7"), ("127.5.0.1", "10.244.8.1"),
            ("192.0.2.9", "10.244.7.1"), ("10.0.0.9", "10.244.7.1"),
        )
    ]  # fmt: skip
    # Nothing listens in the pod.
    assert answers == ["Connection timed out", *["Connection refused"] * 4]


@pytest.mark.parametrize(
    ("place", "target"),
    [
        (("10.0.0.9", 80), ("10.244.0.5", 8080)),
        (("192.0.2.9", 80), ("10.244.0.5", 8080)),
        ((NODE, 30080), ("10.244.0.5", 8080)),
        (("10.244.0.7", 22), ("10.244.0.7", 22)),
        (("198.18.0.1", 443), ("198.18.0.1", 443)),
        (("10.0.0.1", 443), ("127.0.0.1", 0)),
    ],
)
def test_policies_are_asked_for_the_last_target(
    api: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    place: tuple[str, int],
    target: tuple[str, int],
) -> None:
    """Services are judged by their endpoints; a client whose address is masked is still a pod."""
    api.egress.add(EgressTarget("pypi.org", 443))
    spec = {"clusterIP": "10.0.0.1", "ports": [{"name": "https", "port": 443}]}
    api.create("services", {"metadata": {"name": "kubernetes"}, "spec": spec}, "default")
    content = {
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv4", "ports": [{"name": "https", "port": 6443}],
        "endpoints": [{"addresses": ["192.0.2.1"], **READY}],
    }  # fmt: skip
    api.create(SLICES, content, "default")
    asked = deny_connections(api, monkeypatch)
    external = ClusterNetwork(api, lambda _: Network(), "node-1")
    assert external.connect(*place, PipeSink(), CLIENT) == "Connection timed out"
    assert asked == [(CLIENT, *target, "TCP")]


def test_policies_are_asked_for_the_dns_server(
    api: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = deny_connections(api, monkeypatch)
    external = ClusterNetwork(api, lambda _: None, "node-1")
    assert external.resolve("web.default.svc.cluster.local", CLUSTER_DNS_ADDRESS, CLIENT) == []
    assert asked == [(CLIENT, CLUSTER_DNS_ADDRESS, 53, "UDP")]


def test_session_affinity_keeps_the_endpoint(api: SimulatedCluster) -> None:
    clock: Any = api.clock
    asked: list[str] = []

    def find_network(address: str) -> None:
        asked.append(address)

    external = ClusterNetwork(api, find_network, "node-1")
    client = ContainerHarness(external=external, clock=clock)

    def count_endpoints() -> int:
        asked.clear()
        for _ in range(40):
            client.run("nc", "-z", "-w", "1", "sticky", "80")
        client.clock.advance(2)
        return len(set(asked))

    assert count_endpoints() == 1
    service = api.get("services", "sticky", "default")
    api.update("services", {**service, "spec": {**service["spec"], "sessionAffinity": "None"}})
    assert count_endpoints() == 4


def test_pods_of_other_dns_policies() -> None:
    api = make_api()
    clock: Any = api.clock

    def run(spec: dict[str, Any], script: str) -> str:
        pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
        external = ClusterNetwork(api, lambda _: None, "node-1")
        session = ContainerHarness(external=external, clock=clock, pod=pod).run("sh", "-c", script)
        clock.advance(2)
        return take_output(session)[1].decode()

    default = run({"dnsPolicy": "Default"}, "cat /etc/resolv.conf; wget web 2>&1")
    assert default == "nameserver 172.30.0.1\nwget: bad address 'web'\n"
    on_host = {"dnsPolicy": "ClusterFirst", "hostNetwork": True}
    assert run(on_host, "cat /etc/resolv.conf") == "nameserver 172.30.0.1\n"
    config = {
        "nameservers": ["10.0.0.10", "10.0.0.10", "192.0.2.1"],
        "searches": ["default.svc.cluster.local"],
        "options": [{"name": "ndots", "value": "1"}, {"name": "edns0"}],
    }
    text = (
        "search default.svc.cluster.local\nnameserver 10.0.0.10\nnameserver 192.0.2.1\n"
        "options ndots:1 edns0\n"
    )
    own = {"dnsPolicy": "None", "dnsConfig": config}
    assert run(own, "cat /etc/resolv.conf") == text
    assert run(own, "wget -T 1 web 2>&1").startswith("Connecting to web (10.0.0.9:80)\n")
    assert run(own, "wget web.default.svc 2>&1") == "wget: bad address 'web.default.svc'\n"
    merged = run({"dnsPolicy": "ClusterFirst", "dnsConfig": config}, "cat /etc/resolv.conf")
    assert merged == (
        "search default.svc.cluster.local svc.cluster.local cluster.local\n"
        "nameserver 10.0.0.10\nnameserver 192.0.2.1\noptions ndots:1 edns0\n"
    )


def test_hosts_file_comes_before_dns(harness: ContainerHarness) -> None:
    harness.sh("echo '10.244.0.5 web other-name # 10.0.0.1 commented' >> /etc/hosts")
    for host in ("web:8080", "OTHER-NAME:8080"):
        session = harness.run("wget", "-qO-", host)
        harness.clock.advance(1)
        assert take_output(session)[1] == b"host\n"
    assert harness.sh("wget commented 2>&1") == "wget: bad address 'commented'\n"


# The output of busybox 1.35 with such a server.
_NSLOOKUP_WEB = """\
Server:\t\t10.0.0.10
Address:\t10.0.0.10:53

Name:\tweb.default.svc.cluster.local
Address: 10.0.0.9

** server can't find web.svc.cluster.local: NXDOMAIN

** server can't find web.cluster.local: NXDOMAIN


** server can't find web.svc.cluster.local: NXDOMAIN

** server can't find web.cluster.local: NXDOMAIN

1
"""


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ("web", _NSLOOKUP_WEB),
        (
            "web.default",
            "Server:\t\t10.0.0.10\nAddress:\t10.0.0.10:53\n\n"
            "** server can't find web.default: NXDOMAIN\n\n"
            "** server can't find web.default: NXDOMAIN\n\n1\n",
        ),
        (
            "web.default.svc.cluster.local.",
            "Server:\t\t10.0.0.10\nAddress:\t10.0.0.10:53\n\n"
            "Name:\tweb.default.svc.cluster.local\nAddress: 10.0.0.9\n\n\n0\n",
        ),
        (
            "-type=a web.default.svc.cluster.local",
            "Server:\t\t10.0.0.10\nAddress:\t10.0.0.10:53\n\n"
            "Name:\tweb.default.svc.cluster.local\nAddress: 10.0.0.9\n\n0\n",
        ),
        (
            "web.default.svc.cluster.local 172.30.0.1",
            "Server:\t\t172.30.0.1\nAddress:\t172.30.0.1:53\n\n"
            "** server can't find web.default.svc.cluster.local: NXDOMAIN\n\n"
            "** server can't find web.default.svc.cluster.local: NXDOMAIN\n\n1\n",
        ),
    ],
)
def test_nslookup(harness: ContainerHarness, args: str, text: str) -> None:
    assert harness.sh(f"nslookup {args}; echo $?") == text
