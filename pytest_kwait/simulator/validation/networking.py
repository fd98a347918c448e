"""Ingresses and their classes: hosts, paths, what answers, and whose they are.

Source: k8s.io/kubernetes pkg/apis/networking/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import (
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.validation.addresses import (
    is_ip,
    validate_domain_prefixed_path,
    validate_ip,
)
from pytest_kwait.simulator.validation.core.services import (
    get_load_balancer_ingress_points,
    validate_hostname,
)
from pytest_kwait.simulator.validation.formats import (
    dns_label_texts,
    dns_subdomain_texts,
    path_segment_texts,
    port_name_texts,
    port_number_texts,
    wildcard_subdomain_texts,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "CLASS_ANNOTATION",
    "validate_ingress",
    "validate_ingress_class",
    "validate_ingress_class_update",
    "validate_ingress_create",
    "validate_ingress_status_update",
]

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
"""How ingresses named their class before there was a field for it."""
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_INVALID_PATH_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_INVALID_PATH_SUFFIXES = ("/..", "/.")
_MAX_CONTROLLER_LENGTH = 250


def validate_ingress_create(ingress: Obj) -> list[FieldError]:
    """What is wrong with a new ingress."""
    errors = validate_ingress(ingress)
    annotation = annotations_of(ingress).get(CLASS_ANNOTATION)
    name = (ingress.get("spec") or {}).get("ingressClassName")
    if annotation is not None and name is not None and annotation != name:
        text = "must match `ingressClassName` when both are specified"
        errors.append(invalid_value(f"annotations.{CLASS_ANNOTATION}", annotation, text))
    return errors


def validate_ingress(ingress: Obj) -> list[FieldError]:
    """What is wrong with any ingress."""
    spec = ingress.get("spec") or {}
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    errors: list[FieldError] = []
    if not rules and backend is None:
        text = "either `defaultBackend` or `rules` must be specified"
        errors.append(invalid_value("spec", spec.get("rules"), text))
    if backend is not None:
        errors += _validate_backend(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        errors += _validate_ingress_rule(rule, f"spec.rules[{index}]")
    for index, entry in enumerate(spec.get("tls") or []):
        errors += _validate_tls(entry, f"spec.tls[{index}]")
    name = spec.get("ingressClassName")
    if name is not None:
        at = "spec.ingressClassName"
        errors += [invalid_value(at, name, text) for text in dns_subdomain_texts(name)]
    return errors


def _validate_host(host: str, at: str) -> list[FieldError]:
    texts = wildcard_subdomain_texts(host) if "*" in host else dns_subdomain_texts(host)
    return [invalid_value(at, host, text) for text in texts]


def _validate_ingress_rule(rule: Obj, at: str) -> list[FieldError]:
    host, errors = rule.get("host", ""), []
    if host:
        if is_ip(host):
            text = "must be a DNS name, not an IP address"
            errors.append(invalid_value(f"{at}.host", host, text))
        errors += _validate_host(host, f"{at}.host")
    http = rule.get("http")
    if http is not None:
        paths = http.get("paths") or []
        if not paths:
            errors.append(required(f"{at}.http.paths"))
        for index, path in enumerate(paths):
            errors += _validate_path(path, f"{at}.http.paths[{index}]")
    return errors


def _validate_path(path: Obj, at: str) -> list[FieldError]:
    kind, value = path.get("pathType"), path.get("path", "")
    if kind is None:
        return [required(f"{at}.pathType", "pathType must be specified")]
    errors: list[FieldError] = []
    if kind not in _PATH_TYPES:
        errors.append(not_supported(f"{at}.pathType", kind, _PATH_TYPES))
    elif not value.startswith("/") and (value or kind != "ImplementationSpecific"):
        errors.append(invalid_value(f"{at}.path", value, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        texts = [f"must not contain '{part}'" for part in _INVALID_PATH_SEQUENCES if part in value]
        texts += [
            f"cannot end with '{end}'" for end in _INVALID_PATH_SUFFIXES if value.endswith(end)
        ]
        errors += [invalid_value(f"{at}.path", value, text) for text in texts]
    return errors + _validate_backend(path.get("backend") or {}, f"{at}.backend")


def _validate_backend(backend: Obj, at: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid_value(at, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _validate_resource_reference(resource, f"{at}.resource")
    if service is None:
        return [invalid_value(at, "", "resource or service backend is required")]
    name, port, errors = service.get("name", ""), service.get("port") or {}, []
    if not name:
        errors.append(required(f"{at}.service.name"))
    else:
        place = f"{at}.service.name"
        errors += [invalid_value(place, name, text) for text in dns_label_texts(name)]
    label, number = port.get("name", ""), port.get("number", 0)
    place = f"{at}.service.port"
    if label and number:
        errors.append(invalid_value(at, "", "cannot set both port name & port number"))
    elif label:
        errors += [invalid_value(f"{place}.name", label, text) for text in port_name_texts(label)]
    elif number:
        texts = port_number_texts(number)
        errors += [invalid_value(f"{place}.number", number, text) for text in texts]
    else:
        errors.append(required(at, "port name or number is required"))
    return errors


def _validate_resource_reference(reference: Obj, at: str) -> list[FieldError]:
    group, errors = reference.get("apiGroup"), []
    if group is not None:
        texts = dns_subdomain_texts(group)
        errors += [invalid_value(f"{at}.apiGroup", group, text) for text in texts]
    for field in ("kind", "name"):
        value = reference.get(field, "")
        if not value:
            errors.append(required(f"{at}.{field}"))
        texts = path_segment_texts(value)
        errors += [invalid_value(f"{at}.{field}", value, text) for text in texts]
    return errors


def _validate_tls(entry: Obj, at: str) -> list[FieldError]:
    errors = []
    for index, host in enumerate(entry.get("hosts") or []):
        errors += _validate_host(host, f"{at}.hosts[{index}]")
    if name := entry.get("secretName", ""):
        texts = dns_subdomain_texts(name)
        errors += [invalid_value(f"{at}.secretName", name, text) for text in texts]
    return errors


def validate_ingress_status_update(new: Obj, old: Obj) -> list[FieldError]:
    """What is wrong with what an ingress is said to answer at."""
    kept = [point.get("ip", "") for point in get_load_balancer_ingress_points(old)]
    errors: list[FieldError] = []
    for index, point in enumerate(get_load_balancer_ingress_points(new)):
        at = f"status.loadBalancer.ingress[{index}]"
        if point.get("ip"):
            errors += validate_ip(f"{at}.ip", point["ip"], kept)
        errors += validate_hostname(point.get("hostname", ""), f"{at}.hostname")
    return errors


def validate_ingress_class(found: Obj) -> list[FieldError]:
    """What is wrong with an ingress class."""
    spec = found.get("spec") or {}
    controller, at = spec.get("controller", ""), "spec.controller"
    errors = []
    if len(controller) > _MAX_CONTROLLER_LENGTH:
        errors.append(too_long(at, _MAX_CONTROLLER_LENGTH))
    errors += validate_domain_prefixed_path(at, controller)
    parameters = spec.get("parameters")
    return errors if parameters is None else errors + _validate_class_parameters(parameters)


def _validate_class_parameters(parameters: Obj) -> list[FieldError]:
    at = "spec.parameters"
    errors = _validate_resource_reference(parameters, at)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    place = f"{at}.namespace"
    if scope is None:
        errors.append(required(f"{at}.scope"))
    elif scope not in ("Cluster", "Namespace"):
        errors.append(not_supported(f"{at}.scope", scope, ("Cluster", "Namespace")))
    elif scope == "Cluster" and namespace is not None:
        errors.append(forbidden_field(place, "`parameters.scope` is set to 'Cluster'"))
    elif scope == "Namespace" and namespace is None:
        errors.append(required(place, "`parameters.scope` is set to 'Namespace'"))
    elif namespace is not None:
        errors += [invalid_value(place, namespace, text) for text in dns_label_texts(namespace)]
    return errors


def validate_ingress_class_update(new: Obj, old: Obj) -> list[FieldError]:
    """What of an ingress class never changes."""
    controller = (new.get("spec") or {}).get("controller", "")
    if controller != (old.get("spec") or {}).get("controller", ""):
        return [invalid_value("spec.controller", controller, "field is immutable")]
    return []
