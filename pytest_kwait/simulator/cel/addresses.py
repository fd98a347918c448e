"""IP addresses and ranges of them.

Source: k8s.io/apiserver pkg/cel/library/{ip,cidr}.go.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def _ip(text: str) -> dict[str, Any]:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f"IP Address {text!r} parse error during conversion from string") from None
    if address.version == 6 and (address.ipv4_mapped or address.scope_id):
        raise ValueError(f"IP Address {text!r} parse error during conversion from string")
    return {"@type": "IP", "text": str(address)}


def _is_ip(text: str) -> bool:
    try:
        _ip(text)
    except ValueError:
        return False
    return True


def _canonical(text: str) -> bool:
    return bool(_ip(text)["text"] == text)


def _address(value: Any) -> Address:
    return ipaddress.ip_address(value["text"])


def _says(question: str) -> Callable[[dict[str, Any]], bool]:
    return lambda value: bool(getattr(_address(value), question))


def _link_local(multicast: bool) -> Callable[[dict[str, Any]], bool]:
    blocks = ("224.0.0.0/24", "ff02::/16") if multicast else ("169.254.0.0/16", "fe80::/10")

    def check(value: dict[str, Any]) -> bool:
        return any(_address(value) in ipaddress.ip_network(block) for block in blocks)

    return check


def _global_unicast(value: dict[str, Any]) -> bool:
    address = _address(value)
    if str(address) == "255.255.255.255" or address.is_unspecified or address.is_loopback:
        return False
    return not address.is_multicast and not _link_local(False)(value)


def _cidr(text: str) -> dict[str, Any]:
    why = f"CIDR {text!r} parse error during conversion from string"
    if not text.rpartition("/")[2].isdigit() or "/" not in text:
        raise ValueError(why)
    try:
        network = ipaddress.ip_interface(text)
    except ValueError:
        raise ValueError(why) from None
    return {"@type": "CIDR", "text": str(network)}


def _is_cidr(text: str) -> bool:
    try:
        _cidr(text)
    except ValueError:
        return False
    return True


def _network(value: Any) -> Network:
    if isinstance(value, str):
        value = _cidr(value)
    return ipaddress.ip_interface(value["text"])


def _contains_ip(value: Any, other: Any) -> bool:
    address = _address(_ip(other) if isinstance(other, str) else other)
    return address in _network(value).network


def _contains_cidr(value: Any, other: Any) -> bool:
    outer, inner = _network(value).network, _network(other)
    return inner.ip in outer and outer.prefixlen <= inner.network.prefixlen


FUNCTIONS: dict[tuple[str, tuple[str, ...], str], Callable[..., Any]] = {
    ("ip", ("string",), "IP"): _ip,
    ("isIP", ("string",), "bool"): _is_ip,
    ("ip.isCanonical", ("string",), "bool"): _canonical,
    (".family", ("IP",), "int"): lambda value: _address(value).version,
    (".isUnspecified", ("IP",), "bool"): _says("is_unspecified"),
    (".isLoopback", ("IP",), "bool"): _says("is_loopback"),
    (".isLinkLocalMulticast", ("IP",), "bool"): _link_local(True),
    (".isLinkLocalUnicast", ("IP",), "bool"): _link_local(False),
    (".isGlobalUnicast", ("IP",), "bool"): _global_unicast,
    ("cidr", ("string",), "CIDR"): _cidr,
    ("isCIDR", ("string",), "bool"): _is_cidr,
    (".containsIP", ("CIDR", "IP"), "bool"): _contains_ip,
    (".containsIP", ("CIDR", "string"), "bool"): _contains_ip,
    (".containsCIDR", ("CIDR", "CIDR"), "bool"): _contains_cidr,
    (".containsCIDR", ("CIDR", "string"), "bool"): _contains_cidr,
    (".ip", ("CIDR",), "IP"): lambda value: {"@type": "IP", "text": str(_network(value).ip)},
    (".masked", ("CIDR",), "CIDR"): lambda value: {
        "@type": "CIDR",
        "text": str(_network(value).network),
    },
    (".prefixLength", ("CIDR",), "int"): lambda value: _network(value).network.prefixlen,
}
"""By name, types taken and type given."""
