"""Validation of services.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, validateService,
ValidateServiceUpdate, ValidateLoadBalancerStatus, ValidateServiceClusterIPsRelatedFields,
validateUpgradeDowngradeClusterIPs, validateUpgradeDowngradeIPFamilies;
pkg/api/service/warnings.go; pkg/registry/core/service/storage/alloc.go, initIPFamilyFields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import (
    ErrorList,
    forbidden_field,
    invalid_value,
    not_supported,
    render_json,
)
from pytest_kwait.apimachinery.validation import (
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    port_name_texts,
    port_number_texts,
)
from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.validation.addresses import (
    get_cidr_warnings,
    get_ip_family,
    get_ip_warnings,
    is_ip,
    validate_cidr,
    validate_endpoint_ip,
    validate_ip,
)
from pytest_kwait.simulator.validation.objectmeta import validate_labels

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pytest_kwait.simulator.objects import Obj

PROTOCOLS = ("SCTP", "TCP", "UDP")
"""The protocols of ports."""

_IPS, _FAMILIES, _POLICY = "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"
_KNOWN_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_SET_ONCE = "may not change once set"
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_TRAFFIC_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_IP_MODES = ("Proxy", "VIP")
_TOPOLOGY_HINTS_ANNOTATION = "service.kubernetes.io/topology-aware-hints"
_TOPOLOGY_MODE_ANNOTATION = "service.kubernetes.io/topology-mode"
_SOURCE_RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
_LOAD_BALANCERS_ONLY = "may only be used when `type` is 'LoadBalancer'"
_MAX_AFFINITY_SECONDS = 86400


def is_headless(spec: Obj) -> bool:
    """Return whether the service has the cluster IP `None`."""
    return bool(spec.get("clusterIPs") == ["None"])


def validate_cluster_ips(spec: Obj, before: Obj | None) -> ErrorList:
    """Validate that cluster IPs, families and policy agree; `before` is the old spec."""
    if spec.get("type") == "ExternalName":
        return ErrorList()
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    errors = ErrorList()
    if address and not addresses:
        errors.required(_IPS)
    elif address and addresses[0] != address:
        errors.invalid(_IPS, addresses, "first value must match `clusterIP`")
    elif addresses and not address:
        text = "must be empty when `clusterIP` is not specified"
        errors.invalid(_IPS, addresses, text)
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        if family not in _KNOWN_FAMILIES:
            errors.not_supported(f"{_FAMILIES}[{index}]", family, _KNOWN_FAMILIES)
        if family in families[:index]:
            errors.duplicate(f"{_FAMILIES}[{index}]", family)
    policy = spec.get("ipFamilyPolicy")
    errors.require_supported(_POLICY, policy, _FAMILY_POLICIES)
    return errors + _validate_cluster_ip_list(spec, (before or {}).get("clusterIPs") or [])


def _validate_cluster_ip_list(spec: Obj, stored_addresses: list[str]) -> ErrorList:
    addresses = spec.get("clusterIPs") or []
    errors = ErrorList()
    broken = False
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                broken = True
                text = "'None' must be the first and only value"
                errors.invalid(_IPS, addresses, text)
            continue
        ip_errors = validate_ip(f"{_IPS}[{index}]", address, stored_addresses)
        broken = broken or bool(ip_errors)
        errors += ip_errors
    if len(addresses) > 2:
        errors.invalid(_IPS, addresses, "may only hold up to 2 values")
    if broken:
        return errors
    families = {get_ip_family(address) for address in addresses}
    if len(addresses) > 1 and len(families) < 2:
        text = "may specify no more than one IP for each IP family"
        errors.invalid(_IPS, addresses, text)
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


def init_ip_family_fields(spec: Obj, before: Obj | None, served: Collection[str]) -> ErrorList:
    """Set IP families and policy that follow from the rest, in place.

    Args:
        spec: the service's spec, with its addresses in order.
        before: the old spec on an update.
        served: the families of the cluster; the first is the default.

    Returns:
        Errors about families that the cluster does not have.
    """
    if spec["type"] == "ExternalName":
        return ErrorList()
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
        return ErrorList()
    if not errors:
        errors = _validate_served_families(spec, served)
    if not families and not errors:
        families.append(next(iter(served)))
    if not families:
        del spec["ipFamilies"]
    return errors


def _validate_family_policy(spec: Obj, before: Obj | None, served: Collection[str]) -> ErrorList:
    policy, errors = spec["ipFamilyPolicy"], ErrorList()
    parts = (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family"))
    for field, words in parts if before is not None else ():
        now, then = spec.get(field) or [], (before or {}).get(field) or []
        if policy == "SingleStack":
            if now == then and len(now) > 1:
                spec[field] = now[:1]
        elif now and len(now) < len(then):
            text = f"must be 'SingleStack' to release the secondary {words}"
            errors.invalid(_POLICY, policy, text)
    if policy == "SingleStack":
        for field, words in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
            if len(spec.get(field) or []) == 2:
                text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple "
                errors.invalid(_POLICY, policy, f"{text}{words} are specified")
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
                errors.invalid(f"{_IPS}[{index}]", addresses, text)
    return errors


def _validate_served_families(spec: Obj, served: Collection[str]) -> ErrorList:
    errors = ErrorList()
    if spec["ipFamilyPolicy"] == "RequireDualStack" and len(served) < 2:
        text = "this cluster is not configured for dual-stack services"
        errors.invalid(_POLICY, spec["ipFamilyPolicy"], text)
    errors += [
        invalid_value(f"{_FAMILIES}[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(spec.get("ipFamilies") or [])
        if family not in served
    ]
    return errors


def validate_cluster_ip_update(spec: Obj, before: Obj) -> ErrorList:
    """Validate a change of addresses and families."""
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return ErrorList()
    if is_headless(spec) and is_headless(before):
        return ErrorList()
    errors = _validate_field_update(spec, before, "clusterIPs", "clusterIP")
    if is_headless(spec) != is_headless(before):
        return errors
    return errors + _validate_field_update(spec, before, "ipFamilies", "ipFamily")


def _validate_field_update(spec: Obj, before: Obj, field: str, words: str) -> ErrorList:
    now, then = spec.get(field) or [], before.get(field) or []
    path, errors = f"spec.{field}", ErrorList()
    families = field == "ipFamilies"
    if len(now) == len(then):
        for index, (new, old) in enumerate(zip(now, then, strict=True)):
            if new != old:
                at = f"{path}[0]" if families else f"{path}[{index}]"
                errors.invalid(at, now, _SET_ONCE)
        return errors
    if len(now) < len(then) and not (spec.get("clusterIPs") or []):
        errors.invalid(f"{path}[0]", now, f"primary {words} can not be unset")
    if now and then and now[0] != then[0]:
        reported_value = spec.get("clusterIPs") if families else now
        errors.invalid(f"{path}[0]", reported_value, _SET_ONCE)
    policy = spec.get("ipFamilyPolicy")
    if len(now) < len(then) and len(now) == 1 and policy != "SingleStack":
        text = f"must be set to 'SingleStack' when releasing the secondary {words}"
        errors.invalid(_POLICY, policy, text)
    return errors


def is_externally_accessible(spec: Obj) -> bool:
    """Return whether the service is reachable from outside the cluster."""
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (
        kind == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def needs_health_check(spec: Obj) -> bool:
    """Return whether the load balancer probes nodes at the service's health check port."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def validate_service(service: Obj, old: Obj | None = None) -> ErrorList:
    """Validate a service; `old` is the stored one on an update."""
    spec = service["spec"]
    before = None if old is None else old["spec"]
    return ErrorList(
        [
            *_validate_topology_hints(service),
            *_validate_type(spec),
            *_validate_ports(spec),
            *validate_labels(spec.get("selector") or {}, "spec.selector"),
            *_validate_session_affinity(spec),
            *validate_cluster_ips(spec, before),
            *_validate_external_ips(spec, before),
            *_validate_type_fields(spec),
            *_find_port_conflicts(spec),
            *_validate_source_ranges(service, old),
            *_validate_load_balancer_ip(spec),
            *_validate_traffic_policies(spec),
        ]
    )


