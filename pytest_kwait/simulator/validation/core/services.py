"""Services: ports, traffic, load balancers, and what each type may have.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, validateService,
ValidateServiceUpdate, ValidateLoadBalancerStatus; pkg/api/service/warnings.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import (
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    render_json,
    required,
)
from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.validation.addresses import (
    get_cidr_warnings,
    get_ip_warnings,
    is_ip,
    validate_cidr,
    validate_endpoint_ip,
    validate_ip,
)
from pytest_kwait.simulator.validation.core.cluster_ips import (
    is_headless,
    validate_cluster_ip_update,
    validate_cluster_ips,
)
from pytest_kwait.simulator.validation.formats import (
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    port_name_texts,
    port_number_texts,
)
from pytest_kwait.simulator.validation.objectmeta import label_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "PROTOCOLS",
    "get_load_balancer_ingress_points",
    "get_service_warnings",
    "is_externally_accessible",
    "needs_health_check",
    "validate_hostname",
    "validate_service",
    "validate_service_status_update",
    "validate_service_update",
]

PROTOCOLS = ("SCTP", "TCP", "UDP")
"""What ports can speak."""
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_TRAFFIC_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_IP_MODES = ("Proxy", "VIP")
_TOPOLOGY_HINTS_ANNOTATION = "service.kubernetes.io/topology-aware-hints"
_TOPOLOGY_MODE_ANNOTATION = "service.kubernetes.io/topology-mode"
_SOURCE_RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
_LOAD_BALANCERS_ONLY = "may only be used when `type` is 'LoadBalancer'"
_MAX_AFFINITY_SECONDS = 86400


def is_externally_accessible(spec: Obj) -> bool:
    """Whether the service can be reached from outside the cluster."""
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (
        kind == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def needs_health_check(spec: Obj) -> bool:
    """Whether a load balancer has to ask nodes for their health, at a port of the service's own."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def validate_service(service: Obj, old: Obj | None = None) -> list[FieldError]:
    """What is wrong with a service; `old` is the one that it takes the place of."""
    spec = service["spec"]
    before = None if old is None else old["spec"]
    return [
        *_validate_topology_hints(service),
        *_validate_type(spec),
        *_validate_ports(spec),
        *label_errors(spec.get("selector") or {}, "spec.selector"),
        *_validate_session_affinity(spec),
        *validate_cluster_ips(spec, before),
        *_validate_external_ips(spec, before),
        *_validate_type_fields(spec),
        *_find_port_conflicts(spec),
        *_validate_source_ranges(service, old),
        *_validate_load_balancer_ip(spec),
        *_validate_traffic_policies(spec),
    ]


def validate_service_update(new: Obj, old: Obj) -> list[FieldError]:
    """What is wrong with a change of a service."""
    spec, before = new["spec"], old["spec"]
    errors = validate_cluster_ip_update(spec, before)
    now, then = spec.get("loadBalancerClass"), before.get("loadBalancerClass")
    balancers = spec.get("type") == before.get("type") == "LoadBalancer"
    if balancers and now != then:
        errors.append(invalid_value("spec.loadBalancerClass", now, "may not change once set"))
    errors += _validate_load_balancer_class(spec)
    if needs_health_check(spec) and needs_health_check(before):
        field = "healthCheckNodePort"
        if spec.get(field) != before.get(field):
            errors.append(forbidden_field(f"spec.{field}", "field is immutable"))
    return errors + validate_service(new, old)


def _validate_topology_hints(service: Obj) -> list[FieldError]:
    annotations = annotations_of(service)
    if (
        _TOPOLOGY_HINTS_ANNOTATION in annotations
        and annotations.get(_TOPOLOGY_MODE_ANNOTATION, annotations[_TOPOLOGY_HINTS_ANNOTATION])
        != annotations[_TOPOLOGY_HINTS_ANNOTATION]
    ):
        text = f"must match annotations[{_TOPOLOGY_HINTS_ANNOTATION}] when both are specified"
        return [
            invalid_value(
                f"metadata.annotations[{_TOPOLOGY_MODE_ANNOTATION}]",
                annotations[_TOPOLOGY_MODE_ANNOTATION],
                text,
            )
        ]
    return []


def _validate_type(spec: Obj) -> list[FieldError]:
    kind, errors = spec.get("type"), []
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        text = f"may not be set to 'None' for {kind} services"
        errors.append(invalid_value("spec.clusterIPs[0]", "None", text))
    if kind == "ExternalName":
        errors += [
            forbidden_field(f"spec.{field}", "may not be set for ExternalName services")
            for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
            if spec.get(field) or (field == "ipFamilyPolicy" and spec.get(field) is not None)
        ]
        name = spec.get("externalName", "").removesuffix(".")
        if name:
            at = "spec.externalName"
            errors += [invalid_value(at, name, text) for text in dns_subdomain_texts(name)]
        else:
            errors.append(required("spec.externalName"))
    return errors


