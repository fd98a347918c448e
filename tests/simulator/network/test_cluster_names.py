"""DNS records of services, endpoints and pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.network.cluster_names import ClusterNames, Record
from pytest_kwait.simulator.protocol.egress import EgressTarget
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

WEB, PEERS = "web.default.svc.cluster.local", "peers.default.svc.cluster.local"


def add_service(api: SimulatedCluster, name: str, endpoints: list[Any], **spec: Any) -> None:
    ports = [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    content = {"metadata": {"name": name}, "spec": {"ports": ports, **spec}}
    api.create("services", content, "default")
    slice_ = {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints,
    }
    api.create("endpointslices.discovery.k8s.io", slice_, "default")


@pytest.fixture
def names() -> ClusterNames:
    api = new_cluster()
    ready = {"conditions": {"ready": True}}
    add_service(api, "web", [{"addresses": ["10.244.1.4"], **ready}], clusterIP="10.0.0.9")
    endpoints = [
        {"addresses": ["10.244.1.5"], "hostname": "peers-0", **ready},
        {"addresses": ["10.244.1.6"], **ready},
        {"addresses": ["10.244.1.7"], "conditions": {"ready": False}},
    ]
    add_service(api, "peers", endpoints, clusterIP="None")
    add_service(api, "none", [], clusterIP="None")
    add_service(api, "alias", [], type="ExternalName", externalName=WEB)
    add_service(api, "outside", [], type="ExternalName", externalName="db.example.com")
    return ClusterNames(api)


@pytest.mark.parametrize(
    ("name", "kind", "values"),
    [
        (WEB, "A", ["10.0.0.9"]),
        (WEB.upper() + ".", "A", ["10.0.0.9"]),
        (WEB, "AAAA", []),
        (WEB, "SRV", [f"0 50 80 {WEB}.", f"0 50 53 {WEB}."]),
        (f"_http._tcp.{WEB}", "SRV", [f"0 100 80 {WEB}."]),
        (f"_dns._udp.{WEB}", "SRV", [f"0 100 53 {WEB}."]),
        (f"_dns._tcp.{WEB}", "SRV", None),
        (f"10-244-1-4.{WEB}", "A", ["10.244.1.4"]),
        (PEERS, "A", ["10.244.1.5", "10.244.1.6"]),
        (f"peers-0.{PEERS}", "A", ["10.244.1.5"]),
        (f"peers-1.{PEERS}", "A", None),
        (
            f"_http._tcp.{PEERS}",
            "SRV",
            [f"0 50 8080 peers-0.{PEERS}.", f"0 50 8080 10-244-1-6.{PEERS}."],
        ),
        ("none.default.svc.cluster.local", "A", None),
        ("alias.default.svc.cluster.local", "A", [f"{WEB}.", "10.0.0.9"]),
        ("alias.default.svc.cluster.local", "CNAME", [f"{WEB}."]),
        ("outside.default.svc.cluster.local", "A", ["db.example.com."]),
        ("10-244-1-5.default.pod.cluster.local", "A", ["10.244.1.5"]),
        ("10-244-1.default.pod.cluster.local", "A", None),
        ("default.svc.cluster.local", "A", []),
        ("svc.cluster.local", "A", []),
        ("cluster.local", "A", []),
        ("web.never-was.svc.cluster.local", "A", None),
        ("dns-version.cluster.local", "TXT", ['"1.1.0"']),
        ("9.0.0.10.in-addr.arpa", "PTR", [f"{WEB}."]),
        ("5.1.244.10.in-addr.arpa", "PTR", [f"peers-0.{PEERS}."]),
        ("9.9.9.9.in-addr.arpa", "PTR", None),
        ("example.com", "A", None),
    ],
)
def test_lookup(names: ClusterNames, name: str, kind: str, values: list[str] | None) -> None:
    found = names.lookup(name, kind)
    assert (None if found is None else [record.value for record in found]) == values


def test_alias_records_have_their_own_names(names: ClusterNames) -> None:
    assert names.lookup("alias.default.svc.cluster.local", "A") == [
        Record("alias.default.svc.cluster.local", "CNAME", f"{WEB}."),
        Record(WEB, "A", "10.0.0.9"),
    ]


def test_alias_of_itself_ends() -> None:
    api = new_cluster()
    add_service(api, "loop", [], type="ExternalName", externalName="loop.default.svc.cluster.local")
    found = ClusterNames(api).lookup("loop.default.svc.cluster.local", "A")
    assert found is not None
    assert {record.type for record in found} == {"CNAME"}


def test_allowed_names_outside_have_an_address(names: ClusterNames) -> None:
    names._cluster.egress.add(EgressTarget("db.example.com", 5432))
    assert names.resolve("DB.example.com.") == names.resolve_outside("db.example.com")
    assert names.resolve("outside.default.svc.cluster.local") == ["198.18.0.1"]


def test_nodes_know_no_services(names: ClusterNames) -> None:
    api = names._cluster
    api.egress.add(EgressTarget("db.example.com", 5432))
    of_nodes = ClusterNames(api, has_services=False)
    assert of_nodes.resolve("db.example.com") == ["198.18.0.1"]
    assert of_nodes.lookup(WEB, "A") is None
    assert of_nodes.find_unresolved(WEB) == ""


@pytest.mark.parametrize(
    ("name", "unresolved"),
    [
        ("PyPI.org.", "pypi.org"),
        ("outside.default.svc.cluster.local", "db.example.com"),
        ("alias.default.svc.cluster.local", ""),
        (WEB, ""),
        ("none.default.svc.cluster.local", ""),
        ("cluster.local", ""),
        ("4.1.244.10.in-addr.arpa", ""),
        ("8.b.d.0.1.0.0.2.ip6.arpa", ""),
    ],
)
def test_unresolved_name_outside_is_the_asked_one_or_that_of_an_alias(
    names: ClusterNames, name: str, unresolved: str
) -> None:
    assert names.find_unresolved(name) == unresolved
