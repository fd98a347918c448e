"""Targets of egress: their texts, addresses in pods, and several clients."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.egress import (
    EgressTarget,
    EgressTargets,
    is_host_name,
    parse_egress,
    read_egress_list,
)

_VALID = (
    "use HOST:PORT with a DNS name, an IPv4 address or localhost, and a port from 1 to 65535, for "
    "example pypi.org:443"
)
_MACHINE = "host.kwait.internal"


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("pypi.org:443", ("pypi.org", 443)),
        (" PyPI.org.:1 ", ("pypi.org", 1)),
        ("nas:65535", ("nas", 65535)),
        ("3com.com:80", ("3com.com", 80)),
        ("192.0.2.7:80", ("192.0.2.7", 80)),
        ("localhost:80", (_MACHINE, 80)),
        ("127.0.0.1:80", (_MACHINE, 80)),
        ("host.kwait.internal:80", (_MACHINE, 80)),
    ],
)
def test_hosts_are_names_addresses_or_the_machine(text: str, target: tuple[str, int]) -> None:
    assert parse_egress(text) == target


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pypi.org", _VALID),
        ("pypi.org:", _VALID),
        (":443", _VALID),
        ("", _VALID),
        ("*", _VALID),
        ("*:443", _VALID),
        ("pypi.org:0", _VALID),
        ("pypi.org:65536", _VALID),
        ("pypi.org:https", _VALID),
        ("pypi.org:٤", _VALID),
        ("https://pypi.org", _VALID),
        ("https://pypi.org:443", _VALID),
        ("pypi.org:443/simple", _VALID),
        ("::1:80", _VALID),
        ("[::1]:80", _VALID),
        ("1.2.3:80", _VALID),
        ("a_b.org:80", _VALID),
        (f"{'a' * 64}.org:80", _VALID),
        ("a." * 126 + "aa:80", _VALID),
        (443, _VALID),
        (
            "web.default.svc.cluster.local:80",
            "it is a name of the cluster itself, which needs no egress",
        ),
        ("0.0.0.0:80", "it is no address of one host; use localhost for this machine"),
        ("127.0.0.53:53", "it is no address of one host; use localhost for this machine"),
        (
            "10.0.7.7:5432",
            "in the cluster 10.0.0.0/16 has the addresses of services; use the host's DNS name",
        ),
        (
            "10.245.7.7:5432",
            "in the cluster 10.244.0.0/14 has the addresses of pods; use the host's DNS name",
        ),
        (
            "198.18.0.1:80",
            "in the cluster 198.18.0.0/16 has the addresses of names outside of the cluster; use "
            "the host's DNS name",
        ),
    ],
)
def test_an_invalid_target_is_refused_with_its_source(text: Any, why: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        parse_egress(text, "env KWAIT_EGRESS")
    assert str(error.value) == f"egress={text!r} (from env KWAIT_EGRESS) is not valid: {why}"


def test_a_target_that_is_given_twice_is_refused() -> None:
    assert read_egress_list(["a.org:1", "a.org:2"]) == [("a.org", 1), ("a.org", 2)]
    with pytest.raises(InvalidArgument) as error:
        read_egress_list(["localhost:1", "127.0.0.1:1"], "option --kwait-egress")
    assert str(error.value) == (
        "egress='127.0.0.1:1' (from option --kwait-egress) is not valid: it is given twice; leave "
        "one out"
    )


def test_names_have_addresses_of_their_own() -> None:
    targets = EgressTargets([EgressTarget("a.org", 1), EgressTarget("192.0.2.7", 80)])
    targets.add(EgressTarget("b.org", 1))
    assert [targets.get_address(one) for one in targets] == [
        "198.18.0.1",
        "192.0.2.7",
        "198.18.0.2",
    ]
    assert [targets.find_address(name) for name in ("b.org", "c.org")] == ["198.18.0.2", None]
    assert targets.find_target("198.18.0.1", 1) == EgressTarget("a.org", 1)
    assert targets.find_target("198.18.0.1", 2) is None
    assert targets.has_address("192.0.2.7")
    assert not targets.has_address("192.0.2.8")


def test_a_target_is_allowed_until_its_last_client_ends() -> None:
    targets, changes = EgressTargets(), []
    target = EgressTarget("a.org", 1)
    stop = targets.subscribe(lambda: changes.append(list(targets)))
    targets.add(target)
    targets.add(target)
    targets.remove(target)
    assert targets.find_address("a.org") == "198.18.0.1"
    targets.remove(target)
    assert targets.find_address("a.org") is None
    # Programs may keep the address.
    targets.add(EgressTarget("b.org", 1))
    stop()
    targets.add(target)
    assert targets.get_address(target) == "198.18.0.1"
    assert changes == [[target], [target], [target], [], [EgressTarget("b.org", 1)]]


@pytest.mark.parametrize("name", ["_ldap._tcp.corp.org", "a..org", "-a.org", "10.0.0.1", ""])
def test_what_is_no_name_of_a_host(name: str) -> None:
    assert not is_host_name(name)
