"""Validation of nodes and their updates, and warnings about deprecated node labels.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateNode, ValidateNodeUpdate;
pkg/registry/core/node/strategy.go, nodeWarnings; pkg/api/node/util.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import (
    ErrorList,
    FieldError,
    forbidden_field,
    render_json,
)
from pytest_kwait.apimachinery.validation import label_key_texts, label_value_texts
from pytest_kwait.simulator.validation.addresses import get_cidr_warnings, parse_cidr, validate_cidr
from pytest_kwait.simulator.validation.core.resources import validate_resource_quantity

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import Rendered
    from pytest_kwait.simulator.objects import Obj

DEPRECATED_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
"""The warning about each deprecated label."""

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UPDATE_FORBIDDEN = 'node updates may not change {} except from "" to valid'


def get_node_selector_term_warnings(terms: list[Obj], at: str) -> list[str]:
    """Return warnings about deprecated labels in node selector terms at `at`."""
    return [
        f"{at}[{index}].matchExpressions[{number}].key: {rule['key']} is "
        f"{DEPRECATED_NODE_LABELS[rule['key']]}"
        for index, term in enumerate(terms)
        for number, rule in enumerate(term.get("matchExpressions") or [])
        if rule.get("key") in DEPRECATED_NODE_LABELS
    ]


def validate_node(node: Obj) -> ErrorList:
    """Validate a node."""
    spec = node.get("spec") or {}
    errors = _validate_taints(spec.get("taints") or []) + _validate_node_resources(node)
    networks = spec.get("podCIDRs") or []
    for index, value in enumerate(networks):
        errors += validate_cidr(f"spec.podCIDRs[{index}]", value)
    parsed_networks = [parse_cidr(value) for value in networks]
    families = {network.version for network in parsed_networks if network is not None}
    if len(networks) > 1 and None in parsed_networks:
        first = parsed_networks.index(None)
        text = (
            "Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid "
            f"CIDR[{first}]: <nil> (invalid CIDR address: {networks[first]})"
        )
        errors.append(FieldError("InternalError", "spec.podCIDRs", text))
    if len(networks) > 1 and (len(families) < 2 or len(networks) > 2):
        text = "may specify no more than one CIDR for each IP family"
        errors.invalid("spec.podCIDRs", networks, text)
    return errors


def validate_node_update(new: Obj, old: Obj) -> ErrorList:
    """Validate a change of a node or of its status."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    errors = _validate_node_resources(new)
    addresses: list[tuple[str, str]] = []
    for index, address in enumerate((new.get("status") or {}).get("addresses") or []):
        pair = (address.get("type", ""), address.get("address", ""))
        if pair in addresses:
            address_text = render_json({"Type": pair[0], "Address": pair[1]})
            errors.append(make_duplicate_error(f"status.addresses[{index}]", address_text))
        addresses.append(pair)
    now, then = spec.get("podCIDRs") or [], before.get("podCIDRs") or []
    if then and len(now) != len(then):
        errors.forbidden("spec.podCIDRs", _UPDATE_FORBIDDEN.format("podCIDR"))
    elif then:
        changed = sum(new != old for new, old in zip(now, then, strict=True))
        errors += [forbidden_field("spec.podCIDRs", _UPDATE_FORBIDDEN.format("podCIDR"))] * changed
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        errors.forbidden("spec.providerID", _UPDATE_FORBIDDEN.format("providerID"))
    errors += _validate_taints(spec.get("taints") or [])
    if spec.get("externalID", "") != before.get("externalID", ""):
        errors.forbidden("spec.externalID", "may not be updated")
    return errors


def get_node_warnings(node: Obj) -> list[str]:
    """Return warnings about deprecated or non-canonical fields of a node."""
    spec = node.get("spec") or {}
    texts = []
    if spec.get("externalID"):
        texts.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    for index, value in enumerate(spec.get("podCIDRs") or []):
        texts += get_cidr_warnings(f"spec.podCIDRs[{index}]", value)
    return texts


def _validate_node_resources(node: Obj) -> ErrorList:
    status = node.get("status") or {}
    return ErrorList(
        [
            error
            for field in ("capacity", "allocatable")
            for name, amount in sorted((status.get(field) or {}).items())
            for error in validate_resource_quantity(name, amount, f"status.{field}.{name}")
        ]
    )


def _validate_taints(taints: list[Obj]) -> ErrorList:
    errors = ErrorList()
    checked_taints: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        at = f"metadata.taints[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors.invalid_each(f"{at}.key", key, label_key_texts(key))
        if texts := label_value_texts(value):
            errors.invalid(f"{at}.value", value, ";".join(texts))
        if not effect:
            errors.required(f"{at}.effect")
        elif effect not in _TAINT_EFFECTS:
            errors.not_supported(f"{at}.effect", effect, _TAINT_EFFECTS)
        if (key, effect) in checked_taints:
            added = taint.get("timeAdded")
            internal_taint = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": added}
            text = "taints must be unique by key and effect pair"
            errors.append(make_duplicate_error(at, render_json(internal_taint), text))
        checked_taints.add((key, effect))
    return errors


def make_duplicate_error(at: str, value_text: Rendered, detail: str = "") -> FieldError:
    """Return the error about a duplicate, shown as Go prints the internal type."""
    text = f"Duplicate value: {value_text}"
    return FieldError("FieldValueDuplicate", at, f"{text}: {detail}" if detail else text)