def validate_service_update(new: Obj, old: Obj) -> ErrorList:
    """Validate a change of a service."""
    spec, before = new["spec"], old["spec"]
    errors = validate_cluster_ip_update(spec, before)
    now, then = spec.get("loadBalancerClass"), before.get("loadBalancerClass")
    balancers = spec.get("type") == before.get("type") == "LoadBalancer"
    if balancers and now != then:
        errors.invalid("spec.loadBalancerClass", now, "may not change once set")
    errors += _validate_load_balancer_class(spec)
    if needs_health_check(spec) and needs_health_check(before):
        field = "healthCheckNodePort"
        if spec.get(field) != before.get(field):
            errors.forbidden(f"spec.{field}", "field is immutable")
    return errors + validate_service(new, old)


def _validate_topology_hints(service: Obj) -> ErrorList:
    annotations = annotations_of(service)
    if (
        _TOPOLOGY_HINTS_ANNOTATION in annotations
        and annotations.get(_TOPOLOGY_MODE_ANNOTATION, annotations[_TOPOLOGY_HINTS_ANNOTATION])
        != annotations[_TOPOLOGY_HINTS_ANNOTATION]
    ):
        text = f"must match annotations[{_TOPOLOGY_HINTS_ANNOTATION}] when both are specified"
        return ErrorList(
            [
                invalid_value(
                    f"metadata.annotations[{_TOPOLOGY_MODE_ANNOTATION}]",
                    annotations[_TOPOLOGY_MODE_ANNOTATION],
                    text,
                )
            ]
        )
    return ErrorList()


