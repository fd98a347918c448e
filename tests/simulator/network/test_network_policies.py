"""What network policies allow, and the rules that say the same."""

from __future__ import annotations

from ipaddress import IPv4Address
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kwait.simulator.network.filter_rules import ConnectionFilter
from pytest_kwait.simulator.network.network_policies import (
    NETWORK_POLICIES,
    PolicySet,
    get_network_policies,
)
from tests.objects import pod
from tests.simulator.cluster import new_cluster
from tests.simulator.network.test_egress_proxy import list_events

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj

NODE, DNS = "172.30.0.2", "10.0.0.10"
WEB, SHOP, GUEST, FAR = "10.244.0.4", "10.244.0.5", "10.244.0.6", "10.244.1.7"
OUTSIDE, SERVICE, DEAD_SERVICE = "198.51.100.7", "10.0.0.20", "10.0.0.21"
PODS = {
    WEB: ("web", "default", {"app": "web", "tier": "back"}),
    SHOP: ("shop", "default", {"app": "shop"}),
    GUEST: ("guest", "default", {"app": "guest"}),
    FAR: ("far", "other", {"app": "shop"}),
}
NAMES = {address: name for address, (name, *_) in PODS.items()}
ONLY_SHOP = [{"podSelector": {"matchLabels": {"app": "shop"}}}]
OTHER_NAMESPACE = {"namespaceSelector": {"matchLabels": {"team": "other"}}}
ALL_NAMESPACES: dict[str, Any] = {"namespaceSelector": {}}


def block(cidr: str, *excluded: str) -> list[dict[str, Any]]:
    """Return a peer: the addresses of a network without others."""
    return [{"ipBlock": {"cidr": cidr, "except": list(excluded)}}]


def labelled(key: str, text: str, **more: Any) -> list[dict[str, Any]]:
    """Return a peer: pods with a label."""
    return [{"podSelector": {"matchLabels": {key: text}}, **more}]


def opens(*peers: dict[str, Any], **port: Any) -> dict[str, Any]:
    """Return the spec of a policy that lets peers reach the pod `web`, on one port if given."""
    return closes("web", ingress=[{"from": list(peers), "ports": [port] if port else []}])


def make_cluster(*policies: dict[str, Any], namespace: str = "default") -> SimulatedCluster:
    """Return a cluster with four pods on one node, and policies."""
    api = new_cluster()
    api.create("namespaces", {"metadata": {"name": "other", "labels": {"team": "other"}}})
    ports = [
        {"name": "http", "containerPort": 8080},
        {"name": "dns", "containerPort": 5353, "protocol": "UDP"},
    ]
    pods: list[tuple[str, Obj]] = []
    for address, (name, home, labels) in PODS.items():
        made = pod(
            name, "Running", container={"ports": ports}, namespace=home, labels=labels,
            podIP=address, hostIP=NODE,
        )  # fmt: skip
        pods.append((address, made))
    kubelet: Any = SimpleNamespace(list_addresses=lambda: pods)
    api.kubelets["n"] = kubelet
    for number, spec in enumerate(policies):
        api.create(NETWORK_POLICIES, {"metadata": {"name": f"p{number}"}, "spec": spec}, namespace)
    return api


def closes(app: str | None = None, **more: Any) -> dict[str, Any]:
    """Return the spec of a policy for pods with a label, or for all; without rules it allows none.

    It is about ingress unless it has rules for egress.
    """
    selector = {} if app is None else {"matchLabels": {"app": app}}
    return {"podSelector": selector, "policyTypes": ["Ingress"], **more}


def is_allowed(
    api: SimulatedCluster, client: str, address: str, port: int = 8080, protocol: str = "TCP"
) -> bool:
    return get_network_policies(api).is_allowed(client, address, port, protocol)


def list_clients(api: SimulatedCluster, address: str, port: int = 8080) -> list[str]:
    """Return the names of the other pods that may connect to an address."""
    return [
        name
        for client, name in NAMES.items()
        if client != address and is_allowed(api, client, address, port)
    ]


