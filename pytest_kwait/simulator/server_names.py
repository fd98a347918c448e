"""Host names and addresses of the server, for its certificate, clients and endpoints."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_kwait.simulator.protocol.options import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CONTROL_PLANE_ADDRESS = "172.30.0.1"
"""The address of a server that listens on the loopback interface alone."""
_OUTSIDE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses of no machine, RFC 5737 and 3849."""
_OUTSIDE_PORT = 9
_SIOCGIFADDR = 0x8915
_INTERFACE_REQUEST, _INTERFACE_ADDRESS = struct.Struct("256s"), slice(20, 24)
"""The kernel's `struct ifreq` with a name, and the place of the IPv4 address in its answer."""


def server_names(address: str) -> list[str]:
    """Return the host names and addresses of a server on `address`, the best one first.

    Raises:
        ValueError: `address` is no IP address.
    """
    parsed_address = ipaddress.ip_address(address)
    if not parsed_address.is_unspecified:
        return list(dict.fromkeys((address, HOST)))
    own = [HOST, "::1"] if parsed_address.version == 6 else [HOST]
    try:
        address_infos = socket.getaddrinfo(socket.gethostname(), None, proto=socket.IPPROTO_TCP)
    except OSError:
        address_infos = []
    names = [
        socket.gethostname(),
        *(str(address_info[4][0]).partition("%")[0] for address_info in address_infos),
        *_find_outgoing_addresses(),
        *_list_interface_addresses(),
    ]
    return list(dict.fromkeys((*own, *names)))


def _find_outgoing_addresses() -> Iterator[str]:
    """Yield the addresses of this machine that its routes use; sends nothing.

    Its name may be that of a loopback address alone, as on Debian.
    """
    for family, outside in _OUTSIDE:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((outside, _OUTSIDE_PORT))
            yield str(probe.getsockname()[0]).partition("%")[0]


def _list_interface_addresses() -> Iterator[str]:
    """Yield the IPv4 addresses of this machine's network interfaces, bridges included.

    Each interface has its first address. On others than Linux there are none.
    """
    if sys.platform != "linux":
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has none
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, _INTERFACE_REQUEST.pack(name.encode()))
                yield socket.inet_ntoa(answer[_INTERFACE_ADDRESS])


def get_advertised_address(hosts: Sequence[str]) -> str:
    """Return the address of the server's endpoints, which must not be a loopback one."""
    for host in hosts:
        with suppress(ValueError):
            if not ipaddress.ip_address(host).is_loopback:
                return host
    return _CONTROL_PLANE_ADDRESS


def format_host_port(host: str, port: int) -> str:
    """Return `host:port`, for URLs and messages."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
