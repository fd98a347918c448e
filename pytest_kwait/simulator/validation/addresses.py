"""Validation of IP addresses, CIDRs and domain names, and warnings about non-canonical forms.

Source: k8s.io/apimachinery pkg/util/validation/{ip,validation}.go (GetWarningsForIP among them);
k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateEndpointIP.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList, invalid_value, required
from pytest_kwait.apimachinery.validation import dns_label_texts, dns_subdomain_texts, ip_texts

if TYPE_CHECKING:
    from collections.abc import Container

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def _strip_leading_zeros(value: str) -> str:
    """Return `value` without leading zeros in its octets, which kube-apiserver ignores."""
    return re.sub(r"(?<![0-9a-fA-F:])0+(?=\d)", "", value) if "." in value else value


def _parse_ip(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(_strip_leading_zeros(value))
    except ValueError:
        return None


def parse_cidr(value: str) -> Network | None:
    """Return the network of `value`, host bits dropped; None if it is not a CIDR."""
    head, slash, bits = value.partition("/")
    if not slash or not bits.isdigit() or _parse_ip(head) is None:
        return None
    try:
        return ipaddress.ip_network(f"{_strip_leading_zeros(head)}/{int(bits)}", strict=False)
    except ValueError:
        return None


def is_ip(value: str) -> bool:
    """Return whether `value` is an IP address; leading zeros are allowed."""
    return _parse_ip(value) is not None


def get_ip_family(value: str) -> str:
    """Return `IPv4` or `IPv6`; empty if `value` is not an address."""
    address = _parse_ip(value)
    return "" if address is None else f"IPv{address.version}"


def validate_ip(path: str, value: str, allowed: Container[str] = ()) -> ErrorList:
    """Validate an IP address; values in `allowed` were stored before and always pass."""
    return (
        ErrorList()
        if value in allowed
        else ErrorList([invalid_value(path, value, text) for text in ip_texts(value)])
    )


def validate_cidr(path: str, value: str, allowed: Container[str] = ()) -> ErrorList:
    """Validate a CIDR; values in `allowed` were stored before and always pass."""
    if value in allowed:
        return ErrorList()
    cidr = parse_cidr(value)
    if cidr is None:
        return ErrorList([invalid_value(path, value, _CIDR_TEXT)])
    head, _, bits = value.partition("/")
    try:
        address = ipaddress.ip_address(head)
    except ValueError:
        address = None
    if address is None or (len(bits) > 1 and bits[0] == "0"):
        return ErrorList(
            [invalid_value(path, value, "must not have leading 0s in IP or prefix length")]
        )
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return ErrorList([invalid_value(path, value, "must not have an IPv4-mapped IPv6 address")])
    if address != cidr.network_address:
        return ErrorList(
            [invalid_value(path, value, "must not have bits set beyond the prefix length")]
        )
    return ErrorList()


def validate_endpoint_ip(path: str, value: str) -> ErrorList:
    """Validate that `value` is an address that an endpoint may have."""
    address = _parse_ip(value)
    if address is None:
        return ErrorList([invalid_value(path, value, "must be a valid IP address")])
    multicast = address.is_multicast and (
        address in ipaddress.ip_network("224.0.0.0/24")
        if address.version == 4
        else str(address).startswith("ff02:")
    )
    checks = (
        (address.is_unspecified, f"may not be unspecified ({value})"),
        (address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (
            address.is_link_local,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ),
        (
            multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    )
    return ErrorList([invalid_value(path, value, text) for wrong, text in checks if wrong])


def validate_fqdn(path: str, value: str) -> ErrorList:
    """Validate a domain name of two labels or more."""
    if not value:
        return ErrorList([required(path)])
    name = value.removesuffix(".")
    if texts := dns_subdomain_texts(name):
        return ErrorList([invalid_value(path, name, ",".join(texts))])
    labels = name.split(".")
    if len(labels) < 2:
        text = "should be a domain with at least two segments separated by dots"
        return ErrorList([invalid_value(path, name, text)])
    for label in labels:
        if texts := dns_label_texts(label):
            return ErrorList([invalid_value(path, label, ",".join(texts))])
    return ErrorList()


def validate_domain_prefixed_path(path: str, value: str) -> ErrorList:
    """Validate a path below a domain, such as `example.com/name`."""
    if not value:
        return ErrorList([required(path)])
    domain, slash, rest = value.partition("/")
    if not slash or not domain or not rest:
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return ErrorList([invalid_value(path, value, text)])
    errors = ErrorList()
    errors.invalid_each(path, domain, dns_subdomain_texts(domain))
    if not _PATH.fullmatch(rest):
        text = f"Invalid path (regex used for validation is '{_PATH.pattern}')"
        errors.invalid(path, rest, text)
    return errors


def get_ip_warnings(path: str, value: str) -> list[str]:
    """Return warnings about a valid address in a non-canonical form."""
    address = _parse_ip(value)
    if address is None:
        return []
    strange = bool(ip_texts(value))
    if strange:
        canonical_address = getattr(address, "ipv4_mapped", None) or address
        return [f'{path}: non-standard IP address "{value}" is invalid: use "{canonical_address}"']
    if address.version == 6 and str(address) != value:
        return [
            f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{address}")'
        ]
    return []


def get_cidr_warnings(path: str, value: str) -> list[str]:
    """Return warnings about a valid CIDR in a non-canonical form."""
    cidr = parse_cidr(value)
    if cidr is None:
        return []
    if cidr.version == 6 and str(cidr) != value:
        return [
            f'{path}: IPv6 CIDR value "{value}" should be in RFC 5952 canonical format ("{cidr}")'
        ]
    return []
