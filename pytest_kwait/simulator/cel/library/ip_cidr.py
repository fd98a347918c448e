"""IP addresses and CIDRs.

Source: k8s.io/apiserver pkg/cel/library/{ip,cidr}.go.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.values import OpaqueValue, is_valid_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cel.library.overloads import Overloads

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface

_MAX_DIGITS = 18
"""Digits of a parsed number; longer texts are invalid."""


def _parse_ip(text: str) -> OpaqueValue:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        why = f'ParseAddr("{text}"): {_find_ip_error(text)}'
        raise ValueError(
            f'IP Address "{text}" parse error during conversion from string: {why}'
        ) from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id:
            raise ValueError(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped:
            raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return OpaqueValue("IP", text=str(address))


def _find_ip_error(text: str) -> str:
    """Return Go's message about a text that is no IP address."""
    if ":" in text or "." not in text:
        return "unable to parse IP"
    fields = text.split(".")
    for field in fields:
        if not field.isdigit():
            return "unexpected character" if field else "IPv4 field must have at least one digit"
        if len(field) > 1 and field[0] == "0":
            return "IPv4 field has octet with leading zero"
        if len(field) > _MAX_DIGITS or int(field) > 255:
            return "IPv4 field has value >255"
    return "IPv4 address too short" if len(fields) < 4 else "IPv4 address too long"


def _is_canonical(text: str) -> bool:
    return bool(_parse_ip(text)["text"] == text)


def _get_address(value: Any) -> Address:
    return ipaddress.ip_address(value["text"])


def _make_predicate(question: str) -> Callable[[OpaqueValue], bool]:
    return lambda value: bool(getattr(_get_address(value), question))


def _make_link_local_predicate(multicast: bool) -> Callable[[OpaqueValue], bool]:
    blocks = ("224.0.0.0/24", "ff02::/16") if multicast else ("169.254.0.0/16", "fe80::/10")

    def check(value: OpaqueValue) -> bool:
        return any(_get_address(value) in ipaddress.ip_network(block) for block in blocks)

    return check


def _is_global_unicast(value: OpaqueValue) -> bool:
    address = _get_address(value)
    if str(address) == "255.255.255.255" or address.is_unspecified or address.is_loopback:
        return False
    return not address.is_multicast and not _make_link_local_predicate(False)(value)


def _parse_cidr(text: str) -> OpaqueValue:
    failed = "network address parse error during conversion from string: "
    if why := _find_prefix_error(text):
        raise ValueError(f'{failed}{failed}netip.ParsePrefix("{text}"): {why}')
    network = ipaddress.ip_interface(text)
    if isinstance(network, ipaddress.IPv6Interface) and network.ip.ipv4_mapped:
        raise ValueError(f'{failed}IPv4-mapped IPv6 address "{text}" is not allowed')
    return OpaqueValue("CIDR", text=str(network))


def _find_prefix_error(text: str) -> str:
    """Return Go's message about a text that is no CIDR; empty if it is one."""
    address, slash, bits = text.rpartition("/")
    if not slash:
        return "no '/'"
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return f'ParseAddr("{address}"): {_find_ip_error(address)}'
    if not bits.isdigit() or (len(bits) > 1 and bits[0] == "0") or len(bits) > _MAX_DIGITS:
        return f'bad bits after slash: "{bits}"'
    return "" if int(bits) <= parsed.max_prefixlen else "prefix length out of range"


def _get_network(value: Any) -> Network:
    return ipaddress.ip_interface(value["text"])


def _to_value(read: Callable[[str], OpaqueValue], value: Any) -> OpaqueValue:
    """Return the parsed value of an argument that may be a text."""
    if isinstance(value, OpaqueValue):
        return value
    try:
        return read(value)
    except ValueError:
        raise ValueError("no such overload") from None


def _contains_ip(value: Any, other: Any) -> bool:
    address = _get_address(_to_value(_parse_ip, other))
    return address in _get_network(value).network


def _contains_cidr(value: Any, other: Any) -> bool:
    outer, inner = _get_network(value).network, _get_network(_to_value(_parse_cidr, other))
    return inner.ip in outer and outer.prefixlen <= inner.network.prefixlen


IP_CIDR_FUNCTIONS: Overloads = {
    ("ip", ("string",), "IP"): _parse_ip,
    ("isIP", ("string",), "bool"): is_valid_for(_parse_ip),
    ("string", ("IP",), "string"): lambda value: value["text"],
    ("string", ("CIDR",), "string"): lambda value: value["text"],
    ("ip.isCanonical", ("string",), "bool"): _is_canonical,
    (".family", ("IP",), "int"): lambda value: _get_address(value).version,
    (".isUnspecified", ("IP",), "bool"): _make_predicate("is_unspecified"),
    (".isLoopback", ("IP",), "bool"): _make_predicate("is_loopback"),
    (".isLinkLocalMulticast", ("IP",), "bool"): _make_link_local_predicate(True),
    (".isLinkLocalUnicast", ("IP",), "bool"): _make_link_local_predicate(False),
    (".isGlobalUnicast", ("IP",), "bool"): _is_global_unicast,
    ("cidr", ("string",), "CIDR"): _parse_cidr,
    ("isCIDR", ("string",), "bool"): is_valid_for(_parse_cidr),
    (".containsIP", ("CIDR", "IP"), "bool"): _contains_ip,
    (".containsIP", ("CIDR", "string"), "bool"): _contains_ip,
    (".containsCIDR", ("CIDR", "CIDR"), "bool"): _contains_cidr,
    (".containsCIDR", ("CIDR", "string"), "bool"): _contains_cidr,
    (".ip", ("CIDR",), "IP"): lambda value: OpaqueValue("IP", text=str(_get_network(value).ip)),
    (".masked", ("CIDR",), "CIDR"): lambda value: OpaqueValue(
        "CIDR", text=str(_get_network(value).network)
    ),
    (".prefixLength", ("CIDR",), "int"): lambda value: _get_network(value).network.prefixlen,
}
