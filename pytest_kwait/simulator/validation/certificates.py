"""Certificate signing requests, and the services that stand behind groups of the API.

Source: k8s.io/kubernetes pkg/apis/certificates/validation/validation.go;
k8s.io/kube-aggregator pkg/apis/apiregistration/validation/validation.go.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import duplicate, invalid_value, not_supported, required
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.validation.formats import (
    dns_1035_texts,
    dns_label_texts,
    dns_subdomain_texts,
    port_number_texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["validate_api_service", "validate_certificate_request"]

_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_MIN_EXPIRATION_SECONDS = 600


def validate_certificate_request(request: Obj) -> list[FieldError]:
    """What is wrong with a request for a certificate."""
    spec = request.get("spec") or {}
    content, usages, signer = (
        spec.get("request"),
        spec.get("usages") or [],
        spec.get("signerName", ""),
    )
    errors = [
        invalid_value("spec.request", content or None, text)
        for text in _validate_request_content(base64.b64decode(content or ""))
    ]
    if not usages:
        errors.append(required("spec.usages"))
    errors += [
        not_supported(f"spec.usages[{index}]", usage, _USAGES)
        for index, usage in enumerate(usages)
        if usage not in _USAGES
    ]
    errors += [
        duplicate(f"spec.usages[{index}]", usage)
        for index, usage in enumerate(usages)
        if usage in usages[:index]
    ]
    if signer == _LEGACY_SIGNER:
        text = "the legacy signerName is not allowed via this API version"
        errors.append(invalid_value("spec.signerName", signer, text))
    else:
        errors += _validate_signer(signer)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _MIN_EXPIRATION_SECONDS:
        text = (
            f"may not specify a duration less than {_MIN_EXPIRATION_SECONDS} seconds (10 minutes)"
        )
        errors.append(invalid_value("spec.expirationSeconds", seconds, text))
    return errors


def _validate_request_content(content: bytes) -> list[str]:
    """Why the content is no request; what is unreadable within it has one text for all cases."""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in content:
        return ["PEM block type must be CERTIFICATE REQUEST"]
    from cryptography import x509

    try:
        request = x509.load_pem_x509_csr(content)
    except ValueError:
        return ["asn1: syntax error: data truncated"]
    return [] if request.is_signature_valid else ["x509: ECDSA verification failure"]


def _validate_signer(signer: str) -> list[FieldError]:
    at = "spec.signerName"
    if not signer:
        return [required(at)]
    if signer.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid_value(at, signer, text)]
    domain, path = signer.split("/")
    errors = _validate_signer_part(domain, dns_label_texts, at)
    if "." not in domain:
        text = "should be a domain with at least two segments separated by dots"
        errors.append(invalid_value(at, domain, text))
    return errors + _validate_signer_part(path, dns_subdomain_texts, at)


def _validate_signer_part(
    part: str, texts: Callable[[str], list[str]], at: str
) -> list[FieldError]:
    for label in part.split("."):
        if found := texts(label):
            return [
                invalid_value(at, part, f'validating label "{label}": {text}') for text in found
            ]
    return []


def validate_api_service(found: Obj) -> list[FieldError]:
    """What is wrong with the service behind a group and version of the API."""
    spec = found.get("spec") or {}
    group, version, service = spec.get("group", ""), spec.get("version", ""), spec.get("service")
    name, wanted, errors = name_of(found), f"{version}.{group}", []
    if name != wanted and "/" not in name and "%" not in name:
        text = f'must be `spec.version+"."+spec.group`: "{wanted}"'
        errors.append(invalid_value("metadata.name", name, text))
    if not group and version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        errors.append(required("spec.group", text))
    texts = dns_subdomain_texts(group) if group else []
    errors += [invalid_value("spec.group", group, text) for text in texts]
    errors += [invalid_value("spec.version", version, text) for text in dns_1035_texts(version)]
    for field, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        priority = spec.get(field, 0)
        if not 0 < priority <= most:
            text = f"must be positive and less than {most}"
            errors.append(invalid_value(f"spec.{field}", priority, text))
    bundle, trusting = spec.get("caBundle"), bool(spec.get("insecureSkipTLSVerify"))
    if service is None:
        if bundle:
            size = f"{len(base64.b64decode(bundle))} bytes"
            text = "local APIServices may not have a caBundle"
            errors.append(invalid_value("spec.caBundle", size, text))
        if trusting:
            text = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(invalid_value("spec.insecureSkipTLSVerify", True, text))
        return errors
    for field in ("namespace", "name"):
        if not service.get(field):
            errors.append(required(f"spec.service.{field}"))
    port = service.get("port", 0)
    if texts := port_number_texts(port):
        text = f"port is not valid: {', '.join(texts)}"
        errors.append(invalid_value("spec.service.port", port, text))
    if trusting and bundle:
        text = "may not be true if caBundle is present"
        errors.append(invalid_value("spec.insecureSkipTLSVerify", True, text))
    return errors
