"""Endpoints and endpoint slices: where something answers, and by which ports.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateEndpoints;
pkg/apis/discovery/validation/validation.go, ValidateEndpointSlice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import (
    canonical_ip_texts,
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    label_value_texts,
    port_number_texts,
)
from pytest_kwait.simulator.rules.addresses import (
    endpoint_ip_errors,
    fqdn_errors,
    ip_errors,
    ip_family,
)
from pytest_kwait.simulator.rules.services import PROTOCOLS
from pytest_kwait.simulator.status_error import (
    duplicate,
    invalid_value,
    not_supported,
    required,
    too_many,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["slice_errors", "subset_errors"]

_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_HINTS = 1000, 100, 20000, 8


def _text_errors(at: str, value: str | None, texts: Callable[[str], list[str]]) -> list[FieldError]:
    return [] if value is None else [invalid_value(at, value, text) for text in texts(value)]


def subset_errors(subsets: list[Obj]) -> list[FieldError]:
    """What is wrong with the subsets of an Endpoints object."""
    errors: list[FieldError] = []
    for index, subset in enumerate(subsets):
        at, ports = f"subsets[{index}]", subset.get("ports") or []
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(at, "must specify `addresses` or `notReadyAddresses`"))
        for field in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(field) or []):
                errors += _address_errors(address, f"{at}.{field}[{number}]")
        for number, port in enumerate(ports):
            errors += _port_errors(port, f"{at}.ports[{number}]", named=len(ports) > 1)
    return errors


def _address_errors(address: Obj, at: str) -> list[FieldError]:
    value = address.get("ip", "")
    return [
        *ip_errors(f"{at}.ip", value),
        *_text_errors(f"{at}.hostname", address.get("hostname") or None, dns_label_texts),
        *_text_errors(f"{at}.nodeName", address.get("nodeName"), dns_subdomain_texts),
        *endpoint_ip_errors(f"{at}.ip", value),
    ]


def _port_errors(port: Obj, at: str, *, named: bool) -> list[FieldError]:
    number, protocol, name = port.get("port", 0), port.get("protocol", ""), port.get("name", "")
    errors = _text_errors(f"{at}.name", name or None, dns_label_texts)
    if named and not name:
        errors.append(required(f"{at}.name"))
    errors += [invalid_value(f"{at}.port", number, text) for text in port_number_texts(number)]
    if protocol not in PROTOCOLS:
        errors.append(not_supported(f"{at}.protocol", protocol, PROTOCOLS))
    return errors + _text_errors(f"{at}.appProtocol", port.get("appProtocol"), label_key_texts)


def slice_errors(part: Obj, old: Obj | None = None) -> list[FieldError]:
    """What is wrong with an endpoint slice; endpoints that stayed are not looked at."""
    kind, errors = part.get("addressType", ""), []
    if kind and kind not in _TYPES:
        errors.append(not_supported("addressType", kind, _TYPES))
    elif not kind:
        errors.append(required("addressType"))
    errors += _slice_port_errors(part.get("ports") or [])
    endpoints = part.get("endpoints") or []
    if old is None or endpoints != (old.get("endpoints") or []):
        errors += _endpoint_errors(endpoints, kind)
    if old is not None and kind != old.get("addressType"):
        errors.append(invalid_value("addressType", kind, "field is immutable"))
    return errors


def _slice_port_errors(ports: list[Obj]) -> list[FieldError]:
    if len(ports) > _MOST_PORTS:
        return [too_many("ports", len(ports), _MOST_PORTS)]
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        at, name, protocol = f"ports[{index}]", port.get("name") or "", port.get("protocol")
        errors += _text_errors(f"{at}.name", name or None, dns_label_texts)
        if name in names:
            errors.append(duplicate(f"{at}.name", name))
        names.add(name)
        if protocol is None:
            errors.append(required(f"{at}.protocol"))
        elif protocol not in PROTOCOLS:
            errors.append(not_supported(f"{at}.protocol", protocol, PROTOCOLS))
        errors += _text_errors(f"{at}.appProtocol", port.get("appProtocol"), label_key_texts)
    return errors


def _endpoint_errors(endpoints: list[Obj], kind: str) -> list[FieldError]:
    if len(endpoints) > _MOST_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)]
    errors: list[FieldError] = []
    for index, endpoint in enumerate(endpoints):
        at, addresses = f"endpoints[{index}]", endpoint.get("addresses") or []
        if not addresses:
            errors.append(required(f"{at}.addresses", "must contain at least 1 address"))
        elif len(addresses) > _MOST_ADDRESSES:
            errors.append(too_many(f"{at}.addresses", len(addresses), _MOST_ADDRESSES))
        for number, address in enumerate(addresses):
            errors += _value_errors(address, kind, f"{at}.addresses", number)
        errors += _text_errors(f"{at}.nodeName", endpoint.get("nodeName"), dns_subdomain_texts)
        errors += _text_errors(f"{at}.hostname", endpoint.get("hostname"), dns_label_texts)
        errors += _hint_errors(endpoint.get("hints") or {}, f"{at}.hints")
    return errors


def _value_errors(address: str, kind: str, at: str, number: int) -> list[FieldError]:
    place = f"{at}[{number}]"
    if kind == "FQDN":
        return fqdn_errors(place, address)
    if kind not in ("IPv4", "IPv6"):
        return []
    if kind == "IPv4":
        errors = ip_errors(place, address)
    else:
        errors = _text_errors(place, address, canonical_ip_texts)
    if errors:
        return errors
    if ip_family(address) != kind:
        errors.append(invalid_value(at, address, f"must be an {kind} address"))
    return errors + endpoint_ip_errors(place, address)


def _hint_errors(hints: Obj, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, texts in (("forZones", label_value_texts), ("forNodes", dns_subdomain_texts)):
        found = hints.get(field) or []
        if len(found) > _MOST_HINTS:
            return [*errors, too_many(f"{at}.{field}", len(found), _MOST_HINTS)]
        names: set[str] = set()
        for index, hint in enumerate(found):
            place, name = f"{at}.{field}[{index}].name", hint.get("name", "")
            if name in names:
                errors.append(duplicate(place, name))
            names.add(name)
            errors += _text_errors(place, name, texts)
    return errors