def _validate_type(spec: Obj) -> ErrorList:
    kind, errors = spec.get("type"), ErrorList()
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        errors.required("spec.ports")
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        text = f"may not be set to 'None' for {kind} services"
        errors.invalid("spec.clusterIPs[0]", "None", text)
    if kind == "ExternalName":
        errors += [
            forbidden_field(f"spec.{field}", "may not be set for ExternalName services")
            for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
            if spec.get(field) or (field == "ipFamilyPolicy" and spec.get(field) is not None)
        ]
        name = spec.get("externalName", "").removesuffix(".")
        if name:
            at = "spec.externalName"
            errors.invalid_each(at, name, dns_subdomain_texts(name))
        else:
            errors.required("spec.externalName")
    return errors


def _validate_ports(spec: Obj) -> ErrorList:
    ports = spec.get("ports") or []
    names: set[str] = set()
    errors = ErrorList()
    for index, port in enumerate(ports):
        at, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            errors.invalid_each(f"{at}.name", name, dns_label_texts(name))
            errors.require_unique(f"{at}.name", name, names)
        elif len(ports) > 1:
            errors.required(f"{at}.name")
        errors += _validate_port(port, at)
    return errors


def _validate_port(port: Obj, at: str) -> ErrorList:
    number, target = port.get("port", 0), port.get("targetPort", 0)
    errors = ErrorList()
    errors.invalid_each(f"{at}.port", number, port_number_texts(number))
    if port.get("protocol") not in PROTOCOLS:
        errors.not_supported(f"{at}.protocol", port.get("protocol"), PROTOCOLS)
    texts = port_name_texts(target) if isinstance(target, str) else port_number_texts(target)
    errors.invalid_each(f"{at}.targetPort", target, texts)
    application = port.get("appProtocol")
    if application is not None:
        at = f"{at}.appProtocol"
        errors.invalid_each(at, application, label_key_texts(application))
    return errors


def _validate_session_affinity(spec: Obj) -> ErrorList:
    affinity, config = spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    at = "spec.sessionAffinityConfig"
    if affinity not in ("ClientIP", "None"):
        return ErrorList([not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))])
    if affinity == "None":
        text = "must not be set when session affinity is None"
        return ErrorList() if config is None else ErrorList([forbidden_field(at, text)])
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is None or 0 < seconds <= _MAX_AFFINITY_SECONDS:
        return ErrorList()
    text = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
    return ErrorList([invalid_value(f"{at}.clientIP.timeoutSeconds", seconds, text)])


def _validate_external_ips(spec: Obj, before: Obj | None) -> ErrorList:
    stored_addresses = (before or {}).get("externalIPs") or []
    return ErrorList(
        [
            error
            for index, address in enumerate(spec.get("externalIPs") or [])
            for error in validate_ip(f"spec.externalIPs[{index}]", address, stored_addresses)
            or validate_endpoint_ip(f"spec.externalIPs[{index}]", address)
        ]
    )


