"""Cluster IPs of services and the families that they are of.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go,
ValidateServiceClusterIPsRelatedFields, validateUpgradeDowngradeClusterIPs,
validateUpgradeDowngradeIPFamilies; pkg/registry/core/service/storage/alloc.go, initIPFamilyFields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import duplicate, invalid_value, not_supported, required
from pytest_kwait.simulator.validation.addresses import get_ip_family, validate_ip

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "init_ip_family_fields",
    "is_headless",
    "validate_cluster_ip_update",
    "validate_cluster_ips",
]

_IPS, _FAMILIES, _POLICY = "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"
_KNOWN_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_SET_ONCE = "may not change once set"


def is_headless(spec: Obj) -> bool:
    """Whether the service has no address of its own, on purpose."""
    return bool(spec.get("clusterIPs") == ["None"])


def validate_cluster_ips(spec: Obj, before: Obj | None) -> list[FieldError]:
    """What contradicts itself among addresses, families and policy; `before` is the old spec."""
    if spec.get("type") == "ExternalName":
        return []
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    errors: list[FieldError] = []
    if address and not addresses:
        errors.append(required(_IPS))
    elif address and addresses[0] != address:
        errors.append(invalid_value(_IPS, addresses, "first value must match `clusterIP`"))
    elif addresses and not address:
        text = "must be empty when `clusterIP` is not specified"
        errors.append(invalid_value(_IPS, addresses, text))
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        if family not in _KNOWN_FAMILIES:
            errors.append(not_supported(f"{_FAMILIES}[{index}]", family, _KNOWN_FAMILIES))
        if family in families[:index]:
            errors.append(duplicate(f"{_FAMILIES}[{index}]", family))
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        errors.append(not_supported(_POLICY, policy, _FAMILY_POLICIES))
    return errors + _validate_cluster_ip_list(spec, (before or {}).get("clusterIPs") or [])


def _validate_cluster_ip_list(spec: Obj, kept: list[str]) -> list[FieldError]:
    addresses = spec.get("clusterIPs") or []
    errors: list[FieldError] = []
    broken = False
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                broken = True
                text = "'None' must be the first and only value"
                errors.append(invalid_value(_IPS, addresses, text))
            continue
        found = validate_ip(f"{_IPS}[{index}]", address, kept)
        broken = broken or bool(found)
        errors += found
    if len(addresses) > 2:
        errors.append(invalid_value(_IPS, addresses, "may only hold up to 2 values"))
    if broken:
        return errors
    families = {get_ip_family(address) for address in addresses}
    if len(addresses) > 1 and len(families) < 2:
        text = "may specify no more than one IP for each IP family"
        errors.append(invalid_value(_IPS, addresses, text))
    if not is_headless(spec):
        pairs = zip(addresses, spec.get("ipFamilies") or [], strict=False)
        errors += [
            invalid_value(
                f"{_IPS}[{index}]",
                address,
                f"expected an {family} value as indicated by `ipFamilies[{index}]`",
            )
            for index, (address, family) in enumerate(pairs)
            if family in _KNOWN_FAMILIES and get_ip_family(address) != family
        ]
    return errors


def init_ip_family_fields(
    spec: Obj, before: Obj | None, served: Collection[str]
) -> list[FieldError]:
    """Set the families and the policy that follow from the rest, in place.

    Args:
        spec: the service's, with its addresses in order.
        before: the old spec on a change.
        served: the families that the cluster has addresses of; the first is the default.

    Returns:
        What is asked for and cannot be had.
    """
    if spec["type"] == "ExternalName":
        return []
    selected = bool(spec.get("selector"))
    if spec.get("ipFamilyPolicy") is None:
        if before is not None and before.get("ipFamilyPolicy") is not None:
            spec["ipFamilyPolicy"] = before["ipFamilyPolicy"]
        elif spec.get("clusterIP") == "None" and not selected:
            spec["ipFamilyPolicy"] = "RequireDualStack"
        else:
            spec["ipFamilyPolicy"] = "SingleStack"
    if errors := validate_cluster_ips(spec, before):
        return errors
    errors = _validate_family_policy(spec, before, served)
    families: list[str] = spec.setdefault("ipFamilies", [])
    single = spec["ipFamilyPolicy"] == "SingleStack"
    if not errors and spec.get("clusterIP") == "None" and not selected:
        if not families:
            families.append(next(iter(served)))
        if len(families) < 2 and not single:
            families.append("IPv6" if families[0] == "IPv4" else "IPv4")
        return []
    if not errors:
        errors = _validate_served_families(spec, served)
    if not families and not errors:
        families.append(next(iter(served)))
    if not families:
        del spec["ipFamilies"]
    return errors


def _validate_family_policy(
    spec: Obj, before: Obj | None, served: Collection[str]
) -> list[FieldError]:
    policy, errors = spec["ipFamilyPolicy"], []
    parts = (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family"))
    for field, words in parts if before is not None else ():
        now, then = spec.get(field) or [], (before or {}).get(field) or []
        if policy == "SingleStack":
            if now == then and len(now) > 1:
                spec[field] = now[:1]
        elif now and len(now) < len(then):
            text = f"must be 'SingleStack' to release the secondary {words}"
            errors.append(invalid_value(_POLICY, policy, text))
    if policy == "SingleStack":
        for field, words in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
            if len(spec.get(field) or []) == 2:
                text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple "
                errors.append(invalid_value(_POLICY, policy, f"{text}{words} are specified"))
    addresses = spec.get("clusterIPs") or []
    for index, address in enumerate(addresses):
        if address == "None":
            break
        family = get_ip_family(address)
        families = spec.setdefault("ipFamilies", [])
        if index >= len(families):
            if family in served:
                families.append(family)
            else:
                text = f"{family} is not configured on this cluster"
                errors.append(invalid_value(f"{_IPS}[{index}]", addresses, text))
    return errors


def _validate_served_families(spec: Obj, served: Collection[str]) -> list[FieldError]:
    errors = []
    if spec["ipFamilyPolicy"] == "RequireDualStack" and len(served) < 2:
        text = "this cluster is not configured for dual-stack services"
        errors.append(invalid_value(_POLICY, spec["ipFamilyPolicy"], text))
    errors += [
        invalid_value(f"{_FAMILIES}[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(spec.get("ipFamilies") or [])
        if family not in served
    ]
    return errors


def validate_cluster_ip_update(spec: Obj, before: Obj) -> list[FieldError]:
    """Which addresses and families cannot be changed the way they are."""
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return []
    if is_headless(spec) and is_headless(before):
        return []
    errors = _validate_field_update(spec, before, "clusterIPs", "clusterIP")
    if is_headless(spec) != is_headless(before):
        return errors
    return errors + _validate_field_update(spec, before, "ipFamilies", "ipFamily")


def _validate_field_update(spec: Obj, before: Obj, field: str, words: str) -> list[FieldError]:
    now, then = spec.get(field) or [], before.get(field) or []
    path, errors = f"spec.{field}", []
    families = field == "ipFamilies"
    if len(now) == len(then):
        for index, (new, old) in enumerate(zip(now, then, strict=True)):
            if new != old:
                at = f"{path}[0]" if families else f"{path}[{index}]"
                errors.append(invalid_value(at, now, _SET_ONCE))
        return errors
    if len(now) < len(then) and not (spec.get("clusterIPs") or []):
        errors.append(invalid_value(f"{path}[0]", now, f"primary {words} can not be unset"))
    if now and then and now[0] != then[0]:
        shown = spec.get("clusterIPs") if families else now
        errors.append(invalid_value(f"{path}[0]", shown, _SET_ONCE))
    policy = spec.get("ipFamilyPolicy")
    if len(now) < len(then) and len(now) == 1 and policy != "SingleStack":
        text = f"must be set to 'SingleStack' when releasing the secondary {words}"
        errors.append(invalid_value(_POLICY, policy, text))
    return errors
