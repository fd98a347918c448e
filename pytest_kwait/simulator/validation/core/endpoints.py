"""Validation of endpoints and endpoint slices: addresses, ports and hints.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateEndpoints;
pkg/apis/discovery/validation/validation.go, ValidateEndpointSlice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import (
    canonical_ip_texts,
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    label_value_texts,
    port_number_texts,
)
from pytest_kwait.simulator.api_errors import (
    invalid_value,
    too_many,
)
from pytest_kwait.simulator.validation.addresses import (
    get_ip_family,
    validate_endpoint_ip,
    validate_fqdn,
    validate_ip,
)
from pytest_kwait.simulator.validation.core.services import PROTOCOLS
from pytest_kwait.simulator.validation.field_errors import ErrorList

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["validate_endpoint_slice", "validate_endpoint_subsets"]

_TYPES = ("FQDN", "IPv4", "IPv6")
_MAX_ENDPOINTS, _MAX_ADDRESSES, _MAX_PORTS, _MAX_HINTS = 1000, 100, 20000, 8


def _validate_text(at: str, value: str | None, texts: Callable[[str], list[str]]) -> ErrorList:
    return (
        ErrorList()
        if value is None
        else ErrorList([invalid_value(at, value, text) for text in texts(value)])
    )


def validate_endpoint_subsets(subsets: list[Obj]) -> ErrorList:
    """Validate the subsets of an Endpoints object."""
    errors = ErrorList()
    for index, subset in enumerate(subsets):
        at, ports = f"subsets[{index}]", subset.get("ports") or []
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.required(at, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(field) or []):
                errors += _validate_endpoint_address(address, f"{at}.{field}[{number}]")
        for number, port in enumerate(ports):
            errors += _validate_endpoint_port(port, f"{at}.ports[{number}]", named=len(ports) > 1)
    return errors


def _validate_endpoint_address(address: Obj, at: str) -> ErrorList:
    value = address.get("ip", "")
    return ErrorList(
        [
            *validate_ip(f"{at}.ip", value),
            *_validate_text(f"{at}.hostname", address.get("hostname") or None, dns_label_texts),
            *_validate_text(f"{at}.nodeName", address.get("nodeName"), dns_subdomain_texts),
            *validate_endpoint_ip(f"{at}.ip", value),
        ]
    )


def _validate_endpoint_port(port: Obj, at: str, *, named: bool) -> ErrorList:
    number, protocol, name = port.get("port", 0), port.get("protocol", ""), port.get("name", "")
    errors = _validate_text(f"{at}.name", name or None, dns_label_texts)
    if named and not name:
        errors.required(f"{at}.name")
    errors.invalid_each(f"{at}.port", number, port_number_texts(number))
    if protocol not in PROTOCOLS:
        errors.not_supported(f"{at}.protocol", protocol, PROTOCOLS)
    return errors + _validate_text(f"{at}.appProtocol", port.get("appProtocol"), label_key_texts)


def validate_endpoint_slice(part: Obj, old: Obj | None = None) -> ErrorList:
    """Validate an endpoint slice; endpoints that did not change are skipped."""
    kind, errors = part.get("addressType", ""), ErrorList()
    if kind and kind not in _TYPES:
        errors.not_supported("addressType", kind, _TYPES)
    elif not kind:
        errors.required("addressType")
    errors += _validate_slice_ports(part.get("ports") or [])
    endpoints = part.get("endpoints") or []
    if old is None or endpoints != (old.get("endpoints") or []):
        errors += _validate_slice_endpoints(endpoints, kind)
    if old is not None and kind != old.get("addressType"):
        errors.invalid("addressType", kind, "field is immutable")
    return errors


def _validate_slice_ports(ports: list[Obj]) -> ErrorList:
    if len(ports) > _MAX_PORTS:
        return ErrorList([too_many("ports", len(ports), _MAX_PORTS)])
    errors = ErrorList()
    names: set[str] = set()
    for index, port in enumerate(ports):
        at, name, protocol = f"ports[{index}]", port.get("name") or "", port.get("protocol")
        errors += _validate_text(f"{at}.name", name or None, dns_label_texts)
        if name in names:
            errors.duplicate(f"{at}.name", name)
        names.add(name)
        if protocol is None:
            errors.required(f"{at}.protocol")
        elif protocol not in PROTOCOLS:
            errors.not_supported(f"{at}.protocol", protocol, PROTOCOLS)
        errors += _validate_text(f"{at}.appProtocol", port.get("appProtocol"), label_key_texts)
    return errors


def _validate_slice_endpoints(endpoints: list[Obj], kind: str) -> ErrorList:
    if len(endpoints) > _MAX_ENDPOINTS:
        return ErrorList([too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)])
    errors = ErrorList()
    for index, endpoint in enumerate(endpoints):
        at, addresses = f"endpoints[{index}]", endpoint.get("addresses") or []
        if not addresses:
            errors.required(f"{at}.addresses", "must contain at least 1 address")
        elif len(addresses) > _MAX_ADDRESSES:
            errors.too_many(f"{at}.addresses", len(addresses), _MAX_ADDRESSES)
        for number, address in enumerate(addresses):
            errors += _validate_address_value(address, kind, f"{at}.addresses", number)
        errors += _validate_text(f"{at}.nodeName", endpoint.get("nodeName"), dns_subdomain_texts)
        errors += _validate_text(f"{at}.hostname", endpoint.get("hostname"), dns_label_texts)
        errors += _validate_hints(endpoint.get("hints") or {}, f"{at}.hints")
    return errors


def _validate_address_value(address: str, kind: str, at: str, number: int) -> ErrorList:
    place = f"{at}[{number}]"
    if kind == "FQDN":
        return validate_fqdn(place, address)
    if kind not in ("IPv4", "IPv6"):
        return ErrorList()
    if kind == "IPv4":
        errors = validate_ip(place, address)
    else:
        errors = _validate_text(place, address, canonical_ip_texts)
    if errors:
        return errors
    if get_ip_family(address) != kind:
        errors.invalid(at, address, f"must be an {kind} address")
    return errors + validate_endpoint_ip(place, address)


def _validate_hints(hints: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    for field, texts in (("forZones", label_value_texts), ("forNodes", dns_subdomain_texts)):
        found = hints.get(field) or []
        if len(found) > _MAX_HINTS:
            return ErrorList([*errors, too_many(f"{at}.{field}", len(found), _MAX_HINTS)])
        names: set[str] = set()
        for index, hint in enumerate(found):
            place, name = f"{at}.{field}[{index}].name", hint.get("name", "")
            if name in names:
                errors.duplicate(place, name)
            names.add(name)
            errors += _validate_text(place, name, texts)
    return errors
