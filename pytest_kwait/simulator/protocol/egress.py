"""Egress: the hosts and ports outside of the cluster that pods may reach.

In pods a name has an address of a range of its own, an IPv4 address is itself, and the machine that
runs the cluster is `host.kwait.internal`.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.addresses import (
    CLUSTER_DOMAIN,
    NODE_NETWORK,
    POD_NETWORK,
    SERVICE_NETWORK,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MACHINE_NAME = "host.kwait.internal"
"""The name in pods of the machine that runs the cluster; see host.docker.internal."""

# Of tests of network devices (RFC 2544): hosts of real networks have other addresses.
_NAME_NETWORK = IPv4Network("198.18.0.0/16")
_RESERVED_NETWORKS = {
    "pods": IPv4Network(POD_NETWORK),
    "services": IPv4Network(SERVICE_NETWORK),
    "nodes": IPv4Network(NODE_NETWORK),
    "names outside of the cluster": _NAME_NETWORK,
}
_MACHINE_HOSTS = ("localhost", "127.0.0.1", MACHINE_NAME)
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
# The last label of a name is no number: those are addresses.
_HOST_NAME = re.compile(rf"({_LABEL}\.)*(?!\d+$){_LABEL}")
_MAX_HOST_NAME = 253
_PORT = re.compile("[1-9][0-9]{0,4}")
_MAX_PORT = 65535
_VALID = (
    "use HOST:PORT with a DNS name, an IPv4 address or localhost, and a port from 1 to 65535, for "
    "example pypi.org:443"
)
_OF_CLUSTER = "it is a name of the cluster itself, which needs no egress"


class EgressTarget(NamedTuple):
    """A port of a host outside of the cluster.

    Args:
        host: its DNS name or IPv4 address; `MACHINE_NAME` for this machine.
    """

    host: str
    port: int

    def __str__(self) -> str:
        """Return `HOST:PORT`, as within pods."""
        return f"{self.host}:{self.port}"


def is_host_name(text: str) -> bool:
    """Return whether a text in lower case is the DNS name of a host."""
    return len(text) <= _MAX_HOST_NAME and _HOST_NAME.fullmatch(text) is not None


def parse_egress(text: object, source: str | None = None) -> EgressTarget:
    """Parse `HOST:PORT`.

    Args:
        text: for example `pypi.org:443`.
        source: where it comes from, for messages.

    Raises:
        InvalidArgument: it has no such form, or the host is one of the cluster's own.
    """
    host, colon, port = text.strip().rpartition(":") if isinstance(text, str) else ("", "", "")
    host = host.lower().removesuffix(".")
    if not colon or not _PORT.fullmatch(port) or int(port) > _MAX_PORT:
        raise InvalidArgument("egress", text, _VALID, source)
    if host in _MACHINE_HOSTS:
        return EgressTarget(MACHINE_NAME, int(port))
    if is_host_name(host):
        if f".{host}".endswith(f".{CLUSTER_DOMAIN}"):
            raise InvalidArgument("egress", text, _OF_CLUSTER, source)
        return EgressTarget(host, int(port))
    try:
        address = IPv4Address(host)
    except ValueError:
        raise InvalidArgument("egress", text, _VALID, source) from None
    if address.is_unspecified or address.is_loopback or address.is_multicast:
        why = "it is no address of one host; use localhost for this machine"
        raise InvalidArgument("egress", text, why, source)
    for owner, network in _RESERVED_NETWORKS.items():
        if address in network:
            why = f"in the cluster {network} has the addresses of {owner}; use the host's DNS name"
            raise InvalidArgument("egress", text, why, source)
    return EgressTarget(host, int(port))


def read_egress_list(texts: Iterable[object], source: str | None = None) -> list[EgressTarget]:
    """Parse texts of the form `HOST:PORT`.

    Raises:
        InvalidArgument: one is invalid, or given twice.
    """
    targets: list[EgressTarget] = []
    for text in texts:
        target = parse_egress(text, source)
        if target in targets:
            raise InvalidArgument("egress", text, "it is given twice; leave one out", source)
        targets.append(target)
    return targets


class EgressTargets:
    """The targets that pods of a cluster may reach; equal ones of several clients count as one.

    Args:
        targets: those that hold as long as the cluster.
    """

    def __init__(self, targets: Iterable[EgressTarget] = ()) -> None:
        self._targets: list[EgressTarget] = []
        self._addresses: dict[str, str] = {}
        self._free = _NAME_NETWORK.hosts()
        self._handlers: list[Callable[[], None]] = []
        for target in targets:
            self.add(target)

    def __iter__(self) -> Iterator[EgressTarget]:
        return iter(dict.fromkeys(self._targets))

    def add(self, target: EgressTarget) -> None:
        """Allow a target."""
        if target.host not in self._addresses:
            # A name keeps its address: programs may have cached it.
            is_address = not is_host_name(target.host)
            address = target.host if is_address else str(next(self._free))
            self._addresses[target.host] = address
        self._targets.append(target)
        self._call_handlers()

    def remove(self, target: EgressTarget) -> None:
        """Remove a target that was added; it stays while another client has added it too."""
        self._targets.remove(target)
        self._call_handlers()

    def subscribe(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `handler` after each change; returns an undo."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def _call_handlers(self) -> None:
        for handler in tuple(self._handlers):
            handler()

    def get_address(self, target: EgressTarget) -> str:
        """Return the address in pods of a target that was added."""
        return self._addresses[target.host]

    def find_address(self, name: str) -> str | None:
        """Return the address in pods of an allowed name; None if it is not allowed."""
        is_allowed = any(target.host == name for target in self._targets)
        return self._addresses[name] if is_allowed else None

    def has_address(self, address: str) -> bool:
        """Return whether an address is or was that of a target."""
        return address in self._addresses.values()

    def find_target(self, address: str, port: int) -> EgressTarget | None:
        """Return the allowed target at an address and port in pods; None if there is none."""
        for target in self._targets:
            if target.port == port and self._addresses[target.host] == address:
                return target
        return None
