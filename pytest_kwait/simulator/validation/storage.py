"""Validation of the kinds of storage.k8s.io.

Source: k8s.io/kubernetes pkg/apis/storage/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import (
    NEGATIVE,
    ErrorList,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.apimachinery.validation import dns_subdomain_texts, label_key_texts
from pytest_kwait.simulator.validation.core.persistent_volumes import (
    validate_persistent_volume_spec,
)
from pytest_kwait.simulator.validation.core.volumes import validate_csi_driver_name
from pytest_kwait.simulator.validation.objectmeta import validate_label_selector

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_MAX_PARAMETERS, _MAX_BYTES = 512, 256 << 10
_RECLAIM_POLICIES = ("Delete", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_FS_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES = ("Persistent", "Ephemeral")
_MIN_TOKEN, _MAX_TOKEN, _MIN_PERIOD = 600, 1 << 32, 10
_MAX_NODE_ID_LENGTH = 256


def validate_immutable_fields(new: Obj, old: Obj, *fields: str) -> ErrorList:
    """Validate that these top-level fields do not change."""
    return ErrorList(
        [
            invalid_value(field, new.get(field), "field is immutable")
            for field in fields
            if new.get(field) != old.get(field)
        ]
    )


def validate_storage_class(storage_class: Obj) -> ErrorList:
    """Validate a storage class."""
    provisioner, parameters = (
        storage_class.get("provisioner", ""),
        storage_class.get("parameters") or {},
    )
    policy, binding = storage_class.get("reclaimPolicy"), storage_class.get("volumeBindingMode")
    errors = ErrorList()
    errors.invalid_each(
        "provisioner",
        provisioner.lower(),
        label_key_texts(provisioner.lower()) if provisioner else (),
    )
    errors += _validate_parameters(parameters)
    if policy and policy not in _RECLAIM_POLICIES:
        errors.not_supported("reclaimPolicy", policy, _RECLAIM_POLICIES)
    if binding is None:
        errors.required("volumeBindingMode")
    elif binding not in _BINDING_MODES:
        errors.not_supported("volumeBindingMode", binding, _BINDING_MODES)
    errors += _validate_allowed_topologies(storage_class.get("allowedTopologies") or [])
    return errors if provisioner else ErrorList([*errors, required("provisioner")])


def _validate_parameters(parameters: dict[str, str]) -> ErrorList:
    if len(parameters) > _MAX_PARAMETERS:
        return ErrorList([too_long("parameters", _MAX_PARAMETERS)])
    errors = ErrorList()
    if "" in parameters:
        errors.invalid("parameters", "", "field can not be empty.")
    if sum(len(key.encode()) + len(text.encode()) for key, text in parameters.items()) > _MAX_BYTES:
        errors.too_long("parameters", _MAX_BYTES)
    return errors


def _validate_allowed_topologies(terms: list[Obj]) -> ErrorList:
    errors = ErrorList()
    # kube-apiserver also compares with one empty term for each term.
    checked_terms: list[dict[str, set[str]]] = [{} for _ in terms]
    for index, term in enumerate(terms):
        at, values_by_key = f"allowedTopologies[{index}].matchLabelExpressions", {}
        for number, rule in enumerate(term.get("matchLabelExpressions") or []):
            place, key, values = f"{at}[{number}]", rule.get("key", ""), rule.get("values") or []
            if not values:
                errors.required(f"{place}.values")
            errors += [
                duplicate(f"{place}.values[{position}]", value)
                for position, value in enumerate(values)
                if value in values[:position]
            ]
            errors.invalid_each(f"{place}.key", key, label_key_texts(key))
            if key in values_by_key:
                errors.duplicate(f"{place}.key", key)
            values_by_key[key] = set(values)
        errors += [
            duplicate(at, "") for checked_term in checked_terms if checked_term == values_by_key
        ]
        checked_terms.append(values_by_key)
    return errors


def validate_volume_attachment(attachment: Obj) -> ErrorList:
    """Validate a volume attachment."""
    spec = attachment.get("spec") or {}
    source, node = spec.get("source") or {}, spec.get("nodeName", "")
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    errors = validate_csi_driver_name(spec.get("attacher", ""), "spec.attacher")
    either = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    at = "spec.source.persistentVolumeName"
    if volume is None and inline is None:
        errors.required("spec.source", either)
    elif volume is not None and inline is not None:
        errors.forbidden("spec.source", either)
    elif inline is not None:
        here = "spec.source.inlineVolumeSpec"
        errors += validate_persistent_volume_spec(inline, "", here, inline=True)
    elif volume == "":
        errors.required(at, "must specify non empty persistentVolumeName")
    errors.invalid_each("spec.nodeName", node, dns_subdomain_texts(node))
    if volume is not None:
        errors.invalid_each(at, volume, dns_subdomain_texts(volume))
    return errors


def validate_csi_driver(driver: Obj) -> ErrorList:
    """Validate a CSI driver."""
    spec = driver.get("spec") or {}
    policy, requests = spec.get("fsGroupPolicy"), spec.get("tokenRequests") or []
    errors = ErrorList()
    errors.require_supported("spec.fsGroupPolicy", policy, _FS_GROUP_POLICIES)
    audiences: set[str] = set()
    for index, request in enumerate(requests):
        at, audience = f"spec.tokenRequests[{index}]", request.get("audience", "")
        seconds = request.get("expirationSeconds")
        if audience in audiences:
            errors.duplicate(f"{at}.audience", audience)
            continue
        audiences.add(audience)
        place = f"{at}.expirationSeconds"
        if seconds is not None and seconds < _MIN_TOKEN:
            text = "may not specify a duration less than 10 minutes"
            errors.invalid(place, seconds, text)
        elif seconds is not None and seconds > _MAX_TOKEN:
            text = "may not specify a duration larger than 2^32 seconds"
            errors.invalid(place, seconds, text)
    errors += [
        not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLES)
        for mode in spec.get("volumeLifecycleModes") or []
        if mode not in _LIFECYCLES
    ]
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _MIN_PERIOD:
        at = "spec.nodeAllocatableUpdatePeriodSeconds"
        text = f"must be greater than or equal to {_MIN_PERIOD} seconds"
        errors.invalid(at, period, text)
    secrets = spec.get("serviceAccountTokenInSecrets")
    if secrets is not None and not requests:
        text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.invalid("spec.serviceAccountTokenInSecrets", secrets, text)
    return errors


def validate_csi_node(node: Obj) -> ErrorList:
    """Validate the drivers of a CSI node."""
    errors = ErrorList()
    names: set[str] = set()
    for index, driver in enumerate((node.get("spec") or {}).get("drivers") or []):
        at, name, own = f"spec.drivers[{index}]", driver.get("name", ""), driver.get("nodeID", "")
        errors += validate_csi_driver_name(name, f"{at}.name")
        if not own:
            errors.required(f"{at}.nodeID")
        if len(own) > _MAX_NODE_ID_LENGTH:
            text = f"must be {_MAX_NODE_ID_LENGTH} characters or less"
            errors.invalid(f"{at}.nodeID", own, text)
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None and count < 0:
            errors.invalid(f"{at}.allocatable.count", count, NEGATIVE)
        errors.require_unique(f"{at}.name", name, names)
        errors += _validate_topology_keys(driver.get("topologyKeys") or [], at)
    return errors


def _validate_topology_keys(keys: list[str], at: str) -> ErrorList:
    errors = ErrorList()
    for index, key in enumerate(keys):
        if not key:
            errors.required(at)
        if key in keys[:index]:
            errors.duplicate(at, key)
        errors.invalid_each(at, key, label_key_texts(key))
    return errors


def validate_volume_attributes_class(attributes_class: Obj) -> ErrorList:
    """Validate a volume attributes class."""
    driver, parameters = (
        attributes_class.get("driverName", "").lower(),
        attributes_class.get("parameters") or {},
    )
    errors = ErrorList()
    errors.require_valid("driverName", driver, label_key_texts)
    if "" in parameters:
        errors.invalid("parameters", "", "field can not be empty.")
    if not parameters:
        errors.required("parameters", "must contain at least one key/value pair")
    return errors


def validate_volume_attributes_class_update(new: Obj, old: Obj) -> ErrorList:
    """Validate that a volume attributes class does not change."""
    return ErrorList(
        [
            forbidden_field(field, f"updates to {field} are forbidden.")
            for field in ("driverName", "parameters")
            if new.get(field) != old.get(field)
        ]
    )


def validate_csi_storage_capacity(storage_capacity: Obj) -> ErrorList:
    """Validate a CSI storage capacity."""
    name, amount, nodes = (
        storage_capacity.get(part) for part in ("storageClassName", "capacity", "nodeTopology")
    )
    errors = ErrorList() if nodes is None else validate_label_selector(nodes, "nodeTopology")
    errors.invalid_each("storageClassName", name or "", dns_subdomain_texts(name or ""))
    if amount is not None and parse_quantity(amount).amount < 0:
        errors.invalid("capacity", amount, NEGATIVE)
    return errors
