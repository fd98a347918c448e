"""Validation of endpoint slices.

Source: k8s.io/kubernetes pkg/apis/discovery/validation/validation.go, ValidateEndpointSlice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList, too_many
from pytest_kwait.apimachinery.validation import (
    canonical_ip_texts,
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    label_value_texts,
)
from pytest_kwait.simulator.validation.addresses import (
    get_ip_family,
    validate_endpoint_ip,
    validate_fqdn,
    validate_ip,
)
from pytest_kwait.simulator.validation.core.endpoints import validate_text
from pytest_kwait.simulator.validation.core.services import PROTOCOLS

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MAX_ENDPOINTS, _MAX_ADDRESSES, _MAX_PORTS, _MAX_HINTS = 1000, 100, 20000, 8


def validate_endpoint_slice(part: Obj, old: Obj | None = None) -> ErrorList:
    """Validate an endpoint slice; endpoints that did not change are skipped."""
    kind, errors = part.get("addressType", ""), ErrorList()
    if kind and kind not in _ADDRESS_TYPES:
        errors.not_supported("addressType", kind, _ADDRESS_TYPES)
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
        errors += validate_text(f"{at}.name", name or None, dns_label_texts)
        errors.require_unique(f"{at}.name", name, names)
        if protocol is None:
            errors.required(f"{at}.protocol")
        elif protocol not in PROTOCOLS:
            errors.not_supported(f"{at}.protocol", protocol, PROTOCOLS)
        errors += validate_text(f"{at}.appProtocol", port.get("appProtocol"), label_key_texts)
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
        errors += validate_text(f"{at}.nodeName", endpoint.get("nodeName"), dns_subdomain_texts)
        errors += validate_text(f"{at}.hostname", endpoint.get("hostname"), dns_label_texts)
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
        errors = validate_text(place, address, canonical_ip_texts)
    if errors:
        return errors
    if get_ip_family(address) != kind:
        errors.invalid(at, address, f"must be an {kind} address")
    return errors + validate_endpoint_ip(place, address)


def _validate_hints(hints: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    for field, texts in (("forZones", label_value_texts), ("forNodes", dns_subdomain_texts)):
        field_hints = hints.get(field) or []
        if len(field_hints) > _MAX_HINTS:
            return ErrorList([*errors, too_many(f"{at}.{field}", len(field_hints), _MAX_HINTS)])
        names: set[str] = set()
        for index, hint in enumerate(field_hints):
            place, name = f"{at}.{field}[{index}].name", hint.get("name", "")
            errors.require_unique(place, name, names)
            errors += validate_text(place, name, texts)
    return errors
