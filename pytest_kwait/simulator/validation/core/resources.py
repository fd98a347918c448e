"""Validation of resource names and quantities.

Quantities must not be negative, and must be integers where the resource counts objects.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateResourceQuantityValue,
validateResourceRequirements, validateResourceClaimNames, validatePodResources;
pkg/apis/core/helper/helpers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import NEGATIVE, ErrorList
from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity, sum_quantities
from pytest_kwait.apimachinery.validation import dns_label_texts, label_key_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_kwait.simulator.objects import Obj

INTEGER_RESOURCES = frozenset(
    (
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    )
)
"""Resources that count objects; their amounts are integers."""

_STANDARD_RESOURCES = frozenset(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.storage",
        "services.nodeports",
        "services.loadbalancers",
    ]
)
CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_COMPUTE_RESOURCES = ("cpu", "memory")
_HUGE_PAGES_PREFIX = "hugepages-"
_INTEGER = "must be an integer"


def is_domain_prefixed_resource(name: str) -> bool:
    """Return whether the resource has a domain other than Kubernetes', as `example.com/gpu`."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def validate_resource_quantity(name: str, text: str, at: str) -> ErrorList:
    """Validate an amount of the resource `name`."""
    amount = parse_quantity(text)
    errors = ErrorList()
    if amount.amount < 0:
        errors.invalid(at, str(amount), NEGATIVE)
    if (name in INTEGER_RESOURCES or is_domain_prefixed_resource(name)) and (
        amount.amount * 1000
    ) % 1000 != 0:
        errors.invalid(at, str(amount), "must be an integer")
    return errors


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended_resource(name: str) -> bool:
    """Return whether the resource is defined outside Kubernetes."""
    if _is_native(name) or name.startswith("requests."):
        return False
    return not label_key_texts(f"requests.{name}")


def _validate_resource_name(name: str, at: str) -> ErrorList:
    errors = ErrorList()
    errors.invalid_each(at, name, label_key_texts(name))
    if errors:
        return errors
    if (
        "/" not in name
        and name not in _STANDARD_RESOURCES
        and not name.startswith((_HUGE_PAGES_PREFIX, "requests." + _HUGE_PAGES_PREFIX))
    ):
        errors.invalid(at, name, "must be a standard resource type or fully qualified")
    return errors


def validate_container_resource_name(name: str, at: str) -> ErrorList:
    """Validate the name of a resource that containers may request."""
    errors = ErrorList()
    if name in CONTAINER_RESOURCES:
        return errors
    errors += _validate_resource_name(name, at)
    if "/" not in name:
        if not name.startswith(_HUGE_PAGES_PREFIX):
            errors.invalid(at, name, "must be a standard resource for containers")
    elif not _is_native(name) and not _is_extended_resource(name):
        errors.invalid(at, name, "doesn't follow extended resource name standard")
    return errors


def _validate_pod_resource_name(name: str, at: str) -> ErrorList:
    if name in _COMPUTE_RESOURCES:
        return ErrorList()
    errors = _validate_resource_name(name, at)
    if not errors and not name.startswith(_HUGE_PAGES_PREFIX):
        errors.not_supported(at, name, ("cpu", "hugepages-", "memory"))
    return errors


def validate_resource_requirements(
    resources: Obj,
    claims: Iterable[str],
    at: str,
    check_name: Callable[[str, str], ErrorList] = validate_container_resource_name,
) -> ErrorList:
    """Validate names, amounts and claims; requests must not exceed limits.

    Args:
        resources: the requirements.
        claims: the names of the pod's claims.
        at: the path of the requirements.
        check_name: validates a resource name.
    """
    errors = ErrorList()
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, amount in limits.items():
        errors += _validate_resource_amount(name, amount, f"{at}.limits[{name}]", check_name)
    for name, amount in requests.items():
        errors += _validate_resource_amount(name, amount, f"{at}.requests[{name}]", check_name)
        limit = limits.get(name)
        overcommit = _is_native(name) and not name.startswith(_HUGE_PAGES_PREFIX)
        if limit is None:
            if not overcommit:
                text = "Limit must be set for non overcommitable resources"
                errors.required(f"{at}.limits", text)
        elif limit != amount:
            asked, most = parse_quantity(amount), parse_quantity(limit)
            if not overcommit and asked != most:
                errors.invalid(
                    f"{at}.requests", amount, f"must be equal to {name} limit of {limit}"
                )
            elif asked > most:
                text = f"must be less than or equal to {name} limit of {limit}"
                errors.invalid(f"{at}.requests", amount, text)
    names = limits.keys() | requests.keys()
    if any(name.startswith(_HUGE_PAGES_PREFIX) for name in names) and not {"cpu", "memory"} & names:
        errors.forbidden(at, "HugePages require cpu or memory")
    if "claims" in resources:
        errors += _validate_resource_claim_names(
            resources["claims"], sorted(claims), f"{at}.claims"
        )
    return errors


def _validate_resource_amount(
    name: str,
    amount: str,
    at: str,
    check_name: Callable[[str, str], ErrorList],
) -> ErrorList:
    errors = check_name(name, at)
    if amount.startswith("-") and parse_quantity(amount).amount < 0:
        errors.invalid(at, amount, NEGATIVE)
    if name in CONTAINER_RESOURCES:
        return errors
    if (name in INTEGER_RESOURCES or _is_extended_resource(name)) and parse_quantity(
        amount
    ).amount.denominator != 1:
        errors.invalid(at, amount, _INTEGER)
    if name.startswith(_HUGE_PAGES_PREFIX) and not _is_whole_page_count(name, amount):
        errors.invalid(at, amount, f"{amount} is not positive integer multiple of {name}")
    return errors


