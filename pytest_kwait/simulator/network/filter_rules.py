"""Rules that filter connections between addresses: the first one that matches decides.

They go from the server to what runs programs, which applies them to new connections. Answers of a
connection, and its later packets, need none.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

LAST_PORT = 65535


class PortRange(NamedTuple):
    """Ports of one protocol.

    Args:
        protocol: `TCP`, `UDP` or `SCTP`; empty for any, ports or not.
        first: the first port.
        last: the last port.
    """

    protocol: str
    first: int
    last: int

    def has(self, port: int, protocol: str) -> bool:
        """Return whether a port is one of these."""
        return self.protocol in ("", protocol) and self.first <= port <= self.last


ALL_PORTS = PortRange("", 0, LAST_PORT)


class FilterRule(NamedTuple):
    """A rule for connections from one address to a network.

    Args:
        source: the address.
        destination: the network in CIDR notation.
        ports: its ports.
        is_allowed: whether connections are allowed; else their packets are dropped.
    """

    source: str
    destination: str
    ports: PortRange
    is_allowed: bool


class ConnectionFilter:
    """The rules of one source, or for one destination.

    Args:
        rules: all that may match, in their order.
    """

    def __init__(self, rules: Iterable[FilterRule]) -> None:
        self._rules = [(rule, IPv4Network(rule.destination)) for rule in rules]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def is_allowed(self, source: str, host: IPv4Address, port: int, protocol: str) -> bool:
        """Return whether a connection is allowed; one without a rule is."""
        for rule, network in self._rules:
            if rule.source == source and host in network and rule.ports.has(port, protocol):
                return rule.is_allowed
        return True


def intersect_ports(ranges: Iterable[PortRange], others: Iterable[PortRange]) -> list[PortRange]:
    """Return the ports that are in one of both lists each."""
    second = list(others)
    found: list[PortRange] = []
    for one in ranges:
        for other in second:
            if one.protocol and other.protocol and one.protocol != other.protocol:
                continue
            first, last = max(one.first, other.first), min(one.last, other.last)
            if first <= last:
                found.append(PortRange(one.protocol or other.protocol, first, last))
    return list(dict.fromkeys(found))
