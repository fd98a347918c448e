from __future__ import annotations

import ipaddress

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.addresses import NODE_NETWORK, POD_NETWORK, SERVICE_NETWORK
from pytest_kwait.simulator.protocol.nodes import (
    MAX_NODES,
    NODE_ALLOCATABLE,
    NODE_CAPACITY,
    EmbeddedNode,
    Taint,
    count_nodes,
    list_nodes,
    make_node,
    make_taint,
    node_address,
    parse_pairs,
    parse_taint,
    parse_taints,
    pod_subnet,
    read_amount,
)


def test_a_number_of_nodes_has_default_names() -> None:
    assert list_nodes(2) == (EmbeddedNode("kwait-node-1"), EmbeddedNode("kwait-node-2"))
    assert (list_nodes(0), count_nodes(3), count_nodes((EmbeddedNode("a"),))) == ((), 3, 1)


def test_each_node_has_an_address_of_the_network() -> None:
    addresses = [ipaddress.ip_address(node_address(number)) for number in range(1, MAX_NODES + 1)]
    assert len(set(addresses)) == MAX_NODES
    assert {address in ipaddress.ip_network(NODE_NETWORK) for address in addresses} == {True}
    assert [str(address) for address in addresses[:2]] == ["172.30.0.2", "172.30.0.3"]


def test_pods_of_each_node_have_addresses_of_their_own() -> None:
    numbers = range(1, MAX_NODES + 1)
    networks = [ipaddress.ip_network(f"{pod_subnet(number)}.0/24") for number in numbers]
    assert len(set(networks)) == MAX_NODES
    others = [ipaddress.ip_network(network) for network in (NODE_NETWORK, SERVICE_NETWORK)]
    assert not any(network.overlaps(other) for network in networks for other in others)
    pods = ipaddress.ip_network(POD_NETWORK)
    assert all(network.overlaps(pods) for network in networks[:999])
    assert str(networks[0]) == "10.244.1.0/24"


def test_amounts_that_are_not_given_are_the_default() -> None:
    node = EmbeddedNode("a")
    assert (node.all_capacity, node.all_allocatable) == (NODE_CAPACITY, NODE_ALLOCATABLE)


def test_pods_can_use_all_of_a_given_capacity() -> None:
    node = EmbeddedNode(
        "a", capacity={"memory": "16Gi", "cpu": "4", "x.org/y": "1"}, allocatable={"cpu": "3"}
    )
    assert node.all_capacity == {**NODE_CAPACITY, "memory": "16Gi", "cpu": "4", "x.org/y": "1"}
    assert node.all_allocatable == {
        **NODE_ALLOCATABLE, "memory": "16Gi", "cpu": "3", "x.org/y": "1",
    }  # fmt: skip


def test_taints_are_those_of_a_node() -> None:
    assert Taint("a", "b", "NoExecute").to_json() == {
        "key": "a",
        "value": "b",
        "effect": "NoExecute",
    }
    assert Taint("a", "", "NoExecute").to_json() == {"key": "a", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("text", "taints"),
    [
        ("", []),
        ("a:NoSchedule", [Taint("a", "", "NoSchedule")]),
        ("a=:NoSchedule", [Taint("a", "", "NoSchedule")]),
        (
            "x.org/a=b:NoExecute, c:PreferNoSchedule",
            [Taint("x.org/a", "b", "NoExecute"), Taint("c", "", "PreferNoSchedule")],
        ),
    ],
)
def test_taints_are_parsed(text: str, taints: list[Taint]) -> None:
    assert parse_taints(text, "taints", None) == taints


def test_pairs_are_parsed() -> None:
    assert parse_pairs("a=b, c=,d=e=f", "labels", None) == {"a": "b", "c": "", "d": "e=f"}
    assert parse_pairs(" ", "labels", None) == {}


_KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def test_invalid_keys_have_the_texts_of_the_server() -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_taint("-a:NoSchedule", "taints", "ini kwait_nodes")
    assert str(caught.value) == (
        f"taints: key='-a' (from ini kwait_nodes) is not valid: name part {_KEY}"
    )
    with pytest.raises(InvalidArgument) as caught:
        make_node("a", {"b/": ""}, (), {}, {}, place="nodes[0]", source=None)
    assert str(caught.value) == (
        f"nodes[0]: labels='b/' is not valid: name part must be non-empty; name part {_KEY}"
    )
    with pytest.raises(InvalidArgument, match=r"^taints: value of a=.-. is not valid: a val"):
        make_taint("a", "-", "NoSchedule", "taints", None)


def test_amounts_are_canonical() -> None:
    node = make_node(
        "a", {}, (), {"memory": "1024Mi", "cpu": "1.50"}, {}, place="nodes[0]", source=None
    )
    assert node.capacity == {"memory": "1Gi", "cpu": "1500m"}
    assert str(read_amount("0.5", "cpu", None)) == "500m"