def _validate_ports(spec: Obj) -> list[FieldError]:
    ports = spec.get("ports") or []
    names: set[str] = set()
    errors: list[FieldError] = []
    for index, port in enumerate(ports):
        at, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            errors += [invalid_value(f"{at}.name", name, text) for text in dns_label_texts(name)]
            if name in names:
                errors.append(duplicate(f"{at}.name", name))
            names.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{at}.name"))
        errors += _validate_port(port, at)
    return errors


def _validate_port(port: Obj, at: str) -> list[FieldError]:
    number, target = port.get("port", 0), port.get("targetPort", 0)
    errors = [invalid_value(f"{at}.port", number, text) for text in port_number_texts(number)]
    if port.get("protocol") not in PROTOCOLS:
        errors.append(not_supported(f"{at}.protocol", port.get("protocol"), PROTOCOLS))
    texts = port_name_texts(target) if isinstance(target, str) else port_number_texts(target)
    errors += [invalid_value(f"{at}.targetPort", target, text) for text in texts]
    application = port.get("appProtocol")
    if application is not None:
        at = f"{at}.appProtocol"
        errors += [invalid_value(at, application, text) for text in label_key_texts(application)]
    return errors


def _validate_session_affinity(spec: Obj) -> list[FieldError]:
    affinity, config = spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    at = "spec.sessionAffinityConfig"
    if affinity not in ("ClientIP", "None"):
        return [not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))]
    if affinity == "None":
        text = "must not be set when session affinity is None"
        return [] if config is None else [forbidden_field(at, text)]
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is None or 0 < seconds <= _MAX_AFFINITY_SECONDS:
        return []
    text = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
    return [invalid_value(f"{at}.clientIP.timeoutSeconds", seconds, text)]


def _validate_external_ips(spec: Obj, before: Obj | None) -> list[FieldError]:
    kept = (before or {}).get("externalIPs") or []
    return [
        error
        for index, address in enumerate(spec.get("externalIPs") or [])
        for error in validate_ip(f"spec.externalIPs[{index}]", address, kept)
        or validate_endpoint_ip(f"spec.externalIPs[{index}]", address)
    ]


def _validate_type_fields(spec: Obj) -> list[FieldError]:
    kind = spec.get("type", "")
    if kind not in _TYPES:
        return [not_supported("spec.type", kind, _TYPES)]
    if kind != "ClusterIP":
        return []
    text = "may not be used when `type` is 'ClusterIP'"
    return [
        forbidden_field(f"spec.ports[{index}].nodePort", text)
        for index, port in enumerate(spec.get("ports") or [])
        if port.get("nodePort")
    ]


def _find_port_conflicts(spec: Obj) -> list[FieldError]:
    ports = spec.get("ports") or []
    errors: list[FieldError] = []
    seen: set[tuple[str, str, int]] = set()
    for field in ("nodePort", "port"):
        for index, port in enumerate(ports):
            number = port.get(field, 0)
            key = (field, port.get("protocol", ""), number)
            if key in seen and field == "nodePort":
                errors.append(duplicate(f"spec.ports[{index}].nodePort", number))
            elif key in seen:
                shown = {"Name": "", "Protocol": key[1], "AppProtocol": None, "Port": number}
                whole = render_json({**shown, "TargetPort": 0, "NodePort": 0})
                errors.append(duplicate(f"spec.ports[{index}]", whole))
            if field == "port" or number:
                seen.add(key)
    return errors


def _validate_source_ranges(service: Obj, old: Obj | None) -> list[FieldError]:
    spec, errors = service["spec"], []
    ranges = spec.get("loadBalancerSourceRanges")
    balancer = spec.get("type") == "LoadBalancer"
    if ranges:
        at = "spec.LoadBalancerSourceRanges"
        if not balancer:
            errors.append(forbidden_field(at, _LOAD_BALANCERS_ONLY))
        before = (old or {"spec": {}})["spec"].get("loadBalancerSourceRanges") or []
        kept = [value.strip() for value in before]
        for index, value in enumerate(ranges):
            errors += validate_cidr(f"{at}[{index}]", value.strip(), kept)
        return errors
    value = annotations_of(service).get(_SOURCE_RANGES_ANNOTATION)
    if value is None:
        return []
    at = f"metadata.annotations[{_SOURCE_RANGES_ANNOTATION}]"
    if not balancer:
        errors.append(forbidden_field(at, _LOAD_BALANCERS_ONLY))
    if (
        old is None or annotations_of(old).get(_SOURCE_RANGES_ANNOTATION) != value
    ) and value.strip():
        for one in value.strip().split(","):
            errors += validate_cidr(at, one.strip())
    return errors


