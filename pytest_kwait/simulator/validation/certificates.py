"""Validation of certificate signing requests and API services, and of updates of requests.

Source: k8s.io/kubernetes pkg/apis/certificates/validation/validation.go;
k8s.io/kube-aggregator pkg/apis/apiregistration/validation/validation.go.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import (
    ErrorList,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.apimachinery.validation import (
    dns_1035_texts,
    dns_label_texts,
    dns_subdomain_texts,
    port_number_texts,
)
from pytest_kwait.simulator.objects import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
DECISIONS = (APPROVED, DENIED)

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
_CONDITIONS_PATH = "status.conditions"
_PEM_BLOCK = re.compile(rb"-----BEGIN ([^-\n]*)-----\r?\n(.*?)-----END \1-----", re.DOTALL)


def validate_certificate_request(request: Obj) -> ErrorList:
    """Validate a certificate signing request."""
    spec = request.get("spec") or {}
    content, usages, signer = (
        spec.get("request"),
        spec.get("usages") or [],
        spec.get("signerName", ""),
    )
    errors = ErrorList()
    errors.invalid_each(
        "spec.request", content or None, _validate_request_content(base64.b64decode(content or ""))
    )
    if not usages:
        errors.required("spec.usages")
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
        errors.invalid("spec.signerName", signer, text)
    else:
        errors += _validate_signer(signer)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _MIN_EXPIRATION_SECONDS:
        text = (
            f"may not specify a duration less than {_MIN_EXPIRATION_SECONDS} seconds (10 minutes)"
        )
        errors.invalid("spec.expirationSeconds", seconds, text)
    return errors


def _validate_request_content(content: bytes) -> list[str]:
    """Validate the PEM request; all malformed contents have the same message."""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in content:
        return ["PEM block type must be CERTIFICATE REQUEST"]
    from cryptography import x509

    try:
        request = x509.load_pem_x509_csr(content)
    except ValueError:
        return ["asn1: syntax error: data truncated"]
    return [] if request.is_signature_valid else ["x509: ECDSA verification failure"]


def _validate_signer(signer: str) -> ErrorList:
    at = "spec.signerName"
    if not signer:
        return ErrorList([required(at)])
    if signer.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return ErrorList([invalid_value(at, signer, text)])
    domain, path = signer.split("/")
    errors = _validate_signer_part(domain, dns_label_texts, at)
    if "." not in domain:
        text = "should be a domain with at least two segments separated by dots"
        errors.invalid(at, domain, text)
    return errors + _validate_signer_part(path, dns_subdomain_texts, at)


def _validate_signer_part(part: str, texts: Callable[[str], list[str]], at: str) -> ErrorList:
    for label in part.split("."):
        if problems := texts(label):
            return ErrorList(
                [
                    invalid_value(at, part, f'validating label "{label}": {text}')
                    for text in problems
                ]
            )
    return ErrorList()


def validate_api_service(api_service: Obj) -> ErrorList:
    """Validate an API service."""
    spec = api_service.get("spec") or {}
    group, version, service = spec.get("group", ""), spec.get("version", ""), spec.get("service")
    name, expected_name, errors = name_of(api_service), f"{version}.{group}", ErrorList()
    if name != expected_name and "/" not in name and "%" not in name:
        text = f'must be `spec.version+"."+spec.group`: "{expected_name}"'
        errors.invalid("metadata.name", name, text)
    if not group and version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        errors.required("spec.group", text)
    texts = dns_subdomain_texts(group) if group else []
    errors.invalid_each("spec.group", group, texts)
    errors.invalid_each("spec.version", version, dns_1035_texts(version))
    for field, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        priority = spec.get(field, 0)
        if not 0 < priority <= most:
            text = f"must be positive and less than {most}"
            errors.invalid(f"spec.{field}", priority, text)
    bundle, trusting = spec.get("caBundle"), bool(spec.get("insecureSkipTLSVerify"))
    if service is None:
        if bundle:
            size = f"{len(base64.b64decode(bundle))} bytes"
            text = "local APIServices may not have a caBundle"
            errors.invalid("spec.caBundle", size, text)
        if trusting:
            text = "local APIServices may not have insecureSkipTLSVerify"
            errors.invalid("spec.insecureSkipTLSVerify", True, text)
        return errors
    errors.require_fields(service, "spec.service", "namespace", "name")
    port = service.get("port", 0)
    if texts := port_number_texts(port):
        text = f"port is not valid: {', '.join(texts)}"
        errors.invalid("spec.service.port", port, text)
    if trusting and bundle:
        text = "may not be true if caBundle is present"
        errors.invalid("spec.insecureSkipTLSVerify", True, text)
    return errors


def get_conditions_of_type(request: Obj, condition_type: str) -> list[Obj]:
    """Return the request's conditions of one type."""
    conditions = (request.get("status") or {}).get("conditions") or ()
    return [condition for condition in conditions if condition.get("type") == condition_type]


