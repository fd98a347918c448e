"""Network policies: who may speak to whom, and by which ports.

Source: k8s.io/kubernetes pkg/apis/networking/validation/validation.go, ValidateNetworkPolicy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import (
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.simulator.validation.addresses import get_cidr_warnings, parse_cidr, validate_cidr
from pytest_kwait.simulator.validation.formats import port_name_texts, port_number_texts
from pytest_kwait.simulator.validation.objectmeta import selector_errors

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["get_network_policy_warnings", "validate_network_policy"]

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_POLICY_TYPES = ("Ingress", "Egress")
_DIRECTIONS = (("ingress", "from"), ("egress", "to"))


def validate_network_policy(policy: Obj, old: Obj | None = None) -> list[FieldError]:
    """What is wrong with a policy; networks that were in the `old` one are not looked at."""
    spec = policy.get("spec") or {}
    kept = {block for _, block in _list_ip_blocks(old)} if old is not None else ()
    errors = selector_errors(spec.get("podSelector") or {}, "spec.podSelector")
    for direction, peers in _DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or []):
            at = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or []):
                errors += _validate_network_policy_port(port, f"{at}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or []):
                errors += _validate_network_policy_peer(peer, f"{at}.{peers}[{number}]", kept)
    types = spec.get("policyTypes") or []
    if len(types) > len(_POLICY_TYPES):
        text = "may not specify more than two policyTypes"
        return [*errors, invalid_value("spec.policyTypes", types, text)]
    errors += [
        not_supported(f"spec.policyTypes[{index}]", kind, _POLICY_TYPES)
        for index, kind in enumerate(types)
        if kind not in _POLICY_TYPES
    ]
    return errors


def get_network_policy_warnings(policy: Obj) -> list[str]:
    """What is odd about the networks of a policy."""
    return [text for at, block in _list_ip_blocks(policy) for text in get_cidr_warnings(at, block)]


def _list_ip_blocks(policy: Obj) -> Iterator[tuple[str, str]]:
    """Where networks stand in a policy, and what is written there."""
    spec = policy.get("spec") or {}
    for direction, peers in _DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or []):
            for number, peer in enumerate(rule.get(peers) or []):
                block = peer.get("ipBlock")
                if block is not None:
                    at = f"spec.{direction}[{index}].{peers}[{number}].ipBlock"
                    yield f"{at}.cidr", block.get("cidr", "")
                    for place, value in enumerate(block.get("except") or []):
                        yield f"{at}.except[{place}]", value


def _validate_network_policy_port(port: Obj, at: str) -> list[FieldError]:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    errors: list[FieldError] = []
    if protocol is not None and protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{at}.protocol", protocol, _PROTOCOLS))
    if isinstance(number, int):
        texts = port_number_texts(number)
        errors += [invalid_value(f"{at}.port", number, text) for text in texts]
        if end is not None:
            if end < number:
                # The server shows the port and not its end.
                text = "must be greater than or equal to `port`"
                errors.append(invalid_value(f"{at}.endPort", number, text))
            texts = port_number_texts(end)
            errors += [invalid_value(f"{at}.endPort", end, text) for text in texts]
        return errors
    if end is not None:
        why = "not specified" if number is None else "non-numeric"
        text = f"may not be specified when `port` is {why}"
        errors.append(invalid_value(f"{at}.endPort", end, text))
    if number is not None:
        texts = port_name_texts(number)
        errors += [invalid_value(f"{at}.port", number, text) for text in texts]
    return errors


def _validate_network_policy_peer(peer: Obj, at: str, kept: Container[str]) -> list[FieldError]:
    block, errors, count = peer.get("ipBlock"), [], 0
    for field in ("podSelector", "namespaceSelector"):
        selector = peer.get(field)
        if selector is not None:
            count += 1
            errors += selector_errors(selector, f"{at}.{field}")
    if block is not None:
        errors += _validate_ip_block(block, f"{at}.ipBlock", kept)
        if count:
            errors.append(forbidden_field(at, "may not specify both ipBlock and another peer"))
    elif not count:
        errors.append(required(at, "must specify a peer"))
    return errors


def _validate_ip_block(block: Obj, at: str, kept: Container[str]) -> list[FieldError]:
    value = block.get("cidr", "")
    if not value:
        return [required(f"{at}.cidr")]
    errors = validate_cidr(f"{at}.cidr", value, kept)
    whole = parse_cidr(value)
    for index, left_out in enumerate(block.get("except") or [] if whole else []):
        place, part = f"{at}.except[{index}]", parse_cidr(left_out)
        errors += validate_cidr(place, left_out, kept)
        if whole is None or part is None:
            continue
        inside = part.version == whole.version and part.network_address in whole
        if not inside or whole.prefixlen >= part.prefixlen:
            errors.append(invalid_value(place, left_out, "must be a strict subset of `cidr`"))
    return errors
