"""Ingresses and their classes: hosts, paths, what answers, and whose they are.

Source: k8s.io/kubernetes pkg/apis/networking/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import (
    dns_label_texts,
    dns_subdomain_texts,
    path_segment_texts,
    port_name_texts,
    port_number_texts,
    wildcard_subdomain_texts,
)
from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.rules.addresses import domain_path_errors, ip_errors, is_ip
from pytest_kwait.simulator.rules.services import hostname_errors, points_of
from pytest_kwait.simulator.status_error import (
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = [
    "CLASS_ANNOTATION",
    "class_change_errors",
    "class_errors",
    "ingress_errors",
    "ingress_status_errors",
    "new_ingress_errors",
]

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
"""How ingresses named their class before there was a field for it."""
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_WITHIN = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_THE_END = ("/..", "/.")
_LONGEST_CONTROLLER = 250


def new_ingress_errors(ingress: Obj) -> list[FieldError]:
    """What is wrong with a new ingress."""
    errors = ingress_errors(ingress)
    annotation = annotations_of(ingress).get(CLASS_ANNOTATION)
    name = (ingress.get("spec") or {}).get("ingressClassName")
    if annotation is not None and name is not None and annotation != name:
        text = "must match `ingressClassName` when both are specified"
        errors.append(invalid_value(f"annotations.{CLASS_ANNOTATION}", annotation, text))
    return errors


def ingress_errors(ingress: Obj) -> list[FieldError]:
    """What is wrong with any ingress."""
    spec = ingress.get("spec") or {}
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    errors: list[FieldError] = []
    if not rules and backend is None:
        text = "either `defaultBackend` or `rules` must be specified"
        errors.append(invalid_value("spec", spec.get("rules"), text))
    if backend is not None:
        errors += _backend_errors(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        errors += _rule_errors(rule, f"spec.rules[{index}]")
    for index, entry in enumerate(spec.get("tls") or []):
        errors += _tls_errors(entry, f"spec.tls[{index}]")
    name = spec.get("ingressClassName")
    if name is not None:
        at = "spec.ingressClassName"
        errors += [invalid_value(at, name, text) for text in dns_subdomain_texts(name)]
    return errors


def _host_errors(host: str, at: str) -> list[FieldError]:
    texts = wildcard_subdomain_texts(host) if "*" in host else dns_subdomain_texts(host)
    return [invalid_value(at, host, text) for text in texts]


def _rule_errors(rule: Obj, at: str) -> list[FieldError]:
    host, errors = rule.get("host", ""), []
    if host:
        if is_ip(host):
            text = "must be a DNS name, not an IP address"
            errors.append(invalid_value(f"{at}.host", host, text))
        errors += _host_errors(host, f"{at}.host")
    http = rule.get("http")
    if http is not None:
        paths = http.get("paths") or []
        if not paths:
            errors.append(required(f"{at}.http.paths"))
        for index, path in enumerate(paths):
            errors += _path_errors(path, f"{at}.http.paths[{index}]")
    return errors


def _path_errors(path: Obj, at: str) -> list[FieldError]:
    kind, value = path.get("pathType"), path.get("path", "")
    if kind is None:
        return [required(f"{at}.pathType", "pathType must be specified")]
    errors: list[FieldError] = []
    if kind not in _PATH_TYPES:
        errors.append(not_supported(f"{at}.pathType", kind, _PATH_TYPES))
    elif not value.startswith("/") and (value or kind != "ImplementationSpecific"):
        errors.append(invalid_value(f"{at}.path", value, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        texts = [f"must not contain '{part}'" for part in _NOT_WITHIN if part in value]
        texts += [f"cannot end with '{end}'" for end in _NOT_AT_THE_END if value.endswith(end)]
        errors += [invalid_value(f"{at}.path", value, text) for text in texts]
    return errors + _backend_errors(path.get("backend") or {}, f"{at}.backend")


def _backend_errors(backend: Obj, at: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid_value(at, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _reference_errors(resource, f"{at}.resource")
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


def _reference_errors(reference: Obj, at: str) -> list[FieldError]:
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


def _tls_errors(entry: Obj, at: str) -> list[FieldError]:
    errors = []
    for index, host in enumerate(entry.get("hosts") or []):
        errors += _host_errors(host, f"{at}.hosts[{index}]")
    if name := entry.get("secretName", ""):
        texts = dns_subdomain_texts(name)
        errors += [invalid_value(f"{at}.secretName", name, text) for text in texts]
    return errors


def ingress_status_errors(new: Obj, old: Obj) -> list[FieldError]:
    """What is wrong with what an ingress is said to answer at."""
    kept = [point.get("ip", "") for point in points_of(old)]
    errors: list[FieldError] = []
    for index, point in enumerate(points_of(new)):
        at = f"status.loadBalancer.ingress[{index}]"
        if point.get("ip"):
            errors += ip_errors(f"{at}.ip", point["ip"], kept)
        errors += hostname_errors(point.get("hostname", ""), f"{at}.hostname")
    return errors


def class_errors(found: Obj) -> list[FieldError]:
    """What is wrong with an ingress class."""
    spec = found.get("spec") or {}
    controller, at = spec.get("controller", ""), "spec.controller"
    errors = []
    if len(controller) > _LONGEST_CONTROLLER:
        errors.append(too_long(at, _LONGEST_CONTROLLER))
    errors += domain_path_errors(at, controller)
    parameters = spec.get("parameters")
    return errors if parameters is None else errors + _parameter_errors(parameters)


def _parameter_errors(parameters: Obj) -> list[FieldError]:
    at = "spec.parameters"
    errors = _reference_errors(parameters, at)
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


def class_change_errors(new: Obj, old: Obj) -> list[FieldError]:
    """What of an ingress class never changes."""
    controller = (new.get("spec") or {}).get("controller", "")
    if controller != (old.get("spec") or {}).get("controller", ""):
        return [invalid_value("spec.controller", controller, "field is immutable")]
    return []