OTHERS, NOT_GUEST = ["shop", "guest", "far"], ["shop", "far"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (closes("web"), []),
        (closes(), []),
        (closes("shop"), OTHERS),
        (closes("web", policyTypes=["Egress"]), OTHERS),
        (closes("web", ingress=[{}]), OTHERS),
        (opens(), OTHERS),
        (opens(*ONLY_SHOP), ["shop"]),
        (opens({"podSelector": {}}), ["shop", "guest"]),
        (opens(OTHER_NAMESPACE), ["far"]),
        (opens(ALL_NAMESPACES), OTHERS),
        (opens(*labelled("app", "shop", **OTHER_NAMESPACE)), ["far"]),
        (opens(*labelled("app", "x", **OTHER_NAMESPACE)), []),
        (opens(*ONLY_SHOP, OTHER_NAMESPACE), ["shop", "far"]),
        (closes("web", ingress=[{"from": ONLY_SHOP}, {"from": [OTHER_NAMESPACE]}]), NOT_GUEST),
        (opens(*block("10.244.0.0/24")), ["shop", "guest"]),
        (opens(*block("10.244.0.0/16", f"{GUEST}/32")), NOT_GUEST),
        (opens(*block("fd00::/8")), []),
        (opens(port=8080), OTHERS),
        (opens(port="http"), OTHERS),
        (opens(port=8000, endPort=8080), OTHERS),
        (opens(protocol="TCP"), OTHERS),
        (opens(port=8081), []),
        (opens(port=8080, protocol="UDP"), []),
        (opens(port="unknown"), []),
        (opens(port="http", protocol="UDP"), []),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_pods_that_come_in(spec: dict[str, Any], expected: list[str]) -> None:
    assert list_clients(make_cluster(spec), WEB) == expected


def test_policies_add_up() -> None:
    """A pod has what one of its policies allows; those of other directions take nothing from it."""
    api = make_cluster(
        closes("web"),
        closes("web", ingress=[{"from": ONLY_SHOP}]),
        closes("web", ingress=[{"from": [OTHER_NAMESPACE], "ports": [{"port": 8081}]}]),
        closes("web", policyTypes=["Egress"]),
    )
    assert list_clients(api, WEB) == ["shop"]
    assert list_clients(api, WEB, 8081) == ["shop", "far"]


def test_policies_are_of_their_namespace() -> None:
    api = make_cluster(closes(), namespace="other")
    assert list_clients(api, FAR) == []
    assert list_clients(api, WEB) == OTHERS


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], []),
        ([{}], [SHOP, FAR, OUTSIDE, DNS]),
        ([{"to": ONLY_SHOP}], [SHOP]),
        ([{"to": [ALL_NAMESPACES]}], [SHOP, FAR, DNS]),
        ([{"to": block("198.51.100.0/24")}], [OUTSIDE]),
        ([{"to": block("0.0.0.0/0", "10.0.0.0/8")}], [OUTSIDE]),
        ([{"to": block("0.0.0.0/0", "198.51.0.0/16")}], [SHOP, FAR, DNS]),
        ([{"ports": [{"port": 8080}]}], [SHOP, FAR, OUTSIDE, DNS]),
        # A named port is the target's; addresses outside of the cluster have none.
        ([{"ports": [{"port": "http"}]}], [SHOP, FAR]),
        ([{"to": labelled("k8s-app", "kube-dns", **ALL_NAMESPACES)}], [DNS]),
    ],
)
def test_addresses_that_a_pod_reaches(rules: list[dict[str, Any]], expected: list[str]) -> None:
    api = make_cluster(closes("web", policyTypes=["Egress"], egress=rules))
    places = (SHOP, FAR, OUTSIDE, DNS)
    assert [place for place in places if is_allowed(api, WEB, place)] == expected
    assert is_allowed(api, SHOP, OUTSIDE)


def test_what_no_policy_prevents() -> None:
    """A pod reaches itself and its node; nodes and what is no pod reach all pods."""
    api = make_cluster(closes(), closes(policyTypes=["Egress"]))
    for client, address in ((WEB, WEB), (WEB, NODE), (NODE, WEB), ("", WEB), ("192.0.2.1", WEB)):
        assert is_allowed(api, client, address)


def test_server_with_a_name_is_outside_of_all_smaller_blocks() -> None:
    """The API server of a remote cluster may have one."""
    for cidr, expected in (("0.0.0.0/0", True), ("192.0.2.0/24", False)):
        rules = [{"to": block(cidr)}]
        api = make_cluster(closes("web", policyTypes=["Egress"], egress=rules))
        assert is_allowed(api, WEB, "api.example.com", 6443) == expected


def test_denial_is_an_event_of_the_client() -> None:
    """Once for each place, and no more than eight for a pod."""
    api = make_cluster(closes("web"), closes("web"), closes("guest", policyTypes=["Egress"]))
    for _ in range(2):
        assert not is_allowed(api, SHOP, WEB)
        assert not is_allowed(api, GUEST, OUTSIDE, 53, "UDP")
    assert sorted(list_events(api)) == [
        (
            "guest", "ConnectionDenied",
            "connection to 198.51.100.7:53/UDP is denied: egress of pod guest by network policy p2",
        ),
        (
            "shop", "ConnectionDenied",
            "connection to 10.244.0.4:8080/TCP is denied: ingress of pod web by network policies "
            "p0, p1",
        ),
    ]  # fmt: skip
    for port in range(20):
        is_allowed(api, SHOP, WEB, port)
    assert [name for name, *_ in list_events(api)].count("shop") == 8


