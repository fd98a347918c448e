"""Validation of endpoints.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateEndpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList, invalid_value
from pytest_kwait.apimachinery.validation import (
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    port_number_texts,
)
from pytest_kwait.simulator.validation.addresses import validate_endpoint_ip, validate_ip
from pytest_kwait.simulator.validation.core.services import PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj


def validate_text(at: str, value: str | None, texts: Callable[[str], list[str]]) -> ErrorList:
    """Report the messages about a value; none if it is missing."""
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
            *validate_text(f"{at}.hostname", address.get("hostname") or None, dns_label_texts),
            *validate_text(f"{at}.nodeName", address.get("nodeName"), dns_subdomain_texts),
            *validate_endpoint_ip(f"{at}.ip", value),
        ]
    )


def _validate_endpoint_port(port: Obj, at: str, *, named: bool) -> ErrorList:
    number, protocol, name = port.get("port", 0), port.get("protocol", ""), port.get("name", "")
    errors = validate_text(f"{at}.name", name or None, dns_label_texts)
    if named and not name:
        errors.required(f"{at}.name")
    errors.invalid_each(f"{at}.port", number, port_number_texts(number))
    if protocol not in PROTOCOLS:
        errors.not_supported(f"{at}.protocol", protocol, PROTOCOLS)
    return errors + validate_text(f"{at}.appProtocol", port.get("appProtocol"), label_key_texts)
