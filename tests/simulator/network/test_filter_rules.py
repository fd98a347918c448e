from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from pytest_kwait.simulator.network.filter_rules import (
    ALL_PORTS,
    ConnectionFilter,
    FilterRule,
    PortRange,
    intersect_ports,
)

WEB, ALL_TCP, DNS = PortRange("TCP", 80, 90), PortRange("TCP", 0, 65535), PortRange("UDP", 53, 53)
CLIENT, SERVER = "10.244.0.4", IPv4Address("10.244.0.5")


@pytest.mark.parametrize(
    ("ranges", "others", "expected"),
    [
        ([ALL_PORTS], [ALL_PORTS], [ALL_PORTS]),
        ([ALL_PORTS], [WEB, DNS], [WEB, DNS]),
        ([WEB], [DNS], []),
        ([WEB], [ALL_TCP, ALL_PORTS], [WEB]),
        ([WEB], [PortRange("TCP", 85, 100), PortRange("TCP", 91, 92)], [PortRange("TCP", 85, 90)]),
        ([], [ALL_PORTS], []),
    ],
)
def test_ports_of_both_lists(
    ranges: list[PortRange], others: list[PortRange], expected: list[PortRange]
) -> None:
    assert intersect_ports(ranges, others) == expected
    assert intersect_ports(others, ranges) == expected


def test_first_rule_that_matches_decides() -> None:
    rules = ConnectionFilter(
        [
            FilterRule(CLIENT, "10.244.0.5/32", WEB, is_allowed=True),
            FilterRule(CLIENT, "10.244.0.5/32", ALL_PORTS, is_allowed=False),
            FilterRule(CLIENT, "10.244.0.0/16", ALL_PORTS, is_allowed=True),
            FilterRule(CLIENT, "0.0.0.0/0", ALL_PORTS, is_allowed=False),
        ]
    )
    assert rules.is_allowed(CLIENT, SERVER, 80, "TCP")
    assert not rules.is_allowed(CLIENT, SERVER, 91, "TCP")
    assert not rules.is_allowed(CLIENT, SERVER, 80, "UDP")
    assert rules.is_allowed(CLIENT, IPv4Address("10.244.0.6"), 80, "UDP")
    assert not rules.is_allowed(CLIENT, IPv4Address("192.0.2.1"), 80, "TCP")
    assert rules.is_allowed("10.244.0.9", SERVER, 91, "TCP")
    assert rules
    assert not ConnectionFilter([])