def validate_certificate_request_update(new: Obj, old: Obj, subresource: str) -> ErrorList:
    """Validate a change of a request.

    Only the `approval` subresource may decide, and only `status` may issue. Rules that the stored
    request breaks already are not applied.
    """
    errors = _validate_conditions(new, old)
    certificate, before = _decode_certificate(new), _decode_certificate(old)
    if certificate != before and (text := _validate_certificate_content(certificate)):
        errors.invalid("status.certificate", "<certificate data>", text)
    for name in (APPROVED, DENIED, FAILED):
        if len(get_conditions_of_type(new, name)) < len(get_conditions_of_type(old, name)):
            errors.forbidden(
                _CONDITIONS_PATH, f'updates may not remove a condition of type "{name}"'
            )
    if subresource != "approval":
        errors += [
            forbidden_field(_CONDITIONS_PATH, f'updates may not add a condition of type "{name}"')
            for name in DECISIONS
            if len(get_conditions_of_type(new, name)) > len(get_conditions_of_type(old, name))
        ]
    if certificate != before and before:
        text = "updates may not modify existing certificate content"
        errors.forbidden("status.certificate", text)
    return errors


def _decode_certificate(request: Obj) -> bytes:
    return base64.b64decode((request.get("status") or {}).get("certificate") or "")


def _validate_conditions(new: Obj, old: Obj) -> ErrorList:
    conditions = (new.get("status") or {}).get("conditions") or ()
    types = [condition.get("type", "") for condition in conditions]
    before = [
        condition.get("type", "") for condition in (old.get("status") or {}).get("conditions") or ()
    ]
    errors = ErrorList()
    for index, condition in enumerate(conditions):
        at, name, status = f"{_CONDITIONS_PATH}[{index}]", types[index], condition.get("status", "")
        if not name and "" not in before:
            errors.required(f"{at}.type")
        allowed = ("True",) if name in (APPROVED, DENIED, FAILED) else ("False", "True", "Unknown")
        if not status:
            errors.required(f"{at}.status")
        elif status not in allowed:
            errors.not_supported(f"{at}.status", status, allowed)
        earlier_types = types[:index]
        other_decisions = [decision for decision in DECISIONS if decision != name]
        if (
            name in DECISIONS
            and other_decisions[0] in earlier_types
            and not set(DECISIONS) <= set(before)
        ):
            text = "Approved and Denied conditions are mutually exclusive"
            errors.invalid(_CONDITIONS_PATH, name, text)
        if name in earlier_types and len(set(before)) == len(before):
            errors.duplicate(f"{at}.type", name)
    return errors


def _validate_certificate_content(content: bytes) -> str:
    """Validate the PEM certificate; all malformed contents have the same message."""
    if not content:
        return ""
    blocks = list(_PEM_BLOCK.finditer(content))
    if not blocks:
        return "must contain at least one CERTIFICATE PEM block"
    from cryptography import x509

    for block in blocks:
        kind = block[1].decode(errors="replace")
        if kind != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{kind}"'
        if b":" in block[2]:
            return "no PEM block headers are permitted"
        try:
            x509.load_pem_x509_certificate(block[0])
        except ValueError:
            return "x509: malformed certificate"
    return ""