def _validate_load_balancer_ip(spec: Obj) -> list[FieldError]:
    errors = []
    if spec.get("allocateLoadBalancerNodePorts") is not None and spec["type"] != "LoadBalancer":
        errors.append(forbidden_field("spec.allocateLoadBalancerNodePorts", _LOAD_BALANCERS_ONLY))
    return errors + _validate_load_balancer_class(spec)


def _validate_load_balancer_class(spec: Obj) -> list[FieldError]:
    at, name = "spec.loadBalancerClass", spec.get("loadBalancerClass")
    if name is None:
        return []
    if spec.get("type") != "LoadBalancer":
        return [forbidden_field(at, _LOAD_BALANCERS_ONLY)]
    return [invalid_value(at, name, text) for text in label_key_texts(name)]


def _validate_traffic_policies(spec: Obj) -> list[FieldError]:
    errors: list[FieldError] = []
    policy, at = spec.get("externalTrafficPolicy", ""), "spec.externalTrafficPolicy"
    if not is_externally_accessible(spec):
        if policy:
            text = "may only be set for externally-accessible services"
            errors.append(invalid_value(at, policy, text))
    elif not policy:
        errors.append(required(at))
    elif policy not in _TRAFFIC_POLICIES:
        errors.append(not_supported(at, policy, _TRAFFIC_POLICIES))
    number, at = spec.get("healthCheckNodePort", 0), "spec.healthCheckNodePort"
    if needs_health_check(spec):
        texts = port_number_texts(number) if number else []
        errors += [invalid_value(at, number, text) for text in texts]
        if not number:
            errors.append(required(at))
    elif number:
        text = (
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        )
        errors.append(invalid_value(at, number, text))
    inner, at = spec.get("internalTrafficPolicy"), "spec.internalTrafficPolicy"
    if inner is not None and inner not in _TRAFFIC_POLICIES:
        errors.append(not_supported(at, inner, _TRAFFIC_POLICIES))
    spread = spec.get("trafficDistribution")
    if spread is not None and spread not in _TRAFFIC_DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", spread, _TRAFFIC_DISTRIBUTIONS))
    return errors


def validate_service_status_update(new: Obj, old: Obj) -> list[FieldError]:
    """What is wrong with what a load balancer is said to answer at."""
    path = "status.loadBalancer.ingress"
    found = get_load_balancer_ingress_points(new)
    if found and new["spec"].get("type") != "LoadBalancer":
        return [forbidden_field(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    kept = [point.get("ip", "") for point in get_load_balancer_ingress_points(old)]
    errors: list[FieldError] = []
    for index, point in enumerate(found):
        at, address, mode = f"{path}[{index}]", point.get("ip", ""), point.get("ipMode")
        if address:
            errors += validate_ip(f"{at}.ip", address, kept)
        if mode is None:
            if address:
                errors.append(required(f"{at}.ipMode", "must be specified when `ip` is set"))
        elif not address:
            text = "may not be specified when `ip` is not set"
            errors.append(forbidden_field(f"{at}.ipMode", text))
        elif mode not in _IP_MODES:
            errors.append(not_supported(f"{at}.ipMode", mode, _IP_MODES))
        errors += validate_hostname(point.get("hostname", ""), f"{at}.hostname")
    return errors


def get_load_balancer_ingress_points(obj: Obj) -> list[Obj]:
    """The addresses and names in the status of a service or an ingress."""
    points: list[Obj] = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return points


def validate_hostname(name: str, at: str) -> list[FieldError]:
    """Why `name` is no host's, where it is given at all."""
    if not name:
        return []
    errors = [invalid_value(at, name, text) for text in dns_subdomain_texts(name)]
    if is_ip(name):
        errors.append(invalid_value(at, name, "must be a DNS name, not an IP address"))
    return errors


def get_service_warnings(service: Obj) -> list[str]:
    """What is legal and yet likely a mistake."""
    spec, kind = service["spec"], service["spec"].get("type")
    outside, name = spec.get("externalIPs") or [], spec.get("externalName", "")
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    balancer_ip = spec.get("loadBalancerIP", "")
    texts = []
    if _TOPOLOGY_HINTS_ANNOTATION in annotations_of(service):
        texts.append(
            f"annotation {_TOPOLOGY_HINTS_ANNOTATION} is deprecated, please use {_TOPOLOGY_MODE_ANNOTATION} instead"
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
