"""Addresses and ranges of them, classes of attributes, and capacities.

Source: k8s.io/kubernetes pkg/apis/networking/validation/validation.go, ValidateIPAddress,
ValidateServiceCIDR; pkg/apis/storage/validation/validation.go, ValidateVolumeAttributesClass,
ValidateCSIStorageCapacity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.simulator.api_errors import forbidden_field, invalid_value, required
from pytest_kwait.simulator.validation.addresses import parse_cidr, validate_cidr
from pytest_kwait.simulator.validation.formats import (
    NEGATIVE,
    dns_subdomain_texts,
    label_key_texts,
    path_segment_texts,
)
from pytest_kwait.simulator.validation.objectmeta import selector_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "validate_csi_storage_capacity",
    "validate_ip_address",
    "validate_service_cidr",
    "validate_service_cidr_update",
    "validate_volume_attributes_class",
    "validate_volume_attributes_class_update",
]

_CIDRS_PATH = "spec.cidrs"
_FIELD_IMMUTABLE = "field is immutable"


def validate_ip_address(address: Obj) -> list[FieldError]:
    """What is wrong with the one who holds an address."""
    parent, at = (address.get("spec") or {}).get("parentRef"), "spec.parentRef"
    if parent is None:
        return [required(at)]
    errors = []
    if group := parent.get("group", ""):
        errors += [invalid_value(f"{at}.group", group, text) for text in dns_subdomain_texts(group)]
    for field in ("resource", "name", "namespace"):
        value = parent.get(field, "")
        if not value and field != "namespace":
            errors.append(required(f"{at}.{field}"))
        errors += [
            invalid_value(f"{at}.{field}", value, text) for text in path_segment_texts(value)
        ]
    return errors


def validate_service_cidr(found: Obj) -> list[FieldError]:
    """What is wrong with ranges of addresses for services."""
    ranges = (found.get("spec") or {}).get("cidrs") or []
    if not ranges:
        return [required(_CIDRS_PATH, "at least one CIDR required")]
    if len(ranges) > 2:
        return [invalid_value(_CIDRS_PATH, {"CIDRs": ranges}, "may only hold up to 2 values")]
    errors: list[FieldError] = []
    for index, value in enumerate(ranges):
        at, whole = f"{_CIDRS_PATH}[{index}]", parse_cidr(value)
        wrong = validate_cidr(at, value)
        if not wrong and str(whole) != value:
            wrong = [invalid_value(at, value, f'must be in canonical form ("{whole}")')]
        errors += wrong
    families = [one.version for one in map(parse_cidr, ranges) if one is not None]
    if len(families) == 2 and families[0] == families[1]:
        text = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and "
            "2001:db8::/64"
        )
        errors.append(invalid_value(_CIDRS_PATH, ranges, text))
    return errors


def validate_service_cidr_update(new: Obj, old: Obj) -> list[FieldError]:
    """What is wrong with a change of ranges: a second one may come, and no more."""
    now, then = ((obj.get("spec") or {}).get("cidrs") or [] for obj in (new, old))
    if len(now) == len(then):
        return [
            invalid_value(f"{_CIDRS_PATH}[{index}]", value, _FIELD_IMMUTABLE)
            for index, value in enumerate(now)
            if value != then[index]
        ]
    if len(then) == 1 and len(now) == 2:
        errors = (
            []
            if now[0] == then[0]
            else [invalid_value(f"{_CIDRS_PATH}[0]", now[0], _FIELD_IMMUTABLE)]
        )
        return errors + validate_service_cidr(new)
    return [invalid_value(_CIDRS_PATH, now or None, _FIELD_IMMUTABLE)]


def validate_volume_attributes_class(found: Obj) -> list[FieldError]:
    """What is wrong with a class of attributes."""
    driver, parameters = found.get("driverName", "").lower(), found.get("parameters") or {}
    errors = [] if driver else [required("driverName")]
    texts = label_key_texts(driver) if driver else []
    errors += [invalid_value("driverName", driver, text) for text in texts]
    if "" in parameters:
        errors.append(invalid_value("parameters", "", "field can not be empty."))
    if not parameters:
        errors.append(required("parameters", "must contain at least one key/value pair"))
    return errors


def validate_volume_attributes_class_update(new: Obj, old: Obj) -> list[FieldError]:
    """What of a class of attributes never changes: all of it."""
    return [
        forbidden_field(field, f"updates to {field} are forbidden.")
        for field in ("driverName", "parameters")
        if new.get(field) != old.get(field)
    ]


def validate_csi_storage_capacity(found: Obj) -> list[FieldError]:
    """What is wrong with a capacity."""
    name, amount, nodes = (
        found.get(part) for part in ("storageClassName", "capacity", "nodeTopology")
    )
    errors = [] if nodes is None else selector_errors(nodes, "nodeTopology")
    errors += [
        invalid_value("storageClassName", name or "", text)
        for text in dns_subdomain_texts(name or "")
    ]
    if amount is not None and parse_quantity(amount).amount < 0:
        errors.append(invalid_value("capacity", amount, NEGATIVE))
    return errors