def test_failure_is_an_event_of_each_policy() -> None:
    api = make_cluster(closes("web"))
    policies = get_network_policies(api)
    policies.report_failure("nf_tables: Operation not supported")
    second = api.create(NETWORK_POLICIES, {"metadata": {"name": "p1"}, "spec": closes()}, "default")
    policies.report_failure("nf_tables: Operation not supported")
    message = "programs in pods are not restricted: nf_tables: Operation not supported"
    assert list_events(api) == [("p0", "NotEnforced", message), ("p1", "NotEnforced", message)]
    policies.forget(second)
    policies.report_failure("nf_tables: Operation not supported")
    counts = {one["involvedObject"]["name"]: one["count"] for one in api.list("events")}
    assert counts == {"p0": 1, "p1": 2}


# -- rules


def add_services(api: SimulatedCluster) -> None:
    """Add services of the pods `web` and `shop`, and one without endpoints."""
    for name, address, targets in (
        ("both", SERVICE, [WEB, SHOP]), ("none", DEAD_SERVICE, []), ("headless", "None", [WEB]),
    ):  # fmt: skip
        spec = {"clusterIP": address, "ports": [{"port": 80}]}
        api.create("services", {"metadata": {"name": name}, "spec": spec}, "default")
        labels = {"kubernetes.io/service-name": name}
        endpoints = [{"addresses": [one], "conditions": {"ready": True}} for one in targets]
        content = {
            "metadata": {"name": name, "labels": labels}, "addressType": "IPv4",
            "ports": [{"port": 8080}], "endpoints": endpoints,
        }  # fmt: skip
        api.create("endpointslices.discovery.k8s.io", content, "default")


def filter_of(api: SimulatedCluster) -> ConnectionFilter:
    return ConnectionFilter(get_network_policies(api).list_filter_rules())


def test_no_policies_have_no_rules() -> None:
    assert get_network_policies(make_cluster()).list_filter_rules() == []
    assert get_network_policies(make_cluster(closes("absent"))).list_filter_rules() == []


def test_service_leads_on_if_an_endpoint_may_be_reached() -> None:
    api = make_cluster(closes("web"))
    add_services(api)
    service = IPv4Address(SERVICE)
    assert filter_of(api).is_allowed(GUEST, service, 80, "TCP")
    api.create(NETWORK_POLICIES, {"metadata": {"name": "more"}, "spec": closes("shop")}, "default")
    assert not filter_of(api).is_allowed(GUEST, service, 80, "TCP")
    assert filter_of(api).is_allowed(GUEST, IPv4Address(DEAD_SERVICE), 80, "TCP")


@pytest.mark.parametrize(
    ("cidr", "expected"), [("0.0.0.0/0", True), ("127.0.0.0/8", True), ("192.0.2.0/24", False)]
)
def test_api_server_is_judged_by_its_own_address(cidr: str, expected: bool) -> None:
    rules = [{"to": block(cidr)}]
    api = make_cluster(closes("web", policyTypes=["Egress"], egress=rules))
    spec = {"clusterIP": "10.0.0.1", "ports": [{"port": 443}]}
    api.create("services", {"metadata": {"name": "kubernetes"}, "spec": spec}, "default")
    assert filter_of(api).is_allowed(WEB, IPv4Address("10.0.0.1"), 443, "TCP") == expected


peers = st.lists(
    st.sampled_from(
        [
            *ONLY_SHOP, OTHER_NAMESPACE, {"podSelector": {}},
            *labelled("app", "guest", **ALL_NAMESPACES),
            *block("10.244.0.0/16", "10.244.0.5/32", "10.244.1.0/24"),
            *block("198.51.100.0/24"),
        ]
    ),
    max_size=2,
)  # fmt: skip
ports = st.lists(
    st.sampled_from(
        [
            {"port": 8080}, {"port": "dns", "protocol": "UDP"}, {"protocol": "UDP"},
            {"port": 50, "endPort": 60, "protocol": "UDP"}, {"port": "http"},
        ]
    ),
    max_size=2,
)  # fmt: skip
specs = st.builds(
    lambda app, types, incoming, outgoing: {
        **closes(app), "policyTypes": types,
        "ingress": [{"from": one, "ports": at} for one, at in incoming],
        "egress": [{"to": one, "ports": at} for one, at in outgoing],
    },
    st.sampled_from([None, "web", "shop"]),
    st.sampled_from([["Ingress"], ["Egress"], ["Ingress", "Egress"]]),
    st.lists(st.tuples(peers, ports), max_size=2),
    st.lists(st.tuples(peers, ports), max_size=2),
)  # fmt: skip


@given(st.lists(specs, min_size=1, max_size=3))
def test_rules_say_what_policies_say(policies: list[dict[str, Any]]) -> None:
    api = make_cluster(*policies)
    rules = filter_of(api)
    policy_set = PolicySet(api, api.list(NETWORK_POLICIES))
    for client in PODS:
        for address in (*PODS, OUTSIDE, NODE, DNS):
            for port, protocol in ((8080, "TCP"), (22, "TCP"), (5353, "UDP"), (53, "UDP")):
                denial = policy_set.find_denial(
                    policy_set.endpoints[client], address, port, protocol
                )
                found = rules.is_allowed(client, IPv4Address(address), port, protocol)
                assert found == (denial is None), (client, address, port, protocol, denial)