def _validate_type_fields(spec: Obj) -> ErrorList:
    kind = spec.get("type", "")
    if kind not in _SERVICE_TYPES:
        return ErrorList([not_supported("spec.type", kind, _SERVICE_TYPES)])
    if kind != "ClusterIP":
        return ErrorList()
    text = "may not be used when `type` is 'ClusterIP'"
    return ErrorList(
        [
            forbidden_field(f"spec.ports[{index}].nodePort", text)
            for index, port in enumerate(spec.get("ports") or [])
            if port.get("nodePort")
        ]
    )


def _find_port_conflicts(spec: Obj) -> ErrorList:
    ports = spec.get("ports") or []
    errors = ErrorList()
    checked_ports: set[tuple[str, str, int]] = set()
    for field in ("nodePort", "port"):
        for index, port in enumerate(ports):
            number = port.get(field, 0)
            key = (field, port.get("protocol", ""), number)
            if key in checked_ports and field == "nodePort":
                errors.duplicate(f"spec.ports[{index}].nodePort", number)
            elif key in checked_ports:
                port_fields = {"Name": "", "Protocol": key[1], "AppProtocol": None, "Port": number}
                whole = render_json({**port_fields, "TargetPort": 0, "NodePort": 0})
                errors.duplicate(f"spec.ports[{index}]", whole)
            if field == "port" or number:
                checked_ports.add(key)
    return errors


def _validate_source_ranges(service: Obj, old: Obj | None) -> ErrorList:
    spec, errors = service["spec"], ErrorList()
    ranges = spec.get("loadBalancerSourceRanges")
    balancer = spec.get("type") == "LoadBalancer"
    if ranges:
        at = "spec.LoadBalancerSourceRanges"
        if not balancer:
            errors.forbidden(at, _LOAD_BALANCERS_ONLY)
        before = (old or {"spec": {}})["spec"].get("loadBalancerSourceRanges") or []
        stored_ranges = [value.strip() for value in before]
        for index, value in enumerate(ranges):
            errors += validate_cidr(f"{at}[{index}]", value.strip(), stored_ranges)
        return errors
    value = annotations_of(service).get(_SOURCE_RANGES_ANNOTATION)
    if value is None:
        return ErrorList()
    at = f"metadata.annotations[{_SOURCE_RANGES_ANNOTATION}]"
    if not balancer:
        errors.forbidden(at, _LOAD_BALANCERS_ONLY)
    if (
        old is None or annotations_of(old).get(_SOURCE_RANGES_ANNOTATION) != value
    ) and value.strip():
        for source_range in value.strip().split(","):
            errors += validate_cidr(at, source_range.strip())
    return errors


def _validate_load_balancer_ip(spec: Obj) -> ErrorList:
    errors = ErrorList()
    if spec.get("allocateLoadBalancerNodePorts") is not None and spec["type"] != "LoadBalancer":
        errors.forbidden("spec.allocateLoadBalancerNodePorts", _LOAD_BALANCERS_ONLY)
    return errors + _validate_load_balancer_class(spec)


def _validate_load_balancer_class(spec: Obj) -> ErrorList:
    at, name = "spec.loadBalancerClass", spec.get("loadBalancerClass")
    if name is None:
        return ErrorList()
    if spec.get("type") != "LoadBalancer":
        return ErrorList([forbidden_field(at, _LOAD_BALANCERS_ONLY)])
    return ErrorList([invalid_value(at, name, text) for text in label_key_texts(name)])


def _validate_traffic_policies(spec: Obj) -> ErrorList:
    errors = ErrorList()
    policy, at = spec.get("externalTrafficPolicy", ""), "spec.externalTrafficPolicy"
    if not is_externally_accessible(spec):
        if policy:
            text = "may only be set for externally-accessible services"
            errors.invalid(at, policy, text)
    elif not policy:
        errors.required(at)
    elif policy not in _TRAFFIC_POLICIES:
        errors.not_supported(at, policy, _TRAFFIC_POLICIES)
    number, at = spec.get("healthCheckNodePort", 0), "spec.healthCheckNodePort"
    if needs_health_check(spec):
        texts = port_number_texts(number) if number else []
        errors.invalid_each(at, number, texts)
        if not number:
            errors.required(at)
    elif number:
        text = (
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        )
        errors.invalid(at, number, text)
    inner, at = spec.get("internalTrafficPolicy"), "spec.internalTrafficPolicy"
    errors.require_supported(at, inner, _TRAFFIC_POLICIES)
    spread = spec.get("trafficDistribution")
    errors.require_supported("spec.trafficDistribution", spread, _TRAFFIC_DISTRIBUTIONS)
    return errors


