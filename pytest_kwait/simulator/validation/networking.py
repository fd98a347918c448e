"""Validation of ingresses, ingress classes, network policies, IP addresses and service CIDRs.

Source: k8s.io/kubernetes pkg/apis/networking/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList, invalid_value, not_supported, required
from pytest_kwait.apimachinery.validation import (
    dns_label_texts,
    dns_subdomain_texts,
    path_segment_texts,
    port_name_texts,
    port_number_texts,
    wildcard_subdomain_texts,
)
from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.validation.addresses import (
    get_cidr_warnings,
    is_ip,
    parse_cidr,
    validate_cidr,
    validate_domain_prefixed_path,
    validate_ip,
)
from pytest_kwait.simulator.validation.core.services import (
    get_load_balancer_ingress_points,
    validate_hostname,
)
from pytest_kwait.simulator.validation.objectmeta import validate_label_selector

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from pytest_kwait.simulator.objects import Obj

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
"""The annotation with the class of an ingress, before the field existed."""
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_INVALID_PATH_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_INVALID_PATH_SUFFIXES = ("/..", "/.")
_MAX_CONTROLLER_LENGTH = 250
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_POLICY_TYPES = ("Ingress", "Egress")
_DIRECTIONS = (("ingress", "from"), ("egress", "to"))

_CIDRS_PATH = "spec.cidrs"
_FIELD_IMMUTABLE = "field is immutable"


def validate_ingress_create(ingress: Obj) -> ErrorList:
    """Validate a new ingress."""
    errors = validate_ingress(ingress)
    annotation = annotations_of(ingress).get(CLASS_ANNOTATION)
    name = (ingress.get("spec") or {}).get("ingressClassName")
    if annotation is not None and name is not None and annotation != name:
        text = "must match `ingressClassName` when both are specified"
        errors.invalid(f"annotations.{CLASS_ANNOTATION}", annotation, text)
    return errors


def validate_ingress(ingress: Obj) -> ErrorList:
    """Validate an ingress."""
    spec = ingress.get("spec") or {}
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    errors = ErrorList()
    if not rules and backend is None:
        text = "either `defaultBackend` or `rules` must be specified"
        errors.invalid("spec", spec.get("rules"), text)
    if backend is not None:
        errors += _validate_backend(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        errors += _validate_ingress_rule(rule, f"spec.rules[{index}]")
    for index, entry in enumerate(spec.get("tls") or []):
        errors += _validate_tls(entry, f"spec.tls[{index}]")
    name = spec.get("ingressClassName")
    if name is not None:
        at = "spec.ingressClassName"
        errors.invalid_each(at, name, dns_subdomain_texts(name))
    return errors


def _validate_host(host: str, at: str) -> ErrorList:
    texts = wildcard_subdomain_texts(host) if "*" in host else dns_subdomain_texts(host)
    return ErrorList([invalid_value(at, host, text) for text in texts])


def _validate_ingress_rule(rule: Obj, at: str) -> ErrorList:
    host, errors = rule.get("host", ""), ErrorList()
    if host:
        if is_ip(host):
            text = "must be a DNS name, not an IP address"
            errors.invalid(f"{at}.host", host, text)
        errors += _validate_host(host, f"{at}.host")
    http = rule.get("http")
    if http is not None:
        paths = http.get("paths") or []
        if not paths:
            errors.required(f"{at}.http.paths")
        for index, path in enumerate(paths):
            errors += _validate_path(path, f"{at}.http.paths[{index}]")
    return errors


def _validate_path(path: Obj, at: str) -> ErrorList:
    kind, value = path.get("pathType"), path.get("path", "")
    if kind is None:
        return ErrorList([required(f"{at}.pathType", "pathType must be specified")])
    errors = ErrorList()
    if kind not in _PATH_TYPES:
        errors.not_supported(f"{at}.pathType", kind, _PATH_TYPES)
    elif not value.startswith("/") and (value or kind != "ImplementationSpecific"):
        errors.invalid(f"{at}.path", value, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        texts = [f"must not contain '{part}'" for part in _INVALID_PATH_SEQUENCES if part in value]
        texts += [
            f"cannot end with '{end}'" for end in _INVALID_PATH_SUFFIXES if value.endswith(end)
        ]
        errors.invalid_each(f"{at}.path", value, texts)
    return errors + _validate_backend(path.get("backend") or {}, f"{at}.backend")


def _validate_backend(backend: Obj, at: str) -> ErrorList:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return ErrorList([invalid_value(at, "", "cannot set both resource and service backends")])
    if resource is not None:
        return _validate_resource_reference(resource, f"{at}.resource")
    if service is None:
        return ErrorList([invalid_value(at, "", "resource or service backend is required")])
    name, port, errors = service.get("name", ""), service.get("port") or {}, ErrorList()
    if not name:
        errors.required(f"{at}.service.name")
    else:
        place = f"{at}.service.name"
        errors.invalid_each(place, name, dns_label_texts(name))
    label, number = port.get("name", ""), port.get("number", 0)
    place = f"{at}.service.port"
    if label and number:
        errors.invalid(at, "", "cannot set both port name & port number")
    elif label:
        errors.invalid_each(f"{place}.name", label, port_name_texts(label))
    elif number:
        texts = port_number_texts(number)
        errors.invalid_each(f"{place}.number", number, texts)
    else:
        errors.required(at, "port name or number is required")
    return errors


def _validate_resource_reference(reference: Obj, at: str) -> ErrorList:
    group, errors = reference.get("apiGroup"), ErrorList()
    if group is not None:
        texts = dns_subdomain_texts(group)
        errors.invalid_each(f"{at}.apiGroup", group, texts)
    for field in ("kind", "name"):
        value = reference.get(field, "")
        if not value:
            errors.required(f"{at}.{field}")
        texts = path_segment_texts(value)
        errors.invalid_each(f"{at}.{field}", value, texts)
    return errors


def _validate_tls(entry: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    for index, host in enumerate(entry.get("hosts") or []):
        errors += _validate_host(host, f"{at}.hosts[{index}]")
    if name := entry.get("secretName", ""):
        texts = dns_subdomain_texts(name)
        errors.invalid_each(f"{at}.secretName", name, texts)
    return errors


def validate_ingress_status_update(new: Obj, old: Obj) -> ErrorList:
    """Validate the load balancer status of an ingress."""
    stored_addresses = [point.get("ip", "") for point in get_load_balancer_ingress_points(old)]
    errors = ErrorList()
    for index, point in enumerate(get_load_balancer_ingress_points(new)):
        at = f"status.loadBalancer.ingress[{index}]"
        if point.get("ip"):
            errors += validate_ip(f"{at}.ip", point["ip"], stored_addresses)
        errors += validate_hostname(point.get("hostname", ""), f"{at}.hostname")
    return errors


def validate_ingress_class(ingress_class: Obj) -> ErrorList:
    """Validate an ingress class."""
    spec = ingress_class.get("spec") or {}
    controller, at = spec.get("controller", ""), "spec.controller"
    errors = ErrorList()
    if len(controller) > _MAX_CONTROLLER_LENGTH:
        errors.too_long(at, _MAX_CONTROLLER_LENGTH)
    errors += validate_domain_prefixed_path(at, controller)
    parameters = spec.get("parameters")
    return errors if parameters is None else errors + _validate_class_parameters(parameters)


def _validate_class_parameters(parameters: Obj) -> ErrorList:
    at = "spec.parameters"
    errors = _validate_resource_reference(parameters, at)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    place = f"{at}.namespace"
    if scope is None:
        errors.required(f"{at}.scope")
    elif scope not in ("Cluster", "Namespace"):
        errors.not_supported(f"{at}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Cluster" and namespace is not None:
        errors.forbidden(place, "`parameters.scope` is set to 'Cluster'")
    elif scope == "Namespace" and namespace is None:
        errors.required(place, "`parameters.scope` is set to 'Namespace'")
    elif namespace is not None:
        errors.invalid_each(place, namespace, dns_label_texts(namespace))
    return errors


def validate_ingress_class_update(new: Obj, old: Obj) -> ErrorList:
    """Validate that the controller of an ingress class does not change."""
    controller = (new.get("spec") or {}).get("controller", "")
    if controller != (old.get("spec") or {}).get("controller", ""):
        return ErrorList([invalid_value("spec.controller", controller, "field is immutable")])
    return ErrorList()


def validate_network_policy(policy: Obj, old: Obj | None = None) -> ErrorList:
    """Validate a network policy; networks of the `old` one are skipped."""
    spec = policy.get("spec") or {}
    stored_blocks = {block for _, block in _list_ip_blocks(old)} if old is not None else ()
    errors = validate_label_selector(spec.get("podSelector") or {}, "spec.podSelector")
    for direction, peers in _DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or []):
            at = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or []):
                errors += _validate_network_policy_port(port, f"{at}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or []):
                errors += _validate_network_policy_peer(
                    peer, f"{at}.{peers}[{number}]", stored_blocks
                )
    types = spec.get("policyTypes") or []
    if len(types) > len(_POLICY_TYPES):
        text = "may not specify more than two policyTypes"
        return ErrorList([*errors, invalid_value("spec.policyTypes", types, text)])
    errors += [
        not_supported(f"spec.policyTypes[{index}]", kind, _POLICY_TYPES)
        for index, kind in enumerate(types)
        if kind not in _POLICY_TYPES
    ]
    return errors


def get_network_policy_warnings(policy: Obj) -> list[str]:
    """Return warnings about non-canonical networks of a policy."""
    return [text for at, block in _list_ip_blocks(policy) for text in get_cidr_warnings(at, block)]


def _list_ip_blocks(policy: Obj) -> Iterator[tuple[str, str]]:
    """Yield the path and the value of each network of a policy."""
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


def _validate_network_policy_port(port: Obj, at: str) -> ErrorList:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    errors = ErrorList()
    errors.require_supported(f"{at}.protocol", protocol, _PROTOCOLS)
    if isinstance(number, int):
        texts = port_number_texts(number)
        errors.invalid_each(f"{at}.port", number, texts)
        if end is not None:
            if end < number:
                # kube-apiserver shows the port, not the end port.
                text = "must be greater than or equal to `port`"
                errors.invalid(f"{at}.endPort", number, text)
            texts = port_number_texts(end)
            errors.invalid_each(f"{at}.endPort", end, texts)
        return errors
    if end is not None:
        why = "not specified" if number is None else "non-numeric"
        text = f"may not be specified when `port` is {why}"
        errors.invalid(f"{at}.endPort", end, text)
    if number is not None:
        texts = port_name_texts(number)
        errors.invalid_each(f"{at}.port", number, texts)
    return errors


def _validate_network_policy_peer(peer: Obj, at: str, stored_blocks: Container[str]) -> ErrorList:
    block, errors, count = peer.get("ipBlock"), ErrorList(), 0
    for field in ("podSelector", "namespaceSelector"):
        selector = peer.get(field)
        if selector is not None:
            count += 1
            errors += validate_label_selector(selector, f"{at}.{field}")
    if block is not None:
        errors += _validate_ip_block(block, f"{at}.ipBlock", stored_blocks)
        if count:
            errors.forbidden(at, "may not specify both ipBlock and another peer")
    elif not count:
        errors.required(at, "must specify a peer")
    return errors


def _validate_ip_block(block: Obj, at: str, stored_blocks: Container[str]) -> ErrorList:
    value = block.get("cidr", "")
    if not value:
        return ErrorList([required(f"{at}.cidr")])
    errors = validate_cidr(f"{at}.cidr", value, stored_blocks)
    whole = parse_cidr(value)
    for index, left_out in enumerate(block.get("except") or [] if whole else []):
        place, part = f"{at}.except[{index}]", parse_cidr(left_out)
        errors += validate_cidr(place, left_out, stored_blocks)
        if whole is None or part is None:
            continue
        inside = part.version == whole.version and part.network_address in whole
        if not inside or whole.prefixlen >= part.prefixlen:
            errors.invalid(place, left_out, "must be a strict subset of `cidr`")
    return errors


def validate_ip_address(address: Obj) -> ErrorList:
    """Validate an IPAddress object and its parent reference."""
    parent, at = (address.get("spec") or {}).get("parentRef"), "spec.parentRef"
    if parent is None:
        return ErrorList([required(at)])
    errors = ErrorList()
    if group := parent.get("group", ""):
        errors.invalid_each(f"{at}.group", group, dns_subdomain_texts(group))
    for field in ("resource", "name", "namespace"):
        value = parent.get(field, "")
        if not value and field != "namespace":
            errors.required(f"{at}.{field}")
        errors.invalid_each(f"{at}.{field}", value, path_segment_texts(value))
    return errors


def validate_service_cidr(service_cidr: Obj) -> ErrorList:
    """Validate the CIDRs of a ServiceCIDR."""
    ranges = (service_cidr.get("spec") or {}).get("cidrs") or []
    if not ranges:
        return ErrorList([required(_CIDRS_PATH, "at least one CIDR required")])
    if len(ranges) > 2:
        return ErrorList(
            [invalid_value(_CIDRS_PATH, {"CIDRs": ranges}, "may only hold up to 2 values")]
        )
    errors = ErrorList()
    for index, value in enumerate(ranges):
        at, whole = f"{_CIDRS_PATH}[{index}]", parse_cidr(value)
        wrong = validate_cidr(at, value)
        if not wrong and str(whole) != value:
            wrong.invalid(at, value, f'must be in canonical form ("{whole}")')
        errors += wrong
    families = [network.version for network in map(parse_cidr, ranges) if network is not None]
    if len(families) == 2 and families[0] == families[1]:
        text = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and "
            "2001:db8::/64"
        )
        errors.invalid(_CIDRS_PATH, ranges, text)
    return errors


def validate_service_cidr_update(new: Obj, old: Obj) -> ErrorList:
    """Validate a change of CIDRs: a second one may be added."""
    now, then = ((obj.get("spec") or {}).get("cidrs") or [] for obj in (new, old))
    if len(now) == len(then):
        return ErrorList(
            [
                invalid_value(f"{_CIDRS_PATH}[{index}]", value, _FIELD_IMMUTABLE)
                for index, value in enumerate(now)
                if value != then[index]
            ]
        )
    if len(then) == 1 and len(now) == 2:
        errors = ErrorList()
        if now[0] != then[0]:
            errors.invalid(f"{_CIDRS_PATH}[0]", now[0], _FIELD_IMMUTABLE)
        return errors + validate_service_cidr(new)
    return ErrorList([invalid_value(_CIDRS_PATH, now or None, _FIELD_IMMUTABLE)])