def _is_whole_page_count(name: str, amount: str) -> bool:
    try:
        size = parse_quantity(name.removeprefix(_HUGE_PAGES_PREFIX)).amount
    except ValueError:
        return False
    return size > 0 and size.denominator == 1 and parse_quantity(amount).amount % size == 0


def _validate_resource_claim_names(claims: Iterable[Obj], known: list[str], at: str) -> ErrorList:
    errors = ErrorList()
    taken: set[str] = set()
    for index, claim in enumerate(claims):
        here, name, request = f"{at}[{index}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.required(here)
            continue
        key = f"{name}/{request}" if request else name
        if name in taken:
            errors.duplicate(here, name)
        else:
            if request:
                errors.invalid_each(f"{here}.request", request, dns_label_texts(request))
            if key in taken:
                errors.duplicate(here, key)
            elif not request:
                for other_name in taken:
                    if other_name.startswith(f"{name}/"):
                        errors.duplicate(here, name)
            taken.add(key)
        if name not in known:
            names = f": {', '.join(known)}" if known else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{names}"
            errors.not_found(here, name, detail)
    return errors


def validate_overhead(overhead: Mapping[str, str], at: str) -> ErrorList:
    """Validate a pod's overhead as limits."""
    return validate_resource_requirements({"limits": overhead}, (), at)


def validate_pod_resources(spec: Obj, claims: Iterable[str], at: str) -> ErrorList:
    """Validate pod-level resources, which must cover those of the containers."""
    errors = ErrorList()
    resources = spec["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        errors.forbidden(at, "may not be set for a windows pod")
        return errors
    if resources.get("claims"):
        errors.forbidden(f"{at}.claims", "claims may not be set for Resources at pod-level")
    errors += validate_resource_requirements(resources, claims, at, _validate_pod_resource_name)
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, needed in sorted(aggregate_container_resources(spec, "requests").items()):
        if name in requests and needed > parse_quantity(requests[name]):
            errors.invalid(
                f"{at}.requests[{name}]",
                requests[name],
                f"must be greater than or equal to aggregate container requests of {needed}",
            )
    for name, needed in sorted(aggregate_container_resources(spec, "limits").items()):
        if (
            name.startswith(_HUGE_PAGES_PREFIX)
            and name in limits
            and needed > parse_quantity(limits[name])
        ):
            errors.invalid(
                f"{at}.limits[{name}]",
                limits[name],
                f"must be greater than or equal to aggregate container limits of {needed}",
            )
    for index, container in enumerate(spec.get("containers", ())):
        for name, limit in container.get("resources", {}).get("limits", {}).items():
            if name in limits and parse_quantity(limit) > parse_quantity(limits[name]):
                here = f"{at}.containers[{index}][{name}].limits"
                text = f"must be less than or equal to pod limits of {limits[name]}"
                errors.invalid(here, limit, text)
    return errors


def aggregate_container_resources(spec: Obj, field: str) -> dict[str, Quantity]:
    """Return the largest sum of requests or limits that the containers have at any time.

    Source: k8s.io/component-helpers resource/helpers.go, AggregateContainerRequests.
    """
    total: dict[str, Quantity] = {}
    for container in spec.get("containers", ()):
        _add_resources(total, container.get("resources", {}).get(field, {}))
    beside: dict[str, Quantity] = {}
    worst: dict[str, Quantity] = {}
    for container in spec.get("initContainers", ()):
        asked = container.get("resources", {}).get(field, {})
        if container.get("restartPolicy") == "Always":
            _add_resources(total, asked)
            _add_resources(beside, asked)
            moment = dict(beside)
        else:
            moment = dict(beside)
            _add_resources(moment, asked)
        for name, amount in moment.items():
            if name not in worst or worst[name] < amount:
                worst[name] = amount
    for name, amount in worst.items():
        if name not in total or total[name] < amount:
            total[name] = amount
    return total


def _add_resources(total: dict[str, Quantity], more: Mapping[str, str]) -> None:
    for name, text in more.items():
        amount = parse_quantity(text)
        total[name] = total[name] + amount if name in total else amount


def qos_class(spec: Obj) -> str:
    """Return the QoS class: `Guaranteed`, `Burstable` or `BestEffort`."""
    lists = (
        [spec["resources"]]
        if spec.get("resources")
        else [
            container["resources"] if container.get("resources") else {}
            for field in ("containers", "initContainers")
            for container in spec.get(field, ())
        ]
    )
    if not any(lists):
        return "BestEffort"
    limits = _sum_resources(resources.get("limits", {}) for resources in lists)
    requests = _sum_resources(resources.get("requests", {}) for resources in lists)
    if not limits and not requests:
        return "BestEffort"
    bounded = all(
        len(_parse_positive(resources.get("limits", {}))) == len(_COMPUTE_RESOURCES)
        for resources in lists
    )
    return "Guaranteed" if bounded and requests == limits else "Burstable"


def _parse_positive(amounts: dict[str, str]) -> dict[str, Quantity]:
    return {
        name: amount
        for name in _COMPUTE_RESOURCES
        if name in amounts and (amount := parse_quantity(amounts[name])).amount > 0
    }


def _sum_resources(lists: Iterable[dict[str, str]]) -> dict[str, Quantity]:
    parsed_lists = [_parse_positive(resource_list) for resource_list in lists]
    return {
        name: sum_quantities(
            [parsed_list[name] for parsed_list in parsed_lists if name in parsed_list]
        )
        for name in _COMPUTE_RESOURCES
        if any(name in parsed_list for parsed_list in parsed_lists)
    }