def validate_service_status_update(new: Obj, old: Obj) -> ErrorList:
    """Validate the load balancer status of a service."""
    path = "status.loadBalancer.ingress"
    points = get_load_balancer_ingress_points(new)
    if points and new["spec"].get("type") != "LoadBalancer":
        return ErrorList(
            [forbidden_field(path, "may only be used when `spec.type` is 'LoadBalancer'")]
        )
    stored_addresses = [point.get("ip", "") for point in get_load_balancer_ingress_points(old)]
    errors = ErrorList()
    for index, point in enumerate(points):
        at, address, mode = f"{path}[{index}]", point.get("ip", ""), point.get("ipMode")
        if address:
            errors += validate_ip(f"{at}.ip", address, stored_addresses)
        if mode is None:
            if address:
                errors.required(f"{at}.ipMode", "must be specified when `ip` is set")
        elif not address:
            text = "may not be specified when `ip` is not set"
            errors.forbidden(f"{at}.ipMode", text)
        elif mode not in _IP_MODES:
            errors.not_supported(f"{at}.ipMode", mode, _IP_MODES)
        errors += validate_hostname(point.get("hostname", ""), f"{at}.hostname")
    return errors


def get_load_balancer_ingress_points(obj: Obj) -> list[Obj]:
    """Return the ingress points in the status of a service or an ingress."""
    points: list[Obj] = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return points


def get_ingress_point_warnings(obj: Obj) -> Iterator[str]:
    """Yield the warnings of non-canonical addresses of ingress points."""
    for index, point in enumerate(get_load_balancer_ingress_points(obj)):
        yield from get_ip_warnings(f"status.loadBalancer.ingress[{index}]", point.get("ip", ""))


def validate_hostname(name: str, at: str) -> ErrorList:
    """Validate a host name, if set."""
    if not name:
        return ErrorList()
    errors = ErrorList()
    errors.invalid_each(at, name, dns_subdomain_texts(name))
    if is_ip(name):
        errors.invalid(at, name, "must be a DNS name, not an IP address")
    return errors


def get_service_warnings(service: Obj) -> list[str]:
    """Return warnings about valid fields that are likely mistakes."""
    spec, kind = service["spec"], service["spec"].get("type")
    outside, name = spec.get("externalIPs") or [], spec.get("externalName", "")
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    balancer_ip = spec.get("loadBalancerIP", "")
    texts = []
    if _TOPOLOGY_HINTS_ANNOTATION in annotations_of(service):
        texts.append(
            f"annotation {_TOPOLOGY_HINTS_ANNOTATION} is deprecated,"
            f" please use {_TOPOLOGY_MODE_ANNOTATION} instead"
        )
    if not headless:
        for index, address in enumerate(spec.get("clusterIPs") or []):
            texts += get_ip_warnings(f"spec.clusterIPs[{index}]", address)
    if headless:
        ignored = (
            (bool(balancer_ip), "loadBalancerIP"),
            (bool(outside), "externalIPs"),
            (spec.get("sessionAffinity") != "None", "SessionAffinity"),
        )
        texts += [f"spec.{field} is ignored for headless services" for on, field in ignored if on]
    for index, address in enumerate(outside):
        texts += get_ip_warnings(f"spec.externalIPs[{index}]", address)
    if outside and not headless and kind != "ExternalName":
        texts.append(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
        )
    texts += get_ip_warnings("spec.loadBalancerIP", balancer_ip) if balancer_ip else []
    for index, value in enumerate(spec.get("loadBalancerSourceRanges") or []):
        texts += get_cidr_warnings(f"spec.loadBalancerSourceRanges[{index}]", value)
    if outside and kind == "ExternalName":
        texts.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if name and kind != "ExternalName":
        texts.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        texts.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return texts
